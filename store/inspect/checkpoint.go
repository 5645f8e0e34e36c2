package inspect

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"peregrine/internal/message"
)

// Checkpoint is the content of the checkpoint file (StoreCheckpoint of 5.5.0): six i64, then zeros up to 4096 bytes.
type Checkpoint struct {
	Exists               bool
	PhysicMsgTimestamp   message.Millis
	LogicsMsgTimestamp   message.Millis
	IndexMsgTimestamp    message.Millis
	MasterFlushedOffset  message.PhyOffset
	ConfirmPhyOffset     message.PhyOffset
	LogicsPhysicalOffset message.PhyOffset // of 5.4 and newer
}

func parseCheckpoint(b []byte) (c Checkpoint, ok bool) {
	if len(b) < 48 {
		return c, false
	}
	at := func(off int) int64 { return int64(binary.BigEndian.Uint64(b[off:])) }
	return Checkpoint{Exists: true, PhysicMsgTimestamp: message.Millis(at(0)), LogicsMsgTimestamp: message.Millis(at(8)),
		IndexMsgTimestamp: message.Millis(at(16)), MasterFlushedOffset: message.PhyOffset(at(24)),
		ConfirmPhyOffset: message.PhyOffset(at(32)), LogicsPhysicalOffset: message.PhyOffset(at(40))}, true
}

func (d *Directory) readCheckpoint() error {
	finding := &Finding{Level: Fault, Kind: KindCheckpoint, File: "checkpoint", Position: -1,
		Original: "the original makes a new one; its next start after a crash has no beginning and scans up to 10 files back"}
	b := make([]byte, checkpointBytes)
	n, err := d.readFile(filepath.Join(d.Root, "checkpoint"), b, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if len(d.Log) > 0 {
			d.add(finding.format("the file is missing"))
		}
		return nil
	}
	if err != nil && err != io.EOF {
		return err
	}
	if n == 0 && d.Held { // it is being made
		return nil
	}
	c, ok := parseCheckpoint(b[:n])
	if !ok || n < checkpointBytes {
		d.add(finding.format("it has %d bytes, expected are %d", n, checkpointBytes))
	}
	d.Checkpoint = c
	return nil
}

// readFile reads at off into b; fewer bytes come with io.EOF.
func (d *Directory) readFile(path string, b []byte, off int64) (int, error) {
	f, err := d.opts.FS.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.ReadAt(b, off)
}
