package store

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// A record whose head is damaged where no CRC sees it is known by the row of its queue's records: it is never served, its place is kept,
// and no other record loses its own, whether the queues are there or are made again.
func TestADamagedHeadCostsItsRecordAlone(t *testing.T) {
	const queueID, queueOffset, topic = 12, 20, 88 + 4 + 1 // where the fields are in a record with a body of 4 bytes
	number := func(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
	for name, c := range map[string]struct {
		record int // of 40 of the queue
		at     int64
		bytes  []byte
		alone  bool // found without units, too
	}{
		"an offset before":                 {10, queueOffset, number(3), true},
		"an offset behind":                 {10, queueOffset, number(15), true},
		"an offset just before":            {10, queueOffset, number(9), true},
		"an offset just behind":            {10, queueOffset, number(11), true},
		"an offset beyond the queue":       {10, queueOffset, number(500), true},
		"an offset far beyond":             {10, queueOffset, number(1 << 40), true},
		"a negative offset":                {10, queueOffset, number(-2), true},
		"the first record's offset":        {0, queueOffset, number(5), false},
		"the first record's offset beyond": {0, queueOffset, number(50), false},
		"the last record's offset":         {39, queueOffset, number(3), false},
		"the last record's offset beyond":  {39, queueOffset, number(50), false},
		"another queue":                    {10, queueID, []byte{0, 0, 0, 1}, false},
		"another queue, behind its end":    {30, queueID, []byte{0, 0, 0, 1}, true},
		"a queue that is not there":        {10, queueID, []byte{0, 0, 9, 0}, false},
		"another topic":                    {10, topic, []byte("Q"), false},
	} {
		for _, form := range []string{"with units", "without units", "after a crash"} {
			if form == "without units" && !c.alone {
				continue
			}
			t.Run(name+" "+form, func(t *testing.T) {
				fsys, set := sysio.NewFaultFS(), testSettings(memoryRoot)
				s := openTest(t, fsys, set)
				want := map[place]message.PhyOffset{}
				var spoiled message.PhyOffset
				for n := range 40 {
					for id := range message.QueueID(2) {
						if id == 1 && n%2 == 1 {
							continue
						}
						m := send(t, s, s.Queue("T", id), "body")
						if id == 0 && n == c.record {
							spoiled = m.PhyOffset
							continue
						}
						want[place{"T", id, m.QueueOffset}] = m.PhyOffset
					}
				}
				mustDispatch(t, s, 0)
				closeTest(t, s, true)
				f, err := fsys.OpenFile(dataPath(set.logDir, 0), os.O_RDWR, 0)
				if err == nil {
					_, err = f.WriteAt(c.bytes, int64(spoiled)+c.at)
					err = errors.Join(err, f.Close(), fsys.Remove(filepath.Join(set.root, stateName)))
				}
				for _, id := range []string{"0", "1"} {
					if form == "without units" {
						err = errors.Join(err, fsys.Remove(filepath.Join(set.queueDir, "T", id, fileName(0))))
					}
				}
				if form == "after a crash" {
					err = errors.Join(err, writeWhole(fsys, filepath.Join(set.root, abortName), "1"))
				}
				if err != nil {
					t.Fatal(err)
				}
				for round := range 4 {
					s := openTest(t, fsys, set)
					r := s.Recovery()
					if len(r.Damaged) != 1 || r.Damaged[0].Phy != spoiled || !strings.Contains(r.Damaged[0].Reason, "the head is damaged") {
						t.Errorf("round %d: damaged are %v, the record is at %d", round, r.Damaged, spoiled)
					}
					mustDispatch(t, s, r.RedispatchFrom)
					got := served(t, s)
					servesJust(t, round, got, want)
					switch round {
					case 1:
						s.abandon()
						continue
					case 2:
						if m := send(t, s, s.Queue("T", 0), "next"); m.QueueOffset != 40 {
							t.Errorf("the next message got offset %d", m.QueueOffset)
						} else {
							want[place{"T", 0, 40}] = m.PhyOffset
						}
						mustDispatch(t, s, r.RedispatchFrom)
					}
					closeTest(t, s, true)
					if round == 2 { // all is looked at once more, from what is remembered of the damage
						st, err := readState(fsys, set.root)
						if err != nil {
							t.Fatal(err)
						}
						st.running, st.run = true, 0
						if err := writeWhole(fsys, filepath.Join(set.root, stateName), string(st.encode())); err != nil {
							t.Fatal(err)
						}
					}
				}
			})
		}
	}
}
