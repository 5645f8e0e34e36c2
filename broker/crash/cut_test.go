package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"peregrine/internal/sysio"
)

// phase is what the process is doing.
type phase int32

const (
	starting phase = iota
	working
	stopping
)

func (p phase) String() string { return [...]string{"start", "work", "stop"}[p] }

// traceLength is how many operations before the cut a failure shows.
const traceLength = 60

// changing are the operations that can make a difference for what is left.
const changing = sysio.OpWrite | sysio.OpTruncate | sysio.OpAllocate | sysio.OpContentSync | sysio.OpSyncDir | sysio.OpRename | sysio.OpRemove |
	sysio.OpLink | sysio.OpMkdir | sysio.OpPunch | sysio.OpOpen

// cutter takes the picture of the disk that the next process gets, at the moment that the seed chose.
type cutter struct {
	disk  *sysio.FaultFS
	model *model
	p     *process
	phase atomic.Int32

	power bool // else kill -9
	all   bool // a power cut that leaves nothing that was not synced
	seed  uint64
	ops   sysio.Op
	only  phase // count only operations of this phase, -1: all
	after int
	short string // of a write: cut inside of it

	mu     sync.Mutex // below
	seen   int
	result *sysio.FaultFS
	trace  [traceLength]sysio.Event // a ring
	events int
	at     cutPoint
}

// planCut decides when and how the next cut comes.
func planCut(r *rand.Rand, disk *sysio.FaultFS, m *model, p *process) *cutter {
	c := &cutter{disk: disk, model: m, p: p, power: r.IntN(5) < 3, all: r.IntN(8) == 0, seed: r.Uint64(), only: -1}
	switch r.IntN(7) {
	case 0:
		c.ops, c.after = ^sysio.Op(0), r.IntN(1500)
	case 1:
		c.ops, c.after, c.only = changing, r.IntN(80), starting
	case 2:
		c.ops, c.after, c.only = changing, r.IntN(60), stopping
	case 3:
		c.ops, c.after, c.only = sysio.OpContentSync|sysio.OpSyncDir, r.IntN(100), working
	case 4:
		c.ops, c.after, c.only = changing, r.IntN(300), working
	case 5:
		c.ops, c.after, c.only = 1<<r.IntN(20), r.IntN(40), -1
	case 6: // in the middle of deletions
		c.ops, c.after, c.only = sysio.OpRemove|sysio.OpSyncDir|sysio.OpTruncate|sysio.OpRename, r.IntN(40), working
	}
	if r.IntN(8) == 0 {
		c.short = [...]string{"/data/*", "/data/commitlog/*", "/data/consumequeue/*/*/*"}[r.IntN(3)]
		c.disk.Inject(sysio.Fault{Op: sysio.OpWrite, Path: c.short, After: r.IntN(60), Times: 1, Err: errCut, Short: r.IntN(3000)})
	}
	disk.Observe(c.observe)
	return c
}

// errCut is what a write meets in the middle of which the cut comes. Nobody lives to see it.
var errCut = fmt.Errorf("the cut came in the middle of a write")

func (c *cutter) observe(e sysio.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.result != nil {
		return
	}
	phase := phase(c.phase.Load())
	c.trace[c.events%traceLength] = e
	c.events++
	inside := errors.Is(e.Err, errCut)
	if !inside {
		if e.Op&c.ops == 0 || c.only >= 0 && c.only != phase {
			return
		}
		if c.seen++; c.seen <= c.after {
			return
		}
	}
	c.at = cutPoint{phase: phase, op: e.Op, class: classOf(e.Path), moment: "before"}
	switch {
	case inside:
		c.at.moment = "inside"
	case e.Done:
		c.at.moment = "after"
	}
	c.cut(fmt.Sprintf("at %s, operation %d, %s", phase, c.seen, describe(e)))
}

func describe(e sysio.Event) string {
	what := fmt.Sprintf("%s %s %d+%d", e.Op, e.Path, e.Off, e.N)
	if e.Done {
		what += " done"
	}
	if e.Err != nil {
		what += ": " + e.Err.Error()
	}
	return what
}

// operations returns the last operations before the cut, for a failure.
func (c *cutter) operations() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for i := max(0, c.events-traceLength); i < c.events; i++ {
		lines = append(lines, describe(c.trace[i%traceLength]))
	}
	return strings.Join(lines, "\n  ")
}

// cut takes the picture. The caller holds mu. What was promised is taken down first: nobody learns of more afterwards.
func (c *cutter) cut(where string) {
	kind := "kill -9"
	if c.power {
		kind = "a power cut"
	}
	c.model.freeze(c.power, c.p.durable(), c.p.begin(), kind+" "+where)
	switch {
	case !c.power:
		c.result = c.disk.Kill()
	case c.all:
		c.result = c.disk.PowerCut(nil)
	default:
		c.result = c.disk.PowerCut(rand.New(rand.NewPCG(c.seed, 0)))
	}
}

// finish returns the picture; it is taken now if its moment has not come.
func (c *cutter) finish() *sysio.FaultFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.result == nil {
		c.at = cutPoint{phase: phase(c.phase.Load()), class: "between operations"}
		c.cut("at the end")
	}
	return c.result
}

// cutPoint is a kind of moments, for the table of what was covered.
type cutPoint struct {
	phase  phase
	op     sysio.Op
	class  string
	moment string
}

// classOf tells what kind of file a path names.
func classOf(path string) string {
	rel := strings.TrimPrefix(path, root)
	switch {
	case rel == "":
		return "store folder"
	case strings.HasPrefix(rel, "/commitlog/"):
		return "commitlog"
	case strings.HasPrefix(rel, "/consumequeue/") && strings.Count(rel, "/") == 4:
		return "consumequeue"
	case strings.Count(rel, "/") == 1 && strings.ContainsAny(rel, "ac"):
		return strings.TrimPrefix(rel, "/")
	}
	return filepath.Dir(rel) + "/..."
}

// coverage counts the moments of all cuts.
type coverage struct {
	mu     sync.Mutex
	points map[cutPoint]int
}

func (c *coverage) add(p cutPoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.points == nil {
		c.points = map[cutPoint]int{}
	}
	c.points[p]++
}

func (c *coverage) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for p, n := range c.points {
		op := p.op.String()
		if op == "" {
			op = "-"
		}
		lines = append(lines, fmt.Sprintf("%-6s %-10s %-22s %-7s %6d", p.phase, op, p.class, p.moment, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
