package store

import "fmt"

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
			case f.size == 0 || f.size == want:
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
