package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// Options says where to look. Sizes are not in the files: 0 takes them from names and lengths.
type Options struct {
	FS     sysio.FS
	Root   string
	LogDir string // "" = commitlog below Root

	SegmentBytes   int64 // mappedFileSizeCommitLog
	QueueFileBytes int64 // mappedFileSizeConsumeQueue
	ExtFileBytes   int64 // mappedFileSizeConsumeQueueExt
	IndexSlots     int   // maxHashSlotNum
	IndexItems     int   // maxIndexNum
	WithoutIndex   bool  // messageIndexEnable=false: records need no index items

	// LockHolder tells whether somebody holds the lock file, and who where the system knows; it must not take the lock.
	LockHolder func(path string) (held bool, pid int, err error)
}

// ErrNoStore says that there is nothing that looks like a store directory.
var ErrNoStore = errors.New("not a store directory: it has no commitlog, no consumequeue and no checkpoint")

// File is a data file.
type File struct {
	Start int64  // position of its first byte in the log or queue
	Size  int64  // length that the file system gives
	Path  string // to open it
	Name  string // relative to the store directory
}

// Queue is consumequeue/<topic>/<id>.
type Queue struct {
	Topic string
	ID    message.QueueID
	Files []File // by Start
	Ext   []File // in consumequeue_ext, by Start
	Name  string // of its directory
}

// Directory is a look at a store directory.
type Directory struct {
	Root           string
	SegmentBytes   int64
	QueueFileBytes int64
	ExtFileBytes   int64
	Log            []File   // by Start
	Queues         []*Queue // by topic and id
	Index          []*IndexFile
	Checkpoint     Checkpoint
	Abort          bool   // the abort file is there: the last broker did not stop cleanly, or runs
	AbortText      string // the process id that stands in it
	Held           bool   // somebody holds the lock: a broker runs
	Holder         int    // its process id where the system tells it, else 0
	Findings       []Finding

	opts Options
}

// Open lists a directory. It reads names, lengths, the checkpoint and the heads of index files.
func Open(o Options) (*Directory, error) {
	if o.LogDir == "" {
		o.LogDir = filepath.Join(o.Root, "commitlog")
	}
	d := &Directory{Root: o.Root, opts: o}
	entries, err := o.FS.ReadDir(o.Root)
	if err != nil {
		return nil, err
	}
	d.readLock()
	known := false
	for _, e := range entries {
		switch {
		case e.Name == "abort" && !e.Dir:
			d.Abort = true
			d.AbortText = strings.TrimSpace(string(d.readSmall(filepath.Join(o.Root, "abort"), 32)))
		case e.Name == "commitlog" && e.Dir, e.Name == "consumequeue" && e.Dir, e.Name == "checkpoint" && !e.Dir:
			known = true
		case e.Dir && e.Name == "batchconsumequeue", e.Dir && e.Name == "consumequeue_rocksdb", e.Dir && strings.HasPrefix(e.Name, "dledger-"):
			d.add((&Finding{Level: Note, Kind: KindForeign, File: e.Name, Position: -1}).format("this kind of queue or log is not read"))
		}
	}
	if err := d.listLog(); err != nil {
		return nil, err
	}
	if !known && len(d.Log) == 0 {
		return nil, fmt.Errorf("%s: %w", o.Root, ErrNoStore)
	}
	if err := d.listQueues(); err != nil {
		return nil, err
	}
	if err := d.listExt(); err != nil {
		return nil, err
	}
	if err := d.listIndex(); err != nil {
		return nil, err
	}
	return d, d.readCheckpoint()
}

func (d *Directory) add(f *Finding) { d.Findings = append(d.Findings, *f) }

