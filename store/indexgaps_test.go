package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// gapStore has messages with the keys k0, k1, and so on, in a log of several files and an index of several. keyless messages lie in front of the first,
// behind every tenth and at the end.
func gapStore(t *testing.T, keys, keyless int) (*sysio.FaultFS, settings) {
	t.Helper()
	fsys, set := sysio.NewFaultFS(), testSettings(memoryRoot, withIndex(20, 60))
	s := openIndexed(t, fsys, set)
	q := s.Queue("T", 0)
	plain := func() {
		for range keyless {
			sendIndexed(t, s, q, "", strings.Repeat(" ", 900), "")
		}
	}
	plain()
	for i := range keys {
		sendIndexed(t, s, q, "", fmt.Sprint("k", i, " ", strings.Repeat(" ", 900)), "")
		if i%10 == 9 {
			plain()
		}
	}
	mustDispatch(t, s, 0)
	follow(t, s, 0)
	closeIndexed(t, s)
	return fsys, set
}

func indexNames(t *testing.T, fsys sysio.FS, set settings) (names []string) {
	t.Helper()
	entries, err := fsys.ReadDir(set.indexDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return names
}

// Index files that are gone while their records are in the log are noticed wherever they were, after any end of the run before, and
// made again: every key is found, once. So it is when the start is cut off in between.
func TestMissingIndexFilesAreMadeAgain(t *testing.T) {
	const keys = 400
	for name, missing := range map[string]func(n int) []int{
		"none":                 func(int) []int { return nil },
		"the oldest":           func(int) []int { return []int{0} },
		"all but the newest":   func(n int) []int { return seq(0, n-1) },
		"one in the middle":    func(n int) []int { return []int{n / 2} },
		"two places":           func(n int) []int { return []int{0, n / 2} },
		"the newest but one":   func(n int) []int { return []int{n - 2} },
		"the newest":           func(n int) []int { return []int{n - 1} },
		"all":                  func(n int) []int { return seq(0, n) },
		"all but the very old": func(n int) []int { return seq(1, n) },
	} {
		for _, keyless := range []int{0, 7} {
			if testing.Short() && keyless == 0 {
				continue
			}
			for i, end := range []string{"clean", "of the original", "killed", "cut off"} {
				if testing.Short() && i%2 == 0 {
					continue
				}
				t.Run(fmt.Sprint(name, "/", keyless, "/", end), func(t *testing.T) {
					fsys, set := gapStore(t, keys, keyless)
					names := indexNames(t, fsys, set)
					if len(names) < 6 {
						t.Fatalf("%d files", len(names))
					}
					gone := missing(len(names))
					for _, i := range gone {
						if err := fsys.Remove(filepath.Join(set.indexDir, names[i])); err != nil {
							t.Fatal(err)
						}
					}
					switch end {
					case "of the original":
						if err := fsys.Remove(filepath.Join(set.root, stateName)); err != nil {
							t.Fatal(err)
						}
					case "killed":
						if err := writeWhole(fsys, filepath.Join(set.root, abortName), "1"); err != nil {
							t.Fatal(err)
						}
					case "cut off":
						s := openTest(t, fsys, set)
						asked := 0
						if _, err := s.index.Recover(func() bool { asked++; return asked > 2 }); err != nil && !errors.Is(err, ErrShutdown) {
							t.Fatal(err)
						}
						s.abandon()
						fsys = fsys.PowerCut(nil)
					}
					for round := range 2 {
						s := openTest(t, fsys, set)
						if r, _ := query(t, s, IndexQuery{Topic: "T", Key: "k0"}); !r.Recovering {
							t.Error("a query does not say that the index is incomplete")
						}
						mustDispatch(t, s, s.Recovery().RedispatchFrom)
						from, err := s.index.Recover(never)
						if err != nil {
							t.Fatal(err)
						}
						if kept := len(s.index.files); (round > 0 || len(gone) == 0 && end != "killed" && end != "cut off") && kept != len(names) {
							t.Errorf("round %d: %d files are kept of %d", round, kept, len(names))
						}
						follow(t, s, from)
						for i := range keys {
							if _, views := query(t, s, IndexQuery{Topic: "T", Key: fmt.Sprint("k", i)}); len(views) != 1 {
								t.Fatalf("round %d: key %d is found %d times", round, i, len(views))
							}
						}
						checkIndexFiles(t, s)
						closeIndexed(t, s)
						names = indexNames(t, fsys, set)
					}
				})
			}
		}
	}
}

// Items that are lost in the middle of a file: after a crash the file is not believed, unless it was durable; of one that is believed
// queries say that they may lack something, each that does.
func TestItemsLostInTheMiddleOfAFile(t *testing.T) {
	const keys = 400
	for _, newest := range []bool{false, true} {
		for _, crashed := range []bool{false, true} {
			t.Run(fmt.Sprintf("newest=%v/crashed=%v", newest, crashed), func(t *testing.T) {
				fsys, set := gapStore(t, keys, 0)
				names := indexNames(t, fsys, set)
				i := len(names) / 2
				if newest {
					i = len(names) - 1
				}
				if crashed {
					s := openIndexed(t, fsys, set)
					next := fsys.Kill()
					s.abandon()
					fsys = next
				}
				writeRaw(t, fsys, filepath.Join(set.indexDir, names[i]), set.index.itemAt(5), make([]byte, 3*indexItemBytes))
				s := openIndexed(t, fsys, set)
				lost := 0
				for i := range keys {
					r, views := query(t, s, IndexQuery{Topic: "T", Key: fmt.Sprint("k", i)})
					if len(views) == 0 {
						lost++
					}
					if len(views) == 0 && !r.Broken {
						t.Errorf("key %d is not found, and the answer does not say that it may be incomplete", i)
					}
				}
				if made := newest && crashed; made && lost > 0 || !made && lost < 3 {
					t.Errorf("%d keys are lost", lost)
				}
				closeIndexed(t, s)
				checkWholeAgain(t, fsys, set, keys)
			})
		}
	}
}

// checkWholeAgain starts once more and expects every key once.
func checkWholeAgain(t *testing.T, fsys *sysio.FaultFS, set settings, keys int) {
	t.Helper()
	s := openIndexed(t, fsys, set)
	for i := range keys {
		if r, views := query(t, s, IndexQuery{Topic: "T", Key: fmt.Sprint("k", i)}); len(views) != 1 || r.Broken {
			t.Fatalf("key %d is found %d times after the next start (broken %v)", i, len(views), r.Broken)
		}
	}
	checkIndexFiles(t, s)
	closeIndexed(t, s)
}

// A query that meets damage has its file made again by the next start, also one after kill -9, and one line says so. What is written to the
// file meanwhile does not take the mark away.
func TestAQueryMarksADamagedIndexFile(t *testing.T) {
	const keys = 400
	for name, damage := range map[string]func(set *settings) (at int64, b []byte){
		"items of ones": func(set *settings) (int64, []byte) {
			return set.index.itemAt(7), bytes.Repeat([]byte{0xff}, 3*indexItemBytes)
		},
		"slots of ones": func(set *settings) (int64, []byte) {
			return indexHeaderBytes, bytes.Repeat([]byte{0xff}, int(set.index.itemAt(0))-indexHeaderBytes)
		},
		"a hash":           func(set *settings) (int64, []byte) { return set.index.itemAt(9), []byte{0x7f, 0x12} },
		"the first item's": func(set *settings) (int64, []byte) { return set.index.itemAt(1) + 16, []byte{0, 0, 0, 3} },
	} {
		for _, newest := range []bool{false, true} {
			for _, killed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/newest=%v/killed=%v", name, newest, killed), func(t *testing.T) {
					fsys, set := gapStore(t, keys, 0)
					names := indexNames(t, fsys, set)
					path := filepath.Join(set.indexDir, names[0])
					if newest {
						path = filepath.Join(set.indexDir, names[len(names)-1])
					}
					at, b := damage(&set)
					writeRaw(t, fsys, path, at, b)
					s := openIndexed(t, fsys, set)
					for i := range keys {
						query(t, s, IndexQuery{Topic: "T", Key: fmt.Sprint("k", i)})
					}
					from := s.Wrote()
					sendIndexed(t, s, s.Queue("T", 0), "", "more", "")
					follow(t, s, from)
					if killed {
						next := fsys.Kill()
						s.abandon()
						fsys = next
					} else {
						closeIndexed(t, s)
					}
					checkWholeAgain(t, fsys, set, keys)
				})
			}
		}
	}
}

