package offsets

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func options(fsys sysio.FS) Options {
	return Options{FS: fsys, Path: "consumerOffset.json", Logger: slog.New(slog.DiscardHandler), Now: func() message.Millis { return 1_700_000_000_000 }}
}

func open(t testing.TB, fsys sysio.FS) *Table {
	t.Helper()
	table, err := Open(options(fsys))
	must(t, err)
	return table
}

func query(table *Table, group, topic string, id message.QueueID) message.QueueOffset {
	if offset, ok := table.Query([]byte(group), []byte(topic), id); ok {
		return offset
	}
	return -1
}

func TestTheLastCommitCounts(t *testing.T) {
	table := open(t, sysio.NewFaultFS())
	for _, offset := range []message.QueueOffset{0, 10, 5, 7} {
		if !table.Commit([]byte("g"), []byte("t"), 3, offset) || query(table, "g", "t", 3) != offset {
			t.Errorf("after a commit of %d: %d", offset, query(table, "g", "t", 3))
		}
	}
	for _, absent := range []message.QueueID{0, 2, 4, -1, 1 << 30} {
		if got := query(table, "g", "t", absent); got != -1 {
			t.Errorf("queue %d has %d", absent, got)
		}
	}
	table.Commit([]byte("g"), []byte("t"), 3, -5)
	if got := query(table, "g", "t", 3); got != -1 {
		t.Errorf("a negative offset is handed out as %d", got)
	}
}

func TestLimitsRefuseAndKeepNothing(t *testing.T) {
	table := open(t, sysio.NewFaultFS())
	for _, id := range []message.QueueID{-1, QueueIDMax + 1, 1<<31 - 1} {
		if table.Commit([]byte("g"), []byte("t"), id, 1) {
			t.Errorf("queue %d was taken", id)
		}
	}
	if table.pairs != 0 || len(table.GroupsOf("t")) != 0 {
		t.Error("refused commits left something behind")
	}
	table.pairs = PairsMax
	if table.Commit([]byte("g"), []byte("t"), 0, 1) {
		t.Error("one pair too many was taken")
	}
}

func TestBothBrokersFilesLoad(t *testing.T) {
	for _, version := range []string{"5.5.0", "4.9.4"} {
		data, err := os.ReadFile(filepath.Join("testdata", "consumerOffset-"+version+".json"))
		must(t, err)
		x := sysio.NewFaultFS()
		must(t, sysio.AtomicWriteFile(x, "consumerOffset.json", data, false))
		table := open(t, x)
		standard, err := wire.StandardJSON(data)
		must(t, err)
		var file struct {
			OffsetTable     map[string]map[message.QueueID]message.QueueOffset
			PullOffsetTable json.RawMessage
		}
		must(t, json.Unmarshal(standard, &file))
		for key, queues := range file.OffsetTable {
			topic, group, _ := strings.Cut(key, "@")
			for id, want := range queues {
				if got := query(table, group, topic, id); got != want {
					t.Errorf("%s: %s queue %d: %d, want %d", version, key, id, got, want)
				}
			}
		}
		table.Commit([]byte("GA"), []byte("FixA"), 0, 499)
		must(t, table.Persist())
		written, err := sysio.ReadFile(x, "consumerOffset.json")
		must(t, err)
		var after struct {
			GroupTopicMap   map[string][]string
			OffsetTable     map[string]map[message.QueueID]message.QueueOffset
			PullOffsetTable json.RawMessage
		}
		must(t, json.Unmarshal(written, &after))
		file.OffsetTable["FixA@GA"][0] = 499
		if fmt.Sprint(after.OffsetTable) != fmt.Sprint(file.OffsetTable) {
			t.Errorf("%s: written %v, want %v", version, after.OffsetTable, file.OffsetTable)
		}
		if !slices.Contains(after.GroupTopicMap["GA"], "FixA") || len(after.PullOffsetTable) == 0 {
			t.Errorf("%s: %s", version, written)
		}
		if len(file.PullOffsetTable) > 0 && len(after.PullOffsetTable) < len(file.PullOffsetTable) {
			t.Errorf("%s: the pull offsets are lost", version)
		}
	}
}

func TestNothingChangedNothingWritten(t *testing.T) {
	x := sysio.NewFaultFS()
	table := open(t, x)
	table.Commit([]byte("g"), []byte("t"), 0, 1)
	must(t, table.Persist())
	writes := 0
	x.Observe(func(e sysio.Event) {
		if e.Op == sysio.OpWrite && e.Done {
			writes++
		}
	})
	must(t, table.Persist())
	table.Commit([]byte("g"), []byte("t"), 0, 1)
	must(t, table.Persist())
	if writes != 0 {
		t.Errorf("%d writes without a change", writes)
	}
	table.Commit([]byte("g"), []byte("t"), 0, 2)
	must(t, table.Persist())
	if writes == 0 {
		t.Error("a change was not written")
	}
}

