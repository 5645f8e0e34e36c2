package sysio

import (
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// osMapping is a mapping of a real file. mu makes Unmap wait for calls that are inside: msync of an address range that
// belongs to something else by now would sync, or lock into memory, the wrong thing.
type osMapping struct {
	mu       sync.RWMutex // data
	path     string
	data     []byte // nil after Unmap
	writable bool
}

func (m *osMapping) Bytes() []byte {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.data
}

// osPageSize is the page of this kernel; system calls on ranges want addresses aligned to it.
var osPageSize = int64(os.Getpagesize())

// pages returns the pages of the mapping that hold [off, off+n). The caller holds mu.
func (m *osMapping) pages(op string, off, n int64) ([]byte, error) {
	if m.data == nil {
		return nil, &fs.PathError{Op: op, Path: m.path, Err: fs.ErrClosed}
	}
	if off < 0 || n < 0 || off > int64(len(m.data)) || n > int64(len(m.data))-off {
		return nil, &fs.PathError{Op: op, Path: m.path, Err: ErrRange}
	}
	if n == 0 {
		return nil, nil
	}
	// The end needs no rounding: the kernel takes the whole last page.
	return m.data[off&^(osPageSize-1) : off+n], nil
}

// SyncRange implements Mapping.
// hot: 0 allocs, one msync
func (m *osMapping) SyncRange(off, n int64) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	b, err := m.pages("msync", off, n)
	if err != nil || len(b) == 0 {
		return err
	}
	for {
		err := unix.Msync(b, unix.MS_SYNC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "msync", Path: m.path, Err: err}
		}
		return nil
	}
}

// Populate implements Mapping.
func (m *osMapping) Populate(off, n int64) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	b, err := m.pages("populate", off, n)
	if err != nil || len(b) == 0 {
		return err
	}
	if !m.writable {
		return &fs.PathError{Op: "populate", Path: m.path, Err: fs.ErrPermission}
	}
	err = retryEINTR(func() error { return populateWrite(b) })
	if err == unix.EINVAL || err == unix.ENOSYS {
		touch(b)
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "populate", Path: m.path, Err: err}
	}
	return nil
}

// touch writes to each page without changing a byte. The addition of 0 is one locked instruction, so a write of somebody
// else to the same word is not undone. b begins at a page border of the mapping, so the words are aligned.
func touch(b []byte) {
	for i := int64(0); i < int64(len(b)); i += osPageSize {
		if int64(len(b))-i >= 4 {
			atomic.AddUint32((*uint32)(unsafe.Pointer(&b[i])), 0)
		} else {
			// The mapping ends with a page of which less than a word belongs to the file: the rest of the page is mapped too.
			atomic.AddUint32((*uint32)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)), 0)
		}
	}
}

func (m *osMapping) AdviseRandom(off, n int64) error {
	return m.onPages("madvise", off, n, func(b []byte) error { return unix.Madvise(b, unix.MADV_RANDOM) })
}

func (m *osMapping) BoundReadAhead(off, n int64) error {
	return m.onPages("madvise", off, n, func(b []byte) error { return boundReadAhead(m.path, b) })
}

// Forget implements Mapping.
// hot: 0 allocs, at most one madvise
func (m *osMapping) Forget(off, n int64) error {
	return m.onPages("madvise", off, n, func(b []byte) error {
		whole := int64(len(b)) &^ (osPageSize - 1)
		if whole == 0 {
			return nil
		}
		return unix.Madvise(b[:whole], unix.MADV_DONTNEED)
	})
}

func (m *osMapping) Lock(off, n int64) error { return m.onPages("mlock", off, n, unix.Mlock) }

func (m *osMapping) Unlock(off, n int64) error { return m.onPages("munlock", off, n, unix.Munlock) }

func (m *osMapping) onPages(op string, off, n int64, call func([]byte) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	b, err := m.pages(op, off, n)
	if err != nil || len(b) == 0 {
		return err
	}
	if err := retryEINTR(func() error { return call(b) }); err != nil {
		return &fs.PathError{Op: op, Path: m.path, Err: err}
	}
	return nil
}

func (m *osMapping) Unmap() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data == nil {
		return &fs.PathError{Op: "munmap", Path: m.path, Err: fs.ErrClosed}
	}
	err := unix.Munmap(m.data)
	m.data = nil
	if err != nil {
		return &fs.PathError{Op: "munmap", Path: m.path, Err: err}
	}
	return nil
}
