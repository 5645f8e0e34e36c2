package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"peregrine/dispatch"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
	"peregrine/store/inspect"
)

// headPlace is a queue offset.
type headPlace struct {
	topic  string
	queue  message.QueueID
	offset message.QueueOffset
}

// withQueues makes a closed store of three queues whose records stand between each other, and tells where they are.
func withQueues(t *testing.T) (*sysio.FaultFS, map[headPlace]message.PhyOffset) {
	t.Helper()
	fsys, all := sysio.NewFaultFS(), map[headPlace]message.PhyOffset{}
	st := opened(t, fsys)
	host := message.HostOf(netip.MustParseAddrPort("127.0.0.1:10911"))
	add := func(topic string, id message.QueueID) {
		body := []byte("body")
		batch := []store.Message{{Queue: st.Queue(topic, id), Record: message.Record{Topic: []byte(topic), QueueID: id, Body: body, BodyCRC: message.BodyCRC(body),
			Properties: []byte("TAGS\x01TagA\x02"), BornHost: host, StoreHost: host, BornTimestamp: 1}}}
		if st.Append(batch); batch[0].Err != nil {
			t.Fatal(batch[0].Err)
		}
		all[headPlace{topic, id, batch[0].QueueOffset}] = batch[0].PhyOffset
	}
	for n := range 40 {
		add("T", 0)
		if n%2 == 0 {
			add("T", 1)
		}
		if n%8 == 0 {
			add("U", 0)
		}
	}
	add("U", 0)
	d := dispatch.New(dispatch.Options{Store: st, Shards: 2})
	d.Start(0)
	if !d.Stop(time.Now().Add(time.Minute)) {
		t.Fatal("not everything was dispatched")
	}
	if err := st.Close(true); err != nil {
		t.Fatal(err)
	}
	return fsys, all
}

// verifyOn is dump --verify.
func verifyOn(t *testing.T, fsys sysio.FS) (code int, printed string) {
	t.Helper()
	o, err := parseDump(append([]string{"--verify", "--store", repairRoot}, repairSizes...))
	if err != nil {
		t.Fatal(err)
	}
	where, err := o.where()
	if err != nil {
		t.Fatal(err)
	}
	where.FS, where.LockHolder = fsys, nil
	d, err := inspect.Open(where)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p := newDumpPrinter(&out, false)
	code, err = dumpVerify(d, o, where, p, &out)
	if err != nil || p.flush() != nil {
		t.Fatal(err)
	}
	return code, out.String()
}

