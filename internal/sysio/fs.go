package sysio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"
)

// FS is a file system. Paths are those of package os. Errors are *fs.PathError (or *os.LinkError) and answer to errors.Is with
// fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and the syscall numbers.
type FS interface {
	// OpenFile opens path with the flags of package os (O_RDONLY, O_RDWR, O_CREATE, O_EXCL, O_TRUNC; not O_APPEND). A name that
	// this call created is durable only after SyncDir of its directory.
	OpenFile(path string, flag int, perm fs.FileMode) (File, error)
	// Remove deletes a file or an empty directory. Open files and mappings of it stay usable. Durable after SyncDir.
	Remove(path string) error
	// Rename replaces to by from in one step: whoever looks finds the old file or the new one. It syncs nothing: sync the
	// content before and the directory behind.
	Rename(from, to string) error
	// Link gives the file a second name. Not every file system can (errors.ErrUnsupported, EPERM). Durable after SyncDir.
	Link(from, to string) error
	// MkdirAll makes path and its missing parents. Durable after SyncDir of each parent that got a new entry.
	MkdirAll(path string, perm fs.FileMode) error
	// ReadDir returns the entries of a directory, sorted by name. An entry that vanishes during the call is left out.
	ReadDir(path string) ([]Info, error)
	// Stat follows symbolic links.
	Stat(path string) (Info, error)
	// CopyRights gives the file to the mode of from, and its owner and group if this process may.
	CopyRights(from, to string) error
	// SyncDir makes the names in this directory durable (not the ones in its sub-directories and not the files' content).
	SyncDir(path string) error
	// DiskUsage returns the space of the partition that holds path.
	DiskUsage(path string) (Usage, error)
	// Lock takes the exclusive lock on byte 0 of the file, which it creates when missing, and does not wait: a holder elsewhere
	// gives a *LockedError. The lock lives until Close or the end of the process, whatever happens to other descriptors of the
	// file, so the caller may open the same path and write into it. The file stays when the lock is released.
	Lock(path string) (io.Closer, error)
}

// File is an open file. Offsets and lengths are bytes.
type File interface {
	// Name returns the path that was given to OpenFile.
	Name() string
	// ReadAt is io.ReaderAt (pread): io.EOF at the end, never a short read without an error.
	ReadAt(p []byte, off int64) (int, error)
	// ReadCachedAt reads what is in the page cache and never waits for the device: n < len(p) says that the rest is not there, or
	// cannot be had this way. The kernel may begin to read ahead what is missing, which takes the caller some 0.1 ms. It allocates nothing.
	ReadCachedAt(p []byte, off int64) (n int)
	// WriteAt is io.WriterAt (pwrite). With an error the first n bytes are written. Durable after Datasync or Sync.
	WriteAt(p []byte, off int64) (int, error)
	// Pwritev writes the parts one behind the other from off on, in one system call as long as there are at most IovecMax
	// parts and the kernel takes all. The parts are borrowed until it returns and not changed. No allocation up to 8 parts.
	// With an error the first n bytes are written. Durable after Datasync or Sync.
	Pwritev(parts [][]byte, off int64) (int, error)
	// Truncate sets the size. New bytes are zero and have no disk blocks: Allocate before mapping them.
	Truncate(size int64) error
	// Allocate gives [off, off+n) disk blocks and raises the size to off+n if it was smaller, so that a later write into the
	// mapping of the range cannot meet a full disk (which would be SIGBUS, and the end of the process). Bytes already there
	// keep their value. Nobody else may write into the range meanwhile. No space gives an error for which IsNoSpace is true;
	// a part of the range may have its blocks then.
	//
	// Where the file system cannot preallocate, zeros are written page by page. Not in large writes: these make the page
	// cache use large folios, and a mapped write of 256 B later dirtied and wrote back a folio of 1 MiB as a whole.
	Allocate(off, n int64) error
	// Datasync is fdatasync: everything written to this file before the call began is durable when it returns nil, with the
	// size. On a file with a mapped and pre-touched window it also writes the whole dirty window: use Mapping.SyncRange there.
	Datasync() error
	// Sync is fsync: Datasync, and times and mode too.
	Sync() error
	// AdviseRandom tells the kernel that ReadAt of this descriptor comes at random: it reads nothing ahead. A hint only.
	AdviseRandom() error
	// Size returns the current length.
	Size() (int64, error)
	// Map maps [0, length) shared, readable, and writable if the file was opened for writing. The length must be positive and
	// not beyond the size: a page without a file behind it is SIGBUS. The mapping outlives Close of the file.
	Map(length int64) (Mapping, error)
	// Close gives the descriptor back. It makes nothing durable. The second Close returns an error.
	Close() error
}

