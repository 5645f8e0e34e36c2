package crash

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing/synctest"
	"time"

	"peregrine/internal/sysio"
)

// trouble is what goes wrong with a disk besides the cut.
type trouble struct {
	r        *rand.Rand
	disk     *sysio.FaultFS
	removers []func()
	gates    []*sysio.Gate
	hit      bool // something fails: errors are no surprise
	did      []string
	lies     bool // syncs are acknowledged and not done: for the test of the harness itself
}

const (
	logFiles   = "/data/commitlog/*"
	queueFiles = "/data/consumequeue/*/*/*"
)

func (t *trouble) inject(f sysio.Fault) {
	t.removers = append(t.removers, t.disk.Inject(f))
	t.did = append(t.did, fmt.Sprintf("fault: %s of %q after %d, %d times: %v, slow %v, short %d", f.Op, f.Path, f.After, f.Times, f.Err, f.Gate != nil || f.Wait != nil, f.Short))
	if f.Gate != nil {
		t.gates = append(t.gates, f.Gate)
	}
	t.hit = t.hit || f.Err != nil
}

// slow makes the operations that meet f take their time.
func (t *trouble) slow(f sysio.Fault) {
	if strings.HasPrefix(f.Path, "/data/commitlog") {
		f.Gate = sysio.NewGate()
		time.AfterFunc(time.Duration(1+t.r.IntN(8))*time.Millisecond, f.Gate.Open)
	} else {
		// Virtual time stands still while anybody waits for a mutex, and here others may wait for one that the slow one holds. So no time
		// passes, but everybody else gets ahead.
		yields := 1 + t.r.IntN(2000)
		f.Wait = func() {
			for range yields {
				runtime.Gosched()
			}
		}
	}
	t.inject(f)
}

// before is what goes wrong during a start.
func (t *trouble) before() {
	if t.lies {
		t.removers = append(t.removers, t.disk.Inject(sysio.Fault{Op: sysio.OpContentSync, Lie: true}))
	}
	if t.r.IntN(12) != 0 {
		return
	}
	op := sysio.Op(1) << t.r.IntN(20)
	if t.r.IntN(2) == 0 {
		op = changing
	}
	t.inject(sysio.Fault{Op: op, After: t.r.IntN(60), Times: 1 + t.r.IntN(3), Err: t.cause(), Short: t.r.IntN(40)})
}

func (t *trouble) cause() error {
	return []error{syscall.EIO, syscall.ENOSPC, syscall.EIO, syscall.EMFILE}[t.r.IntN(4)]
}

// synced are the files and folders whose syncs may be slow.
func (t *trouble) synced() string {
	return [...]string{logFiles, queueFiles, "/data/commitlog", "/data/checkpoint"}[t.r.IntN(4)]
}

// deletable are the files, and the folders of files, that retention and administrators delete.
func (t *trouble) deletable() string {
	return [...]string{logFiles, "/data/commitlog", queueFiles, "/data/consumequeue/*", "/data/consumequeue", "/data/index/*", "/data/peregrine.deleted*"}[t.r.IntN(7)]
}

// next is what goes wrong at work, now and then. It does not come back before time has passed where that is needed.
func (t *trouble) next() {
	switch t.r.IntN(15) {
	case 0, 1, 2: // slow syncs: the log grows while one is under way
		t.slow(sysio.Fault{Op: sysio.OpContentSync | sysio.OpSyncDir, Path: t.synced(), Times: 1 + t.r.IntN(2)})
	case 3: // a sync of the log fails: the process ends
		t.inject(sysio.Fault{Op: sysio.OpContentSync | sysio.OpSyncDir, Path: logFiles, After: t.r.IntN(3), Times: 1, Err: syscall.EIO})
	case 4: // a slow sync that fails
		t.slow(sysio.Fault{Op: sysio.OpContentSync, Path: t.synced(), After: t.r.IntN(4), Times: 1, Err: syscall.EIO})
	case 5, 6: // queues cannot be written or synced for a while
		t.inject(sysio.Fault{Op: sysio.OpWrite | sysio.OpTruncate | sysio.OpMkdir | sysio.OpOpen, Path: queueFiles, Times: 1 + t.r.IntN(5), Err: t.cause(), Short: t.r.IntN(100)})
	case 7:
		t.inject(sysio.Fault{Op: sysio.OpContentSync, Path: queueFiles, After: t.r.IntN(3), Times: 1, Err: syscall.EIO})
	case 8: // the next files of the log cannot be made
		t.inject(sysio.Fault{Op: sysio.OpAllocate | sysio.OpOpen | sysio.OpTruncate | sysio.OpMap | sysio.OpPopulate, Path: logFiles, Times: 1 + t.r.IntN(3), Err: t.cause()})
	case 9: // only the written form meets this
		t.inject(sysio.Fault{Op: sysio.OpWrite, Path: logFiles, After: t.r.IntN(3), Times: 1, Err: t.cause(), Short: t.r.IntN(4000)})
	case 10: // the disk is full, and has room again
		t.hit = true
		u, _ := t.disk.DiskUsage(root)
		t.did = append(t.did, "the disk is nearly full for a while")
		t.disk.SetCapacity(u.Used+int64(t.r.IntN(8))*sysio.PageSize, 0)
		t.removers = append(t.removers, func() { t.disk.SetCapacity(0, 0) })
		time.AfterFunc(time.Duration(t.r.IntN(3000))*time.Millisecond, func() { t.disk.SetCapacity(0, 0) })
	case 11: // index files cannot be made, written or synced
		t.inject(sysio.Fault{Op: changing, Path: "/data/index/*", After: t.r.IntN(5), Times: 1 + t.r.IntN(3), Err: t.cause(), Short: t.r.IntN(100)})
	case 12: // files cannot be deleted, or nobody knows whether their names are gone
		t.inject(sysio.Fault{Op: sysio.OpRemove | sysio.OpSyncDir, Path: t.deletable(), After: t.r.IntN(4), Times: 1 + t.r.IntN(3), Err: syscall.EIO})
	case 13: // a deletion takes long
		t.slow(sysio.Fault{Op: sysio.OpRemove | sysio.OpSyncDir, Path: t.deletable(), After: t.r.IntN(4), Times: 1})
	case 14:
		t.inject(sysio.Fault{Op: 1 << t.r.IntN(20), After: t.r.IntN(10), Times: 1, Err: t.cause(), Short: t.r.IntN(4000)})
	}
}

func (t *trouble) openGates() {
	for _, g := range t.gates {
		g.Open()
	}
}

// end takes all faults away and lets go who is held.
func (t *trouble) end() {
	for _, remove := range t.removers {
		remove()
	}
	t.removers = nil
	t.openGates()
	synctest.Wait()
}
