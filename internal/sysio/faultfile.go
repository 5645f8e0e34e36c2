package sysio

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"slices"
	"syscall"
	"time"
	"unsafe"
)

// memPage is a page of the device. It is never changed once stored, so clones share pages.
type memPage [PageSize]byte

// memFile is a file of a FaultFS, guarded by FaultFS.mu, except that the owners of mappings read and write data without it.
type memFile struct {
	data       []byte             // the cache; its length is the file's size
	device     map[int64]*memPage // durable pages by number; a missing one is zeros
	deviceSize int64
	lost       map[int64]*memPage // pages that a failed sync left clean, with the bytes they had
	blocks     []uint64           // bit set of pages with blocks
	durBlocks  []uint64           // the same as of the last sync
	links      int                // names
	handles    int                // open File values
	mappings   int                // live Mapping values
	modTime    time.Time
}

func (f *memFile) hasBlock(page int64) bool {
	return page>>6 < int64(len(f.blocks)) && f.blocks[page>>6]&(1<<(page&63)) != 0
}

// takeBlock gives the page a block, or says that the disk is full. The caller holds mu.
func (x *FaultFS) takeBlock(f *memFile, page int64) error {
	if f.hasBlock(page) {
		return nil
	}
	if x.capacity > 0 && x.foreign+(x.blocks+1)*PageSize > x.capacity {
		return syscall.ENOSPC
	}
	for page>>6 >= int64(len(f.blocks)) {
		f.blocks = append(f.blocks, 0)
	}
	f.blocks[page>>6] |= 1 << (page & 63)
	x.blocks++
	return nil
}

// freeBlock takes the block of one page. The caller holds mu.
func (x *FaultFS) freeBlock(f *memFile, page int64) {
	if f.hasBlock(page) {
		f.blocks[page>>6] &^= 1 << (page & 63)
		x.blocks--
	}
}

// freeBlocks takes the blocks of all pages from the given one on. The caller holds mu.
func (x *FaultFS) freeBlocks(f *memFile, from int64) {
	for i := range f.blocks {
		keep := uint64(0)
		if first := int64(i) << 6; first+64 <= from {
			continue
		} else if first < from {
			keep = 1<<(from-first) - 1
		}
		x.blocks -= int64(bits.OnesCount64(f.blocks[i] &^ keep))
		f.blocks[i] &= keep
	}
}

// freeIfUnused gives back the blocks of a file that has no name and no user. The caller holds mu.
func (x *FaultFS) freeIfUnused(f *memFile) {
	if f.links == 0 && f.handles == 0 && f.mappings == 0 {
		x.freeBlocks(f, 0)
	}
}

// setSize changes the length of the cache. The caller holds mu.
func (x *FaultFS) setSize(f *memFile, size int64) error {
	old := int64(len(f.data))
	switch {
	case size < 0:
		return syscall.EINVAL
	case size > faultFileMax:
		return syscall.EFBIG
	case size <= old:
		clear(f.data[size:])
		f.data = f.data[:size]
		firstGone := (size + PageSize - 1) / PageSize
		x.freeBlocks(f, firstGone)
		for page := range f.lost {
			if page >= firstGone {
				delete(f.lost, page)
			}
		}
	case size <= int64(cap(f.data)):
		f.data = f.data[:size]
	case f.mappings > 0:
		return fmt.Errorf("fault file system: file grows from %d to %d bytes while it is mapped: %w", old, size, syscall.EINVAL)
	default:
		// Files that grow write by write get room ahead; a jump (Truncate, Allocate of a whole segment) is taken as it is.
		grown := make([]byte, size, max(size, min(2*old, old+1<<20)))
		copy(grown, f.data)
		f.data = grown
	}
	f.modTime = x.clock()
	return nil
}

// faultFile is an open file. closed and file are guarded by fs.mu.
type faultFile struct {
	fs       *FaultFS
	path     string
	file     *memFile
	writable bool
	closed   bool
}

func (h *faultFile) Name() string { return h.path }

