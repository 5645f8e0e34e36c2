package sysio

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/klauspost/cpuid/v2"
)

// Machine is the fingerprint of where a process runs: the conditions without which a number means nothing.
// A field that could not be found out is empty or 0.
type Machine struct {
	CPU           string     `json:"cpu"`           // the processor's own name for itself
	LogicalCores  int        `json:"logicalCores"`  // that this process may use (affinity and container limits count)
	PhysicalCores int        `json:"physicalCores"` // as the processor says; a virtual machine may say anything
	CacheLine     int        `json:"cacheLine"`     // bytes
	MemoryBytes   uint64     `json:"memoryBytes"`   // of the machine, not of the process
	Kernel        string     `json:"kernel"`        // "Linux 6.18.0"
	FileSystem    string     `json:"fileSystem"`    // of the directory asked for: "ext4"
	GoVersion     string     `json:"goVersion"`
	Load          [3]float64 `json:"load"` // load averages over 1, 5 and 15 minutes when it was taken
}

// Fingerprint looks at this machine. dir is any existing path on the file system of interest, empty = none.
// It reads a few files under /proc; it is meant for a start or a report, not for a hot path.
func Fingerprint(dir string) Machine {
	m := Machine{
		CPU:           cpuid.CPU.BrandName,
		LogicalCores:  CPUCount(),
		PhysicalCores: cpuid.CPU.PhysicalCores,
		CacheLine:     cpuid.CPU.CacheLine,
		GoVersion:     runtime.Version(),
	}
	if m.CPU == "" {
		m.CPU = runtime.GOARCH
	}
	m.Kernel, m.MemoryBytes = kernelAndMemory()
	if dir != "" {
		m.FileSystem = fileSystemName(dir)
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscanf(string(text), "%f %f %f", &m.Load[0], &m.Load[1], &m.Load[2])
	}
	return m
}

// String is the machine in one line, as a banner wants it.
func (m Machine) String() string {
	parts := []string{m.CPU, fmt.Sprintf("%d cores", m.LogicalCores)}
	if m.MemoryBytes > 0 {
		parts = append(parts, fmt.Sprintf("%.1f GiB", float64(m.MemoryBytes)/(1<<30)))
	}
	for _, s := range []string{m.Kernel, m.FileSystem, m.GoVersion} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ", ")
}
