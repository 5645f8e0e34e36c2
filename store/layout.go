package store

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

// layout is what a look at a directory found. Looking changes nothing.
type layout struct {
	rootExists bool
	crashed    bool   // the abort file is there
	run        uint64 // in the lock file, see readRun
	log        []dataFile
	queues     []queueDir
	ext        []queueDir // in consumequeue_ext; nil without that folder
	extForeign bool       // they have another size than the configured one
	index      []indexInfo
	checkpoint checkpointFields
	deleted    map[string]deletion // topics, see deletedTopics
	// deletedLost says that the list of these was damaged or away, so that it may lack some; deletedDamaged are the files that were.
	deletedLost    bool
	deletedDamaged []string
	warnings       []string
	repairable     error // the first thing that a start refuses and a repair mends
}

// dataFile is a file of the log or of a queue.
type dataFile struct {
	start int64
	size  int64
	path  string
}

// queueDir is consumequeue/<topic>/<id>.
type queueDir struct {
	topic string
	id    message.QueueID
	files []dataFile // by start
}

func (lay *layout) warn(format string, args ...any) {
	lay.warnings = append(lay.warnings, fmt.Sprintf(format, args...))
}

// inspect looks at a store directory and refuses, with a RefusedError, what this program cannot take over.
func inspect(fsys sysio.FS, set settings) (*layout, error) {
	lay := &layout{}
	entries, err := readDirIfThere(fsys, set.root)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	lay.rootExists = entries != nil
	for _, e := range entries {
		if e.Name == abortName && !e.Dir {
			lay.crashed = true
		}
	}
	lay.run = readRun(fsys, set.root)
	if err := refuseWrongKinds(fsys, set); err != nil {
		return nil, err
	}
	if err := lay.inspectForeignKinds(fsys, set, entries); err != nil {
		return nil, err
	}
	if lay.checkpoint, err = readCheckpoint(fsys, filepath.Join(set.root, checkpointName)); err != nil {
		return nil, fmt.Errorf("store: read the checkpoint: %w", err)
	}
	if err := lay.inspectDeleted(fsys, set); err != nil {
		return nil, err
	}
	for _, look := range []func(sysio.FS, settings) error{lay.inspectLog, lay.refuseSwapped, lay.inspectQueues, lay.inspectExt, lay.inspectIndex, lay.refuseLostLog} {
		if err := lay.unlessRepairable(look(fsys, set)); err != nil {
			return nil, err
		}
	}
	lay.noteCheckpoint(fsys, filepath.Join(set.root, checkpointName))
	return lay, lay.repairable
}

// noteCheckpoint names a checkpoint that a log with files should have, and that says nothing.
func (lay *layout) noteCheckpoint(fsys sysio.FS, path string) {
	if len(lay.log) == 0 {
		return
	}
	info, err := fsys.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		lay.warn("%s is missing: a new one is made out of the log", path)
	case err == nil && info.Size < checkpointUsed:
		lay.warn("%s has %d bytes of %d: a new one is made out of the log", path, info.Size, checkpointBytes)
	}
}

// unlessRepairable keeps what a repair mends for the end: what it does not mend goes first, so that no repair begins in vain.
func (lay *layout) unlessRepairable(err error) error {
	if !Repairable(err) {
		return err
	}
	if lay.repairable == nil {
		lay.repairable = err
	}
	return nil
}

// refuseWrongKinds refuses files where folders are expected, and the other way round.
func refuseWrongKinds(fsys sysio.FS, set settings) error {
	for _, dir := range []string{set.logDir, set.queueDir, set.extDir, set.indexDir, filepath.Join(set.root, configDirName)} {
		if info, err := fsys.Stat(dir); err == nil && !info.Dir {
			return refuse(dir, "this is a file, expected is a folder: move it away, or bring the folder back")
		}
	}
	for _, name := range []string{checkpointName, abortName, lockName, stateName, deletedName} {
		path := filepath.Join(set.root, name)
		if info, err := fsys.Stat(path); err == nil && info.Dir {
			return refuse(path, "this is a folder, expected is a file: move it away; without the file %s", withoutFile[name])
		}
	}
	return nil
}

// withoutFile says what a start does that lacks a file of the root.
var withoutFile = map[string]string{
	checkpointName: "a start makes a new checkpoint out of the log",
	abortName:      "a start takes the last run for one that stopped cleanly",
	lockName:       "a start makes a new one",
	stateName:      "a start looks at all of the log once",
	deletedName:    "its copy is used, and what the log tells of deleted topics",
}

// readDirIfThere returns nil for a directory that does not exist, and a list that is not nil for one that does.
func readDirIfThere(fsys sysio.FS, dir string) ([]sysio.Info, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if entries == nil {
		entries = []sysio.Info{}
	}
	return entries, nil
}