// check returns why the handle cannot be used. The caller holds fs.mu.
func (h *faultFile) check(write bool) error {
	if h.closed {
		return fs.ErrClosed
	}
	if write && !h.writable {
		return syscall.EBADF
	}
	return nil
}

// run does one operation on the file: the injected fault first, then do under the lock.
func (h *faultFile) run(op Op, off, n int64, do func() error) error {
	call := h.fs.begin(op, h.path, off, n)
	err := call.err()
	if err == nil {
		h.fs.mu.Lock()
		if err = h.check(op&(OpWrite|OpTruncate|OpAllocate|OpPunch) != 0); err == nil {
			err = do()
		}
		h.fs.mu.Unlock()
	}
	if err == io.EOF {
		call.end(nil)
		return io.EOF
	}
	return call.end(pathError(op.String(), h.path, err))
}

func (h *faultFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = h.run(OpRead, off, int64(len(p)), func() error {
		if off < 0 {
			return syscall.EINVAL
		}
		if off < int64(len(h.file.data)) {
			n = copy(p, h.file.data[off:])
		}
		if n < len(p) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

func (h *faultFile) WriteAt(p []byte, off int64) (int, error) { return h.Pwritev([][]byte{p}, off) }

func (h *faultFile) Pwritev(parts [][]byte, off int64) (int, error) {
	total := 0
	for _, p := range parts {
		total += len(p)
	}
	call := h.fs.begin(OpWrite, h.path, off, int64(total))
	fault := call.err()
	if fault != nil {
		total = min(total, call.short())
	}
	n := 0
	h.fs.mu.Lock()
	err := h.check(true)
	if off < 0 {
		err = syscall.EINVAL
	}
	for _, p := range parts {
		if err != nil || n >= total {
			break
		}
		var done int
		done, err = h.fs.write(h.file, p[:min(len(p), total-n)], off+int64(n))
		n += done
	}
	h.fs.mu.Unlock()
	if err == nil {
		err = fault
	}
	return n, call.end(pathError("write", h.path, err))
}

// write puts p into the cache, page by page while there are blocks. The caller holds mu.
func (x *FaultFS) write(f *memFile, p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		pos := off + int64(n)
		step := min(nextPage(pos)-pos, int64(len(p)-n))
		if err := x.takeBlock(f, pos/PageSize); err != nil {
			return n, err
		}
		if pos+step > int64(len(f.data)) {
			if err := x.setSize(f, pos+step); err != nil {
				return n, err
			}
		}
		copy(f.data[pos:], p[n:n+int(step)])
		delete(f.lost, pos/PageSize)
		n += int(step)
	}
	f.modTime = x.clock()
	return n, nil
}

func (h *faultFile) Truncate(size int64) error {
	return h.run(OpTruncate, 0, size, func() error { return h.fs.setSize(h.file, size) })
}

func (h *faultFile) Allocate(off, n int64) error {
	return h.run(OpAllocate, off, n, func() error {
		if off < 0 || n <= 0 || off+n < off {
			return ErrRange
		}
		if off+n > faultFileMax {
			return syscall.EFBIG
		}
		for page := off / PageSize; page*PageSize < off+n; page++ {
			if err := h.fs.takeBlock(h.file, page); err != nil {
				return err
			}
		}
		if off+n > int64(len(h.file.data)) {
			return h.fs.setSize(h.file, off+n)
		}
		return nil
	})
}

// PunchHole zeroes the range and gives back the blocks of the pages that lie in it as a whole, as the method of real files does.
func (h *faultFile) PunchHole(off, n int64) error {
	return h.run(OpPunch, off, n, func() error {
		if off < 0 || n <= 0 || off+n < off {
			return ErrRange
		}
		end := min(off+n, int64(len(h.file.data)))
		if off >= end {
			return nil
		}
		clear(h.file.data[off:end])
		for page := off / PageSize; page*PageSize < end; page++ {
			delete(h.file.lost, page)
			if page*PageSize >= off && (page+1)*PageSize <= off+n {
				h.fs.freeBlock(h.file, page)
			}
		}
		h.file.modTime = h.fs.clock()
		return nil
	})
}

// NextData is the method of real files: pages without blocks hold nothing, nor do those that were never written.
func (h *faultFile) NextData(off int64) (int64, error) {
	at := off
	err := h.run(OpSeek, off, 0, func() error {
		if off < 0 {
			return ErrRange
		}
		for size := int64(len(h.file.data)); at < size && h.file.data[at] == 0; {
			if page := h.file.data[at:min(at+PageSize, size)]; bytes.Equal(page, zeroPage[:len(page)]) {
				at += int64(len(page))
			} else {
				at++
			}
		}
		return nil
	})
	return at, err
}

// ReadCachedAt finds nothing in memory: every read is one that can fail and wait.
func (h *faultFile) ReadCachedAt([]byte, int64) int { return 0 }

func (h *faultFile) Datasync() error { return h.sync(OpDatasync) }

func (h *faultFile) AdviseRandom() error {
	call := h.fs.begin(OpAdvise, h.path, 0, 0)
	return call.end(pathError("fadvise", h.path, call.err()))
}

func (h *faultFile) Sync() error { return h.sync(OpSync) }

func (h *faultFile) sync(op Op) error {
	call := h.fs.begin(op, h.path, 0, 0)
	h.fs.mu.Lock()
	err := h.check(false)
	h.fs.mu.Unlock()
	if err == nil {
		err = h.fs.syncPages(h.file, 0, faultFileMax, call)
	}
	return call.end(pathError(op.String(), h.path, err))
}

// syncPages is the sync of [off, off+n): see the fault model.
func (x *FaultFS) syncPages(f *memFile, off, n int64, call *faultCall) error {
	x.mu.Lock()
	size, blocks := int64(len(f.data)), slices.Clone(f.blocks)
	dirty := f.dirtyPages(off, min(n, size-off))
	x.mu.Unlock()
	err := call.err() // waits at the gate
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case err != nil:
		if f.lost == nil {
			f.lost = map[int64]*memPage{}
		}
		for page, bytes := range dirty {
			f.lost[page] = bytes
		}
	case !call.lies():
		for page, bytes := range dirty {
			f.device[page] = bytes
			delete(f.lost, page)
		}
		if size < f.deviceSize {
			for page := range f.device {
				if page*PageSize >= size {
					delete(f.device, page)
				}
			}
		}
		f.deviceSize = size
		f.durBlocks = append(f.durBlocks[:0], blocks...)
	}
	return err
}

// dirtyPages returns copies of the pages of [off, off+n) that differ from the device and that a failed sync has not marked
// clean. The caller holds mu.
func (f *memFile) dirtyPages(off, n int64) map[int64]*memPage {
	dirty := map[int64]*memPage{}
	var now memPage
	for page := off / PageSize; page*PageSize < off+n; page++ {
		f.load(page, &now)
		if now == *f.durable(page) {
			continue
		}
		if lost := f.lost[page]; lost != nil && *lost == now {
			continue
		}
		copied := now
		dirty[page] = &copied
	}
	return dirty
}

var zeroPage memPage

func (f *memFile) durable(page int64) *memPage {
	if p := f.device[page]; p != nil {
		return p
	}
	return &zeroPage
}

// load copies a page of the cache; behind the end of the file it is zeros.
func (f *memFile) load(page int64, p *memPage) {
	n := 0
	if start := page * PageSize; start < int64(len(f.data)) {
		n = int(min(PageSize, int64(len(f.data))-start))
		copyShared(p[:], f.data[start:start+int64(n)])
	}
	clear(p[n:])
}

// copyShared copies bytes that the owner of a mapping may be writing at this moment, as the kernel does when it writes a page
// back. What it gets of such bytes is arbitrary, per 8 bytes; no test can rely on them. The race detector is told to look
// away because the very point is to copy without the writer's consent.
//
//go:norace
func copyShared(dst, src []byte) {
	n := min(len(dst), len(src))
	if n == 0 {
		return
	}
	d, s := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src))
	i := 0
	for ; i+8 <= n; i += 8 {
		*(*uint64)(unsafe.Add(d, i)) = *(*uint64)(unsafe.Add(s, i))
	}
	for ; i < n; i++ {
		*(*byte)(unsafe.Add(d, i)) = *(*byte)(unsafe.Add(s, i))
	}
}

