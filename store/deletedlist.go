package store

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// deletedName is the file of deleted topics, peregrine's own: a line with the CRC of the others (files of older versions have none), then
// a line each: the position that the log had at the deletion, a comma, the newest store time in it, a blank, the topic. Records in front of
// that position belong to no queue any more. Without it they would come back: the log keeps them until its files expire, and a start
// dispatches what lies behind the checkpoint, or all of it. A second copy of the same content stands beside it.
const (
	deletedName   = "peregrine.deleted"
	deletedCopy   = deletedName + ".bak"
	deletedCRC    = "crc32c "
	damagedSuffix = ".damaged"
)

// deletedTopics is the content of that file. A line is dropped when the log begins behind its position.
type deletedTopics struct {
	mu    sync.Mutex // guards marks; leaf
	marks map[string]deletion
}

// mark returns from where on records of the topic count, 0 if it was never deleted.
func (d *deletedTopics) mark(topic string) message.PhyOffset {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.marks[topic].at
}

// inspectDeleted reads the list. Where the file cannot be used its copy is, and the whole log has to tell what is missing there, see
// settleDeleted: a topic that was deleted last may not be in it. A file that may be perfect but cannot be read stops the start.
func (lay *layout) inspectDeleted(fsys sysio.FS, set settings) error {
	path := filepath.Join(set.root, deletedName)
	loaded := sysio.ReadFileWithBackup(fsys, path, func(data []byte) (err error) { lay.deleted, err = parseDeleted(data); return err })
	if loaded.Source == sysio.SourceNone {
		lay.deleted = map[string]deletion{}
	}
	instead := "what the log tells of deleted topics"
	if loaded.Source == sysio.SourceBackup {
		instead = "its copy, " + deletedCopy + ", and " + instead
	}
	for _, read := range []struct {
		name string
		err  error
	}{{deletedName, loaded.MainErr}, {deletedCopy, loaded.BackupErr}} {
		switch {
		case sysio.IsUnreadable(read.err):
			return fmt.Errorf("store: %w", read.err)
		case read.err != nil && !errors.Is(read.err, fs.ErrNotExist):
			lay.deletedDamaged = append(lay.deletedDamaged, read.name)
			lay.warn("%s is damaged: %v; used instead: %s. It is kept as %s", filepath.Join(set.root, read.name), read.err, instead, read.name+damagedSuffix)
		case read.err != nil && loaded.Source == sysio.SourceBackup:
			lay.warn("%s is missing; used instead: %s", path, instead)
		}
	}
	lay.deletedLost = loaded.Source == sysio.SourceBackup || len(lay.deletedDamaged) > 0
	return nil
}

func parseDeleted(data []byte) (map[string]deletion, error) {
	marks := map[string]deletion{}
	if sum, rest, summed := bytes.Cut(data, []byte("\n")); bytes.HasPrefix(sum, []byte(deletedCRC)) {
		if !summed || string(sum) != deletedSum(rest) {
			return nil, fmt.Errorf("the checksum of its lines is another than %q", sum)
		}
		data = rest
	}
	for line := range strings.Lines(string(data)) {
		place, topic, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		position, stored, timed := strings.Cut(place, ",")
		n, err := strconv.ParseInt(position, 10, 64)
		var ms int64
		if err == nil && timed {
			ms, err = strconv.ParseInt(stored, 10, 64)
		}
		if !found || err != nil || n < 0 || ms < 0 {
			return nil, fmt.Errorf("the line %q is no position and topic", line)
		}
		marks[topic] = deletion{at: message.PhyOffset(n), time: message.Millis(ms)}
	}
	return marks, nil
}

func deletedSum(lines []byte) string {
	return fmt.Sprintf(deletedCRC+"%08x", crc32.Checksum(lines, castagnoli))
}

// saveDeleted writes the file with one more topic, durably.
func (s *Store) saveDeleted(topic string, mark deletion) error {
	s.deleted.mu.Lock()
	marks := maps.Clone(s.deleted.marks)
	s.deleted.mu.Unlock()
	maps.DeleteFunc(marks, func(_ string, old deletion) bool { return old.at <= s.MinPhy() })
	marks[topic] = mark
	if len(marks) > deletedTopicsMax {
		return fmt.Errorf("%w: %d topics were deleted whose messages are in the log still", ErrTooManyDeleted, deletedTopicsMax)
	}
	return s.writeDeleted(marks)
}

// writeDeleted replaces the list and its copy, durably.
func (s *Store) writeDeleted(marks map[string]deletion) error {
	var lines []byte
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		lines = fmt.Appendf(lines, "%d,%d %s\n", marks[name].at, marks[name].time, name)
	}
	text := append([]byte(deletedSum(lines)+"\n"), lines...)
	for _, name := range []string{deletedName, deletedCopy} {
		if err := sysio.AtomicWriteFile(s.fsys, filepath.Join(s.set.root, name), text, false); err != nil {
			return fmt.Errorf("store: remember a deleted topic: %w", err)
		}
	}
	s.deleted.mu.Lock()
	s.deleted.marks = marks
	s.deleted.mu.Unlock()
	return nil
}

// keepDamagedList moves what could not be read of the list out of the way of a new one. Should this start not come to its end, the
// next one has to look at the whole log, too.
func (r *recovery) keepDamagedList() error {
	r.saveDamaged()
	for _, name := range r.lay.deletedDamaged {
		path := filepath.Join(r.s.set.root, name)
		if err := r.s.fsys.Rename(path, path+damagedSuffix); err != nil {
			return fmt.Errorf("store: keep the damaged %s: %w", name, err)
		}
	}
	return nil
}
