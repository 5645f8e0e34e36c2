package store

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// Garbage of the right length in the checkpoint costs time, never a record, an offset or the durability of either: the start looks at
// all that the checkpoint cannot vouch for, names the file, and the next clean stop leaves a checkpoint that is true.
func TestGarbageInTheCheckpoint(t *testing.T) {
	const future = 4_000_000_000_000
	for name, spoil := range map[string]func(cp *checkpointFields, s *Store){
		"a time of the log in the future":    func(cp *checkpointFields, _ *Store) { cp.PhysicMsgTimestamp = future },
		"a time of the queues in the future": func(cp *checkpointFields, _ *Store) { cp.LogicsMsgTimestamp = future },
		"a time of the index in the future":  func(cp *checkpointFields, _ *Store) { cp.IndexMsgTimestamp = future },
		"a negative time":                    func(cp *checkpointFields, _ *Store) { cp.PhysicMsgTimestamp = -5 },
		"a time behind the newest record":    func(cp *checkpointFields, s *Store) { cp.PhysicMsgTimestamp = s.LastStoreTime() + 1 },
		"a position behind the log":          func(cp *checkpointFields, _ *Store) { cp.LogicsPhysicalOffset = 1 << 50 },
		"a position without a record":        func(cp *checkpointFields, _ *Store) { cp.LogicsPhysicalOffset = 2*testSegment + 3 },
		"another record": func(cp *checkpointFields, _ *Store) {
			cp.LogicsPhysicalOffset, cp.LogicsMsgTimestamp = 2*testSegment, 5
		},
		"a negative position": func(cp *checkpointFields, _ *Store) { cp.LogicsPhysicalOffset = -4096 },
		"noise": func(cp *checkpointFields, _ *Store) {
			*cp = decodeCheckpoint(bytes.Repeat([]byte("A8?x"), checkpointUsed/4))
		},
	} {
		for end, leave := range map[string]func(fsys *sysio.FaultFS, s *Store) *sysio.FaultFS{
			"clean": func(fsys *sysio.FaultFS, s *Store) *sysio.FaultFS { closeTest(t, s, true); return fsys },
			"kill":  func(fsys *sysio.FaultFS, s *Store) *sysio.FaultFS { next := fsys.Kill(); s.abandon(); return next },
			"power cut": func(fsys *sysio.FaultFS, s *Store) *sysio.FaultFS {
				next := fsys.PowerCut(nil)
				s.abandon()
				return next
			},
		} {
			t.Run(name+", "+end, func(t *testing.T) {
				fsys, set := sysio.NewFaultFS(), testSettings(memoryRoot)
				s := openTest(t, fsys, set)
				now := nowMillis()
				s.log.now = func() message.Millis { now += 2; return now - 1_000_000 } // records that are older than now
				body := strings.Repeat("x", 3000)
				sendAll(t, s, "Early", "m", 5, end == "clean")
				var want []string
				for at := s.Wrote(); s.Wrote()+5000 < 2*testSegment; {
					send(t, s, s.Queue("Middle", 0), body)
					if want = append(want, body); end == "clean" {
						mustDispatch(t, s, at)
						at = s.Wrote()
					}
				}
				late := strings.Repeat("y", 6000)
				sendAll(t, s, "Late", late, 5, true) // alone in the last file: nothing in it tells what the others lack
				if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
					t.Fatal(err)
				}
				newest := s.LastStoreTime()
				cp := s.checkpoint.now()
				spoil(&cp, s)
				fsys = leave(fsys, s)
				path := filepath.Join(set.root, checkpointName)
				var b [checkpointUsed]byte
				cp.encode(b[:])
				writeRaw(t, fsys, path, 0, b[:])

				var log bytes.Buffer
				s, err := open(fsys, set, slog.New(slog.NewTextHandler(&log, nil)), nowMillis, nil)
				if err != nil {
					t.Fatal(err)
				}
				// After a clean stop another broker may have left the time of another record; all records are looked at anyway.
				if !strings.Contains(log.String(), path) && (name != "another record" || end != "clean") {
					t.Errorf("nothing names the file: %s", log.String())
				}
				if r := s.Recovery(); end != "clean" && (r.From != 0 || r.RedispatchFrom != 0) {
					t.Errorf("from %d, dispatched anew from %d: what lacks its unit is left out", r.From, r.RedispatchFrom)
				}
				mustDispatch(t, s, s.Recovery().RedispatchFrom)
				expectBodies(t, s, "Early", "m0", "m1", "m2", "m3", "m4")
				expectBodies(t, s, "Middle", want...)
				expectBodies(t, s, "Late", late+"0", late+"1", late+"2", late+"3", late+"4")
				if got, err := readCheckpoint(fsys, path); err != nil || got.PhysicMsgTimestamp > newest || got.LogicsMsgTimestamp > newest || got.IndexMsgTimestamp > newest {
					t.Errorf("the checkpoint is %+v, %v; the newest record is of %d", got, err, newest)
				}
				closeTest(t, s, true)
				s = openTest(t, fsys, set)
				if r := s.Recovery(); !r.Clean || r.Checked > 0 {
					t.Errorf("the start after that: %+v", r)
				}
				s.abandon()
			})
		}
	}
}
