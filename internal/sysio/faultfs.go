package sysio

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// FaultFS is a file system in memory that fails, blocks, lies, fills up and loses power on request. Tests of the store, of
// group commit and of recovery run on it.
//
// # The machine it models
//
// There are two levels. The cache is what every process sees: ReadAt, WriteAt and the bytes of mappings are the same memory,
// as with a unified page cache. The device is what survives a power cut. Only syncs copy from the cache to the device.
//
//	event                what is left
//	Kill (kill -9)       the cache as it is, half-finished copies into mappings included; locks are gone
//	PowerCut             the device, and of what was not synced what the seed lets through, see below
//
// A power cut decides for each unit on its own:
//   - an unsynced page of 4096 bytes: lost (the device's bytes), written, or torn: each of its 8 sectors of 512 bytes lost or
//     written. Sectors are atomic. Pages written later may survive pages written earlier. Bytes that were overwritten twice
//     since the last sync show the first or the last version, never one in between;
//   - an unsynced change of a file's size: lost or done. Bytes that come to light this way are what the device has: zeros;
//   - blocks that Allocate gave since the last sync of the file: all lost or all there;
//   - unsynced changes of a directory (create, rename, remove, link, mkdir): a prefix of them, per directory. A rename is one
//     change. Syncing a file does not make its name durable; SyncDir does;
//   - synced bytes, sizes and names: always there. A removed file whose removal is lost is there with its last device bytes.
//
// # Syncs
//
// A sync copies the pages as they are at its beginning, so that nothing written while it is under way counts as durable.
// SyncRange copies the pages of its range, Sync and Datasync all pages of the file; each makes the size durable.
//   - failing (Fault.Err): nothing reaches the device, and the pages count as clean afterwards, as on Linux: a later sync that
//     succeeds does not write them, until WriteAt, Pwritev or Populate touches them or their bytes change;
//   - slow (Fault.Gate): takes its copy, waits for the test, then finishes;
//   - lying (Fault.Lie): returns nil and copies nothing, like a disk that acknowledges from a volatile cache.
//
// # Space
//
// Pages get blocks by Allocate and by WriteAt; both fail with ENOSPC when SetCapacity is reached, WriteAt after writing what
// fitted. PunchHole and a shorter Truncate give blocks back; a longer Truncate takes none. Storing through a mapping into a page without blocks cannot be refused here; CheckSpace
// finds it afterwards, for on a full disk it would have been the end of the process.
//
// # Not modelled
//
// Permissions, symbolic links, renames between directories (EXDEV), growth of a file beyond its capacity while it is mapped
// (an error here, legal on Linux), reading errors of single sectors (use Fault with OpRead), bit rot.
type FaultFS struct {
	mu       sync.Mutex // everything below, and all memDir and memFile
	root     *memDir
	clock    func() time.Time
	capacity int64 // bytes; 0 = no limit
	foreign  int64 // bytes used by files of others
	blocks   int64 // pages with blocks
	locked   map[*memFile]bool
	faults   []*armedFault
	observer func(Event)
	files    int // open File values
	mappings int // live Mapping values
	boot     int // power cuts so far
}

var _ FS = (*FaultFS)(nil)

// faultTotal is the size of the partition that DiskUsage reports while no capacity is set.
const faultTotal = int64(1) << 40

// NewFaultFS returns an empty file system without faults. Relative and absolute paths begin at the same root.
func NewFaultFS() *FaultFS {
	return &FaultFS{root: newMemDir(), clock: time.Now, locked: map[*memFile]bool{}}
}

// SetClock sets where modification times come from.
func (x *FaultFS) SetClock(now func() time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.clock = now
}

// SetCapacity sets the size of the partition in bytes, 0 for no limit; foreign bytes of it are used by somebody else.
func (x *FaultFS) SetCapacity(capacity, foreign int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.capacity, x.foreign = capacity, foreign
}

// Open returns how many files and mappings are open, for leak checks.
func (x *FaultFS) Open() (files, mappings int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.files, x.mappings
}

// node is a *memDir or a *memFile.
type node interface{}

// dirChange is one entry set (or removed, with a nil node). The changes of one operation survive together or not at all.
type dirChange struct {
	name string
	node node
}

type memDir struct {
	entries map[string]node // what processes see
	durable map[string]node // what the device has
	pending [][]dirChange   // operations since the last SyncDir, oldest first
}

func newMemDir() *memDir {
	return &memDir{entries: map[string]node{}, durable: map[string]node{}}
}

func (d *memDir) apply(changes ...dirChange) {
	d.pending = append(d.pending, changes)
	applyChanges(d.entries, changes)
}

func applyChanges(entries map[string]node, changes []dirChange) {
	for _, c := range changes {
		if c.node == nil {
			delete(entries, c.name)
		} else {
			entries[c.name] = c.node
		}
	}
}

func splitPath(path string) []string {
	clean := strings.Trim(filepath.ToSlash(filepath.Clean(path)), "/")
	if clean == "" || clean == "." {
		return nil
	}
	return strings.Split(clean, "/")
}

