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
	probeGroupTime  = time.Second
)

// withProbeFile gives use an allocated file of probeWrites*probeWriteBytes bytes in dir, which is removed afterwards.
func withProbeFile(dir string, use func(f sysio.File) error) (err error) {
	path := filepath.Join(dir, fmt.Sprintf(".peregrine-bench-probe-%d", os.Getpid()))
	f, err := sysio.OS{}.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		if err = f.Allocate(0, probeWrites*probeWriteBytes); err == nil {
			err = use(f)
		}
		err = errors.Join(err, f.Close(), sysio.OS{}.Remove(path))
	}
	if err != nil {
		return fmt.Errorf("--probe-dir: %w", err)
	}
	return nil
}

// ProbeGroups measures how many groups of size bytes a second the device takes one after the other, each written behind the last one into allocated blocks and
// synced: no broker that makes one sync at a time answers more groups.
func ProbeGroups(dir string, size int) (perSecond float64, err error) {
	err = withProbeFile(dir, func(f sysio.File) error {
		group := filler(size)
		var n int64
		began := time.Now()
		for ; time.Since(began) < probeGroupTime && (n+1)*int64(size) <= probeWrites*probeWriteBytes; n++ {
			if _, err := f.WriteAt(group, n*int64(size)); err != nil {
				return err
			}
			if err := f.Datasync(); err != nil {
				return err
			}
		}
		perSecond = float64(n) / time.Since(began).Seconds()
		return nil
	})
	return perSecond, err
}

// ProbeDevice measures in a file of its own, which it removes. It writes some 260 MB.
func ProbeDevice(dir string) (*Probe, error) {
	p := &Probe{Dir: dir, FileSystem: sysio.Fingerprint(dir).FileSystem}
	err := withProbeFile(dir, p.measure)
	return p, err
}

func (p *Probe) measure(f sysio.File) (err error) {
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
		return err
	}
	large := filler(probeWriteBytes)
	began := time.Now()
	for i := range int64(probeWrites) {
		if _, err := f.WriteAt(large, i*probeWriteBytes); err != nil {
			return err
		}
	}
	if err := f.Datasync(); err != nil {
		return err
	}
	p.WriteRate = probeWrites * probeWriteBytes / time.Since(began).Seconds()
	return nil
}
