package dispatch

import (
	"fmt"
	"testing"

	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
)

// storeOptions says what kind of store a test wants.
type storeOptions struct {
	fs        sysio.FS // nil: a new one in memory
	root      string   // "": /data
	sync      bool
	queueFile int64 // bytes; 0: 4000, so that tests cross files
	segment   int64 // bytes; 0: 256 KiB
	keepsOpen bool  // the test closes it
	gaps      bool  // the witness may see gaps: there is damage
}

// openStore opens a store that is closed with the test.
func openStore(t testing.TB, o storeOptions) *store.Store {
	t.Helper()
	if o.fs == nil {
		o.fs = sysio.NewFaultFS()
	}
	cfg := testConfig(o)
	s, err := store.Open(store.Options{FS: o.fs, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	if !o.keepsOpen {
		t.Cleanup(func() { s.Close(false) })
	}
	return s
}

func testConfig(o storeOptions) *config.Config {
	cfg := &config.Config{}
	cfg.StorePathRootDir = "/data"
	if o.root != "" {
		cfg.StorePathRootDir = o.root
	}
	cfg.MappedFileSizeCommitLog = max(o.segment, 256<<10)
	cfg.MappedFileSizeConsumeQueue = 4000
	if o.queueFile > 0 {
		cfg.MappedFileSizeConsumeQueue = o.queueFile
	}
	cfg.MaxMessageSize = 128 << 10
	cfg.FlushDiskType = config.AsyncFlush
	if o.sync {
		cfg.FlushDiskType = config.SyncFlush
	}
	cfg.FlushIntervalConsumeQueue = 1000
	cfg.FlushConsumeQueueLeastPages = 2
	cfg.FlushConsumeQueueThoroughInterval = 60000
	cfg.CheckCRCOnRecover = true
	cfg.DataReadAheadEnable = true
	cfg.DiskSpaceWarningLevelRatio = 90
	cfg.DiskSpaceCleanForciblyRatio = 85
	return cfg
}

// place is where a test writes into a file of the log.
type place struct {
	path string
	at   int64
}

// damageablePlaces picks a byte of a body in the first file of the log and the magic of a record in the second one.
func damageablePlaces(t testing.TB, s *store.Store) []place {
	t.Helper()
	places := make([]place, 0, 2)
	for file := range 2 {
		start := message.PhyOffset(int64(file) * s.SegmentBytes())
		b := make([]byte, 64<<10)
		if n, err := s.ReadAt(b, start); n != len(b) {
			t.Fatal(n, err)
		}
		var v message.View
		for at, nth := 0, 0; ; nth++ {
			if err := message.ParseView(b[at:], &v); err != nil {
				t.Fatal(err)
			}
			if nth > 10 && len(v.Body) > 10 {
				const magic, body = 4, 88
				places = append(places, place{fmt.Sprintf("/data/commitlog/%020d", start), int64(at) + []int64{body, magic}[file]})
				break
			}
			at += int(v.Size)
		}
	}
	return places
}