// lookup walks to path. The caller holds mu.
func (x *FaultFS) lookup(path string) (node, error) {
	var n node = x.root
	for _, name := range splitPath(path) {
		d, ok := n.(*memDir)
		if !ok {
			return nil, syscall.ENOTDIR
		}
		if n, ok = d.entries[name]; !ok {
			return nil, syscall.ENOENT
		}
	}
	return n, nil
}

// parent returns the directory of path and the last name of it.
func (x *FaultFS) parent(path string) (*memDir, string, error) {
	names := splitPath(path)
	if len(names) == 0 {
		return nil, "", syscall.EINVAL
	}
	n, err := x.lookup(strings.Join(names[:len(names)-1], "/"))
	if err != nil {
		return nil, "", err
	}
	d, ok := n.(*memDir)
	if !ok {
		return nil, "", syscall.ENOTDIR
	}
	return d, names[len(names)-1], nil
}

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// OpenFile implements FS.
func (x *FaultFS) OpenFile(path string, flag int, _ fs.FileMode) (File, error) {
	call := x.begin(OpOpen, path, 0, 0)
	f, err := x.openFile(path, flag, call)
	if err = call.end(pathError("open", path, err)); err != nil {
		return nil, err
	}
	return f, nil
}

func (x *FaultFS) openFile(path string, flag int, call *faultCall) (File, error) {
	if err := call.err(); err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	f, err := x.fileAt(path, flag)
	if err != nil {
		return nil, err
	}
	writable := flag&(os.O_RDWR|os.O_WRONLY) != 0
	if flag&os.O_TRUNC != 0 && writable {
		if err := x.setSize(f, 0); err != nil {
			return nil, err
		}
	}
	f.handles++
	x.files++
	return &faultFile{fs: x, path: path, file: f, writable: writable}, nil
}

// fileAt finds the file, or creates it if the flags say so. The caller holds mu.
func (x *FaultFS) fileAt(path string, flag int) (*memFile, error) {
	dir, name, err := x.parent(path)
	if err != nil {
		return nil, err
	}
	n, exists := dir.entries[name]
	if !exists {
		if flag&os.O_CREATE == 0 {
			return nil, syscall.ENOENT
		}
		f := &memFile{links: 1, modTime: x.clock(), device: map[int64]*memPage{}}
		dir.apply(dirChange{name, f})
		return f, nil
	}
	if flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0 {
		return nil, syscall.EEXIST
	}
	f, ok := n.(*memFile)
	if !ok {
		return nil, syscall.EISDIR
	}
	return f, nil
}

// Remove implements FS.
func (x *FaultFS) Remove(path string) error {
	call := x.begin(OpRemove, path, 0, 0)
	err := call.err()
	if err == nil {
		err = x.remove(path)
	}
	return call.end(pathError("remove", path, err))
}

func (x *FaultFS) remove(path string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	dir, name, err := x.parent(path)
	if err != nil {
		return err
	}
	switch n := dir.entries[name].(type) {
	case nil:
		return syscall.ENOENT
	case *memDir:
		if len(n.entries) > 0 {
			return syscall.ENOTEMPTY
		}
	case *memFile:
		n.links--
		defer x.freeIfUnused(n)
	}
	dir.apply(dirChange{name, nil})
	return nil
}

// CopyRights implements FS: nobody has rights here.
func (x *FaultFS) CopyRights(string, string) error { return nil }

