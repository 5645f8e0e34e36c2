package sysio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// OS is the file system of the machine. Its zero value is ready.
type OS struct{}

var _ FS = OS{}

// OpenFile implements FS.
func (OS) OpenFile(path string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f, fd: int(f.Fd()), writable: flag&(os.O_RDWR|os.O_WRONLY) != 0}, nil
}

// BootID is the function of that name: what the page cache holds lasts as long as the boot.
func (OS) BootID() (string, error) { return BootID() }

// Remove implements FS.
func (OS) Remove(path string) error { return os.Remove(path) }

// Rename implements FS.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Link implements FS.
func (OS) Link(from, to string) error { return os.Link(from, to) }

// MkdirAll implements FS.
func (OS) MkdirAll(path string, perm fs.FileMode) error { return os.MkdirAll(path, perm) }

// ReadDir implements FS.
func (OS) ReadDir(path string) ([]Info, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(entries))
	for _, e := range entries {
		// Stat and not Lstat, so that a linked segment counts with the size of its target.
		fi, err := os.Stat(filepath.Join(path, e.Name()))
		if err != nil {
			if fi, err = os.Lstat(filepath.Join(path, e.Name())); err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				return nil, err
			}
		}
		info := infoOf(fi)
		info.Name = e.Name()
		infos = append(infos, info)
	}
	return infos, nil
}

// Stat implements FS.
func (OS) Stat(path string) (Info, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return Info{}, err
	}
	return infoOf(fi), nil
}

func infoOf(fi fs.FileInfo) Info {
	info := Info{Name: fi.Name(), Size: fi.Size(), Dir: fi.IsDir(), ModTime: fi.ModTime()}
	if info.Dir {
		info.Size = 0
	}
	return info
}

