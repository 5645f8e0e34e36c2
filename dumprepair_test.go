package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"peregrine/dispatch"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
	"peregrine/store/inspect"
	"peregrine/store/storetest"
)

const repairRoot = "/store"

// repairSizes are those of the fixtures.
var repairSizes = []string{"mappedFileSizeCommitLog=65536", "mappedFileSizeConsumeQueue=4000", "maxHashSlotNum=200", "maxIndexNum=1000"}

// repairOn runs dump with a directory of a file system in memory.
func repairOn(t *testing.T, fsys sysio.FS, flags ...string) (code int, printed string, err error) {
	t.Helper()
	o, perr := parseDump(append(append([]string{"--store", repairRoot}, flags...), repairSizes...))
	if perr != nil {
		t.Fatal(perr)
	}
	where, werr := o.where()
	if werr != nil {
		t.Fatal(werr)
	}
	where.FS, where.LockHolder = fsys, nil
	var out bytes.Buffer
	p := newDumpPrinter(&out, false)
	code, err = dumpRepair(o, where, p, io.Discard)
	if ferr := p.flush(); ferr != nil {
		t.Fatal(ferr)
	}
	return code, out.String(), err
}

// contents is what a broker serves of a directory, and where its queues go on.
type contents struct {
	messages map[string]message.PhyOffset
	next     map[string]message.QueueOffset
	min      map[string]message.QueueOffset
}