// Rename implements FS.
func (x *FaultFS) Rename(from, to string) error {
	call := x.begin(OpRename, from, 0, 0, to)
	err := call.err()
	if err == nil {
		err = x.rename(from, to)
	}
	if err != nil {
		err = &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return call.end(err)
}

func (x *FaultFS) rename(from, to string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	dir, name, err := x.parent(from)
	if err != nil {
		return err
	}
	toDir, toName, err := x.parent(to)
	if err != nil {
		return err
	}
	n, ok := dir.entries[name]
	if !ok {
		return syscall.ENOENT
	}
	if dir != toDir {
		return syscall.EXDEV
	}
	old := dir.entries[toName]
	if _, isDir := old.(*memDir); isDir {
		return syscall.EEXIST // what package os says, whatever would be moved
	}
	if old == n {
		return nil // two names of one file: POSIX leaves both
	}
	if _, isDir := n.(*memDir); isDir && old != nil {
		return syscall.ENOTDIR
	}
	dir.apply(dirChange{name, nil}, dirChange{toName, n})
	if f, ok := old.(*memFile); ok {
		f.links--
		x.freeIfUnused(f)
	}
	return nil
}

// Link implements FS.
func (x *FaultFS) Link(from, to string) error {
	call := x.begin(OpLink, from, 0, 0, to)
	err := call.err()
	if err == nil {
		err = x.link(from, to)
	}
	if err != nil {
		err = &os.LinkError{Op: "link", Old: from, New: to, Err: err}
	}
	return call.end(err)
}

func (x *FaultFS) link(from, to string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	n, err := x.lookup(from)
	if err != nil {
		return err
	}
	dir, name, err := x.parent(to)
	if err != nil {
		return err
	}
	if _, exists := dir.entries[name]; exists {
		return syscall.EEXIST
	}
	f, ok := n.(*memFile)
	if !ok {
		return syscall.EPERM
	}
	f.links++
	dir.apply(dirChange{name, f})
	return nil
}

// MkdirAll implements FS.
func (x *FaultFS) MkdirAll(path string, _ fs.FileMode) error {
	call := x.begin(OpMkdir, path, 0, 0)
	err := call.err()
	if err == nil {
		err = x.mkdirAll(path)
	}
	return call.end(pathError("mkdir", path, err))
}

func (x *FaultFS) mkdirAll(path string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	dir := x.root
	for _, name := range splitPath(path) {
		switch n := dir.entries[name].(type) {
		case *memDir:
			dir = n
		case nil:
			made := newMemDir()
			dir.apply(dirChange{name, made})
			dir = made
		default:
			return syscall.ENOTDIR
		}
	}
	return nil
}

// ReadDir implements FS.
func (x *FaultFS) ReadDir(path string) ([]Info, error) {
	call := x.begin(OpReadDir, path, 0, 0)
	infos, err := x.readDir(path, call)
	return infos, call.end(pathError("readdir", path, err))
}

func (x *FaultFS) readDir(path string, call *faultCall) ([]Info, error) {
	if err := call.err(); err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	n, err := x.lookup(path)
	if err != nil {
		return nil, err
	}
	d, ok := n.(*memDir)
	if !ok {
		return nil, syscall.ENOTDIR
	}
	infos := make([]Info, 0, len(d.entries))
	for name, n := range d.entries {
		infos = append(infos, nodeInfo(name, n))
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

func nodeInfo(name string, n node) Info {
	if f, ok := n.(*memFile); ok {
		return Info{Name: name, Size: int64(len(f.data)), ModTime: f.modTime}
	}
	return Info{Name: name, Dir: true}
}

// Stat implements FS.
func (x *FaultFS) Stat(path string) (Info, error) {
	call := x.begin(OpStat, path, 0, 0)
	info, err := x.stat(path, call)
	return info, call.end(pathError("stat", path, err))
}

func (x *FaultFS) stat(path string, call *faultCall) (Info, error) {
	if err := call.err(); err != nil {
		return Info{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	n, err := x.lookup(path)
	if err != nil {
		return Info{}, err
	}
	return nodeInfo(filepath.Base(path), n), nil
}

// SyncDir implements FS.
func (x *FaultFS) SyncDir(path string) error {
	call := x.begin(OpSyncDir, path, 0, 0)
	return call.end(pathError("syncdir", path, x.syncDir(path, call)))
}

func (x *FaultFS) syncDir(path string, call *faultCall) error {
	x.mu.Lock()
	n, err := x.lookup(path)
	if err != nil {
		x.mu.Unlock()
		return err
	}
	d, ok := n.(*memDir)
	if !ok {
		x.mu.Unlock()
		return syscall.ENOTDIR
	}
	covered := len(d.pending) // what comes while a gate holds the call is not covered
	x.mu.Unlock()
	if err := call.err(); err != nil || call.lies() {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, op := range d.pending[:min(covered, len(d.pending))] {
		applyChanges(d.durable, op)
	}
	d.pending = d.pending[min(covered, len(d.pending)):]
	return nil
}

// DiskUsage implements FS.
func (x *FaultFS) DiskUsage(path string) (Usage, error) {
	call := x.begin(OpUsage, path, 0, 0)
	err := call.err()
	x.mu.Lock()
	total := x.capacity
	if total == 0 {
		total = faultTotal
	}
	used := x.foreign + x.blocks*PageSize
	x.mu.Unlock()
	if err = call.end(pathError("statfs", path, err)); err != nil {
		return Usage{}, err
	}
	return Usage{Total: total, Used: used, Usable: max(total-used, 0)}, nil
}

// Lock implements FS.
func (x *FaultFS) Lock(path string) (io.Closer, error) {
	call := x.begin(OpLock, path, 0, 0)
	l, err := x.lock(path, call)
	if err = call.end(err); err != nil {
		return nil, err
	}
	return l, nil
}

func (x *FaultFS) lock(path string, call *faultCall) (io.Closer, error) {
	if err := call.err(); err != nil {
		return nil, pathError("lock", path, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	f, err := x.fileAt(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, pathError("lock", path, err)
	}
	if x.locked[f] {
		return nil, &LockedError{Path: path}
	}
	x.locked[f] = true
	return &faultLock{fs: x, file: f}, nil
}

type faultLock struct {
	fs   *FaultFS
	file *memFile
}

func (l *faultLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.file == nil {
		return fs.ErrClosed
	}
	delete(l.fs.locked, l.file)
	l.file = nil
	return nil
}
