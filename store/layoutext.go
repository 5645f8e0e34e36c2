package store

import (
	"fmt"
	"path/filepath"
	"strconv"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// inspectExt lists consumequeue_ext. Positions mean nothing with another file size than the one they were made with: the
// directory is refused if more is to be written, else tags codes of such queues are not known and nothing is filtered.
func (lay *layout) inspectExt(fsys sysio.FS, set settings) error {
	topics, err := readDirIfThere(fsys, set.extDir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if topics == nil {
		return nil
	}
	lay.ext = []queueDir{}
	for _, t := range topics {
		path := filepath.Join(set.extDir, t.Name)
		if !t.Dir {
			if isTopicName(t.Name) {
				return refuse(path, "%s", noTopicFolder)
			}
			continue
		}
		ids, err := fsys.ReadDir(path)
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		for _, e := range ids {
			id, err := strconv.ParseInt(e.Name, 10, 32)
			if !e.Dir && err == nil {
				return refuse(filepath.Join(path, e.Name), "%s", noQueueFolder)
			}
			if err != nil {
				continue
			}
			files, err := lay.dataFiles(fsys, filepath.Join(path, e.Name))
			if err != nil {
				return err
			}
			if err := lay.inspectExtFiles(files, set); err != nil {
				return err
			}
			lay.ext = append(lay.ext, queueDir{topic: t.Name, id: message.QueueID(id), files: files})
		}
	}
	// Where nothing is written, the first file of a queue can be read whatever its length.
	if f, other := otherSize(lay.ext, set.extFileBytes); other && set.extWrite {
		return refuse(f.path, "the file has %d bytes, expected are %d (mappedFileSizeConsumeQueueExt); no ext file has as many: "+
			"the directory was made with mappedFileSizeConsumeQueueExt=%d; if it was not, delete the folder %s, then messages of its queues are not filtered by tag",
			f.size, set.extFileBytes, f.size, extDirName)
	}
	return nil
}

// mendExt gives short ext files their length, without which the original does not start. Only where this program writes such files.
func (r *recovery) mendExt() error {
	set := r.s.set
	for _, d := range r.lay.ext {
		for _, f := range d.files {
			if set.extWrite && f.size < set.extFileBytes {
				if err := setLength(r.s.fsys, f.path, set.extFileBytes); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (lay *layout) inspectExtFiles(files []dataFile, set settings) error {
	for i, f := range files {
		// A power cut keeps names and takes lengths; a copy may break off in its last file.
		torn := f.size == 0 || i == len(files)-1 && f.size < set.extFileBytes
		if f.start%set.extFileBytes == 0 && (torn || f.size == set.extFileBytes) {
			continue
		}
		if set.extWrite {
			return refuse(f.path, "the file has %d bytes, expected are %d (mappedFileSizeConsumeQueueExt)", f.size, set.extFileBytes)
		}
		if !lay.extForeign {
			lay.warn("%s has %d bytes, expected are %d (mappedFileSizeConsumeQueueExt): tags are not filtered by the broker where a queue needs these files",
				f.path, f.size, set.extFileBytes)
		}
		lay.extForeign = true
	}
	return nil
}

// warnLostExt says which queues name ext units in files that are gone. Their messages go to everybody; nothing else is wrong with them.
func (r *recovery) warnLostExt() error {
	if !r.s.extReadable {
		return nil // said already
	}
	there := map[string]bool{}
	for _, d := range r.lay.ext {
		for _, f := range d.files {
			there[f.path] = f.size > 0
		}
	}
	look := func(q *Queue) error {
		u, ok := r.lastUnit(q)
		if !ok || !u.Tags.IsExtAddress() {
			return nil
		}
		n, file, err := q.lostExtUnits(u, there)
		if n > 0 {
			r.logger.Warn("files in consumequeue_ext are gone: the broker does not filter by tags what a queue has in them, consumers do; "+
				"peregrine dump --repair --yes makes the queue again", "topic", q.topic, "queue", int32(q.id), "entries", n, "first", file)
		}
		return err
	}
	if r.trust != trustAll {
		return r.eachQueue(look)
	}
	return r.parallel(len(r.extQueues), func(i int) error { return look(r.extQueues[i]) })
}

// lostExtUnits counts the units that name ext units in files that are not there, and returns the first such file. All units are read only where
// one of the files between the queue's first and last ext unit is missing.
func (q *Queue) lostExtUnits(last Unit, there map[string]bool) (n int64, first string, err error) {
	oldest, _, err := q.realUnit(q.Min(), q.Max())
	if err != nil {
		return 0, "", err
	}
	newest := q.extKey(extPosition(last.Tags)).start
	from := newest
	if oldest.Tags.IsExtAddress() {
		from = min(from, q.extKey(extPosition(oldest.Tags)).start)
	}
	for from <= newest && there[q.extPath(from)] {
		from += q.store.set.extFileBytes
	}
	if from > newest {
		return 0, "", nil
	}
	units := make([]Unit, unitChunk)
	for offset := q.Min(); offset < q.Max(); {
		got, err := q.readUnits(units, offset, q.Max())
		if err != nil || got == 0 {
			return n, first, err
		}
		for _, u := range units[:got] {
			if !u.Tags.IsExtAddress() || u.IsPreBlank() {
				continue
			}
			if path := q.extPath(q.extKey(extPosition(u.Tags)).start); !there[path] {
				if n++; n == 1 {
					first = path
				}
			}
		}
		offset += message.QueueOffset(got)
	}
	return n, first, nil
}