// opened opens the store with the sizes of the tests.
func opened(t *testing.T, fsys *sysio.FaultFS) *store.Store {
	t.Helper()
	o, err := parseDump(append([]string{"--repair", "--store", repairRoot}, repairSizes...))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := o.startConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(store.Options{FS: fsys, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// started opens the store and fills its queues.
func started(t *testing.T, fsys *sysio.FaultFS) *store.Store {
	t.Helper()
	st := opened(t, fsys)
	d := dispatch.New(dispatch.Options{Store: st, Shards: 2})
	d.Start(st.Recovery().RedispatchFrom)
	if !d.Stop(time.Now().Add(time.Minute)) {
		t.Fatal("not everything was dispatched")
	}
	return st
}

// contentsOf starts the store on a copy of the directory.
func contentsOf(t *testing.T, fsys *sysio.FaultFS) contents {
	t.Helper()
	st := started(t, fsys.Kill())
	defer st.Close(false)
	c := contents{map[string]message.PhyOffset{}, map[string]message.QueueOffset{}, map[string]message.QueueOffset{}}
	st.Queues(func(q *store.Queue) bool {
		name := fmt.Sprintf("%s-%d", q.Topic(), q.ID())
		c.next[name], c.min[name] = q.Next(), q.Min()
		var units [64]store.Unit
		for off := q.Min(); off < q.Max(); {
			n, err := q.ReadUnits(units[:], off)
			if err != nil {
				t.Fatal(err)
			}
			for i, u := range units[:n] {
				if u.Hidden() {
					continue
				}
				var v message.View
				if _, err := st.ReadRecord(nil, u.Phy, &v); err != nil || v.QueueOffset != off+message.QueueOffset(i) || string(v.Topic) != q.Topic() || v.IsFiller() {
					t.Errorf("%s offset %d serves the record at %d: %v", name, off+message.QueueOffset(i), u.Phy, err)
				}
				c.messages[fmt.Sprintf("%s-%d", name, off+message.QueueOffset(i))] = u.Phy
			}
			off += message.QueueOffset(n)
		}
		return true
	})
	return c
}

// keeps checks that everything of before is there, that no offset will be given out twice, and that queues begin no later.
func (c contents) keeps(t *testing.T, before contents) {
	t.Helper()
	for name, phy := range before.messages {
		if c.messages[name] != phy {
			t.Errorf("%s is served from %d, before from %d", name, c.messages[name], phy)
		}
	}
	for name, next := range before.next {
		if c.next[name] < next {
			t.Errorf("%s goes on at %d, before at %d", name, c.next[name], next)
		}
		if c.min[name] > before.min[name] { // less is right: fillers have the first offsets again
			t.Errorf("%s begins at %d, before at %d", name, c.min[name], before.min[name])
		}
	}
}

// verified expects no finding of the level of a fault.
func verified(t *testing.T, fsys sysio.FS) {
	t.Helper()
	d, err := inspect.Open(inspect.Options{FS: fsys, Root: repairRoot, SegmentBytes: 65536, QueueFileBytes: 4000, IndexSlots: 200, IndexItems: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Verify(inspect.VerifyOptions{Found: func(f inspect.Finding) {
		t.Errorf("after the repair: %s", f.String())
	}}); err != nil {
		t.Fatal(err)
	}
}

// edit changes bytes of a file, durably.
func edit(t *testing.T, fsys sysio.FS, name string, at int64, b []byte) {
	t.Helper()
	f, err := fsys.OpenFile(filepath.Join(repairRoot, name), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func fixture(t *testing.T, name string) *sysio.FaultFS {
	t.Helper()
	return storetest.InMemory(t, filepath.Join("store", "testdata", name+".tar.gz"), repairRoot)
}

// damagedDirectory is a directory to be repaired.
type damagedDirectory struct {
	name string
	fs   *sysio.FaultFS
}

// more is damage that the original's fixtures do not have: parts of the log that hold several records, in different places.
func more(t *testing.T, whole *sysio.FaultFS) (all []damagedDirectory) {
	add := func(name string, damage func(x *sysio.FaultFS)) {
		x := whole.Kill()
		damage(x)
		all = append(all, damagedDirectory{name, x})
	}
	const log0, fixA = "commitlog/00000000000000000000", "consumequeue/FixA/0/00000000000000000000"
	zero := func(n int) []byte { return make([]byte, n) }
	add("a sector", func(x *sysio.FaultFS) { edit(t, x, log0, 12800, zero(512)) })
	add("a page", func(x *sysio.FaultFS) { edit(t, x, log0, 8192, zero(4096)) })
	add("a page and units", func(x *sysio.FaultFS) {
		edit(t, x, log0, 8192, zero(4096))
		edit(t, x, fixA, 31*20, zero(18*20))
	})
	add("the beginning", func(x *sysio.FaultFS) { edit(t, x, log0, 0, zero(700)) })
	add("a file's beginning", func(x *sysio.FaultFS) { edit(t, x, "commitlog/00000000000000065536", 0, zero(4096)) })
	add("a file's end", func(x *sysio.FaultFS) { edit(t, x, log0, 60000, zero(5536)) })
	add("the end mark", func(x *sysio.FaultFS) { edit(t, x, "commitlog/00000000000000393216", 458487-393216, zero(8)) })
	add("lengths", func(x *sysio.FaultFS) {
		edit(t, x, log0, 13083, []byte{0x7f})
		edit(t, x, log0, 20000, []byte("garbage"))
		edit(t, x, log0, 30000, []byte("garbage"))
	})
	add("units of other tags", func(x *sysio.FaultFS) { edit(t, x, fixA, 7*20+19, []byte{1}) })
	add("a queue's file lost", func(x *sysio.FaultFS) {
		if err := x.Remove(filepath.Join(repairRoot, fixA)); err != nil {
			t.Fatal(err)
		}
	})
	return all
}

// After a repair nothing is found any more, everything that was served is served from the same places, and no queue offset is
// given out twice: for all damaged directories of the original and then some, clean and crashed ones of 5.5.0 and 4.9.4.
func TestRepairLeavesNothingToFind(t *testing.T) {
	whole := fixture(t, "clean-5.5.0")
	all := []damagedDirectory{{"clean-5.5.0", whole}, {"killed-5.5.0", fixture(t, "killed-5.5.0")}, {"clean-4.9.4", fixture(t, "clean-4.9.4")},
		{"direct-v6", fixture(t, "direct-v6")}}
	for _, v := range storetest.Variants(t, filepath.Join("store", "testdata", "damaged.json")) {
		all = append(all, damagedDirectory{v.Name, v.Make(t, whole, repairRoot)})
	}
	all = append(all, more(t, whole)...)
	// A start of peregrine hides damaged records: their units only keep the places.
	for i, d := range all {
		if testing.Short() && i%4 > 0 {
			continue
		}
		x := d.fs.Kill()
		if err := started(t, x).Close(true); err != nil {
			t.Fatal(err)
		}
		all = append(all, damagedDirectory{d.name + ", after a start", x})
	}
	for i, d := range all {
		if testing.Short() && i%4 > 0 {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			before := contentsOf(t, d.fs)
			x := d.fs.Kill()
			code, printed, err := repairOn(t, x, "--repair", "--fill", "--yes")
			if err != nil || code != exitOK {
				t.Fatalf("exit %d: %v\n%s", code, err, printed)
			}
			verified(t, x)
			contentsOf(t, x).keeps(t, before)
			if code, printed, err = repairOn(t, x, "--repair", "--fill"); err != nil || code != exitOK || !strings.Contains(printed, "everything fits") {
				t.Errorf("a second look: exit %d: %v\n%s", code, err, printed)
			}
		})
	}
}

// Files of queues and index of a wrong length stop a start, which names the repair; the repair mends them and keeps what was there.
func TestRepairMendsFilesOfAWrongLength(t *testing.T) {
	const queue, newest = "consumequeue/FixA/0/", "index/20261129201413902"
	resize := func(name string, size int64) func(x *sysio.FaultFS) string {
		return func(x *sysio.FaultFS) string {
			f, err := x.OpenFile(filepath.Join(repairRoot, name), os.O_RDWR, 0)
			if err == nil {
				err = errors.Join(f.Truncate(size), f.Sync(), f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			return name
		}
	}
	whole := fixture(t, "clean-5.5.0")
	expired := whole.Kill() // no record of FixA-1 is left
	for _, start := range []string{"00000000000000000000", "00000000000000065536", "00000000000000131072"} {
		if err := expired.Remove(filepath.Join(repairRoot, "commitlog", start)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		fs   *sysio.FaultFS
		do   func(x *sysio.FaultFS) string
	}{
		{"short first", whole, resize(queue+"00000000000000000000", 1001)},
		{"short middle", whole, resize(queue+"00000000000000004000", 20)},
		{"long last", whole, resize(queue+"00000000000000008000", 4020)},
		{"short middle, its first records deleted", expired, resize(queue+"00000000000000004000", 60)},
		{"long, its records deleted", expired, resize("consumequeue/FixA/1/00000000000000000000", 9000)},
		{"long index", whole, resize(newest, 30000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := contentsOf(t, c.fs)
			x := c.fs.Kill()
			name := c.do(x)
			was, err := sysio.ReadFile(x, filepath.Join(repairRoot, name))
			if err != nil {
				t.Fatal(err)
			}
			o, err := parseDump(append([]string{"--repair", "--store", repairRoot}, repairSizes...))
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := o.startConfig(nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Open(store.Options{FS: x, Config: cfg}); !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), name) ||
				!strings.Contains(err.Error(), fmt.Sprintf("has %d bytes", len(was))) || !strings.Contains(err.Error(), "peregrine dump --repair --yes") {
				t.Fatalf("the start says %v", err)
			}
			if code, printed, err := repairOn(t, x, "--repair"); err != nil || code != exitFailed || strings.Contains(printed, "plan refused") {
				t.Errorf("dry run: exit %d: %v\n%s", code, err, printed)
			}
			if code, printed, err := repairOn(t, x, "--repair", "--yes"); err != nil || code != exitOK {
				t.Fatalf("exit %d: %v\n%s", code, err, printed)
			}
			kept, err := sysio.ReadFile(x, filepath.Join(repairRoot, "peregrine.repair", "0001", name))
			if err != nil || !bytes.Equal(kept, was) {
				t.Errorf("%d bytes of %s are kept, it had %d: %v", len(kept), name, len(was), err)
			}
			verified(t, x)
			contentsOf(t, x).keeps(t, before)
		})
	}
}

// A file of the log that was cut short in front of others stops a start, which names the repair; the dry run says what it will do, and the
// repair gives the file its length.
func TestRepairGivesFilesOfTheLogTheirLength(t *testing.T) {
	const name = "commitlog/00000000000000065536"
	for _, left := range []int64{0, 30_000, 65_530} {
		x := fixture(t, "clean-5.5.0").Kill()
		f, err := x.OpenFile(filepath.Join(repairRoot, name), os.O_RDWR, 0)
		if err == nil {
			err = errors.Join(f.Truncate(left), f.Sync(), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		would := fmt.Sprintf("plan length: %s: would give it its length back, it has %d bytes", name, left)
		if code, printed, err := repairOn(t, x, "--repair", "--fill"); err != nil || code != exitFailed || !strings.Contains(printed, would) || strings.Contains(printed, "plan refused") {
			t.Errorf("dry run: exit %d: %v\n%s", code, err, printed)
		}
		if code, printed, err := repairOn(t, x, "--repair", "--fill", "--yes"); err != nil || code != exitOK {
			t.Fatalf("exit %d: %v\n%s", code, err, printed)
		}
		if info, err := x.Stat(filepath.Join(repairRoot, name)); err != nil || info.Size != 65536 {
			t.Errorf("it has %d bytes: %v", info.Size, err)
		}
		verified(t, x)
		contentsOf(t, x)
	}
	// Beside what no repair mends it is not begun.
	x := fixture(t, "clean-5.5.0").Kill()
	f, err := x.OpenFile(filepath.Join(repairRoot, name), os.O_RDWR, 0)
	if err == nil {
		err = errors.Join(f.Truncate(0), f.Sync(), f.Close(), x.MkdirAll(filepath.Join(repairRoot, "consumequeue/FixA/0/00000000000000012000"), 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, printed, err := repairOn(t, x, "--repair", "--fill"); err != nil || code != exitFailed || !strings.Contains(printed, "plan refused: with --yes: ") {
		t.Errorf("dry run: exit %d: %v\n%s", code, err, printed)
	}
	if code, printed, err := repairOn(t, x, "--repair", "--fill", "--yes"); !errors.Is(err, store.ErrRefused) || code != exitStore {
		t.Errorf("exit %d: %v\n%s", code, err, printed)
	}
	if info, err := x.Stat(filepath.Join(repairRoot, name)); err != nil || info.Size != 0 {
		t.Errorf("it has %d bytes: %v", info.Size, err)
	}
}

// Without --yes nothing is changed: no operation that could.
func TestRepairIsADryRun(t *testing.T) {
	whole := fixture(t, "clean-5.5.0")
	for _, d := range more(t, whole) {
		d.fs.Observe(func(e sysio.Event) {
			if e.Op&^(sysio.OpOpen|sysio.OpRead|sysio.OpReadDir|sysio.OpStat|sysio.OpUsage|sysio.OpSeek|sysio.OpAdvise) != 0 {
				t.Errorf("%s: %s of %s", d.name, e.Op, e.Path)
			}
		})
		for _, flags := range [][]string{{"--repair"}, {"--repair", "--fill"}} {
			code, printed, err := repairOn(t, d.fs, flags...)
			if err != nil || code != exitFailed || !strings.Contains(printed, "plan dry-run: nothing was changed; --yes does it") {
				t.Errorf("%s %v: exit %d: %v\n%s", d.name, flags, code, err, printed)
			}
		}
	}
}

// changesDisk are the operations that can make a difference for what is left.
const changesDisk = sysio.OpWrite | sysio.OpTruncate | sysio.OpAllocate | sysio.OpContentSync | sysio.OpSyncDir | sysio.OpRename | sysio.OpRemove |
	sysio.OpMkdir | sysio.OpPunch | sysio.OpOpen

// A repair that is cut off anywhere, by a kill or by the power, loses nothing: the next one ends what it began.
func TestRepairCanBeCutAnywhere(t *testing.T) {
	whole := fixture(t, "clean-5.5.0")
	dirs := more(t, whole)
	for _, v := range storetest.Variants(t, filepath.Join("store", "testdata", "damaged.json")) {
		if strings.HasPrefix(v.Name, "flipped") || strings.HasPrefix(v.Name, "missing-cq-queue") || strings.HasPrefix(v.Name, "torn-tail") {
			dirs = append(dirs, damagedDirectory{v.Name, v.Make(t, whole, repairRoot)})
		}
	}
	cuts := 12
	if testing.Short() {
		cuts = 1
	}
	for n, d := range dirs {
		if testing.Short() && n%3 > 0 {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			before := contentsOf(t, d.fs)
			var ops atomic.Int64
			counted := d.fs.Kill()
			counted.Observe(func(e sysio.Event) {
				if e.Op&changesDisk != 0 && e.Done {
					ops.Add(1)
				}
			})
			if code, printed, err := repairOn(t, counted, "--repair", "--fill", "--yes"); err != nil || code != exitOK {
				t.Fatalf("exit %d: %v\n%s", code, err, printed)
			}
			r := rand.New(rand.NewPCG(uint64(n), 1))
			for range cuts {
				at, power := 1+r.Int64N(ops.Load()), r.IntN(3) > 0
				if r.IntN(2) == 0 { // before the start of the store, which is tested elsewhere
					at = 1 + r.Int64N(min(50, ops.Load()))
				}
				x := cutRepair(t, d.fs.Kill(), at, power, r)
				code, printed, err := repairOn(t, x, "--repair", "--fill", "--yes")
				if err != nil || code != exitOK {
					t.Fatalf("cut at %d of %d, power %v: exit %d: %v\n%s", at, ops.Load(), power, code, err, printed)
				}
				verified(t, x)
				contentsOf(t, x).keeps(t, before)
				kept(t, x, counted, d.fs)
				if t.Failed() {
					t.Fatalf("cut at %d of %d, power %v", at, ops.Load(), power)
				}
			}
		})
	}
}

// cutRepair runs a repair and returns what the disk holds after its at-th operation.
func cutRepair(t *testing.T, x *sysio.FaultFS, at int64, power bool, r *rand.Rand) *sysio.FaultFS {
	t.Helper()
	var seen atomic.Int64
	left := make(chan *sysio.FaultFS, 1)
	x.Observe(func(e sysio.Event) {
		if e.Op&changesDisk == 0 || !e.Done || seen.Add(1) != at {
			return
		}
		if power {
			left <- x.PowerCut(r)
		} else {
			left <- x.Kill()
		}
	})
	_, _, _ = repairOn(t, x, "--repair", "--fill", "--yes")
	x.Observe(nil)
	select {
	case cut := <-left:
		return cut
	default:
		return x.Kill() // operations of goroutines vary
	}
}

// kept checks that for each place that an uncut run replaced some run has kept the bytes that the damaged directory had there.
func kept(t *testing.T, x, uncut, damaged *sysio.FaultFS) {
	t.Helper()
	places, err := uncut.ReadDir(repairRoot + "/peregrine.repair/0001/commitlog")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	runs, err := x.ReadDir(repairRoot + "/peregrine.repair")
	if err != nil && len(places) > 0 {
		t.Fatal(err)
	}
	for _, p := range places {
		var phy int64
		if _, err := fmt.Sscanf(p.Name, "%020d", &phy); err != nil {
			t.Fatal(err)
		}
		log, err := sysio.ReadFile(damaged, fmt.Sprintf("%s/commitlog/%020d", repairRoot, phy-phy%65536))
		if err != nil {
			t.Fatal(err)
		}
		want, found := log[phy%65536:][:p.Size], false
		for _, run := range runs {
			got, err := sysio.ReadFile(x, filepath.Join(repairRoot, "peregrine.repair", run.Name, "commitlog", p.Name))
			found = found || err == nil && bytes.Equal(got, want)
		}
		if !found {
			t.Errorf("no run has kept the %d bytes at %d", p.Size, phy)
		}
	}
}

// A repair without --fill leaves the log as it is, and does nothing at all where a start would need the units to find its way.
func TestRepairWithoutFillLeavesTheLog(t *testing.T) {
	whole := fixture(t, "clean-5.5.0")
	for _, d := range more(t, whole) {
		x, before := d.fs.Kill(), contentsOf(t, d.fs)
		code, printed, err := repairOn(t, x, "--repair", "--yes")
		if err != nil {
			t.Fatalf("%s: %v", d.name, err)
		}
		for start := int64(0); start < 8*65536; start += 65536 {
			name := fmt.Sprintf("%s/commitlog/%020d", repairRoot, start)
			was, err := sysio.ReadFile(d.fs, name)
			if err != nil {
				t.Fatal(err)
			}
			if is, err := sysio.ReadFile(x, name); err != nil || !bytes.Equal(is, was) {
				t.Errorf("%s: %s changed: %v", d.name, name, err)
			}
		}
		if strings.Contains(printed, "plan refused: parts of the log hold no readable record") {
			if _, err := x.Stat(repairRoot + "/abort"); code != exitFailed || err == nil {
				t.Errorf("%s: exit %d, and the directory counts as crashed: %v", d.name, code, err)
			}
			continue
		}
		if code != exitOK { // the damage of these is in queues only
			t.Errorf("%s: exit %d\n%s", d.name, code, printed)
		}
		verified(t, x)
		contentsOf(t, x).keeps(t, before)
	}
}

// A queue whose records were all deleted keeps its files: only they show which offset comes next.
func TestRepairKeepsQueuesThatTheLogDoesNotShow(t *testing.T) {
	x := fixture(t, "clean-5.5.0")
	before := contentsOf(t, x)
	for start := int64(0); start < 5*65536; start += 65536 {
		if err := x.Remove(fmt.Sprintf("%s/commitlog/%020d", repairRoot, start)); err != nil {
			t.Fatal(err)
		}
	}
	gone := ""
	for name, next := range before.next {
		newest := message.PhyOffset(-1)
		for off := range next {
			newest = max(newest, before.messages[fmt.Sprintf("%s-%d", name, off)])
		}
		if next > 5 && newest < 5*65536 && name > gone {
			gone = name
		}
	}
	topic, id := gone[:len(gone)-2], gone[len(gone)-1:]
	edit(t, x, "consumequeue/"+topic+"/"+id+"/00000000000000000000", 3*20+8, []byte{0, 0, 0, 0}) // a hole in a queue without records
	edit(t, x, "consumequeue/FixA/0/00000000000000008000", 70*20+12, []byte{1})                  // and a wrong unit in one with records
	code, printed, err := repairOn(t, x, "--repair", "--yes")
	if err != nil || code != exitOK || !strings.Contains(printed, "FixA queue 0: will make it again") ||
		!strings.Contains(printed, topic+" queue "+id+": will cut and complete it in its files") {
		t.Fatalf("exit %d: %v\n%s", code, err, printed)
	}
	after := contentsOf(t, x)
	for name, next := range before.next {
		if after.next[name] != next {
			t.Errorf("%s goes on at %d, before at %d", name, after.next[name], next)
		}
	}
	if after.min["FixA-0"] <= 0 || after.min["FixA-0"] >= 500 {
		t.Errorf("FixA queue 0 begins at %d", after.min["FixA-0"])
	}
}

// What a repair refuses it leaves as it was: a directory that somebody works on, one that the store does not take, one whose
// files do not tell their sizes, and a command line that does not say what it wants.
func TestRepairRefuses(t *testing.T) {
	damage := func(root string) {
		if err := os.WriteFile(filepath.Join(root, "checkpoint"), []byte("short"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		make func(root string) (done func())
		args []string
		code int
		says string
	}{
		{"a broker runs", func(root string) func() {
			held, err := sysio.OS{}.Lock(filepath.Join(root, "lock"))
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = held.Close() }
		}, []string{"--repair", "--fill", "--yes"}, exitStore, "ROOT/lock"},
		{"a DLedger log", func(root string) func() {
			if err := os.MkdirAll(filepath.Join(root, "dledger-n0"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, "dledger-n0", "data"), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			return func() {}
		}, []string{"--repair", "--yes"}, exitStore, "DLedger"},
		{"sizes that nothing tells", func(root string) func() {
			if err := os.RemoveAll(filepath.Join(root, "index")); err != nil {
				t.Fatal(err)
			}
			return func() {}
		}, []string{"--repair", "--yes"}, exitUsage, "the files do not tell maxHashSlotNum and maxIndexNum"},
		{"no repair", func(string) func() { return func() {} }, []string{"--yes"}, exitUsage, "belong to --repair"},
		{"a part only", func(string) func() { return func() {} }, []string{"--repair", "--topic", "FixA"}, exitUsage, "about the whole directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := unpackStore(t, "clean-5.5.0")
			damage(root)
			defer c.make(root)()
			before := fingerprint(t, root)
			var stdout, stderr bytes.Buffer
			code := dump(append([]string{root}, c.args...), &stdout, &stderr)
			if code != c.code || !strings.Contains(stderr.String(), strings.ReplaceAll(c.says, "ROOT", root)) {
				t.Errorf("exit %d\n%s%s", code, stdout.String(), stderr.String())
			}
			if fingerprint(t, root) != before {
				t.Error("the directory changed")
			}
			if c.code == exitStore { // a dry run says so, too, but for the lock, which this process holds itself
				if _ = dump(append([]string{root}, c.args[:1]...), &stdout, &stderr); c.name != "a broker runs" && !strings.Contains(stdout.String(), "plan refused: with --yes: ") {
					t.Errorf("the dry run does not say that it would be refused:\n%s", stdout.String())
				}
			}
		})
	}
}

// dump DIR --repair --yes on the machine's file system, with sizes taken from the files, and JSON.
func TestRepairOnTheMachine(t *testing.T) {
	root := unpackStore(t, "killed-5.5.0")
	if err := os.RemoveAll(filepath.Join(root, "consumequeue", "FixOrder", "1")); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := dump([]string{root, "--repair", "--yes", "--json"}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit %d\n%s%s", code, stdout.String(), stderr.String())
	}
	for line := range strings.Lines(stdout.String()) {
		if !strings.HasPrefix(line, `{"level":"`) {
			t.Errorf("%s", line)
		}
	}
	stdout.Reset()
	if code := dump([]string{"--verify", "--store", root}, &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), "0 findings, 0 notes") {
		t.Errorf("exit %d\n%s", code, stdout.String())
	}
}
