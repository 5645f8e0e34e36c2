package repair

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// A unit of a queue, frozen by the original: size 2147483647 keeps a queue offset occupied.
const (
	unitBytes    = 20
	preBlankSize = 1<<31 - 1
)

// folder holds one folder for each run.
const folder = "peregrine.repair"

// Applied says what Apply did.
type Applied struct {
	Folder string // where what was replaced is kept; "" when nothing was
	Filled int    // fillers and end-of-file marks written
	Moved  int    // files of queues and index moved away
}

// Apply carries the plan out, as far as the start that follows does not do it. Nobody else may work on the directory. begin is
// called when everything that will be replaced is kept, before the first change (store.Options.Prepare).
func (p *Plan) Apply(begin func() error) (Applied, error) {
	if p.NeedsFill {
		return Applied{}, ErrNeedsFill
	}
	a := &applier{fs: p.dir.FS(), p: p, root: filepath.Clean(p.dir.Root), buf: make([]byte, copyBytes)}
	err := a.keepBytes()
	if err == nil {
		err = begin()
	}
	for _, f := range p.Short {
		if err == nil {
			err = a.setLength(f.Path, p.dir.SegmentBytes)
		}
	}
	if err == nil && p.fill {
		err = a.fill()
	}
	if err == nil {
		err = a.moveAway()
	}
	if err != nil {
		err = fmt.Errorf("repair: %w", err)
	}
	return a.done, err
}

type applier struct {
	fs   sysio.FS
	p    *Plan
	root string
	buf  []byte
	made map[string]bool // folders, durable
	done Applied
}

// keepBytes writes the damaged bytes into files of their own, and syncs them.
func (a *applier) keepBytes() error {
	for i := range a.p.Places {
		if place := &a.p.Places[i]; a.p.fill && len(place.Fills) > 0 {
			if err := a.keepPlace(place); err != nil {
				return err
			}
		}
	}
	if a.p.Tail.Bytes > 0 {
		if err := a.keepPlace(&a.p.Tail); err != nil {
			return err
		}
	}
	if a.done.Folder == "" {
		return nil
	}
	return a.fs.SyncDir(filepath.Join(a.done.Folder, "commitlog"))
}

func (a *applier) keepPlace(place *Place) error {
	dir, err := a.under("commitlog")
	if err != nil {
		return err
	}
	f := a.p.dir.LogFile(place.Phy)
	return a.copy(f.Path, place.At, place.Bytes, filepath.Join(dir, fmt.Sprintf("%020d", place.Phy)))
}

// under makes a folder in that of this run, which gets a number that no run had before.
func (a *applier) under(names ...string) (string, error) {
	if a.done.Folder == "" {
		for n := 1; ; n++ {
			dir := filepath.Join(a.root, folder, fmt.Sprintf("%04d", n))
			if _, err := a.fs.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				a.done.Folder = dir
				break
			} else if err != nil {
				return "", err
			}
			if n == runsMax {
				return "", fmt.Errorf("%s holds %d runs: take them elsewhere", filepath.Join(a.root, folder), runsMax)
			}
		}
		a.made = map[string]bool{a.root: true}
	}
	dir := filepath.Join(append([]string{a.done.Folder}, names...)...)
	return dir, a.makeDir(dir)
}