func (h *faultFile) Size() (int64, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.check(false); err != nil {
		return 0, pathError("stat", h.path, err)
	}
	return int64(len(h.file.data)), nil
}

func (h *faultFile) Map(length int64) (Mapping, error) {
	var m *faultMapping
	err := h.run(OpMap, 0, length, func() error {
		if length <= 0 || length > int64(len(h.file.data)) {
			return fmt.Errorf("length %d, file has %d bytes: %w", length, len(h.file.data), ErrRange)
		}
		h.file.mappings++
		h.fs.mappings++
		m = &faultMapping{fs: h.fs, path: h.path, file: h.file, data: h.file.data[:length:length], writable: h.writable}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (h *faultFile) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return pathError("close", h.path, fs.ErrClosed)
	}
	h.closed = true
	h.fs.files--
	h.file.handles--
	h.fs.freeIfUnused(h.file)
	return nil
}

// faultMapping shares the cache of its file. data is guarded by fs.mu; the bytes are the owner's.
type faultMapping struct {
	fs       *FaultFS
	path     string
	file     *memFile
	data     []byte
	writable bool
}

func (m *faultMapping) Bytes() []byte {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	return m.data
}

// check validates a range. The caller holds fs.mu.
func (m *faultMapping) check(off, n int64) error {
	if m.data == nil {
		return fs.ErrClosed
	}
	if off < 0 || n < 0 || off > int64(len(m.data)) || n > int64(len(m.data))-off {
		return ErrRange
	}
	return nil
}

func (m *faultMapping) SyncRange(off, n int64) error {
	call := m.fs.begin(OpSyncRange, m.path, off, n)
	m.fs.mu.Lock()
	err := m.check(off, n)
	m.fs.mu.Unlock()
	if err == nil {
		err = m.fs.syncPages(m.file, off, n, call)
	}
	return call.end(pathError("msync", m.path, err))
}

func (m *faultMapping) Populate(off, n int64) error {
	call := m.fs.begin(OpPopulate, m.path, off, n)
	err := call.err()
	if err == nil {
		m.fs.mu.Lock()
		if err = m.check(off, n); err == nil && !m.writable {
			err = fs.ErrPermission
		}
		if err == nil {
			for page := off / PageSize; page*PageSize < off+n && err == nil; page++ {
				if !m.file.hasBlock(page) {
					err = fmt.Errorf("page %d was never allocated: %w", page, syscall.EFAULT)
				}
				delete(m.file.lost, page)
			}
		}
		m.fs.mu.Unlock()
	}
	return call.end(pathError("populate", m.path, err))
}

func (m *faultMapping) AdviseRandom(off, n int64) error { return m.hint(off, n) }

func (m *faultMapping) BoundReadAhead(off, n int64) error { return m.hint(off, n) }

func (m *faultMapping) Forget(off, n int64) error { return m.hint(off, n) }

func (m *faultMapping) Lock(off, n int64) error { return m.memLock(OpMemLock, off, n) }

func (m *faultMapping) Unlock(off, n int64) error { return m.memLock(OpMemUnlock, off, n) }

func (m *faultMapping) memLock(op Op, off, n int64) error {
	call := m.fs.begin(op, m.path, off, n)
	err := call.err()
	if err == nil {
		err = m.hint(off, n)
	}
	return call.end(pathError(op.String(), m.path, err))
}

func (m *faultMapping) hint(off, n int64) error {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	return pathError("madvise", m.path, m.check(off, n))
}

func (m *faultMapping) Unmap() error {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	if m.data == nil {
		return pathError("munmap", m.path, fs.ErrClosed)
	}
	m.data = nil
	m.fs.mappings--
	m.file.mappings--
	m.fs.freeIfUnused(m.file)
	return nil
}