// Another geometry with the same length of files: a start sees that items are not where they should be, and makes the index again.
func TestOtherGeometryOfTheSameLength(t *testing.T) {
	const keys = 400
	for _, slots := range []int64{-5, 5, 10} {
		fsys, set := gapStore(t, keys, 0)
		was := set.index
		set.index.slots, set.index.items = was.slots+slots, was.items-slots/5
		if set.index.fileBytes() != was.fileBytes() {
			t.Fatal("not the same length")
		}
		checkWholeAgain(t, fsys, set, keys)
	}
}

func seq(from, to int) (numbers []int) {
	for i := from; i < to; i++ {
		numbers = append(numbers, i)
	}
	return numbers
}

// An index that begins in front of the log, or where its first key is, lacks nothing, and neither does one whose file ends where a place
// lies that recovery stepped over: nothing is made again.
func TestIndexWithoutGapsStays(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, fsys *sysio.FaultFS, set settings){
		"as it is": func(*testing.T, *sysio.FaultFS, settings) {},
		"the log begins later": func(t *testing.T, fsys *sysio.FaultFS, set settings) {
			for _, start := range []int64{0, testSegment} {
				if err := fsys.Remove(dataPath(set.logDir, start)); err != nil {
					t.Fatal(err)
				}
			}
		},
		"damage where a file ends": func(t *testing.T, fsys *sysio.FaultFS, set settings) {
			b, err := sysio.ReadFile(fsys, filepath.Join(set.indexDir, indexNames(t, fsys, set)[2]))
			if err != nil {
				t.Fatal(err)
			}
			at := decodeIndexHeader(b).endPhy
			log, err := sysio.ReadFile(fsys, dataPath(set.logDir, int64(at-at%testSegment)))
			if err != nil {
				t.Fatal(err)
			}
			body := bytes.Index(log[at%testSegment:], []byte("body of"))
			writeRaw(t, fsys, dataPath(set.logDir, int64(at-at%testSegment)), int64(at%testSegment)+int64(body), []byte("BODY"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys, set := gapStore(t, 400, 5)
			change(t, fsys, set)
			if err := fsys.Remove(filepath.Join(set.root, stateName)); err != nil {
				t.Fatal(err)
			}
			names := indexNames(t, fsys, set)
			for range 2 {
				s := openIndexed(t, fsys, set)
				if got := indexNames(t, fsys, set); !slices.Equal(got, names) {
					t.Errorf("%d files, were %d", len(got), len(names))
				}
				closeIndexed(t, s)
			}
		})
	}
}

