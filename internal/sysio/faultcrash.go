package sysio

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
)

const sectorSize = 512

// Kill returns the file system as the next process finds it after kill -9 at this moment: everything that was written is
// there, durable or not as before. Faults, observer and locks are gone; the original stays as it is and may be used on. What
// other goroutines write into mappings meanwhile is there or not.
func (x *FaultFS) Kill() *FaultFS {
	return x.clone(func(c *cloner, d, copied *memDir) {
		copied.entries = c.entries(d.entries)
		copied.durable = c.entries(d.durable)
		for _, op := range d.pending {
			changes := make([]dirChange, 0, len(op))
			for _, change := range op {
				changes = append(changes, dirChange{change.name, c.node(change.node)})
			}
			copied.pending = append(copied.pending, changes)
		}
	}, func(f, copied *memFile) {
		copied.data = make([]byte, len(f.data))
		copyShared(copied.data, f.data)
		copied.lost = maps.Clone(f.lost)
	})
}

// PowerCut returns the file system as the next boot finds it after the power went at this moment: all that was synced, and
// of the rest what r lets through (see the fault model). With a nil r everything that was not synced is lost. The same state
// and the same seed give the same result.
func (x *FaultFS) PowerCut(r *rand.Rand) *FaultFS {
	y := x.clone(func(c *cloner, d, copied *memDir) {
		kept := maps.Clone(d.durable)
		if r != nil {
			for _, op := range d.pending[:r.IntN(len(d.pending)+1)] {
				applyChanges(kept, op)
			}
		}
		copied.entries = c.entries(kept)
		copied.durable = maps.Clone(copied.entries)
	}, func(f, copied *memFile) { cutFile(f, copied, r) })
	y.boot++
	return y
}

// BootID is the boot of the machine that this file system belongs to: the same after Kill, another one after PowerCut.
func (x *FaultFS) BootID() (string, error) { return "boot " + strconv.Itoa(x.boot), nil }

// cutFile makes copied the file that is left of f.
func cutFile(f, copied *memFile, r *rand.Rand) {
	size := f.deviceSize
	if r != nil && int64(len(f.data)) != size && r.IntN(2) == 0 {
		size = int64(len(f.data))
	}
	if r != nil {
		var now memPage
		for page := int64(0); page*PageSize < min(size, int64(len(f.data))); page++ {
			f.load(page, &now)
			if old := f.durable(page); now != *old {
				copied.device[page] = cutPage(old, now, r)
			}
		}
	}
	if r == nil || r.IntN(2) == 0 {
		copied.blocks = slices.Clone(f.durBlocks)
	}
	copied.deviceSize = size
	copied.data = make([]byte, size)
	for page, bytes := range copied.device {
		if start := page * PageSize; start < size {
			n := copy(copied.data[start:], bytes[:])
			if n < PageSize {
				// The file ends inside this page: what the device has behind the end is never seen again.
				short := new(memPage)
				copy(short[:], bytes[:n])
				copied.device[page] = short
			}
		} else {
			delete(copied.device, page)
		}
	}
}

// cutPage decides what is left of an unsynced page: the old bytes, the new ones, or a mixture by sectors.
func cutPage(old *memPage, now memPage, r *rand.Rand) *memPage {
	switch r.IntN(3) {
	case 0:
		return old
	case 1:
		return &now
	}
	for at := 0; at < PageSize; at += sectorSize {
		if r.IntN(2) == 0 {
			copy(now[at:at+sectorSize], old[at:])
		}
	}
	return &now
}

// cloner copies a tree of nodes; a file with two names stays one file. It goes by sorted names, so that a seed means something.
type cloner struct {
	copies   map[node]node
	fillDir  func(c *cloner, d, copied *memDir)
	fillFile func(f, copied *memFile)
}

func (x *FaultFS) clone(fillDir func(c *cloner, d, copied *memDir), fillFile func(f, copied *memFile)) *FaultFS {
	x.mu.Lock()
	defer x.mu.Unlock()
	y := NewFaultFS()
	y.clock, y.capacity, y.foreign, y.boot = x.clock, x.capacity, x.foreign, x.boot
	c := &cloner{copies: map[node]node{}, fillDir: fillDir, fillFile: fillFile}
	y.root = c.node(x.root).(*memDir)
	y.countLinks(y.root)
	return y
}

func (c *cloner) entries(from map[string]node) map[string]node {
	to := make(map[string]node, len(from))
	for _, name := range slices.Sorted(maps.Keys(from)) {
		to[name] = c.node(from[name])
	}
	return to
}

func (c *cloner) node(n node) node {
	if copied, done := c.copies[n]; done || n == nil {
		return copied
	}
	switch n := n.(type) {
	case *memDir:
		copied := newMemDir()
		c.copies[n] = copied
		c.fillDir(c, n, copied)
		return copied
	case *memFile:
		copied := &memFile{device: maps.Clone(n.device), deviceSize: n.deviceSize,
			blocks: slices.Clone(n.blocks), durBlocks: slices.Clone(n.durBlocks), modTime: n.modTime}
		c.copies[n] = copied
		c.fillFile(n, copied)
		return copied
	}
	panic("BUG: unknown kind of node")
}

// countLinks counts the names of each file of a clone, and the blocks of files that have one.
func (x *FaultFS) countLinks(d *memDir) {
	for _, n := range d.entries {
		switch n := n.(type) {
		case *memDir:
			x.countLinks(n)
		case *memFile:
			if n.links++; n.links == 1 {
				x.adoptBlocks(n)
			}
		}
	}
}

// adoptBlocks counts the blocks of a cloned file: those it had, no more than its size, and those of pages with content.
func (x *FaultFS) adoptBlocks(f *memFile) {
	capacity := x.capacity
	x.capacity = 0 // what is on the disk has its room
	for i := range f.blocks {
		for page := int64(i) << 6; page < int64(i+1)<<6; page++ {
			if f.hasBlock(page) {
				x.blocks++
			}
		}
	}
	x.freeBlocks(f, (int64(len(f.data))+PageSize-1)/PageSize)
	for page := range f.device {
		x.takeBlock(f, page)
	}
	x.capacity = capacity
}

// CheckSpace returns an error that names a page with content but without blocks: somebody stored into a mapping where nothing
// was allocated, which a full disk punishes with SIGBUS.
func (x *FaultFS) CheckSpace() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return checkSpace("", x.root)
}

func checkSpace(path string, d *memDir) error {
	for _, name := range slices.Sorted(maps.Keys(d.entries)) {
		switch n := d.entries[name].(type) {
		case *memDir:
			if err := checkSpace(path+"/"+name, n); err != nil {
				return err
			}
		case *memFile:
			var now memPage
			for page := int64(0); page*PageSize < int64(len(n.data)); page++ {
				if n.hasBlock(page) {
					continue
				}
				if n.load(page, &now); now != zeroPage {
					return fmt.Errorf("%s/%s: bytes at %d were stored through a mapping without allocated space", path, name, page*PageSize)
				}
			}
		}
	}
	return nil
}
