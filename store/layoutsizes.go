package store

import (
	"errors"
	"fmt"
	"path/filepath"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// refuseLength refuses a file of the log that is too long, or too short in front of others that hold something: where all files have the
// same other length it is the configuration that is wrong, else the file is damaged.
func refuseLength(set settings, files []dataFile, f dataFile) error {
	what := fmt.Sprintf("the file has %d bytes, expected are %d (mappedFileSizeCommitLog)", f.size, set.segmentBytes)
	if made := madeWith(files); made > 0 && made != set.segmentBytes {
		return refuse(f.path, "%s; the directory was made with mappedFileSizeCommitLog=%d: configure that", what, made)
	}
	if f.size > set.segmentBytes {
		return refuse(f.path, "%s; bring it back from a copy, or cut what it has too many (truncate -s %d %s)", what, set.segmentBytes, filepath.Base(f.path))
	}
	return &RefusedError{Path: f.path, Repairable: true, Reason: what + ": it was cut short, and files behind it hold something; bring it back from a copy, " +
		"or have peregrine dump --repair --fill --yes give it its length and fill what it lost, or move it and all older ones away"}
}

// madeWith returns the size that a log's files were made with if all of them have that length and a name that fits it, else 0.
func madeWith(files []dataFile) (size int64) {
	for _, f := range files {
		if f.size == 0 {
			continue
		}
		if size == 0 {
			size = f.size
		}
		if f.size != size || f.start%size != 0 {
			return 0
		}
	}
	return size
}

// refuseOtherSize refuses a log of one file that is shorter than configured, unless that file was cut short: then it is served up to its last
// whole record, as a short last file of several is. The state file tells, or the end of the file: only in one that was cut short is
// there no room for an end-of-file mark, or a record begins that ends outside.
func refuseOtherSize(fsys sysio.FS, set settings, f dataFile) error {
	made := fmt.Sprintf("the file has %d bytes, expected are %d (mappedFileSizeCommitLog)", f.size, set.segmentBytes)
	config := refuse(f.path, "%s; the directory was made with mappedFileSizeCommitLog=%d: configure that", made, f.size)
	if st, err := readState(fsys, set.root); err == nil && st != nil {
		switch st.segmentBytes {
		case set.segmentBytes:
			return nil
		case f.size:
			return config
		}
	}
	verdict, err := endOfFile(fsys, set, f)
	switch {
	case err != nil:
		return err
	case verdict == endCut:
		return nil
	case verdict == endMarked:
		return config
	}
	return refuse(f.path, "%s. If the directory was made with mappedFileSizeCommitLog=%d, configure that. If the file was cut short, bring it back "+
		"from a copy, or give it its length (truncate -s %d %s) to have it served up to its last whole record", made, f.size, set.segmentBytes, filepath.Base(f.path))
}

// fileEnd is what the end of a file of the log says about its length.
type fileEnd uint8

const (
	endOpen   fileEnd = iota // nothing: free space
	endMarked                // it is the whole file: an end-of-file mark says so
	endCut                   // the file was longer
)

// endOfFile walks over the records of a file that is shorter than configured.
func endOfFile(fsys sysio.FS, set settings, f dataFile) (fileEnd, error) {
	table := (&fileTable{size: set.segmentBytes}).with(&mappedFile{start: message.PhyOffset(f.start), size: set.segmentBytes, path: f.path})
	sc := &logScanner{fsys: fsys, table: table}
	defer sc.close()
	pos := message.PhyOffset(f.start)
	for {
		left := f.start + f.size - int64(pos)
		if left < blankBytes {
			return endCut, nil
		}
		v, err := sc.look(pos)
		if err != nil {
			return endOpen, fmt.Errorf("store: %w", err)
		}
		if v == recordGood || v == recordDamaged {
			pos += message.PhyOffset(sc.view.Size)
			continue
		}
		b, err := sc.at(pos, blankBytes)
		if err != nil {
			return endOpen, fmt.Errorf("store: %w", err)
		}
		switch err := message.ParseView(b, &sc.view); {
		case errors.Is(err, message.ErrBlank) && int64(sc.view.Size) == left:
			return endMarked, nil
		case errors.Is(err, message.ErrTornTail) && (left < phyFieldEnd || namesPosition(b, pos)):
			return endCut, nil
		}
		return endOpen, nil
	}
}

// judgeQueueSizes looks at the lengths and names of all files of queues. Where all of them have the same other length, it is the
// configuration that is wrong. A queue's short last file is mended (copied half, say); another one of a wrong length is damaged: the queue
// has to be made again from the log.
func (lay *layout) judgeQueueSizes(set settings) error {
	want := set.queueFileBytes
	var wrong, misnamed *dataFile
	short := false
	for i := range lay.queues {
		files := lay.queues[i].files
		for k := range files {
			switch f := &files[k]; {
			case f.start%want != 0:
				misnamed = first(misnamed, f)
			case f.size == want:
			case f.size == 0:
				lay.warn("%s is empty: what it held is made again from the log", f.path)
			case f.size < want && k == len(files)-1:
				short = true
				lay.warn("%s has %d bytes of %d: the rest is taken as empty", f.path, f.size, want)
			default:
				wrong = first(wrong, f)
			}
		}
	}
	if wrong == nil && misnamed == nil && !short {
		return nil
	}
	f, other := otherSize(lay.queues, want)
	switch {
	case other && f.size%unitBytes == 0:
		return refuse(f.path, "the file has %d bytes, expected are %d (mappedFileSizeConsumeQueue); no file of a queue has as many: "+
			"the directory was made with mappedFileSizeConsumeQueue=%d: configure that; if it was not, delete the file, its entries are made again from the log",
			f.size, want, f.size)
	case misnamed != nil:
		return refuse(misnamed.path, "the file's name is no multiple of mappedFileSizeConsumeQueue=%d: configure what the directory was made with, "+
			"or move the file away: the queue is made again from the log", want)
	case wrong != nil:
		return &RefusedError{Path: wrong.path, Repairable: true, Reason: fmt.Sprintf("the file has %d bytes, expected are %d (mappedFileSizeConsumeQueue): "+
			"it is damaged; peregrine dump --repair --yes makes the queue again from the log and keeps the file, or restore it from a copy", wrong.size, want)}
	}
	return nil
}

func first(one, other *dataFile) *dataFile {
	if one != nil {
		return one
	}
	return other
}

// otherSize tells whether all files were made with another size than the configured one, and gives the first: no file has that
// size, and all that have any length have the same shorter one. Single files of a wrong length were cut off.
func otherSize(dirs []queueDir, configured int64) (first dataFile, other bool) {
	for _, d := range dirs {
		for _, f := range d.files {
			switch {
			case f.size == 0:
			case f.size == configured, first.size != 0 && f.size != first.size:
				return dataFile{}, false
			case first.size == 0:
				first = f
			}
		}
	}
	return first, first.size != 0
}