// What the index stage would not index is no gap; records that are larger than a block, and that follow a part of a block, are seen.
func TestKeysBetween(t *testing.T) {
	s := openIndexed(t, sysio.NewFaultFS(), testSettings("/s", withIndex(20, 60), func(s *settings) { s.segmentBytes = 4 << 20 }))
	defer closeIndexed(t, s)
	q := s.Queue("T", 0)
	large := func(keys string) message.PhyOffset {
		m := indexedMessage(q, "", keys, "")
		m.Record.Body = bytes.Repeat([]byte("b"), 3*indexGapBytes/2)
		m.Record.BodyCRC = message.BodyCRC(m.Record.Body)
		batch := []Message{m}
		if s.Append(batch); batch[0].Err != nil {
			t.Fatal(batch[0].Err)
		}
		return batch[0].PhyOffset
	}
	plain := func() message.PhyOffset { return sendIndexed(t, s, q, "", "", "").PhyOffset }
	for _, want := range []bool{false, true} {
		from := plain()
		for i := range 25 {
			plain()
			large(strings.Repeat("k", map[bool]int{want: i / 24}[true]))
		}
		to := plain()
		if got, err := s.index.keysBetween(from, to, never); got != want || err != nil {
			t.Errorf("keys between %d and %d: %v, %v", from, to, got, err)
		}
	}
	keyed, after := sendIndexed(t, s, q, "u", "", "").PhyOffset, plain()
	for _, c := range []struct {
		after, to message.PhyOffset
		want      bool
	}{{keyed, after, false}, {-1, keyed, true}, {keyed, keyed, false}, {after, keyed, false}} {
		if got, err := s.index.keysBetween(c.after, c.to, never); got != c.want || err != nil {
			t.Errorf("keys between %d and %d: %v, %v", c.after, c.to, got, err)
		}
	}
	if _, err := s.index.keysBetween(-1, after, func() bool { return true }); !errors.Is(err, ErrShutdown) {
		t.Errorf("asked to quit: %v", err)
	}
}

// Where all records are looked at, all index files are walked, item by item. Those of the original stay what they are, byte for byte.
func TestAWholeIndexIsLeftAsItIs(t *testing.T) {
	for _, name := range []string{"clean-5.5.0", "clean-4.9.4", "direct-v6"} {
		root := unpack(t, name, t.TempDir())
		set := testSettings(root, withIndex(200, 1000))
		before := snapshot(t, set.indexDir)
		if len(before) == 0 {
			t.Fatalf("%s: no index", name)
		}
		var lines bytes.Buffer
		s := openLogged(t, sysio.OS{}, set, &lines)
		mustDispatch(t, s, s.Recovery().RedispatchFrom)
		if !s.Recovery().Whole {
			t.Errorf("%s: not all records were looked at", name)
		}
		if _, err := s.Index().Recover(never); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(lines.String(), "index file") {
			t.Errorf("%s: %s", name, lines.String())
		}
		s.abandon()
		if !maps.Equal(before, snapshot(t, set.indexDir)) {
			t.Errorf("%s: index files changed", name)
		}
	}
}
