package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"

	"peregrine/internal/message"
)

// ExtUnit is what a ConsumeQueue unit stands for that names one in consumequeue_ext.
type ExtUnit struct {
	Position int64            `json:"position"` // over the queue's ext files
	Tags     message.TagsCode `json:"tagsCode"`
	Stored   message.Millis   `json:"storeTime"`
	Problem  string           `json:"problem,omitempty"` // why the two are not known
}

const (
	extUnitBytes  = 20 // without a bit map
	extBlankBytes = 4  // free behind the last unit of a file
)

// extReader reads ext units through one block of each queue: within a queue they are asked for in their order.
type extReader struct {
	d      *Directory
	blocks map[string]*extBlock // by the name of the queue
}

type extBlock struct {
	from int64
	b    []byte
}

func (d *Directory) newExtReader() *extReader {
	return &extReader{d: d, blocks: map[string]*extBlock{}}
}

// of returns what a unit of the queue stands for; nil where it holds its tags code itself.
func (r *extReader) of(q *Queue, u Unit) (*ExtUnit, error) {
	if !u.Written() || u.PreBlank() || !u.Tags.IsExtAddress() {
		return nil, nil
	}
	x := &ExtUnit{Position: int64(u.Tags) - -1<<63}
	block := r.blocks[q.Name]
	if block != nil && block.holds(x.Position) && x.decode(block, r.d.ExtFileBytes) {
		return x, nil
	}
	// Anew also where a block did not help: a broker that runs may have written since.
	var err error
	if block, err = r.load(q, x.Position); err != nil {
		return nil, err
	}
	switch {
	case block == nil:
		x.Problem = "its ext file is missing"
	case !x.decode(block, r.d.ExtFileBytes):
		x.Problem = "no ext unit is at its address"
	}
	return x, nil
}

func (b *extBlock) holds(pos int64) bool {
	return pos >= b.from && pos-b.from <= int64(len(b.b))-extUnitBytes
}

func (x *ExtUnit) decode(block *extBlock, fileBytes int64) bool {
	if !block.holds(x.Position) {
		return false
	}
	b := block.b[x.Position-block.from:]
	size, bits := int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[18:]))
	if bits < 0 || int(size) != extUnitBytes+int(bits) || x.Position%fileBytes+int64(size)+extBlankBytes > fileBytes {
		return false
	}
	x.Tags, x.Stored = message.TagsCode(binary.BigEndian.Uint64(b[2:])), message.Millis(binary.BigEndian.Uint64(b[10:]))
	return true
}

// load reads what begins at a position, nil where no file is.
func (r *extReader) load(q *Queue, pos int64) (*extBlock, error) {
	i := sort.Search(len(q.Ext), func(i int) bool { return q.Ext[i].Start > pos }) - 1
	if i < 0 || pos-q.Ext[i].Start >= r.d.ExtFileBytes {
		if !r.d.Held {
			return nil, nil
		}
		files, err := r.d.listAgain(r.d.extDir(q), &r.d.ExtFileBytes, KindExtFile) // it may have come since
		if i = sort.Search(len(files), func(i int) bool { return files[i].Start > pos }) - 1; err != nil || i < 0 || pos-files[i].Start >= r.d.ExtFileBytes {
			return nil, err
		}
		q.Ext = files
	}
	file, err := r.d.opts.FS.OpenFile(q.Ext[i].Path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	at := pos - q.Ext[i].Start
	b := make([]byte, min(extBlockBytes, r.d.ExtFileBytes-at))
	n, err := file.ReadAt(b, at)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read %s at %d: %w", q.Ext[i].Name, at, err)
	}
	if len(r.blocks) >= extBlocksMax {
		clear(r.blocks)
	}
	block := &extBlock{pos, b[:n]}
	r.blocks[q.Name] = block
	return block, nil
}

func (d *Directory) extDir(q *Queue) string {
	return filepath.Join(d.Root, "consumequeue_ext", q.Topic, strconv.Itoa(int(q.ID)))
}

// listExt lists the ext files of the queues. Those of queues that are not there are nobody's.
func (d *Directory) listExt() error {
	var all [][]File
	for _, q := range d.Queues {
		files, _, err := d.dataFiles(d.extDir(q))
		if err != nil {
			return err
		}
		q.Ext = files
		all = append(all, files)
	}
	if d.ExtFileBytes = d.opts.ExtFileBytes; d.ExtFileBytes <= 0 {
		d.ExtFileBytes = fileBytes(all...)
	}
	for _, q := range d.Queues {
		q.Ext = d.checkFiles(q.Ext, d.ExtFileBytes, KindExtFile, "mappedFileSizeConsumeQueueExt",
			"with enableConsumeQueueExt the original refuses to start with a file of another length")
	}
	return nil
}

// judgeExt says what is wrong with the ext unit of a record's unit; false where nothing is.
func (v *verifier) judgeExt(q *queueState, off message.QueueOffset, u Unit, view *message.View, tags message.TagsCode) (bool, error) {
	x, err := v.ext.of(q.dir, u)
	if x == nil || err != nil {
		return false, err
	}
	const everybody = "a broker gives the message to every consumer of the topic, the client filters"
	switch {
	case x.Problem != "":
		v.extend(q, KindUnit, Fault, off, view.PhyOffset, "ext"+x.Problem, "%s has unknown tags: "+x.Problem, everybody)
	case x.Stored != view.StoreTimestamp:
		v.extend(q, KindUnit, Fault, off, view.PhyOffset, "exttime", "%s: its ext unit has another store time than the record", everybody)
	case !tagsFit(x.Tags, tags, q.topic, view.StoreTimestamp):
		v.extend(q, KindUnit, Fault, off, view.PhyOffset, "exttags", fmt.Sprintf("%%s: the ext unit of the first has tags code %d, the record %d", x.Tags, tags),
			"consumers that filter by tag get the wrong messages")
	default:
		return false, nil
	}
	return true, nil
}