func TestTheDataVersionGrowsEvery500Commits(t *testing.T) {
	table := open(t, sysio.NewFaultFS())
	before := table.Version().Counter
	for i := range 1000 {
		table.Commit([]byte("g"), []byte("t"), 0, message.QueueOffset(i))
	}
	if got := table.Version().Counter - before; got != 2 {
		t.Errorf("%d steps", got)
	}
}

func TestCommitAndQueryAllocateNothing(t *testing.T) {
	table := open(t, sysio.NewFaultFS())
	group, topic := []byte("group"), []byte("topic")
	table.Commit(group, topic, 7, 0)
	n := message.QueueOffset(0)
	if allocs := testing.AllocsPerRun(2000, func() {
		n++
		table.Commit(group, topic, 7, n)
		if got, ok := table.Query(group, topic, 7); !ok || got != n {
			t.Fatal("wrong offset")
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// Commits of many queues at once, while the arrays grow and the table is written: none is lost.
func TestNoConcurrentCommitIsLost(t *testing.T) {
	x := sysio.NewFaultFS()
	table := open(t, x)
	const queues = 200
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for id := w; id < queues; id += 8 {
				for offset := range 20 {
					table.Commit([]byte("g"), []byte("t"), message.QueueID(id), message.QueueOffset(offset))
				}
			}
		}()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			if err := table.Persist(); err != nil {
				t.Error(err)
			}
		}
	}()
	writers.Wait()
	<-done
	must(t, table.Persist())
	after := open(t, x.PowerCut(nil))
	for id := range message.QueueID(queues) {
		if query(table, "g", "t", id) != 19 || query(after, "g", "t", id) != 19 {
			t.Errorf("queue %d: %d in memory, %d in the file", id, query(table, "g", "t", id), query(after, "g", "t", id))
		}
	}
}

func TestPersistedSurvivesPowerCut(t *testing.T) {
	for seed := range uint64(20) {
		x := sysio.NewFaultFS()
		r := rand.New(rand.NewPCG(seed, 3))
		table := open(t, x)
		persisted := message.QueueOffset(-1)
		var cuts []*sysio.FaultFS
		x.Observe(func(sysio.Event) { cuts = append(cuts, x.PowerCut(r), x.Kill()) })
		for next := range message.QueueOffset(3) {
			cuts = cuts[:0]
			table.Commit([]byte("g"), []byte("t"), 0, next)
			must(t, table.Persist())
			for _, y := range cuts {
				if got := query(open(t, y), "g", "t", 0); got != persisted && got != next {
					t.Fatalf("seed %d: %d after a cut between %d and %d", seed, got, persisted, next)
				}
			}
			persisted = next
		}
		x.Observe(nil)
	}
}

// Random commits, removals and restarts against a plain map.
func TestModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		x := sysio.NewFaultFS()
		table := open(t, x)
		type key struct {
			group, topic string
			id           message.QueueID
		}
		model := map[key]message.QueueOffset{}
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		ids := rapid.SampledFrom([]message.QueueID{0, 1, 5, 17})
		r.Repeat(map[string]func(*rapid.T){
			"commit": func(r *rapid.T) {
				k := key{names.Draw(r, "group"), names.Draw(r, "topic"), ids.Draw(r, "queue")}
				model[k] = message.QueueOffset(rapid.IntRange(0, 9).Draw(r, "offset"))
				table.Commit([]byte(k.group), []byte(k.topic), k.id, model[k])
			},
			"remove topic": func(r *rapid.T) {
				topic := names.Draw(r, "topic")
				table.RemoveTopic(topic)
				for k := range model {
					if k.topic == topic {
						delete(model, k)
					}
				}
			},
			"remove group": func(r *rapid.T) {
				group := names.Draw(r, "group")
				table.RemoveGroup(group)
				for k := range model {
					if k.group == group {
						delete(model, k)
					}
				}
			},
			"restart": func(r *rapid.T) {
				must(t, table.Persist())
				x = x.PowerCut(nil)
				table = open(t, x)
			},
			"": func(r *rapid.T) {
				groups := map[string]map[string]bool{}
				for k, want := range model {
					if got := query(table, k.group, k.topic, k.id); got != want {
						r.Fatalf("%v: %d, want %d", k, got, want)
					}
					if groups[k.topic] == nil {
						groups[k.topic] = map[string]bool{}
					}
					groups[k.topic][k.group] = true
				}
				for _, topic := range []string{"a", "b", "c"} {
					if got := table.GroupsOf(topic); len(got) != len(groups[topic]) {
						r.Fatalf("topic %s: groups %v, want %v", topic, got, groups[topic])
					}
				}
			},
		})
	})
}