func (d *Directory) readLock() {
	if d.opts.LockHolder == nil {
		return
	}
	held, pid, err := d.opts.LockHolder(filepath.Join(d.Root, "lock"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.add((&Finding{Level: Note, Kind: KindForeign, File: "lock", Position: -1}).format("cannot tell whether it is held: %v", err))
	}
	d.Held, d.Holder = held, pid
}

// readSmall returns the first bytes of a file, nothing if it cannot be read.
func (d *Directory) readSmall(path string, limit int) []byte {
	b := make([]byte, limit)
	n, _ := d.readFile(path, b, 0)
	return b[:n]
}

// dataFiles lists the files of a directory whose names are numbers, and the others. A listing takes a while: that of a running
// broker may have missed a file that came or went meanwhile, so one that has gaps is made again.
func (d *Directory) dataFiles(dir string) (files []File, others []string, err error) {
	for range listingsMax {
		if files, others, err = d.listFiles(dir); err != nil || !d.Held || joined(files) {
			break
		}
	}
	return files, others, err
}

// joined tells whether each file ends where the next one begins.
func joined(files []File) bool {
	for i := 1; i < len(files); i++ {
		if files[i-1].Start+files[i-1].Size != files[i].Start {
			return false
		}
	}
	return true
}

func (d *Directory) listFiles(dir string) (files []File, others []string, err error) {
	entries, err := d.opts.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if e.Dir {
			continue
		}
		path := filepath.Join(dir, e.Name)
		start, err := strconv.ParseInt(e.Name, 10, 64)
		if err != nil || start < 0 {
			others = append(others, d.relative(path))
			continue
		}
		files = append(files, File{Start: start, Size: e.Size, Path: path, Name: d.relative(path)})
	}
	sort.Slice(files, func(i, k int) bool { return files[i].Start < files[k].Start })
	return files, others, nil
}

func (d *Directory) relative(path string) string {
	if rel, err := filepath.Rel(d.Root, path); err == nil && !strings.HasPrefix(rel, "..") {
		return filepath.ToSlash(rel)
	}
	return path
}

// fileBytes finds out the length that files were made with: that of all files but empty ones, if two at least have the same and their names fit
// it; else the smallest distance of two neighbours, else the largest length.
// 0 = not known: there are no files, or a running broker has made some and given none its length yet.
func fileBytes(sets ...[]File) int64 {
	var distance, length int64
	equal, alike := 0, true
	for _, files := range sets {
		for i, f := range files {
			if f.Size > 0 {
				alike = alike && (length == 0 || f.Size == length) && f.Start%f.Size == 0
				equal++
			}
			length = max(length, f.Size)
			if i > 0 && f.Start > files[i-1].Start {
				if by := f.Start - files[i-1].Start; distance == 0 || by < distance {
					distance = by
				}
			}
		}
	}
	if distance > 0 && (!alike || equal < 2) {
		return distance
	}
	return length
}

func (d *Directory) listLog() error {
	files, others, err := d.dataFiles(d.opts.LogDir)
	if err != nil {
		return err
	}
	if d.SegmentBytes = d.opts.SegmentBytes; d.SegmentBytes <= 0 {
		d.SegmentBytes = fileBytes(files)
	}
	for _, name := range others {
		d.add((&Finding{Level: Fault, Kind: KindLogFile, File: name, Position: -1,
			Original: "the original refuses to start with it"}).format("not a data file"))
	}
	d.Log = d.checkFiles(files, d.SegmentBytes, KindLogFile, "mappedFileSizeCommitLog", "the original refuses to start with it")
	return nil
}

// refreshLog lists the log anew: a running broker made files since, and what the queues name may lie in them.
func (d *Directory) refreshLog() (err error) {
	if d.Held {
		d.Log, err = d.listAgain(d.opts.LogDir, &d.SegmentBytes, KindLogFile)
	}
	return err
}

// listAgain lists data files of a running broker once more, without findings. It finds out their length where the first listing
// met none that had one.
func (d *Directory) listAgain(dir string, size *int64, kind string) ([]File, error) {
	files, _, err := d.dataFiles(dir)
	if err != nil {
		return nil, err
	}
	if *size <= 0 {
		*size = fileBytes(files)
	}
	told := len(d.Findings)
	files = d.checkFiles(files, *size, kind, "", "")
	d.Findings = d.Findings[:told]
	return files, nil
}

