package dispatch

import (
	"testing"

	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
)

// storeOptions says what kind of store a test wants.
type storeOptions struct {
	fs         sysio.FS // nil: a new one in memory
	sync       bool
	queueFile  int64 // bytes; 0: 4000, so that tests cross files
	segment    int64 // bytes; 0: 256 KiB
	keepsOpen  bool  // the test closes it
	storeClock func() message.Millis
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
