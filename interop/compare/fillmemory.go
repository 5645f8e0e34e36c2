package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"peregrine/bench"
	"peregrine/internal/sysio"
)

const (
	fillFileBytes   = 8 << 40   // of the file without data: more than all runs together read
	fillPieceBytes  = 4 << 20   // of one read
	fillLeavesBytes = 768 << 20 // free memory that stays; the kernel takes pages back only when there is less
)

// memoryFiller brings the machine into the state of one that has run a broker for a while: what memory is free becomes page cache, of a
// file without data, which the kernel takes back for whoever needs pages. Virtual machines that give free memory back to their
// host get each page from it again otherwise while a broker is measured, which can cost more than all that the broker does with it. A
// nil filler leaves memory as it is.
type memoryFiller struct {
	file *os.File
	at   int64 // what lies before was read already
	buf  []byte
}

// newMemoryFiller makes the file in dir, which goes with dir.
func newMemoryFiller(dir string) (*memoryFiller, error) {
	f, err := os.Create(filepath.Join(dir, "nothing"))
	if err == nil {
		err = f.Truncate(fillFileBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("memory cannot be filled, --fill-memory=false leaves it as it is: %w", err)
	}
	return &memoryFiller{file: f, buf: make([]byte, fillPieceBytes)}, nil
}

// fill reads as much of the file as memory is free.
func (m *memoryFiller) fill(ctx context.Context) error {
	if m == nil {
		return nil
	}
	free, err := sysio.MemFree()
	for ; err == nil && free > fillLeavesBytes; free -= fillPieceBytes {
		_, err = m.file.ReadAt(m.buf, m.at)
		m.at += fillPieceBytes
		err = errors.Join(err, ctx.Err())
	}
	return err
}

func (m *memoryFiller) said() string {
	if m == nil {
		return "Free memory was left as it was."
	}
	return "Free memory was filled with page cache before each run."
}

// load is bench.Run with the memory filled before.
func (o options) load(ctx context.Context, load bench.Options, progress io.Writer) (*bench.Report, error) {
	if err := o.memory.fill(ctx); err != nil {
		return nil, err
	}
	return bench.Run(ctx, load, progress)
}
