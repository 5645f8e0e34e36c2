// Package statefile reads and writes the JSON files of the store's config folder (topics.json, subscriptionGroup.json,
// consumerOffset.json …) the way that RocketMQ's ConfigManager (5.5.0 and 4.9.4) lays them out, so that a directory moves
// between the brokers.
//
// What it guarantees: a file is replaced as a whole and durably, the previous content stays beside it as .bak; nothing is
// written before the file was read (case S17: a periodic save overwrote what had not been loaded); a damaged file or backup is never
// thrown away, it is kept as .damaged when the first good save comes; keys that this version does not know survive.
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

	"peregrine/internal/sysio"
)

const (
	backupSuffix  = ".bak" // of sysio.AtomicWriteFile
	damagedSuffix = ".damaged"
)

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
	damaged []string // what could not be used: the next save moves it away, so that no save writes over it
	saved   uint64   // generation of the owner's state that is on disk
}

// New names a state file. Nothing is read or written yet; the directory must exist before the first Save.
func New(fsys sysio.FS, path string, logger *slog.Logger) *File {
	return &File{fsys: fsys, path: path, logger: logger}
}

// Path returns the name of the main file.
func (f *File) Path() string { return f.path }

// Load hands the content to parse: the main file's, or the .bak's when the main file is missing, empty or refused by parse.
// parse may run twice, so it must build a new state each time. It says which one was used: with SourceBackup the newest change may
// be missing; with SourceNone there was nothing to read, and the owner starts with empty state or with what others know.
// What was damaged is named in the log and kept. An error means that a file is there and cannot be read: it may be perfect, so the
// owner must not start.
func (f *File) Load(parse func([]byte) error) (sysio.Source, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// sysio asks "valid?" last for the copy that it returns, so what parse built last belongs to the data in use.
	loaded := sysio.ReadFileWithBackup(f.fsys, f.path, parse)
	for _, err := range []error{loaded.MainErr, loaded.BackupErr} {
		if sysio.IsUnreadable(err) {
			return sysio.SourceNone, fmt.Errorf("load %s: %w", filepath.Base(f.path), err)
		}
	}
	used := loaded.Source.String()
	if loaded.MainErr != nil && !errors.Is(loaded.MainErr, fs.ErrNotExist) {
		f.damaged = append(f.damaged, f.path)
		f.logger.Warn("state file is damaged", "file", f.path, "used instead", used, "cause", loaded.MainErr)
	} else if loaded.Source == sysio.SourceBackup {
		f.logger.Warn("state file is missing, its backup is used", "file", f.path, "backup", f.path+backupSuffix)
	}
	if loaded.BackupErr != nil && !errors.Is(loaded.BackupErr, fs.ErrNotExist) {
		f.damaged = append(f.damaged, f.path+backupSuffix)
		f.logger.Warn("state file is damaged", "file", f.path+backupSuffix, "used instead", used, "cause", loaded.BackupErr)
	}
	f.loaded = true
	return loaded.Source, nil
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
	for len(f.damaged) > 0 {
		path := f.damaged[0]
		if err := f.fsys.Rename(path, path+damagedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep the damaged %s: %w", filepath.Base(path), err)
		}
		f.damaged = f.damaged[1:]
	}
	if err := sysio.AtomicWriteFile(f.fsys, f.path, data, true); err != nil {
		return fmt.Errorf("save %s: %w", f.path, err)
	}
	f.saved = generation
	return nil
}