// Mapping is a shared mapping of the beginning of a file. Offsets and lengths are bytes within it; a range outside of it
// gives ErrRange and has no effect.
type Mapping interface {
	// Bytes returns the mapped bytes: the same slice with each call, nil after Unmap. A slice that was taken before Unmap must
	// not be touched after it (the process would die). Writes are seen by ReadAt of every process at once and survive
	// kill -9; they are durable after SyncRange, or after Datasync of the file.
	Bytes() []byte
	// SyncRange is msync(MS_SYNC) of exactly the pages that hold [off, off+n): what was written there before the call began is
	// durable when it returns nil, with the file's size. It allocates nothing.
	SyncRange(off, n int64) error
	// Populate makes the pages of [off, off+n) present and writable (MADV_POPULATE_WRITE, else one harmless write per page), so
	// that the first write to them costs no page fault. It changes no byte, but the pages are dirty afterwards and the kernel
	// writes them once more: keep the range small. The range must have been allocated.
	Populate(off, n int64) error
	// AdviseRandom tells the kernel that [off, off+n) is touched at random: it brings in nothing around a page. A hint only.
	AdviseRandom(off, n int64) error
	// BoundReadAhead makes a page of [off, off+n) that is not in memory bring in at most 2 MiB, however much the device reads ahead:
	// zeroing 8 MiB that were allocated and never written takes up to 15 ms in which the kernel lets nobody else run. A hint only.
	BoundReadAhead(off, n int64) error
	// Forget takes the pages from the one that holds off to the last one that ends by off+n out of the mapping (MADV_DONTNEED): no
	// byte is lost, the next access finds them in the page cache and costs a page fault. A hint only.
	Forget(off, n int64) error
	// Lock keeps [off, off+n) in memory until Unlock or Unmap (mlock; bounded by RLIMIT_MEMLOCK).
	Lock(off, n int64) error
	Unlock(off, n int64) error
	// Unmap ends the mapping. It makes nothing durable, and loses nothing either: dirty pages stay in the page cache.
	Unmap() error
}

// Info describes a directory entry or a file.
type Info struct {
	Name    string // last element of the path
	Size    int64  // bytes; 0 for directories
	Dir     bool
	ModTime time.Time
}

// Usage is the space of a partition in bytes.
type Usage struct {
	Total  int64
	Used   int64
	Usable int64 // what an unprivileged process may still take; Used+Usable < Total where blocks are reserved for root
}

// UsedPercent returns the used share in percent of what this process could use at most, rounded up: 90.1 % is 91, as the
// original's disk levels count (DefaultMessageStore, UtilAll.getDiskPartitionSpaceUsedPercent, 5.5.0). 0 when nothing is known.
func (u Usage) UsedPercent() int {
	all := u.Used + u.Usable
	if all <= 0 || u.Used <= 0 {
		return 0
	}
	// Whole percents first, then the rest, so that no product overflows on exabyte file systems.
	percent := u.Used / all * 100
	rest := u.Used % all
	for all > 1<<52 {
		all >>= 1
		rest >>= 1
	}
	return int(percent + (rest*100+all-1)/all)
}

var (
	// ErrLocked is what errors.Is finds in a *LockedError.
	ErrLocked = errors.New("locked by another process")
	// ErrRange says that offset and length do not lie in the mapping or file.
	ErrRange = errors.New("range outside of the mapping")
	// ErrTooLarge says that a file is longer than WholeFileMax.
	ErrTooLarge = errors.New("file too large to be read whole")
)

// LockedError says that somebody else holds the lock.
type LockedError struct {
	Path string
	PID  int // the holder's process id where the kernel tells it (a Java broker on the same machine), else 0
}

func (e *LockedError) Error() string {
	if e.PID > 0 {
		return fmt.Sprintf("lock %s: held by process %d", e.Path, e.PID)
	}
	return fmt.Sprintf("lock %s: held by another process", e.Path)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// IsNoSpace reports whether err says that the disk, or the quota of the user, is full.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
