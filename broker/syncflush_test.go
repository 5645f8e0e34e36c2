package broker

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

// waitMax is far above anything that a test waits for when all is well.
const waitMax = 30 * time.Second

// waitUntil looks again and again whether something that tells nobody has happened.
func waitUntil(t testing.TB, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitMax); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited too long")
		}
	}
}

const syncFlush = "flushDiskType=SYNC_FLUSH"

// forms are the two ways in which the log is appended and synced.
func forms(t *testing.T, run func(t *testing.T, settings ...string)) {
	for _, form := range []string{"writeWithoutMmap=false", "writeWithoutMmap=true"} {
		t.Run(form, func(t *testing.T) { run(t, syncFlush, smallFiles, form) })
	}
}

const logSyncs = sysio.OpSyncRange | sysio.OpDatasync | sysio.OpSync

// A send is answered, and its message seen, only after a sync that began after its bytes were written and covers them.
func TestSyncFlushAnswersAfterTheSync(t *testing.T) {
	forms(t, func(t *testing.T, settings ...string) {
		fsys := sysio.NewFaultFS()
		b := startBroker(t, fsys, "store", settings...)
		c, reader := dial(t, b.addr, wire.EncodingJSON), dial(t, b.addr, wire.EncodingJSON)
		c.mustSend(sendHeader("Sync", 0, ""), []byte("before"))
		c.drain("Sync", 0, 0, 1)

		gate := sysio.NewGate()
		defer fsys.Inject(sysio.Fault{Op: logSyncs, Path: "0*", Gate: gate, Times: 1})()
		c.write(wire.AppendSendRequestV2(nil, c.enc, c.next(), 0, sendHeader("Sync", 0, ""), []byte("held")))
		gate.Await(1) // the sync of this send is under way
		if cmd, err := c.tryReceive(100 * time.Millisecond); err == nil {
			t.Fatalf("answered before the sync ended: code %d", cmd.Code)
		}
		if cmd := reader.pull(pullHeader("Sync", 0, 1, "*")); wire.ResponseCode(cmd.Code) != wire.ResponsePullNotFound {
			t.Fatalf("visible before the sync ended: code %d", cmd.Code)
		}
		// What is written while a sync runs is not covered by it.
		later := dial(t, b.addr, wire.EncodingJSON)
		second := sysio.NewGate()
		defer fsys.Inject(sysio.Fault{Op: logSyncs, Path: "0*", Gate: second, Times: 1})()
		later.write(wire.AppendSendRequestV2(nil, later.enc, later.next(), 0, sendHeader("Sync", 0, ""), []byte("later")))
		waitUntil(t, func() bool { return b.store.Wrote() > b.store.Flushed() && b.waitingForSync() >= 2 }) // it is on its way through a socket
		gate.Open()
		if cmd := c.receive(); cmd.Code != 0 {
			t.Fatalf("code %d %s", cmd.Code, cmd.Remark)
		}
		second.Await(1)
		if cmd, err := later.tryReceive(100 * time.Millisecond); err == nil {
			t.Fatalf("answered by a sync that began too early: code %d", cmd.Code)
		}
		second.Open()
		if cmd := later.receive(); cmd.Code != 0 {
			t.Fatalf("code %d %s", cmd.Code, cmd.Remark)
		}
		if got := fmt.Sprint(reader.drain("Sync", 0, 0, 3)); got != "[before held later]" {
			t.Errorf("got %s", got)
		}
	})
}

// One-way sends and sends with WAIT=false request the sync that makes them visible, without any other traffic.
func TestUnwaitedSendsBecomeVisible(t *testing.T) {
	forms(t, func(t *testing.T, settings ...string) {
		b := startBroker(t, sysio.NewFaultFS(), "store", settings...)
		c, reader := dial(t, b.addr, wire.EncodingBinary), dial(t, b.addr, wire.EncodingBinary)
		c.makeTopic("Unwaited", 1)
		c.write(wire.AppendSendRequestV2(nil, c.enc, 1, wire.FlagOneway, sendHeader("Unwaited", 0, ""), []byte("one-way")))
		if got := fmt.Sprint(reader.drain("Unwaited", 0, 0, 1)); got != "[one-way]" {
			t.Errorf("got %s", got)
		}
		c.mustSend(sendHeader("Unwaited", 0, "WAIT\x01false\x02"), []byte("unwaited"))
		if got := fmt.Sprint(reader.drain("Unwaited", 0, 1, 1)); got != "[unwaited]" {
			t.Errorf("got %s", got)
		}
	})
}

