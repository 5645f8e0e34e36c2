package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// ErrIndexFull says that the next record needs another index file: Index.NextFile opens or makes one.
var ErrIndexFull = errors.New("store: the index needs its next file")

// ErrIndexStopped says that a sync of the index failed. It is final until the next start, which checks the file.
var ErrIndexStopped = errors.New("store: indexing stopped, a sync of the index failed")

// IndexRecord is what the index takes of a record. The slices are borrowed until Add returns.
type IndexRecord struct {
	Phy        message.PhyOffset
	StoreTime  message.Millis
	Topic      []byte
	Properties []byte
}

// Index finds records by topic and key (IndexService, 5.5.0). One goroutine, the index stage of dispatch, calls Recover once
// and then Add, NextFile and Flush, in the order of the log; everything else may be called by any. The log does not depend
// on it: what it lacks is made again from the log.
type Index struct {
	s      *Store
	fsys   sysio.FS
	geo    indexGeometry
	dir    string
	logger *slog.Logger
	reads  bool // indexFileReadEnable
	writes bool // messageIndexEnable and indexFileWriteEnable

	mu    sync.RWMutex // files, and the header of the newest; a leaf, held for one small read by queries
	files []*indexFile // oldest first
	ready bool         // Recover is through: files lacks none

	// Only the stage's goroutine.
	w       *indexWriter // of the newest file; nil until it is needed
	endPhy  message.PhyOffset
	hashes  []int32
	stopped bool   // a sync failed
	attempt string // the name of the file that could not be made: the next attempt takes it, so that nothing piles up and the error is the same

	// Kept for the hash of "topic#": runs of records of one topic are the rule.
	topic     []byte
	topicHash int32
}

// newIndex returns nil when neither writing nor reading is switched on.
func newIndex(s *Store, lay *layout) (*Index, error) {
	set := &s.set
	if set.index.items == 0 || !set.indexWrite && !set.indexRead {
		return nil, nil
	}
	x := &Index{s: s, fsys: s.fsys, geo: set.index, dir: set.indexDir, logger: s.logger, reads: set.indexRead, writes: set.indexWrite, endPhy: -1}
	for _, f := range lay.index {
		x.files = append(x.files, &indexFile{name: f.name, path: filepath.Join(x.dir, f.name)})
	}
	if !x.writes {
		return x, x.load()
	}
	return x, nil
}

// Index returns the index, nil when it is switched off.
func (s *Store) Index() *Index { return s.index }

// Writes tells whether records are to be added (messageIndexEnable, indexFileWriteEnable).
func (x *Index) Writes() bool { return x.writes }

// IndexStats is a snapshot for metrics.
type IndexStats struct {
	Files int
	Bytes int64             // of all files
	Items int64             // in the newest
	End   message.PhyOffset // position of the newest record in the index, -1 if there is none
}

// Stats may be called by any goroutine.
func (x *Index) Stats() IndexStats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	st := IndexStats{Files: len(x.files), Bytes: int64(len(x.files)) * x.geo.fileBytes(), End: -1}
	if n := len(x.files); n > 0 && x.ready {
		h := &x.files[n-1].header
		st.Items, st.End = int64(h.count)-1, h.endPhy
	}
	return st
}

// Add indexes records in the order of the log: UNIQ_KEY, each of KEYS, TAGS. Records at or below the newest one in the index
// are passed over, so that nothing is indexed twice. It returns how many are done; with ErrIndexFull NextFile has to be called,
// while no slice of the log's mapping is held: it may take long.
//
// hot: 0 allocs
func (x *Index) Add(records []IndexRecord) (int, error) {
	if x.stopped {
		return 0, ErrIndexStopped
	}
	x.mu.Lock() // of queries, for a slot is read while its file may be written
	done, err := x.add(records)
	if x.w != nil {
		newest := x.files[len(x.files)-1]
		if newest.doubted {
			x.w.header.slotsUsed = slotsDoubted
		}
		x.w.writeHeader()
		newest.header = x.w.header
	}
	x.mu.Unlock()
	return done, err
}

func (x *Index) add(records []IndexRecord) (int, error) {
	for i := range records {
		r := &records[i]
		if r.Phy <= x.endPhy {
			continue
		}
		hashes := x.keysOf(r)
		if len(hashes) == 0 {
			continue
		}
		if x.w == nil {
			return i, ErrIndexFull
		}
		if !x.w.fits(len(hashes)) {
			if x.w.header.count > 1 {
				return i, ErrIndexFull
			}
			hashes = hashes[:x.geo.items-1] // a record with more keys than a whole file holds
		}
		x.w.add(r.Phy, r.StoreTime, hashes)
		x.endPhy = r.Phy
	}
	return len(records), nil
}

// keysOf returns the hashes of a record's keys, in the original's order (IndexService.buildIndex). The result is valid until
// the next call.
//
// hot: 0 allocs
func (x *Index) keysOf(r *IndexRecord) []int32 {
	var uniq, keys, tags []byte
	for it := message.Properties(r.Properties); ; {
		entry, more := it.NextEntry()
		if !more {
			break
		}
		if value, is := message.ValueIn(entry, message.PropertyUniqKey); is {
			uniq = value
		} else if value, is := message.ValueIn(entry, message.PropertyKeys); is {
			keys = value
		} else if value, is := message.ValueIn(entry, message.PropertyTags); is {
			tags = value
		}
	}
	if string(x.topic) != string(r.Topic) {
		x.topic = append(x.topic[:0], r.Topic...)
		x.topicHash = message.JavaHashOn(message.JavaHash(r.Topic), indexSeparator[:])
	}
	hashes := x.hashes[:0]
	if len(uniq) > 0 {
		hashes = append(hashes, indexHash(message.JavaHashOn(x.topicHash, uniq)))
	}
	for len(keys) > 0 {
		var key []byte
		if key, keys = cutKey(keys); len(key) > 0 {
			hashes = append(hashes, indexHash(message.JavaHashOn(x.topicHash, key)))
		}
	}
	if len(tags) > 0 {
		hashes = append(hashes, indexHash(message.JavaHashOn(message.JavaHashOn(x.topicHash, indexTagMark[:]), tags)))
	}
	x.hashes = hashes
	return hashes
}