// makeDir makes a folder with a durable name.
func (a *applier) makeDir(dir string) error {
	if a.made[dir] {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := a.makeDir(parent); err != nil {
		return err
	}
	if err := a.fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	a.made[dir] = true
	return a.fs.SyncDir(parent)
}

// copy makes a synced copy of a part of a file. What is zero stays a hole.
func (a *applier) copy(from string, at, n int64, to string) error {
	in, err := a.fs.OpenFile(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := a.fs.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = out.Truncate(n)
	for done := int64(0); done < n && err == nil; {
		b := a.buf[:min(n-done, copyBytes)]
		var m int
		m, err = in.ReadAt(b, at+done)
		if err == io.EOF { // a short last file
			clear(b[m:])
			err = nil
		}
		if err == nil && !allZero(b) {
			_, err = out.WriteAt(b, done)
		}
		done += int64(len(b))
	}
	if err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// fill writes into the log and syncs it.
func (a *applier) fill() error {
	var file sysio.File
	var path string
	end := func() error {
		if file == nil {
			return nil
		}
		err := file.Datasync()
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		file = nil
		return err
	}
	for i := range a.p.Places {
		place := &a.p.Places[i]
		f := a.p.dir.LogFile(place.Phy)
		if len(place.Fills) > 0 && (file == nil || f.Path != path) {
			if err := end(); err != nil {
				return err
			}
			var err error
			if file, err = a.fs.OpenFile(f.Path, os.O_RDWR, 0); err != nil {
				return err
			}
			path = f.Path
		}
		for k := range place.Fills {
			if _, err := file.WriteAt(place.bytes(&place.Fills[k]), int64(place.Fills[k].Phy)-f.Start); err != nil {
				return errors.Join(err, end())
			}
			a.done.Filled++
		}
	}
	return end()
}

// bytes is what is written for a fill.
func (p *Place) bytes(f *Fill) []byte {
	if f.EndMark {
		return message.AppendBlank(nil, f.Bytes)
	}
	filler := message.Filler{Topic: f.Topic, QueueID: f.Queue, QueueOffset: f.Offset, PhyOffset: f.Phy, StoreTime: p.storeTime,
		Size: int(f.Bytes), PropertyCRC: p.propertyCRC}
	return filler.Encode()
}

// moveAway moves the files of queues and index that are made again.
func (a *applier) moveAway() error {
	for i := range a.p.Queues {
		q := &a.p.Queues[i]
		if q.InPlace != "" {
			if err := errors.Join(a.mendLengths(q), a.closeHoles(q)); err != nil {
				return err
			}
			continue
		}
		names := []string{"consumequeue", q.Topic, strconv.Itoa(int(q.Queue))}
		paths := make([]string, 0, len(q.dir.Files))
		for _, f := range q.dir.Files {
			paths = append(paths, f.Path)
		}
		if err := a.moveFiles(paths, names...); err != nil {
			return err
		}
	}
	paths := make([]string, 0, len(a.p.Index))
	for _, f := range a.p.Index {
		paths = append(paths, f.Path)
	}
	return a.moveFiles(paths, "index")
}

// moveFiles moves the files of one folder, from the newest on: a cut in between leaves the beginning of a queue, not a part of it
// that begins elsewhere.
func (a *applier) moveFiles(paths []string, names ...string) error {
	if len(paths) == 0 {
		return nil
	}
	dir, err := a.under(names...)
	if err != nil {
		return err
	}
	for i := len(paths) - 1; i >= 0; i-- {
		to := filepath.Join(dir, filepath.Base(paths[i]))
		if a.fs.Rename(paths[i], to) != nil { // between file systems, say
			info, err := a.fs.Stat(paths[i])
			if err == nil {
				err = a.copy(paths[i], 0, info.Size, to)
			}
			if err == nil {
				err = a.fs.SyncDir(dir)
			}
			if err == nil {
				err = a.fs.Remove(paths[i])
			}
			if err != nil {
				return err
			}
		}
		a.done.Moved++
	}
	if err := a.fs.SyncDir(dir); err != nil {
		return err
	}
	return a.fs.SyncDir(filepath.Dir(paths[0]))
}

// mendLengths gives the files of a queue that stay in their place the length that they must have. What they were is kept.
func (a *applier) mendLengths(q *QueueRepair) error {
	for _, f := range q.dir.Files {
		if f.Size == a.p.dir.QueueFileBytes {
			continue
		}
		dir, err := a.under("consumequeue", q.Topic, strconv.Itoa(int(q.Queue)))
		if err == nil {
			err = a.copy(f.Path, 0, f.Size, filepath.Join(dir, filepath.Base(f.Path)))
		}
		if err == nil {
			err = a.fs.SyncDir(dir)
		}
		if err != nil {
			return err
		}
		if err := a.setLength(f.Path, a.p.dir.QueueFileBytes); err != nil {
			return err
		}
	}
	return nil
}

// setLength gives a file its length, durably.
func (a *applier) setLength(path string, n int64) error {
	file, err := a.fs.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err = file.Truncate(n); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// closeHoles makes empty units of a queue whose files stay keep their places: a start takes the first one for the queue's end, and
// would give out the offsets behind it again.
func (a *applier) closeHoles(q *QueueRepair) error {
	for i, f := range q.dir.Files {
		if i > 0 && f.Start != q.dir.Files[i-1].Start+a.p.dir.QueueFileBytes || f.Start >= int64(q.kept)*unitBytes {
			return nil
		}
		file, err := a.fs.OpenFile(f.Path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		err = a.closeHolesIn(file, min(a.p.dir.QueueFileBytes, int64(q.kept)*unitBytes-f.Start))
		if err == nil {
			err = file.Datasync()
		}
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) closeHolesIn(file sysio.File, n int64) error {
	for at := int64(0); at < n; {
		b := a.buf[:min(n-at, copyBytes/unitBytes*unitBytes)]
		m, err := file.ReadAt(b, at)
		if err != nil && err != io.EOF {
			return err
		}
		clear(b[m:])
		holes := false
		for u := b; len(u) > 0; u = u[unitBytes:] {
			if int64(binary.BigEndian.Uint64(u)) < 0 || int32(binary.BigEndian.Uint32(u[8:])) <= 0 {
				clear(u[:unitBytes])
				binary.BigEndian.PutUint32(u[8:], preBlankSize)
				holes = true
			}
		}
		if holes {
			if _, err := file.WriteAt(b, at); err != nil {
				return err
			}
		}
		at += int64(len(b))
	}
	return nil
}
