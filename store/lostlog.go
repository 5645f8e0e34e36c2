package store

import (
	"io"
	"os"
	"path/filepath"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// refuseLostLog refuses a directory whose queues or index name records although its log holds none: the log is not mounted, or was moved.
// To go on would cut everything that names a record, and give all offsets out again (the original destroys its queues then). Records in
// front of the log's first file were deleted when they were old enough; those do not count.
//
// Files with nothing in them can be all that a power cut left, if nothing was ever synced. Then recovery cuts the queues and says so.
func (lay *layout) refuseLostLog(fsys sysio.FS, set settings) error {
	if blank, err := nothingWritten(fsys, lay.log); err != nil || !blank {
		return err
	}
	begin := message.PhyOffset(0)
	if len(lay.log) > 0 {
		begin = message.PhyOffset(lay.log[0].start)
	}
	where, upTo, err := lay.newestNamed(fsys, set)
	if err != nil || upTo < begin {
		return err
	}
	cp := &lay.checkpoint
	neverSynced := len(lay.log) > 0 && cp.PhysicMsgTimestamp == 0 && cp.LogicsPhysicalOffset == 0 && cp.LogicsMsgTimestamp == 0
	// A start behind such a power cut has cut the queues when it was killed, but its index stage comes later: no run puts a name into the index
	// before a queue has it.
	onlyIndex := filepath.Dir(where) == filepath.Clean(set.indexDir)
	if lay.crashed && neverSynced && (onlyIndex || !openedThisBoot(fsys, set.root)) {
		return nil
	}
	what := "there is no file of the log"
	if len(lay.log) > 0 {
		what = "the files of the log hold nothing"
	}
	return refuse(set.logDir, "%s, but there are records expected up to position %d, which %s names: mount the log there or bring its files back "+
		"(storePathCommitLog says where it is looked for); to start empty, move %s and %s away as well", what, upTo, where, set.queueDir, set.indexDir)
}

// openedThisBoot tells whether peregrine had the directory open since the machine started: the page cache has kept what was written since
// then, so what is missing was taken away by somebody.
func openedThisBoot(fsys sysio.FS, root string) bool {
	st, err := readState(fsys, root)
	return err == nil && st != nil && st.boot != "" && st.boot == bootID(fsys)
}

// nothingWritten tells whether no file of the log holds a byte that is not zero. Mostly the head of the first one answers.
func nothingWritten(fsys sysio.FS, files []dataFile) (bool, error) {
	for _, f := range files {
		var head [blankBytes]byte
		if f.size < int64(len(head)) {
			continue // a power cut took its length, or it is as good as empty
		}
		if err := readHead(fsys, f.path, head[:]); err != nil {
			return false, err
		}
		if !allZero(head[:]) {
			return false, nil
		}
		if at, err := firstWritten(fsys, f.path, 0, f.size); err != nil || at >= 0 {
			return false, err
		}
	}
	return true, nil
}

// readHead reads the first bytes of a file; those that it does not have stay as they are.
func readHead(fsys sysio.FS, path string, b []byte) error {
	file, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.ReadAt(b, 0); err != nil && err != io.EOF {
		return err
	}
	return nil
}

// newestNamed returns the newest position that a unit of a queue, or else an index file, names, and which; -1 when nothing names any.
func (lay *layout) newestNamed(fsys sysio.FS, set settings) (where string, phy message.PhyOffset, err error) {
	phy = -1
	for i := range lay.queues {
		files := lay.queues[i].files
		found := message.PhyOffset(-1)
		for k := len(files) - 1; k >= 0 && found < 0; k-- {
			err := eachWritten(fsys, files[k].path, 0, files[k].size, unitBytes, func(_ int64, b []byte) {
				if u := decodeUnit(b); u.valid() && !u.IsPreBlank() {
					found = max(found, u.Phy)
				}
			})
			if err != nil {
				return "", -1, err
			}
			if found > phy {
				where, phy = files[k].path, found
			}
		}
	}
	if phy >= 0 {
		return where, phy, nil
	}
	for _, f := range lay.index {
		path := filepath.Join(set.indexDir, f.name)
		header, err := readIndexHeader(fsys, path)
		if err != nil {
			return "", -1, err
		}
		if header.count > 1 && header.endPhy > phy {
			where, phy = path, header.endPhy
		}
	}
	return where, phy, nil
}