// checkFiles says what is wrong with names and lengths, and returns the files that can be read: starts are multiples of size
// and no two overlap.
func (d *Directory) checkFiles(files []File, size int64, kind, key, original string) []File {
	kept := files[:0]
	for i, f := range files {
		position := int64(-1)
		if kind == KindLogFile {
			position = f.Start
		}
		finding := &Finding{Level: Fault, Kind: kind, File: f.Name, Position: position, Original: original}
		switch {
		case f.Size == 0 && i == len(files)-1 && !d.Held:
			d.add((&Finding{Level: Note, Kind: kind, File: f.Name, Position: position}).format("an empty last file: nothing was written to it"))
			continue
		case size <= 0 && d.Held: // it is being made, as the first of all
			continue
		case size <= 0 || f.Start%size != 0 || f.Start > 1<<62:
			d.add(finding.format("its name is no multiple of %s=%d; it is not read", key, size))
			continue
		case f.Size < size && d.Held: // it is being made
		case f.Size != size:
			d.add(finding.format("it has %d bytes, expected are %d (%s)", f.Size, size, key))
		}
		if n := len(kept); n > 0 && f.Start != kept[n-1].Start+size {
			missing := *finding
			d.add(missing.format("the files before it, from %020d on, are missing", kept[n-1].Start+size))
		}
		kept = append(kept, f)
	}
	return kept
}

func (d *Directory) listQueues() error {
	root := filepath.Join(d.Root, "consumequeue")
	topics, err := d.opts.FS.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var all [][]File
	for _, t := range topics {
		if !t.Dir {
			if t.Name == "CURRENT" {
				d.add((&Finding{Level: Note, Kind: KindForeign, File: "consumequeue", Position: -1}).format("these are RocksDB queues, which are not read"))
			}
			continue
		}
		ids, err := d.opts.FS.ReadDir(filepath.Join(root, t.Name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		for _, e := range ids {
			id, err := strconv.ParseInt(e.Name, 10, 32)
			if !e.Dir || err != nil || id < 0 {
				continue
			}
			dir := filepath.Join(root, t.Name, e.Name)
			q := &Queue{Topic: t.Name, ID: message.QueueID(id), Name: d.relative(dir)}
			var others []string
			if q.Files, others, err = d.dataFiles(dir); err != nil {
				return err
			}
			for _, name := range others {
				d.add((&Finding{Level: Fault, Kind: KindQueueFile, File: name, Position: -1,
					Original: "the original refuses to start with it"}).format("not a data file"))
			}
			d.Queues = append(d.Queues, q)
			all = append(all, q.Files)
		}
	}
	if d.QueueFileBytes = d.opts.QueueFileBytes; d.QueueFileBytes <= 0 {
		d.QueueFileBytes = fileBytes(all...)
	}
	d.QueueFileBytes -= d.QueueFileBytes % unitBytes
	for _, q := range d.Queues {
		q.Files = d.checkFiles(q.Files, d.QueueFileBytes, KindQueueFile, "mappedFileSizeConsumeQueue", "the original refuses to start with it")
	}
	sort.Slice(d.Queues, func(i, k int) bool {
		a, b := d.Queues[i], d.Queues[k]
		return a.Topic < b.Topic || a.Topic == b.Topic && a.ID < b.ID
	})
	return nil
}

// MinPhy is where the log begins.
func (d *Directory) MinPhy() message.PhyOffset {
	if len(d.Log) == 0 {
		return 0
	}
	return message.PhyOffset(d.Log[0].Start)
}

// logFile returns the file that holds a position, nil if there is none.
func (d *Directory) logFile(phy message.PhyOffset) *File {
	i := sort.Search(len(d.Log), func(i int) bool { return d.Log[i].Start > int64(phy) }) - 1
	if i < 0 || int64(phy) >= d.Log[i].Start+d.SegmentBytes {
		return nil
	}
	return &d.Log[i]
}

// nextLogFile returns the first file that begins behind a position, nil if there is none.
func (d *Directory) nextLogFile(phy message.PhyOffset) *File {
	i := sort.Search(len(d.Log), func(i int) bool { return d.Log[i].Start > int64(phy) })
	if i == len(d.Log) {
		return nil
	}
	return &d.Log[i]
}

// place fills in file and byte of a position in the log.
func (d *Directory) place(f *Finding, phy message.PhyOffset) *Finding {
	f.Position = int64(phy)
	if file := d.logFile(phy); file != nil {
		f.File, f.At = file.Name, int64(phy)-file.Start
	}
	return f
}
