package delay

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"peregrine/dispatch"
	"peregrine/flush"
	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
)

const (
	root      = "/data"
	stateFile = root + "/config/delayOffset.json"
	patience  = time.Hour // virtual: nothing that goes well takes as long
)

// bench is a store with flush, dispatch and the service, put together as package broker does it, on a simulated disk. Tests
// run it on the clock of synctest.
type bench struct {
	t          *testing.T
	disk       *sysio.FaultFS
	store      *store.Store
	flusher    *flush.Committer
	dispatcher *dispatch.Dispatcher
	service    *Service
	log        lines
	skew       atomic.Int64 // ms that the wall clock is off
	refuse     atomic.Pointer[func(m *store.Message) error]
	ended      bool
}

// lines keeps what was logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

type options struct {
	levels    string
	syncFlush bool
	segment   int64
	ext       bool
}

func (b *bench) now() message.Millis { return message.Millis(time.Now().UnixMilli() + b.skew.Load()) }

// start starts everything on disk.
func start(t *testing.T, disk *sysio.FaultFS, o options) *bench {
	t.Helper()
	b := &bench{t: t, disk: disk}
	cfg := &config.Config{}
	cfg.StorePathRootDir = root
	cfg.MappedFileSizeCommitLog, cfg.MappedFileSizeConsumeQueue = 1<<20, 6000
	if o.segment > 0 {
		cfg.MappedFileSizeCommitLog = o.segment
	}
	cfg.EnableConsumeQueueExt, cfg.MappedFileSizeConsumeQueueExt = o.ext, 1<<10
	cfg.MaxMessageSize = 1 << 16
	cfg.FlushDiskType = config.AsyncFlush
	if o.syncFlush {
		cfg.FlushDiskType = config.SyncFlush
	}
	cfg.CheckCRCOnRecover, cfg.DataReadAheadEnable = true, true
	cfg.DiskSpaceWarningLevelRatio, cfg.DiskSpaceCleanForciblyRatio = 90, 85
	cfg.FileReservedTime, cfg.DeleteFileBatchMax, cfg.CleanResourceInterval = 1, 10, 10_000
	var err error
	b.store, err = store.Open(store.Options{FS: disk, Config: cfg, Now: b.now})
	must(t, err)
	must(t, disk.MkdirAll(root+"/config", 0o755))
	must(t, disk.SyncDir(root))
	if o.levels == "" {
		o.levels = "1s 5s 10s 2h"
	}
	delays, err := config.ParseDelayLevels(o.levels)
	must(t, err)
	b.service, err = Open(Options{FS: disk, Path: stateFile, Store: b.store, Appender: b, Levels: NewLevels(delays), PersistInterval: 10 * time.Second,
		VersionStep: 2, Logger: slog.New(slog.NewTextHandler(&b.log, nil)), Now: b.now, Crashed: !b.store.Recovery().Clean})
	must(t, err)
	b.flusher = flush.New(b.store.CommitLog(), flush.Options{Sync: o.syncFlush,
		Pace: flush.Pace{Interval: 500 * time.Millisecond, LeastPages: 4, ThoroughInterval: 10 * time.Second}, EarlyBytes: 1 << 30})
	b.flusher.Subscribe(func(message.PhyOffset, error) { b.dispatcher.Wake() })
	b.dispatcher = dispatch.New(dispatch.Options{Store: b.store, Shards: 2, Announcer: b, ScheduleTags: b.service.ScheduleTags})
	b.flusher.Start(b.store.Flushed())
	b.dispatcher.Start(b.store.Recovery().RedispatchFrom)
	must(t, b.dispatcher.CaughtUp(b.store.Confirmed(), time.Now().Add(patience)))
	b.service.Start()
	return b
}

func (b *bench) Arrived(q *store.Queue, _ message.QueueOffset, _ []store.Unit) {
	if q.Topic() == message.ScheduleTopic {
		b.service.Arrived(q.ID())
	}
}

// Append is the service's appender.
func (b *bench) Append(batch []store.Message) (message.PhyOffset, error) {
	if refuse := b.refuse.Load(); refuse != nil {
		if err := (*refuse)(&batch[0]); err != nil {
			return 0, err
		}
	}
	return b.append(batch), nil
}

func (b *bench) append(batch []store.Message) message.PhyOffset {
	for i := range batch {
		batch[i].Queue = b.store.Queue(string(batch[i].Topic), batch[i].QueueID)
	}
	end := b.store.Append(batch)
	b.flusher.Request(end)
	b.dispatcher.Wake()
	return end
}

func (b *bench) Durable(end message.PhyOffset) error {
	return b.flusher.Wait(end, time.Now().Add(5*time.Second))
}

// send stores a message of a level for a queue of topic T.
func (b *bench) send(level int32, body string) store.Message {
	b.t.Helper()
	m := store.Message{Record: message.Record{Topic: []byte("T"), QueueID: message.QueueID(level), Body: []byte(body), BodyCRC: message.BodyCRC([]byte(body)),
		BornTimestamp: 1, BornHost: message.Host{IPLen: 4}, StoreHost: message.Host{IPLen: 4}}}
	var p message.PropertyMap
	p.Parse(fmt.Appendf(nil, "UNIQ_KEY\x01%s\x02DELAY\x01%d\x02", body, level))
	b.service.Divert(&m.Record, level, &p, nil)
	batch := []store.Message{m}
	b.append(batch)
	must(b.t, batch[0].Err)
	return batch[0]
}

// arrived returns the bodies of a queue of T with their store times.
func (b *bench) arrived(queue message.QueueID) (bodies []string, stored []message.Millis) {
	b.t.Helper()
	synctest.Wait()
	q := b.store.Queue("T", queue)
	for offset := q.Min(); offset < q.Max(); offset++ {
		var unit [1]store.Unit
		_, err := q.ReadUnits(unit[:], offset)
		must(b.t, err)
		if unit[0].IsPreBlank() {
			continue
		}
		var v message.View
		_, err = b.store.ReadRecord(nil, unit[0].Phy, &v)
		must(b.t, err)
		bodies, stored = append(bodies, string(v.Body)), append(stored, v.StoreTimestamp)
	}
	return bodies, stored
}

// stop ends everything as the broker does.
func (b *bench) stop() {
	b.t.Helper()
	if b.ended {
		return
	}
	b.ended = true
	b.service.Stop()
	must(b.t, b.flusher.Stop())
	b.dispatcher.Stop(time.Now().Add(patience))
	must(b.t, b.service.Persist())
	must(b.t, b.store.Close(true))
}

// kill ends everything without a trace; what is written from here on goes to a disk that nobody looks at again.
func (b *bench) kill(picture func() *sysio.FaultFS) *sysio.FaultFS {
	b.t.Helper()
	disk := picture()
	b.ended = true
	b.service.Stop()
	_ = b.flusher.Stop()
	b.dispatcher.Stop(time.Now().Add(patience))
	_ = b.store.Close(false)
	return disk
}