// inspectLog lists the CommitLog's files. They must be contiguous and of the configured size. The last file that holds anything may
// be short (copied half, say) or without a byte (the work of a power cut that kept the name and lost the length), whether files made ahead
// follow or not: it is given its length back. A short one in front of others that hold something is damaged; but of what was never synced a
// power cut may keep the later file and take the length of the one before. Without a power cut nothing does.
func (lay *layout) inspectLog(fsys sysio.FS, set settings) error {
	files, err := lay.dataFiles(fsys, set.logDir)
	if err != nil {
		return err
	}
	for i, f := range files {
		if f.size > set.segmentBytes {
			return refuseLength(set, files, f)
		}
		if f.size < set.segmentBytes {
			last, err := nothingWritten(fsys, files[i+1:])
			switch {
			case err != nil:
				return fmt.Errorf("store: %w", err)
			case !last && f.size == 0 && lay.crashed && f.start >= int64(lay.checkpoint.LogicsPhysicalOffset) && !openedThisBoot(fsys, set.root):
			case !last:
				err = lay.unlessRepairable(refuseLength(set, files, f))
			case len(files) == 1 && f.size > 0:
				err = refuseOtherSize(fsys, set, f)
			}
			if err != nil {
				return err
			}
			if last && f.size > 0 {
				lay.warn("%s has %d bytes of %d: taken as a torn end", f.path, f.size, set.segmentBytes)
			}
		}
		if f.start%set.segmentBytes != 0 {
			advice := "the file does not belong there: move it away"
			if made := madeWith(files); made > 0 {
				advice = fmt.Sprintf("the directory was made with mappedFileSizeCommitLog=%d: configure that", made)
			}
			return refuse(f.path, "the file's name is no multiple of mappedFileSizeCommitLog=%d; %s", set.segmentBytes, advice)
		}
		if i > 0 && f.start != files[i-1].start+set.segmentBytes {
			return refuse(f.path, "the file before it, %s, is missing: the log has a gap; bring the file back or move all older ones away",
				fileName(f.start-set.segmentBytes))
		}
	}
	lay.log = files
	return nil
}

// dataFiles lists the files of a data directory by start. Everything else in it is left alone with a warning.
func (lay *layout) dataFiles(fsys sysio.FS, dir string) ([]dataFile, error) {
	entries, err := readDirIfThere(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	var files []dataFile
	for _, e := range entries {
		start, ok := parseFileName(e.Name)
		switch {
		case e.Dir && ok:
			return nil, refuse(filepath.Join(dir, e.Name), "this is a folder, expected is a data file: move it away")
		case e.Dir && e.Name == cutDirName:
		case e.Dir:
			lay.warn("%s is a folder, which does not belong there, and is ignored", filepath.Join(dir, e.Name))
		case !ok:
			lay.warn("%s is not a data file and is ignored (the original broker refuses to start with it)", filepath.Join(dir, e.Name))
		default:
			files = append(files, dataFile{start: start, size: e.Size, path: filepath.Join(dir, e.Name)})
		}
	}
	sort.Slice(files, func(i, k int) bool { return files[i].start < files[k].start })
	return files, nil
}

// inspectQueues lists the ConsumeQueue files. A size that cannot be right is refused, because reading with wrong geometry would mix up
// offsets: see judgeQueueSizes.
func (lay *layout) inspectQueues(fsys sysio.FS, set settings) error {
	topics, err := readDirIfThere(fsys, set.queueDir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, t := range topics {
		path := filepath.Join(set.queueDir, t.Name)
		if !t.Dir {
			if t.Name == "CURRENT" || strings.HasPrefix(t.Name, "MANIFEST-") {
				return refuse(path, "these are RocksDB consume queues (storeType=defaultRocksDB), which peregrine does not read")
			}
			if isTopicName(t.Name) {
				return refuse(path, "%s", noTopicFolder)
			}
			lay.warn("%s is not a topic and is ignored", path)
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
				lay.warn("%s is not a queue and is ignored", filepath.Join(path, e.Name))
				continue
			}
			if err := lay.inspectQueue(fsys, set, t.Name, message.QueueID(id), filepath.Join(path, e.Name)); err != nil {
				return err
			}
		}
	}
	return lay.judgeQueueSizes(set)
}

// What a start would make a folder of, and cannot.
const (
	noTopicFolder = "this is a file, expected is the folder of a topic: move it away; without the folder its queues are made again from the log"
	noQueueFolder = "this is a file, expected is the folder of a queue: move it away; without the folder the queue is made again from the log"
)

// isTopicName tells whether clients can make a topic of that name (TopicValidator, 5.5.0): then its folder has to go there.
func isTopicName(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '%', c == '|', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

func (lay *layout) inspectQueue(fsys sysio.FS, set settings, topic string, id message.QueueID, dir string) error {
	files, err := lay.dataFiles(fsys, dir)
	if err != nil {
		return err
	}
	for i, f := range files {
		if i > 0 && f.start != files[i-1].start+set.queueFileBytes {
			lay.warn("%s: the file before it is missing; older entries of the queue cannot be read", f.path)
		}
	}
	lay.queues = append(lay.queues, queueDir{topic: topic, id: id, files: files})
	return nil
}