// A failed sync is final: the waiting send and all later ones get a refusal that no client counts as stored, and nothing of
// it becomes visible.
func TestFailedSyncIsFinal(t *testing.T) {
	forms(t, func(t *testing.T, settings ...string) {
		fsys := sysio.NewFaultFS()
		b := startBroker(t, fsys, "store", settings...)
		c := dial(t, b.addr, wire.EncodingJSON)
		c.mustSend(sendHeader("Fail", 0, ""), []byte("stored"))
		c.drain("Fail", 0, 0, 1)
		fsys.Inject(sysio.Fault{Op: logSyncs, Path: "0*", Err: syscall.EIO, Times: 1})
		for i := range 3 {
			cmd := c.send(sendHeader("Fail", 0, ""), []byte("lost"))
			if wire.ResponseCode(cmd.Code) != wire.ResponseServiceNotAvailable || len(cmd.Remark) == 0 {
				t.Errorf("send %d: code %d %s", i, cmd.Code, cmd.Remark)
			}
		}
		if cmd := c.pull(pullHeader("Fail", 0, 1, "*")); wire.ResponseCode(cmd.Code) != wire.ResponsePullNotFound {
			t.Errorf("pull: code %d", cmd.Code)
		}
		if b.Err() == nil || b.fatal.Load() == nil {
			t.Error("nobody was told")
		}
		if b.stop() {
			t.Error("the stop counts as clean")
		}
	})
}

// A sync that takes longer than syncFlushTimeout is answered FLUSH_DISK_TIMEOUT with the full header: stored, nobody knows how
// durably.
func TestSlowSyncTimesOut(t *testing.T) {
	fsys := sysio.NewFaultFS()
	b := startBroker(t, fsys, "store", syncFlush, smallFiles, "syncFlushTimeout=200")
	for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
		c := dial(t, b.addr, enc)
		first := c.mustSend(sendHeader("Slow", 0, "UNIQ_KEY\x01uk\x02"), []byte("x"))
		was, _ := first.GetExt("queueOffset")
		before := string(was)
		gate := sysio.NewGate()
		fsys.Inject(sysio.Fault{Op: logSyncs, Path: "0*", Gate: gate, Times: 1})
		cmd := c.send(sendHeader("Slow", 0, "UNIQ_KEY\x01uk\x02"), []byte("x"))
		if wire.ResponseCode(cmd.Code) != wire.ResponseFlushDiskTimeout {
			t.Errorf("%v: code %d %s", enc, cmd.Code, cmd.Remark)
		}
		offset, _ := cmd.GetExt("queueOffset")
		transaction, _ := cmd.GetExt("transactionId")
		if id, ok := cmd.GetExt("msgId"); !ok || len(id) != 32 || string(transaction) != "uk" || string(offset) <= before {
			t.Errorf("%v: msgId %s, transactionId %s, queueOffset %s after %s", enc, id, transaction, offset, before)
		}
		gate.Open()
		c.mustSend(sendHeader("Slow", 0, ""), []byte("y")) // and the connection goes on
	}
}

