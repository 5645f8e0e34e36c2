package sysio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Suffixes of the two companions of a state file. The .bak is the original's; nothing reads a .tmp.
const (
	backupSuffix = ".bak"
	tempSuffix   = ".tmp"
)

// AtomicWriteFile replaces the content of path. When it returns nil the new content is durable; whenever the power goes, path
// holds the old content or the new one. With keepBackup the previous content, if it was not empty, is kept as path.bak in
// the same crash-safe way. Mode and, where this process may set them, owner and group stay what they were. The directory must
// exist. Two calls for one path must not overlap.
//
// The original renames path to path.bak and then writes path in place (MixAll.string2File, 5.5.0), so that a crash leaves no
// path at all or half of one.
func AtomicWriteFile(fsys FS, path string, data []byte, keepBackup bool) error {
	temp := path + tempSuffix
	if err := writeSynced(fsys, temp, data, path); err != nil {
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
		if err := writeSynced(fsys, temp, data, path); err != nil {
			return err
		}
	}
	return fsys.Rename(temp, path+backupSuffix)
}

// writeSynced makes path a durable file with that content. Where there is a file model, nobody may open the new one who may not
// open that, at no moment.
func writeSynced(fsys FS, path string, data []byte, model string) error {
	perm := fs.FileMode(0o644)
	_, err := fsys.Stat(model)
	known := err == nil
	if known {
		perm = 0o600
	}
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	if known {
		err = fsys.CopyRights(model, path)
	}
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
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
	SourceNone   Source = iota // neither copy can be used
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
	// MainErr and BackupErr say why the file and its .bak were not used (fs.ErrNotExist, ErrEmpty, what valid said). MainErr is
	// nil with SourceMain; BackupErr is set with SourceNone only, else the .bak was not asked or is what was used.
	MainErr, BackupErr error
}

// ErrEmpty says that a state file has no content, as after a crash of a writer that works in place.
var ErrEmpty = errors.New("file is empty")

// ReadFileWithBackup reads a state file, or its .bak when the file is missing, empty, unreadable or refused by valid (nil
// accepts all). Nothing is changed on disk. What it means that neither can be used is for the caller to say: a content that is
// wrong is no reason to stay down, an access that failed may be.
func ReadFileWithBackup(fsys FS, path string, valid func([]byte) error) Loaded {
	data, err := readValid(fsys, path, valid)
	if err == nil {
		return Loaded{Data: data, Source: SourceMain}
	}
	backup, berr := readValid(fsys, path+backupSuffix, valid)
	if berr == nil {
		return Loaded{Data: backup, Source: SourceBackup, MainErr: err}
	}
	return Loaded{MainErr: err, BackupErr: berr}
}

// IsUnreadable tells an access that failed from a content that is wrong, or that is not there.
func IsUnreadable(err error) bool {
	var number syscall.Errno
	return errors.As(err, &number) && number != syscall.ENOENT || errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrTooLarge)
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
