package sysio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Suffixes of the two companions of a state file. The .bak is the original's; nothing reads a .tmp.
const (
	backupSuffix = ".bak"
	tempSuffix   = ".tmp"
)

// AtomicWriteFile replaces the content of path. When it returns nil the new content is durable; whenever the power goes, path
// holds the old content or the new one. With keepBackup the previous content, if it was not empty, is kept as path.bak in
// the same crash-safe way. The directory must exist. Two calls for one path must not overlap.
//
// The original renames path to path.bak and then writes path in place (MixAll.string2File, 5.5.0), so that a crash leaves no
// path at all or half of one.
func AtomicWriteFile(fsys FS, path string, data []byte, keepBackup bool) error {
	temp := path + tempSuffix
	if err := writeSynced(fsys, temp, data); err != nil {
		return err
	}
	if keepBackup {
		if err := backUp(fsys, path); err != nil {
			return fmt.Errorf("keep the previous %s: %w", filepath.Base(path), err)
		}
	}
	if err := fsys.Rename(temp, path); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// backUp makes path.bak another name of the file at path, which is complete and durable already and never written in place. A
// file system without hard links gets a copy.
func backUp(fsys FS, path string) error {
	info, err := fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && info.Size == 0) {
		return nil // an empty file is the wreck of somebody's crash: the backup at hand is worth more
	}
	if err != nil {
		return err
	}
	temp := path + backupSuffix + tempSuffix
	if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if fsys.Link(path, temp) != nil {
		data, err := ReadFile(fsys, path)
		if err != nil {
			return err
		}
		if err := writeSynced(fsys, temp, data); err != nil {
			return err
		}
	}
	return fsys.Rename(temp, path+backupSuffix)
}

func writeSynced(fsys FS, path string, data []byte) error {
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// ReadFile returns the whole content of a file of at most WholeFileMax bytes.
func ReadFile(fsys FS, path string) ([]byte, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > WholeFileMax {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%d bytes, at most %d: %w", size, int64(WholeFileMax), ErrTooLarge)}
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return data[:n], nil
}

// Source says which copy of a state file was used.
type Source uint8

const (
	SourceNone   Source = iota // neither copy exists, or the file is unusable and has no backup
	SourceMain                 // the file itself
	SourceBackup               // its .bak
)

func (s Source) String() string {
	switch s {
	case SourceMain:
		return "file"
	case SourceBackup:
		return "backup"
	}
	return "none"
}

// Loaded is the outcome of ReadFileWithBackup.
type Loaded struct {
	Data   []byte // nil with SourceNone; owned by the caller
	Source Source
	// MainErr says why the file itself was not used (fs.ErrNotExist, ErrEmpty, what valid said); nil with SourceMain.
	MainErr error
}

// ErrEmpty says that a state file has no content, as after a crash of a writer that works in place.
var ErrEmpty = errors.New("file is empty")

// ReadFileWithBackup reads a state file, or its .bak when the file is missing, empty, unreadable or refused by valid (nil
// accepts all). Neither there: no error, SourceNone. The file broken and no .bak: no error, SourceNone and MainErr, as the
// original starts with empty state then; the caller should warn. An unusable .bak where it is needed is an error, for
// starting empty would forget what an operator can still save. Nothing is changed on disk.
func ReadFileWithBackup(fsys FS, path string, valid func([]byte) error) (Loaded, error) {
	data, err := readValid(fsys, path, valid)
	if err == nil {
		return Loaded{Data: data, Source: SourceMain}, nil
	}
	backup, berr := readValid(fsys, path+backupSuffix, valid)
	switch {
	case berr == nil:
		return Loaded{Data: backup, Source: SourceBackup, MainErr: err}, nil
	case errors.Is(berr, fs.ErrNotExist):
		return Loaded{MainErr: err}, nil
	}
	return Loaded{MainErr: err}, fmt.Errorf("%s is not usable (%w) and neither is its backup: %w", path, err, berr)
}

func readValid(fsys FS, path string, valid func([]byte) error) ([]byte, error) {
	data, err := ReadFile(fsys, path)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrEmpty}
	}
	if valid != nil {
		if err := valid(data); err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
	}
	return data, nil
}