// Under concurrent load every answer follows a sync that covers it: the file system watches which bytes were synced when.
// A lying sync changes nothing of what is answered when, and is found by the power cut that follows.
func TestAckedSurvivesPowerCut(t *testing.T) {
	forms(t, func(t *testing.T, settings ...string) {
		shapes(t, func(t *testing.T, shape ...string) {
			fsys := sysio.NewFaultFS()
			settings := append(append([]string{}, settings...), shape...)
			b := startBroker(t, fsys, "store", settings...)
			dial(t, b.addr, wire.EncodingBinary).makeTopic("Cut", 4)
			const producers = 4
			each := 200
			if testing.Short() {
				each = 40
			}
			var mu sync.Mutex
			acked := map[string]bool{}
			var all sync.WaitGroup
			cut := make(chan struct{})
			for p := range producers {
				c := dial(t, b.addr, wire.EncodingBinary)
				all.Go(func() {
					for i := range each {
						body := fmt.Sprintf("%d-%d", p, i)
						c.out = wire.AppendSendRequestV2(c.out[:0], c.enc, c.next(), 0, sendHeader("Cut", int32(p), ""), []byte(body))
						if _, err := c.conn.Write(c.out); err != nil {
							return
						}
						cmd, err := c.tryReceive(waitMax)
						if err != nil || cmd.Code != 0 {
							t.Errorf("send %s: %v", body, err)
							return
						}
						mu.Lock()
						acked[body] = true
						if len(acked) == producers*each/2 {
							close(cut)
						}
						mu.Unlock()
					}
				})
			}
			<-cut
			mu.Lock()
			want := make(map[string]bool, len(acked))
			for body := range acked {
				want[body] = true
			}
			dead := fsys.PowerCut(newRand(1))
			mu.Unlock()
			all.Wait()
			b.stop()

			b = startBroker(t, dead, "store", settings...)
			c := dial(t, b.addr, wire.EncodingBinary)
			for q := range int32(4) {
				for _, body := range c.drain("Cut", q, 0, int(b.store.Queue("Cut", message.QueueID(q)).Max())) {
					delete(want, body)
				}
			}
			if len(want) > 0 {
				t.Errorf("%d acknowledged messages are gone, for example %v", len(want), anyOf(want))
			}
		})
	})
}

func anyOf(set map[string]bool) string {
	for v := range set {
		return v
	}
	return ""
}

// A disk that acknowledges from a volatile cache loses what it acknowledged: the harness sees that, so it would see ours.
func TestPowerCutFindsALyingDisk(t *testing.T) {
	fsys := sysio.NewFaultFS()
	b := startBroker(t, fsys, "store", syncFlush, smallFiles)
	c := dial(t, b.addr, wire.EncodingBinary)
	c.mustSend(sendHeader("Lie", 0, ""), []byte("true"))
	fsys.Inject(sysio.Fault{Op: logSyncs, Path: "0*", Lie: true})
	for range 50 {
		c.mustSend(sendHeader("Lie", 0, ""), make([]byte, 8000))
	}
	lost := false
	for seed := range uint64(8) {
		dead := fsys.PowerCut(newRand(seed))
		b := startBroker(t, dead, "store", syncFlush, smallFiles)
		if n := b.store.Queue("Lie", 0).Max(); n < 51 {
			lost = true
		}
		b.stop()
	}
	if !lost {
		t.Error("no seed lost a message that a lying disk acknowledged: the model of the disk is too kind")
	}
}

// A full disk refuses sends with the original's code and the cause, pulls go on, and it heals by itself.
func TestFullDiskRefusesAndHeals(t *testing.T) {
	fsys := sysio.NewFaultFS()
	fsys.SetCapacity(64<<20, 0)
	b := startBroker(t, fsys, "store", smallFiles)
	c := dial(t, b.addr, wire.EncodingBinary)
	c.mustSend(sendHeader("Full", 0, ""), []byte("before"))
	c.drain("Full", 0, 0, 1) // it is in its queue, which needs space as well
	fsys.SetCapacity(64<<20, 63<<20)
	refused := func() bool {
		cmd := c.send(sendHeader("Full", 0, ""), make([]byte, 100<<10))
		switch wire.ResponseCode(cmd.Code) {
		case wire.ResponseSuccess:
			return false
		case wire.ResponseServiceNotAvailable:
			return true
		}
		t.Fatalf("code %d %s", cmd.Code, cmd.Remark)
		return false
	}
	waitUntil(t, refused)
	c.drain("Full", 0, 0, 1)
	fsys.SetCapacity(1<<30, 0)
	waitUntil(t, func() bool { return !refused() })
	if err := fsys.CheckSpace(); err != nil {
		t.Errorf("stored through a mapping without blocks: %v", err)
	}
	if errors.Is(b.Err(), syscall.ENOSPC) {
		t.Error(b.Err())
	}
}
