package inspect_test

import (
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"peregrine/dispatch"
	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
	"peregrine/store/inspect"
)

// reader is the machine's file system without anything that could change it.
type reader struct{ sysio.FS }

func (reader) OpenFile(path string, flag int, perm fs.FileMode) (sysio.File, error) {
	if flag != os.O_RDONLY {
		return nil, fs.ErrPermission
	}
	return sysio.OS{}.OpenFile(path, flag, perm)
}

func (reader) ReadDir(path string) ([]sysio.Info, error) { return sysio.OS{}.ReadDir(path) }

// A store that is written to verifies at any moment; once it is closed, to the last record.
func TestARunningStoreVerifies(t *testing.T) {
	root := t.TempDir()
	cfg, _, err := config.Load([]string{"--store", root, "mappedFileSizeCommitLog=65536", "mappedFileSizeConsumeQueue=4000", "maxHashSlotNum=100", "maxIndexNum=3000"},
		func(string) string { return "" }, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(store.Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	d := dispatch.New(dispatch.Options{Store: s, Shards: 3})
	index := dispatch.NewIndexer(d, s.Index(), dispatch.IndexerOptions{FlushInterval: time.Millisecond, RetryInterval: time.Millisecond})
	d.Start(s.Recovery().RedispatchFrom)
	index.Start()

	var sent atomic.Int64
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		host := message.HostOf(netip.MustParseAddrPort("127.0.0.1:10911"))
		for i := 0; i < 20_000; {
			select {
			case <-quit:
				return
			default:
			}
			batch := make([]store.Message, 20)
			for k := range batch {
				topic := fmt.Sprintf("Topic%d", i%7)
				batch[k] = store.Message{Queue: s.Queue(topic, message.QueueID(i%3)), Record: message.Record{Topic: []byte(topic), QueueID: message.QueueID(i % 3),
					Body: make([]byte, i%3000), Properties: fmt.Appendf(nil, "TAGS\x01a\x02KEYS\x01k%d j\x02UNIQ_KEY\x01u%d\x02", i, i), BornHost: host, StoreHost: host}}
				batch[k].BodyCRC = message.BodyCRC(batch[k].Body)
				i++
			}
			s.Append(batch)
			d.Wake()
			for k := range batch {
				if batch[k].Err == nil {
					sent.Add(1)
				}
			}
		}
	}()
	options := inspect.Options{FS: reader{}, Root: root, LockHolder: sysio.LockState, IndexSlots: 100, IndexItems: 3000}
	check := func(running bool) inspect.Report {
		t.Helper()
		dir, err := inspect.Open(options)
		if err != nil {
			t.Fatal(err)
		}
		if dir.Held != running || dir.Abort != running {
			t.Errorf("held %v, abort %v; running %v", dir.Held, dir.Abort, running)
		}
		if _, err := dir.Summarize(); err != nil {
			t.Error(err)
		}
		r, err := dir.Verify(inspect.VerifyOptions{Found: func(f inspect.Finding) { t.Error(f.String()) }})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for range 10 {
		if check(true); t.Failed() {
			break
		}
	}
	close(quit)
	<-done
	s.RefuseAppends()
	until := time.Now().Add(10 * time.Second)
	if !d.Stop(until) || !index.Stop(until) {
		t.Fatal("not everything was dispatched")
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	if r := check(false); r.Records != sent.Load() || r.Units != r.Records || r.Items != 4*r.Records {
		t.Errorf("%d sent, %+v", sent.Load(), r)
	}
}
