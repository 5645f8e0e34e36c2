// Package statefile reads and writes the JSON files of the store's config folder (topics.json, subscriptionGroup.json,
// consumerOffset.json …) the way that RocketMQ's ConfigManager (5.5.0 and 4.9.4) lays them out, so that a directory moves
// between the brokers.
//
// What it guarantees: a file is replaced as a whole and durably, the previous content stays beside it as .bak; nothing is
// written before the file was read (case S17: a periodic save overwrote what had not been loaded); a damaged file is never
// thrown away, it is kept as .damaged when the first good save replaces it; keys that this version does not know survive.
//
// Saves of one file are serialised and grouped: a caller whose change went to disk with somebody else's save does not write
// again. Every function does file I/O except the ones about text: no event loop may call them.
package statefile

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"

	"peregrine/internal/sysio"
)

const damagedSuffix = ".damaged"

// ErrNotLoaded says that a save was refused because the file was not read before.
var ErrNotLoaded = errors.New("state file was not loaded, so it is not overwritten")

// File is one state file.
type File struct {
	fsys   sysio.FS
	path   string
	logger *slog.Logger

	mu sync.Mutex // outermost lock of its owner's save: held during file I/O

	// Guarded by mu.
	loaded  bool
	damaged bool   // the main file could not be used: the next save moves it away and leaves the .bak alone
	saved   uint64 // generation of the owner's state that is on disk
}

// New names a state file. Nothing is read or written yet; the directory must exist before the first Save.
func New(fsys sysio.FS, path string, logger *slog.Logger) *File {
	return &File{fsys: fsys, path: path, logger: logger}
}

// Path returns the name of the main file.
func (f *File) Path() string { return f.path }

// Load hands the content to parse: the main file's, or the .bak's when the main file is missing, empty or refused by parse.
// parse may run twice, so it must build a new state each time. found is false when there was nothing to read: the owner
// then starts with empty state. An error means that a file is there and cannot be used (or not be read): the owner must not
// start.
func (f *File) Load(parse func([]byte) error) (found bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// sysio asks "valid?" last for the copy that it returns, so what parse built last belongs to the data in use.
	loaded, err := sysio.ReadFileWithBackup(f.fsys, f.path, parse)
	if err != nil {
		return false, fmt.Errorf("load %s: %w", filepath.Base(f.path), err)
	}
	switch {
	case loaded.Source == sysio.SourceMain:
	case loaded.MainErr == nil || errors.Is(loaded.MainErr, fs.ErrNotExist):
		if loaded.Source == sysio.SourceBackup {
			f.logger.Warn("state file is missing, its backup is used", "file", f.path+".bak")
		}
	case isUnreadable(loaded.MainErr):
		// Not a broken content but a broken access: the file may be perfect, so nothing may replace it.
		return false, fmt.Errorf("load %s: %w", filepath.Base(f.path), loaded.MainErr)
	default:
		f.damaged = true
		f.logger.Warn("state file is damaged", "file", f.path, "used instead", loaded.Source.String(), "cause", loaded.MainErr)
	}
	f.loaded = true
	return loaded.Source != sysio.SourceNone, nil
}

// isUnreadable tells an access that failed from a content that is wrong.
func isUnreadable(err error) bool {
	var number syscall.Errno
	return errors.As(err, &number) || errors.Is(err, fs.ErrPermission) || errors.Is(err, sysio.ErrTooLarge)
}

// Save makes the state of at least generation want durable. encode is called at most once, under the file's own lock, and
// returns the content with the generation that it shows; it is not called when a save by somebody else covered want.
func (f *File) Save(want uint64, encode func() (data []byte, generation uint64)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.loaded {
		return fmt.Errorf("save %s: %w", filepath.Base(f.path), ErrNotLoaded)
	}
	if f.saved >= want {
		return nil
	}
	data, generation := encode()
	if f.damaged {
		if err := f.fsys.Rename(f.path, f.path+damagedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep the damaged %s: %w", filepath.Base(f.path), err)
		}
		f.damaged = false
	}
	if err := sysio.AtomicWriteFile(f.fsys, f.path, data, true); err != nil {
		return fmt.Errorf("save %s: %w", f.path, err)
	}
	f.saved = generation
	return nil
}
