package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// verdict is what a look at one place of the log gave.
type verdict uint8

const (
	isGood    verdict = iota
	isDamaged         // lengths, magic and position are right, the content is not
	isBlank           // a valid end-of-file mark
	isNothing         // nothing that could be stepped over by its own length
	isGone            // no file (any more)
)

// logReader looks at records through one buffer.
type logReader struct {
	d     *Directory
	block int64
	buf   []byte
	from  message.PhyOffset // buf[:filled] is the log from here on, in one file
	have  int
	file  sysio.File
	cur   *File

	view   message.View // of the last good or damaged record; aliases buf until the next call
	reason string       // why the last verdict was not good
	unseen bool         // the original does not notice the damage: it serves the record
	zero   bool         // nothing at all stands there
	stale  bool         // a whole record with another position stands there
}

func (d *Directory) newLogReader(block int64) *logReader { return &logReader{d: d, block: block} }

func (r *logReader) close() {
	if r.file != nil {
		r.file.Close()
		r.file, r.cur = nil, nil
	}
}

// at returns the log at phy, at least want bytes of it unless the file ends; nil without a file.
func (r *logReader) at(phy message.PhyOffset, want int64) ([]byte, error) {
	if r.cur == nil || int64(phy) < r.cur.Start || int64(phy) >= r.cur.Start+r.d.SegmentBytes {
		r.close()
		f := r.d.logFile(phy)
		if f == nil {
			return nil, nil
		}
		file, err := r.d.opts.FS.OpenFile(f.Path, os.O_RDONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		r.file, r.cur, r.have = file, f, 0
	}
	left := r.cur.Start + r.d.SegmentBytes - int64(phy)
	want = min(want, left)
	if phy >= r.from && int64(phy-r.from)+want <= int64(r.have) {
		return r.buf[phy-r.from : r.have], nil
	}
	n := min(max(want, r.block), left)
	if int64(cap(r.buf)) < n {
		r.buf = make([]byte, n)
	}
	r.buf = r.buf[:cap(r.buf)]
	m, err := r.file.ReadAt(r.buf[:n], int64(phy)-r.cur.Start)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read %s at %d: %w", r.cur.Name, int64(phy)-r.cur.Start, err)
	}
	r.from, r.have = phy, m
	return r.buf[:m], nil
}

// look judges what stands at phy. A running broker takes the bytes of a file away once its name is gone: they mean nothing then.
func (r *logReader) look(phy message.PhyOffset) (verdict, error) {
	verdict, err := r.judge(phy)
	if err != nil || !r.d.Held || verdict != isNothing && verdict != isDamaged {
		return verdict, err
	}
	file, err := r.d.opts.FS.OpenFile(r.cur.Path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		r.close()
		r.reason = "its file was deleted meanwhile"
		return isGone, nil
	}
	if err != nil {
		return isNothing, err
	}
	return verdict, file.Close()
}

func (r *logReader) judge(phy message.PhyOffset) (verdict, error) {
	r.unseen, r.zero, r.stale, r.reason = false, false, false, ""
	b, err := r.at(phy, 4<<10)
	if err != nil {
		return isNothing, err
	}
	if b == nil {
		r.reason = "there is no file for this position"
		return isGone, nil
	}
	left := r.cur.Start + r.d.SegmentBytes - int64(phy)
	err = message.ParseView(b, &r.view)
	if errors.Is(err, message.ErrTornTail) && len(b) >= message.RecordBytesMin {
		switch size := int64(int32(binary.BigEndian.Uint32(b))); {
		case size > left:
			r.reason = fmt.Sprintf("a record of %d bytes, which its file has no room for", size)
			return isNothing, nil
		case size > recordBytesMax:
			r.reason = fmt.Sprintf("a record of %d bytes", size)
			return isNothing, nil
		case namesPlace(b, phy): // so that a damaged length does not cost memory
			if b, err = r.at(phy, size); err != nil {
				return isNothing, err
			}
			err = message.ParseView(b, &r.view)
		}
	}
	v := &r.view
	switch {
	case errors.Is(err, message.ErrBlank):
		if int64(v.Size) == left {
			return isBlank, nil
		}
		r.reason = fmt.Sprintf("an end-of-file mark over %d bytes, %d are left", v.Size, left)
		r.unseen = true // the original takes any BLANK for the end of the file
		return isNothing, nil
	case errors.Is(err, message.ErrNoRecord):
		r.zero = true
		r.reason = "no record"
		return isNothing, nil
	case errors.Is(err, message.ErrTornTail):
		r.reason = "the file ends in the middle of a record"
		return isNothing, nil
	case err != nil:
		r.reason = strings.TrimPrefix(err.Error(), message.ErrCorrupt.Error()+": ")
		return isNothing, nil
	case v.PhyOffset != phy:
		r.reason = fmt.Sprintf("a record of %d bytes that belongs to position %d", v.Size, v.PhyOffset)
		r.unseen, r.stale = v.CheckCRC(), true
		return isNothing, nil
	case !v.CheckCRC():
		r.reason = fmt.Sprintf("the body does not match its CRC (%08x, stored %08x)", message.BodyCRC(v.Body), v.BodyCRC)
		return isDamaged, nil
	case tornProperties(v.Properties):
		r.reason, r.unseen = "the properties are torn", true
		return isDamaged, nil
	case !propertyCRCFits(b[:v.Size], v.Properties):
		r.reason, r.unseen = "the record does not match the CRC in its properties", true
		return isDamaged, nil
	}
	return isGood, nil
}

// namesPlace tells whether the head of a record claims the position.
func namesPlace(b []byte, phy message.PhyOffset) bool {
	const phyField = 28
	return len(b) >= phyField+8 && message.PhyOffset(binary.BigEndian.Uint64(b[phyField:])) == phy
}

// tornProperties tells whether a properties text ends in a zero byte, as it does when its last page never reached the disk. The
// CRC covers the body only.
func tornProperties(p []byte) bool { return len(p) > 0 && p[len(p)-1] == 0 }

// propertyCRCFits checks the CRC that enabledAppendPropCRC puts at the end of a record: the last 20 bytes are the property,
// its value the CRC over all bytes before it in decimal, the least significant digit first. True where there is none.
func propertyCRCFits(record, properties []byte) bool {
	const digits, tail = 10, len(message.PropertyCRC32) + 1 + 10 + 1
	if len(properties) < tail {
		return true
	}
	p := properties[len(properties)-tail:]
	name := p[:len(message.PropertyCRC32)]
	value := p[len(name)+1:]
	if string(name) != message.PropertyCRC32 || p[len(name)] != message.NameValueSeparator || value[digits] != message.PropertySeparator {
		return true
	}
	var stored uint64
	for i := digits - 1; i >= 0; i-- {
		if value[i] < '0' || value[i] > '9' {
			return true
		}
		stored = stored*10 + uint64(value[i]-'0')
	}
	return stored == uint64(message.BodyCRC(record[:len(record)-tail]))
}

// entersQueue tells whether records of this kind get a queue offset and a unit.
func entersQueue(sysFlag int32) bool {
	t := sysFlag & message.SysFlagTransactionMask
	return t != message.SysFlagTransactionPrepared && t != message.SysFlagTransactionRollback
}
