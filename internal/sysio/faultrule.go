package sysio

import (
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Op is a set of operations of FS, File and Mapping.
type Op uint32

const (
	OpOpen Op = 1 << iota
	OpRead
	OpWrite // WriteAt and Pwritev
	OpTruncate
	OpAllocate
	OpSync
	OpDatasync
	OpSyncRange
	OpSyncDir
	OpMap
	OpPopulate
	OpRename
	OpRemove
	OpLink
	OpMkdir
	OpReadDir
	OpStat
	OpUsage
	OpLock
	OpPunch   // PunchHole
	OpMemLock // Mapping.Lock
	OpMemUnlock
	OpAdvise // File.AdviseRandom
	OpSeek   // NextData

	// OpContentSync is every operation that makes bytes durable.
	OpContentSync = OpSync | OpDatasync | OpSyncRange
)

var opNames = [...]string{"open", "read", "write", "truncate", "allocate", "fsync", "fdatasync", "msync", "syncdir", "mmap", "populate",
	"rename", "remove", "link", "mkdir", "readdir", "stat", "statfs", "lock", "punch", "mlock", "munlock", "fadvise", "seek"}

func (o Op) String() string {
	var names []string
	for i, name := range opNames {
		if o&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// Fault says which calls go wrong and how. A call meets the first fault that matches it and is not used up.
type Fault struct {
	Op Op
	// Path is a pattern of filepath.Match for the whole path or its last element (of either path of a rename or link); empty
	// for all.
	Path string
	// After is how many matching calls pass unharmed first, Times how many meet the fault then; 0 = all.
	After, Times int

	// Err is returned, and the operation does nothing (but see Short). nil with none of Lie, Gate and Wait means EIO.
	Err error
	// Short makes a write store its first Short bytes before it returns Err.
	Short int
	// Lie makes a sync return nil without syncing.
	Lie bool
	// Gate holds the call until the test opens it. Without Err and Lie the call then does its work.
	Gate *Gate
	// Wait is called like a gate that opens when it returns. It may be called by several goroutines at a time.
	Wait func()
}

type armedFault struct {
	Fault
	seen int
}

// Inject adds a fault and returns a function that takes it away.
func (x *FaultFS) Inject(f Fault) (remove func()) {
	if f.Err == nil && !f.Lie && f.Gate == nil && f.Wait == nil {
		f.Err = syscall.EIO
	}
	armed := &armedFault{Fault: f}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.faults = append(x.faults, armed)
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		for i, other := range x.faults {
			if other == armed {
				x.faults = append(x.faults[:i:i], x.faults[i+1:]...)
				return
			}
		}
	}
}

// Event tells of one call. Off and N are its range in bytes where it has one (Truncate: N is the new size).
type Event struct {
	Op     Op
	Path   string
	Off, N int64
	Done   bool  // false when the call begins, true when it ends
	Err    error // with Done
}

// Observe calls f at the beginning and at the end of each operation, on the goroutine of the caller and without locks. nil
// ends it. f must be safe for concurrent use.
func (x *FaultFS) Observe(f func(Event)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.observer = f
}

// Gate holds calls until it is opened. NewGate makes one.
type Gate struct {
	mu      sync.Mutex
	changed sync.Cond
	arrived int
	open    bool
}

// NewGate returns a closed gate.
func NewGate() *Gate {
	g := &Gate{}
	g.changed.L = &g.mu
	return g
}

// Await returns when n calls have arrived at the gate since it was made.
func (g *Gate) Await(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.arrived < n {
		g.changed.Wait()
	}
}

// Open lets all calls pass, those that come later too.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = true
	g.changed.Broadcast()
}

func (g *Gate) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.arrived++
	g.changed.Broadcast()
	for !g.open {
		g.changed.Wait()
	}
}

// faultCall is one operation under way.
type faultCall struct {
	event    Event
	fault    *Fault
	observer func(Event)
}

// begin tells the observer and finds the fault that this call meets. The caller does not hold mu.
func (x *FaultFS) begin(op Op, path string, off, n int64, otherPaths ...string) *faultCall {
	call := &faultCall{event: Event{Op: op, Path: path, Off: off, N: n}}
	x.mu.Lock()
	call.observer = x.observer
	for _, f := range x.faults {
		if f.Op&op == 0 || !f.matches(path, otherPaths) {
			continue
		}
		f.seen++
		if f.seen > f.After && (f.Times == 0 || f.seen <= f.After+f.Times) {
			call.fault = &f.Fault
			break
		}
	}
	x.mu.Unlock()
	if call.observer != nil {
		call.observer(call.event)
	}
	return call
}

func (f *armedFault) matches(path string, others []string) bool {
	if f.Path == "" {
		return true
	}
	for _, p := range append([]string{path}, others...) {
		for _, candidate := range []string{p, filepath.Base(p)} {
			if ok, _ := filepath.Match(f.Path, candidate); ok {
				return true
			}
		}
	}
	return false
}

// err waits as the fault says and returns the fault's error.
func (c *faultCall) err() error {
	if c.fault == nil {
		return nil
	}
	if c.fault.Gate != nil {
		c.fault.Gate.pass()
	}
	if c.fault.Wait != nil {
		c.fault.Wait()
	}
	return c.fault.Err
}

func (c *faultCall) lies() bool { return c.fault != nil && c.fault.Lie }

func (c *faultCall) short() int {
	if c.fault == nil {
		return 0
	}
	return c.fault.Short
}

// end tells the observer and passes err through.
func (c *faultCall) end(err error) error {
	if c.observer != nil {
		c.event.Done, c.event.Err = true, err
		c.observer(c.event)
	}
	return err
}
