package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// checkpointFields is the content of the checkpoint file (StoreCheckpoint, 5.5.0). All fields are i64; 0 = not known.
//
//	offset  field                 meaning
//	0       physicMsgTimestamp    store time of the newest record known to be durable in the CommitLog
//	8       logicsMsgTimestamp    store time of the newest record whose unit is known to be durable
//	16      indexMsgTimestamp     end store time of the newest full and durable IndexFile
//	24      masterFlushedOffset   of slaves; kept as found
//	32      confirmPhyOffset      of controller modes; kept as found
//	40      logicsPhysicalOffset  start of the record of logicsMsgTimestamp (0 in directories of 5.3 and older)
//	48      zero up to 4096
type checkpointFields struct {
	PhysicMsgTimestamp   message.Millis
	LogicsMsgTimestamp   message.Millis
	IndexMsgTimestamp    message.Millis
	MasterFlushedOffset  message.PhyOffset
	ConfirmPhyOffset     message.PhyOffset
	LogicsPhysicalOffset message.PhyOffset
}

const checkpointUsed = 48

func (c *checkpointFields) encode(b []byte) {
	for i, v := range []int64{int64(c.PhysicMsgTimestamp), int64(c.LogicsMsgTimestamp), int64(c.IndexMsgTimestamp),
		int64(c.MasterFlushedOffset), int64(c.ConfirmPhyOffset), int64(c.LogicsPhysicalOffset)} {
		binary.BigEndian.PutUint64(b[i*8:], uint64(v))
	}
}

func decodeCheckpoint(b []byte) checkpointFields {
	at := func(off int) int64 { return int64(binary.BigEndian.Uint64(b[off:])) }
	return checkpointFields{
		PhysicMsgTimestamp:   message.Millis(at(0)),
		LogicsMsgTimestamp:   message.Millis(at(8)),
		IndexMsgTimestamp:    message.Millis(at(16)),
		MasterFlushedOffset:  message.PhyOffset(at(24)),
		ConfirmPhyOffset:     message.PhyOffset(at(32)),
		LogicsPhysicalOffset: message.PhyOffset(at(40)),
	}
}

// readCheckpoint returns the fields, all zero when the file is missing or too short to hold them.
func readCheckpoint(fsys sysio.FS, path string) (checkpointFields, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return checkpointFields{}, nil
	}
	if err != nil {
		return checkpointFields{}, err
	}
	defer f.Close()
	var b [checkpointUsed]byte
	if _, err := f.ReadAt(b[:], 0); err == io.EOF {
		return checkpointFields{}, nil
	} else if err != nil {
		return checkpointFields{}, err
	}
	return decodeCheckpoint(b[:]), nil
}

// checkpoint is the open file. It is written in place: the used bytes lie in one sector, which a disk writes as a whole.
type checkpoint struct {
	mu      sync.Mutex // all below; leaf apart from file calls
	file    sysio.File
	fields  checkpointFields
	written checkpointFields
}

func openCheckpoint(fsys sysio.FS, path string, fields checkpointFields) (*checkpoint, error) {
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err == nil && size != checkpointBytes {
		err = f.Truncate(checkpointBytes)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return &checkpoint{file: f, fields: fields, written: fields}, nil
}

// now returns what the file holds.
func (c *checkpoint) now() checkpointFields {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}

// setLogics moves the queue fields forward.
func (c *checkpoint) setLogics(storeTime message.Millis, phy message.PhyOffset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if phy >= c.fields.LogicsPhysicalOffset && storeTime > 0 {
		c.fields.LogicsPhysicalOffset, c.fields.LogicsMsgTimestamp = phy, storeTime
	}
}

// cutTo takes the queue fields back to from when they name something at or behind the end of the log, durably: the record that will
// lie there has no unit yet.
func (c *checkpoint) cutTo(end, from message.PhyOffset, newest message.Millis) error {
	c.mu.Lock()
	behind := c.fields.LogicsPhysicalOffset >= end && c.fields.LogicsPhysicalOffset > from
	if behind {
		c.fields.LogicsPhysicalOffset = from
		c.fields.LogicsMsgTimestamp = min(c.fields.LogicsMsgTimestamp, newest)
	}
	c.mu.Unlock()
	if !behind {
		return nil
	}
	return c.save(true)
}

// lowerTo takes the queue fields back to phy, durably. Which store time belongs to it is not known: 0 is safe.
func (c *checkpoint) lowerTo(phy message.PhyOffset) error {
	c.mu.Lock()
	if c.fields.LogicsPhysicalOffset > phy {
		c.fields.LogicsPhysicalOffset, c.fields.LogicsMsgTimestamp = phy, 0
	}
	c.mu.Unlock()
	return c.save(true)
}

// replace sets all fields, durably.
func (c *checkpoint) replace(fields checkpointFields) error {
	c.mu.Lock()
	c.fields = fields
	c.mu.Unlock()
	return c.save(true)
}

// forgetBehind sets times later than newest to 0, durably.
func (c *checkpoint) forgetBehind(newest message.Millis) (forgot bool, err error) {
	c.mu.Lock()
	for _, t := range []*message.Millis{&c.fields.PhysicMsgTimestamp, &c.fields.LogicsMsgTimestamp, &c.fields.IndexMsgTimestamp} {
		if *t > newest {
			*t, forgot = 0, true
		}
	}
	c.mu.Unlock()
	if !forgot {
		return false, nil
	}
	return true, c.save(true)
}

func (c *checkpoint) setPhysic(t message.Millis) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fields.PhysicMsgTimestamp = max(c.fields.PhysicMsgTimestamp, t)
}

// setIndex moves the index field forward: every index file up to the one that ends at t is full and durable.
func (c *checkpoint) setIndex(t message.Millis) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fields.IndexMsgTimestamp = max(c.fields.IndexMsgTimestamp, t)
}

// lowerIndex takes the index field back to t: later index files are made again.
func (c *checkpoint) lowerIndex(t message.Millis) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fields.IndexMsgTimestamp = min(c.fields.IndexMsgTimestamp, t)
}

func (c *checkpoint) indexTime() message.Millis {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fields.IndexMsgTimestamp
}

// save writes the fields if they changed, and makes them durable if asked to.
func (c *checkpoint) save(durable bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fields != c.written {
		var b [checkpointUsed]byte
		c.fields.encode(b[:])
		if _, err := c.file.WriteAt(b[:], 0); err != nil {
			return err
		}
		c.written = c.fields
	}
	if durable {
		return c.file.Datasync()
	}
	return nil
}

func (c *checkpoint) close() error { return c.file.Close() }
