package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"peregrine/internal/sysio"
)

// Probe is what a device does for a program that writes and syncs as a log does. No broker takes part.
type Probe struct {
	Dir         string   `json:"dir"`
	FileSystem  string   `json:"fileSystem"`
	SyncWritten *Latency `json:"syncWritten"` // fdatasync of 4 KiB over blocks that hold data
	SyncFresh   *Latency `json:"syncFresh"`   // fdatasync of 4 KiB into blocks that are allocated only: their first write back changes the file system
	WriteRate   float64  `json:"writeRate"`   // bytes a second of sequential writes with a sync at their end
}

const (
	probeSyncs      = 300
	probeSyncBytes  = 4 << 10
	probeWriteBytes = 1 << 20
	probeWrites     = 256
)

// ProbeDevice measures in a file of its own, which it removes. It writes some 260 MB.
func ProbeDevice(dir string) (p *Probe, err error) {
	path := filepath.Join(dir, fmt.Sprintf(".peregrine-bench-probe-%d", os.Getpid()))
	f, err := sysio.OS{}.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--probe-dir: %w", err)
	}
	defer func() {
		err = errors.Join(err, f.Close(), sysio.OS{}.Remove(path))
	}()
	p = &Probe{Dir: dir, FileSystem: sysio.Fingerprint(dir).FileSystem}
	if err := f.Allocate(0, probeWrites*probeWriteBytes); err != nil {
		return nil, fmt.Errorf("--probe-dir: %w", err)
	}
	syncs := func() (*Latency, error) {
		h := newHistogram()
		block := filler(probeSyncBytes)
		for i := range int64(probeSyncs) {
			if _, err := f.WriteAt(block, i*probeSyncBytes); err != nil {
				return nil, err
			}
			began := time.Now()
			if err := f.Datasync(); err != nil {
				return nil, err
			}
			_ = h.RecordValue(min(int64(time.Since(began)), latencyMaxNs))
		}
		return latencyOf(h), nil
	}
	if p.SyncFresh, err = syncs(); err == nil {
		p.SyncWritten, err = syncs()
	}
	if err != nil {
		return nil, fmt.Errorf("--probe-dir: %w", err)
	}
	large := filler(probeWriteBytes)
	began := time.Now()
	for i := range int64(probeWrites) {
		if _, err := f.WriteAt(large, i*probeWriteBytes); err != nil {
			return nil, fmt.Errorf("--probe-dir: %w", err)
		}
	}
	if err := f.Datasync(); err != nil {
		return nil, fmt.Errorf("--probe-dir: %w", err)
	}
	p.WriteRate = probeWrites * probeWriteBytes / time.Since(began).Seconds()
	return p, nil
}