// A record whose QUEUEID, QUEUEOFFSET, sysFlag or topic is damaged is listed by --verify, before and after a start has stepped over it, and a
// repair with --fill puts a filler, of its own queue offset, in its place: nothing is found after that, and no other message or offset is lost.
func TestDamagedHeadsAreFilled(t *testing.T) {
	const logName = "commitlog/00000000000000000000"
	whole, all := withQueues(t)
	log, err := sysio.ReadFile(whole, filepath.Join(repairRoot, logName))
	if err != nil {
		t.Fatal(err)
	}
	for _, hit := range []headPlace{{"T", 0, 0}, {"T", 0, 10}, {"T", 0, 39}, {"T", 1, 5}, {"U", 0, 5}} {
		for _, c := range []struct {
			at   int64
			mask byte
		}{{15, 0x04}, {20, 0x10}, {27, 0x10}, {39, 0x04}, {93, 0x04}} {
			for i, form := range []string{"closed", "closed, and no state file", "started"} {
				if testing.Short() && (c.at+int64(i))%4 != 0 {
					continue // the race detector makes each some ten times as long
				}
				t.Run(fmt.Sprintf("%v/byte %d/%s", hit, c.at, form), func(t *testing.T) {
					x, phy := whole.Kill(), all[hit]
					edit(t, x, logName, int64(phy)+c.at, []byte{log[int64(phy)+c.at] ^ c.mask})
					if form != "closed" {
						if err := x.Remove(filepath.Join(repairRoot, "peregrine.state")); err != nil {
							t.Fatal(err)
						}
					}
					if form == "started" {
						st := started(t, x)
						if n := st.Recovery().DamagedCount; n != 1 {
							t.Errorf("the start stepped over %d places", n)
						}
						if err := st.Close(true); err != nil {
							t.Fatal(err)
						}
					}
					line := fmt.Sprintf("finding record-damaged: %s at %d: ", logName, phy)
					if code, printed := verifyOn(t, x); code != exitFailed || !strings.Contains(printed, line) || !strings.Contains(printed, "the head is damaged: it says ") {
						t.Errorf("--verify: exit %d without a line %q:\n%s", code, line, printed)
					}
					damaged, err := sysio.ReadFile(x, filepath.Join(repairRoot, logName))
					if err != nil {
						t.Fatal(err)
					}
					if code, printed, err := repairOn(t, x, "--repair", "--fill", "--yes"); err != nil || code != exitOK {
						t.Fatalf("exit %d: %v\n%s", code, err, printed)
					}
					if code, printed := verifyOn(t, x); code != exitOK || !strings.Contains(printed, "0 findings, 0 notes") {
						t.Errorf("after the repair: exit %d\n%s", code, printed)
					}
					d, err := inspect.Open(inspect.Options{FS: x, Root: repairRoot, SegmentBytes: 65536, QueueFileBytes: 4000})
					if err != nil {
						t.Fatal(err)
					}
					r, err := d.RecordAt(phy)
					own := r.Topic == hit.topic && r.Queue == int32(hit.queue) && r.Offset == int64(hit.offset)
					if form == "started" && hit.offset == 0 { // no unit in front of the one that keeps the place: it could be the queue's beginning
						own = own || r.SysFlag&message.SysFlagTransactionMask == message.SysFlagTransactionRollback
					}
					if err != nil || r.Type != "filler" || !own {
						t.Errorf("in its place: %+v, %v", r, err)
					}
					was, err := sysio.ReadFile(x, filepath.Join(repairRoot, "peregrine.repair", "0001", "commitlog", fmt.Sprintf("%020d", phy)))
					if err != nil || !bytes.Equal(was, damaged[phy:int64(phy)+r.Size]) {
						t.Errorf("what is kept: %x, %v", was, err)
					}
					got := contentsOf(t, x)
					for place, phy := range all {
						name := fmt.Sprintf("%s-%d", place.topic, place.queue)
						if have, served := got.messages[fmt.Sprintf("%s-%d", name, place.offset)]; served == (place == hit) || served && have != phy {
							t.Errorf("%v is served from %d: %v", place, have, served)
						}
						if got.next[name] <= place.offset {
							t.Errorf("%s goes on at %d", name, got.next[name])
						}
					}
					if len(got.messages) != len(all)-1 {
						t.Errorf("%d messages are served of %d", len(got.messages), len(all))
					}
				})
			}
		}
	}
}

// The units of a queue whose folder was renamed are wrong, not the records that they name: none is replaced.
func TestTheRecordsOfARenamedQueueStay(t *testing.T) {
	for _, to := range []string{"T/7", "W/0"} {
		for _, form := range []string{"closed", "started"} {
			t.Run(to+"/"+form, func(t *testing.T) {
				whole, all := withQueues(t)
				x := whole.Kill()
				const from = repairRoot + "/consumequeue/T/0/00000000000000000000"
				units, err := sysio.ReadFile(x, from)
				if err != nil {
					t.Fatal(err)
				}
				dir := filepath.Join(repairRoot, "consumequeue", filepath.FromSlash(to))
				if err := errors.Join(x.Remove(from), x.MkdirAll(dir, 0o755), sysio.AtomicWriteFile(x, filepath.Join(dir, filepath.Base(from)), units, false)); err != nil {
					t.Fatal(err)
				}
				if form == "started" {
					if err := started(t, x).Close(true); err != nil {
						t.Fatal(err)
					}
				} else if code, printed := verifyOn(t, x); code != exitFailed || strings.Contains(printed, "record-damaged") {
					t.Errorf("--verify: exit %d\n%s", code, printed)
				}
				if code, printed, err := repairOn(t, x, "--repair", "--fill", "--yes"); err != nil || code != exitOK || strings.Contains(printed, "filler of") {
					t.Errorf("exit %d: %v\n%s", code, err, printed)
				}
				if got := contentsOf(t, x); len(got.messages) != len(all) {
					t.Errorf("%d messages are served of %d", len(got.messages), len(all))
				}
			})
		}
	}
}