// indexSeparator stands between topic and key, indexTagMark between that and a tag.
var (
	indexSeparator = [...]byte{'#'}
	indexTagMark   = [...]byte{'T', '#'}
)

// cutKey cuts the first of several keys off; blanks separate them.
func cutKey(keys []byte) (key, rest []byte) {
	for i, c := range keys {
		if c == ' ' {
			return keys[:i], keys[i+1:]
		}
	}
	return keys, nil
}

// NextFile opens the newest file for writing or, when it is full, makes it durable and makes the next one. After an error it
// may be called again, not before IndexRetryInterval has passed: each call may try to make a file.
func (x *Index) NextFile() error {
	if x.stopped {
		return ErrIndexStopped
	}
	if x.w != nil {
		if err := x.retire(); err != nil {
			return err
		}
	} else if n := len(x.files); n > 0 && int64(x.files[n-1].header.count) < x.geo.items {
		if err := x.reopen(x.files[n-1]); err != nil {
			return fmt.Errorf("store: index: %w", err)
		}
		return nil
	}
	if err := x.create(); err != nil {
		return fmt.Errorf("store: index: %w", err)
	}
	return nil
}

// retire ends the writing of the newest file and lets the checkpoint say that it is durable.
func (x *Index) retire() error {
	if err := x.Flush(); err != nil {
		return err
	}
	x.s.checkpoint.setIndex(x.w.header.endTime)
	if err := x.s.checkpoint.save(true); err != nil {
		x.logger.Warn("write the checkpoint", "error", err)
	}
	w := x.w
	x.w = nil
	return w.close()
}

// Flush makes everything added durable. A failure is final: the kernel may have dropped the pages.
func (x *Index) Flush() error {
	if x.stopped {
		return ErrIndexStopped
	}
	if x.w == nil {
		return nil
	}
	if err := x.w.sync(); err != nil {
		x.stopped = true
		return fmt.Errorf("%w: %w", ErrIndexStopped, err)
	}
	return nil
}

func (x *Index) reopen(f *indexFile) error {
	file, err := x.fsys.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	w, err := openIndexWriter(file, x.geo, f.header)
	if err != nil {
		file.Close()
		return err
	}
	x.w = w
	return nil
}

// create makes the next file. What a failed attempt leaves is removed.
func (x *Index) create() error {
	// As much as sends may have; the index lies beside the queues, which need not be on the log's partition.
	if err := roomFor(x.fsys, x.s.set.queueDir, x.geo.fileBytes(), x.s.set.now().warnPct); err != nil {
		return err
	}
	if err := makeDir(x.fsys, x.dir); err != nil {
		return err
	}
	if x.attempt == "" {
		x.attempt = filepath.Join(x.dir, x.nextName(time.Now()))
	}
	path := x.attempt
	file, err := x.fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	header := indexHeader{count: 1}
	if n := len(x.files); n > 0 {
		// As the original: an empty file tells where the one before it ended.
		last := &x.files[n-1].header
		header = indexHeader{beginTime: last.endTime, endTime: last.endTime, beginPhy: last.endPhy, endPhy: last.endPhy, count: 1}
	}
	w, err := openIndexWriter(file, x.geo, header)
	if err == nil {
		w.writeHeader()
		w.synced = 0 // the header itself
		err = x.fsys.SyncDir(x.dir)
		if err != nil {
			_ = w.mapping.Unmap()
		}
	}
	if err != nil {
		file.Close()
		_ = x.fsys.Remove(path) // a disk that refuses it keeps this one file
		return err
	}
	x.attempt = ""
	x.w = w
	x.mu.Lock()
	x.files = append(x.files, &indexFile{name: filepath.Base(path), path: path, header: header})
	x.mu.Unlock()
	return nil
}

// nextName is the local time, or what sorts right behind the newest name where the clock was set back.
func (x *Index) nextName(now time.Time) string {
	name := strings.Replace(now.Format(indexNameLayout), ".", "", 1)
	if n := len(x.files); n > 0 && name <= x.files[n-1].name {
		if last, err := strconv.ParseInt(x.files[n-1].name, 10, 64); err == nil {
			return fmt.Sprintf("%0*d", indexNameDigits, last+1)
		}
	}
	return name
}

// DeleteExpired deletes files of which every record lies below minPhy, oldest first, never the newest. Any goroutine.
func (x *Index) DeleteExpired(minPhy message.PhyOffset) (deleted int, err error) {
	if !x.writes {
		return 0, nil
	}
	for {
		x.mu.Lock()
		if !x.ready || len(x.files) < 2 || x.files[0].header.endPhy >= minPhy {
			x.mu.Unlock()
			break
		}
		f := x.files[0]
		x.files = x.files[1:]
		x.mu.Unlock()
		if rerr := x.fsys.Remove(f.path); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			return deleted, fmt.Errorf("store: index: %w", rerr)
		}
		deleted++
	}
	if deleted > 0 {
		err = x.fsys.SyncDir(x.dir)
	}
	return deleted, err
}

// release gives mapping and descriptor back. The stage has ended.
func (x *Index) release() {
	if x.w != nil {
		_ = x.w.close()
		x.w = nil
	}
}