// CopyRights implements FS.
func (OS) CopyRights(from, to string) error {
	fi, err := os.Stat(from)
	if err != nil {
		return err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		if err := os.Chown(to, int(st.Uid), int(st.Gid)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return os.Chmod(to, fi.Mode().Perm())
}

// SyncDir implements FS.
func (OS) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) {
		// Some network and FUSE file systems cannot sync a directory; there names are durable at once or never.
		err = nil
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// DiskUsage implements FS.
func (OS) DiskUsage(path string) (Usage, error) {
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(path, &st) }); err != nil {
		return Usage{}, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	unit := statfsUnit(&st)
	return Usage{
		Total:  int64(st.Blocks) * unit,
		Used:   int64(st.Blocks-st.Bfree) * unit,
		Usable: int64(st.Bavail) * unit,
	}, nil
}

// Lock implements FS.
func (OS) Lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lockByte0(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// osFile keeps the descriptor beside the os.File for the calls that package os does not have. mu makes Close wait for them:
// a sync on a closed number could reach a socket that got the same number.
type osFile struct {
	mu       sync.RWMutex // closed
	f        *os.File
	fd       int
	closed   bool
	writable bool
}

func (o *osFile) Name() string { return o.f.Name() }

func (o *osFile) ReadAt(p []byte, off int64) (int, error) { return o.f.ReadAt(p, off) }

// ReadCachedAt implements File.
// hot: 0 allocs, one preadv2
func (o *osFile) ReadCachedAt(p []byte, off int64) int {
	if o.acquire("preadv2") != nil {
		return 0
	}
	defer o.release()
	n, err := readCached(o.fd, p, off)
	if err != nil {
		return 0
	}
	return n
}

func (o *osFile) WriteAt(p []byte, off int64) (int, error) { return o.f.WriteAt(p, off) }

func (o *osFile) Truncate(size int64) error { return o.f.Truncate(size) }

func (o *osFile) Sync() error { return o.f.Sync() }

func (o *osFile) AdviseRandom() error {
	if err := o.acquire("fadvise"); err != nil {
		return err
	}
	defer o.release()
	if err := retryEINTR(func() error { return adviseRandom(o.fd) }); err != nil {
		return o.fail("fadvise", err)
	}
	return nil
}

// acquire holds the descriptor open until release.
func (o *osFile) acquire(op string) error {
	o.mu.RLock()
	if o.closed {
		o.mu.RUnlock()
		return o.fail(op, fs.ErrClosed)
	}
	return nil
}

func (o *osFile) release() { o.mu.RUnlock() }

func (o *osFile) fail(op string, err error) error {
	return &fs.PathError{Op: op, Path: o.f.Name(), Err: err}
}

func (o *osFile) Pwritev(parts [][]byte, off int64) (int, error) {
	if err := o.acquire("pwritev"); err != nil {
		return 0, err
	}
	defer o.release()
	written := 0
	for len(parts) > 0 {
		chunk := parts[:min(len(parts), IovecMax)]
		want := 0
		for _, p := range chunk {
			want += len(p)
		}
		n, err := unix.Pwritev(o.fd, chunk, off+int64(written))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return written, o.fail("pwritev", err)
		}
		if n < want {
			// The kernel took a part (signal, quota, limit of 2 GiB): pwrite finishes this chunk, and finds the cause if there
			// is one. The caller's slice headers stay as they are.
			rest, err := o.writeRest(chunk, n, off+int64(written))
			if err != nil {
				return written + rest, err
			}
		}
		written += want
		parts = parts[len(chunk):]
	}
	return written, nil
}

// writeRest writes what follows the first done bytes of the parts. It returns how many bytes are written of all.
func (o *osFile) writeRest(parts [][]byte, done int, off int64) (int, error) {
	at := 0
	for _, p := range parts {
		if skip := max(done-at, 0); skip < len(p) {
			n, err := o.f.WriteAt(p[skip:], off+int64(at+skip))
			if err != nil {
				return at + skip + n, err
			}
		}
		at += len(p)
	}
	return at, nil
}

func (o *osFile) Allocate(off, n int64) error {
	if off < 0 || n <= 0 || off+n < off {
		return o.fail("allocate", ErrRange)
	}
	if err := o.acquire("allocate"); err != nil {
		return err
	}
	defer o.release()
	err := retryEINTR(func() error { return preallocate(o.fd, off, n) })
	if errors.Is(err, errors.ErrUnsupported) {
		return allocateByWriting(o.f, off, n)
	}
	if err != nil {
		return o.fail("allocate", err)
	}
	return nil
}

// allocateByWriting is Allocate for file systems without fallocate. Up to the present size a page gets its block by writing
// back one zero byte that is there already; behind it zeros are written, one page with each call (see Allocate).
func allocateByWriting(f interface {
	ReadAt([]byte, int64) (int, error)
	WriteAt([]byte, int64) (int, error)
	Stat() (fs.FileInfo, error)
}, off, n int64) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	size, end := fi.Size(), off+n
	var one [1]byte
	pos := off
	for pos < min(size, end) {
		if _, err := f.ReadAt(one[:], pos); err != nil {
			return err
		}
		if one[0] == 0 {
			if _, err := f.WriteAt(one[:], pos); err != nil {
				return err
			}
		}
		pos = nextPage(pos)
	}
	var zeros [PageSize]byte
	for pos = max(off, size); pos < end; {
		step := min(nextPage(pos), end) - pos
		if _, err := f.WriteAt(zeros[:step], pos); err != nil {
			return err
		}
		pos += step
	}
	return nil
}

func nextPage(off int64) int64 { return off&^(PageSize-1) + PageSize }

func (o *osFile) Datasync() error {
	if err := o.acquire("fdatasync"); err != nil {
		return err
	}
	defer o.release()
	for {
		err := datasync(o.fd)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return o.fail("fdatasync", err)
		}
		return nil
	}
}

func (o *osFile) Size() (int64, error) {
	fi, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

func (o *osFile) Map(length int64) (Mapping, error) {
	size, err := o.Size()
	if err != nil {
		return nil, err
	}
	if length <= 0 || length > size || int64(int(length)) != length {
		return nil, o.fail("mmap", fmt.Errorf("length %d, file has %d bytes: %w", length, size, ErrRange))
	}
	if err := o.acquire("mmap"); err != nil {
		return nil, err
	}
	defer o.release()
	prot := unix.PROT_READ
	if o.writable {
		prot |= unix.PROT_WRITE
	}
	data, err := unix.Mmap(o.fd, 0, int(length), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, o.fail("mmap", err)
	}
	return &osMapping{path: o.f.Name(), data: data, writable: o.writable}, nil
}

func (o *osFile) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	return o.f.Close()
}

// retryEINTR repeats a call that a signal interrupted; the Go runtime sends itself some (preemption).
func retryEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
