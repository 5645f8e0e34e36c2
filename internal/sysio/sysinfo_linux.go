package sysio

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// PhysicalMemory returns the memory of the machine in bytes, or the limit of the cgroup when that is lower.
func PhysicalMemory() (int64, error) {
	total, err := procField("/proc/meminfo", "MemTotal:")
	if err != nil {
		return 0, err
	}
	if limit, _, ok := cgroupMemory(); ok && limit < total {
		return limit, nil
	}
	return total, nil
}

// MemAvailable returns how many bytes could be used for page cache and programs without swapping: the kernel's estimate,
// bounded by what the cgroup has left.
func MemAvailable() (int64, error) {
	avail, err := procField("/proc/meminfo", "MemAvailable:")
	if err != nil {
		return 0, err
	}
	if limit, used, ok := cgroupMemory(); ok {
		avail = min(avail, max(limit-used, 0))
	}
	return avail, nil
}

// MemFree returns how many bytes of memory nobody uses, not even as page cache.
func MemFree() (int64, error) { return procField("/proc/meminfo", "MemFree:") }

// RssAnon returns the resident anonymous memory of this process in bytes: heap and stacks, without mapped files.
func RssAnon() (int64, error) { return RssAnonOf(os.Getpid()) }

// RssAnonOf is RssAnon of another process.
func RssAnonOf(pid int) (int64, error) {
	return procField(fmt.Sprintf("/proc/%d/status", pid), "RssAnon:")
}

// CPUOf returns the processor time that a process has used, user and system, in steps of 10 ms.
func CPUOf(pid int) (time.Duration, error) {
	file := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	// Behind the name, which may hold anything, comes field 3; 14 and 15 are user and system time in USER_HZ, 100 on every Linux.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s: %d fields behind the name", file, len(fields))
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / 100, errors.Join(err, err2)
}

// procField returns a "Name:   123 kB" field of a proc file in bytes.
func procField(file, name string) (int64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %s %w", file, name, err)
		}
		return kb << 10, nil
	}
	return 0, fmt.Errorf("%s: no field %s", file, name)
}

// cgroupMemory returns the limit of this process' cgroup and what is used of it, without the page cache that the kernel can
// drop. ok is false without a limit.
func cgroupMemory() (limit, used int64, ok bool) {
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, 0, false
	}
	for line := range strings.Lines(string(self)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var root, maxName, nowName, cacheField string
		switch {
		case parts[0] == "0" && parts[1] == "":
			root, maxName, nowName, cacheField = "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
		case parts[1] == "memory":
			root, maxName, nowName, cacheField = "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
		default:
			continue
		}
		// Inside a container the path is often that of the host, while the mount shows the container's own group as root.
		for _, dir := range []string{path.Join(root, parts[2]), root} {
			limit, err := readNumber(path.Join(dir, maxName))
			if err != nil || limit <= 0 || limit >= 1<<60 { // "max", or v1's number for no limit
				continue
			}
			used, err := readNumber(path.Join(dir, nowName))
			if err != nil {
				continue
			}
			return limit, max(used-cgroupStat(path.Join(dir, "memory.stat"), cacheField), 0), true
		}
	}
	return 0, 0, false
}

func cgroupStat(file, name string) int64 {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}

func readNumber(file string) (int64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
}

// BootID returns the text that the kernel draws anew with each boot: process ids from an earlier boot mean nothing.
func BootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// DirtyLimits returns from how many dirty bytes on the kernel writes back in the background, and from how many on it makes
// writing programs wait. Estimates: the kernel takes its percentages from the memory available at the moment.
func DirtyLimits() (background, throttle int64, err error) {
	avail, err := procField("/proc/meminfo", "MemAvailable:")
	if err != nil {
		return 0, 0, err
	}
	if background, err = dirtyLimit("dirty_background", avail); err != nil {
		return 0, 0, err
	}
	if throttle, err = dirtyLimit("dirty", avail); err != nil {
		return 0, 0, err
	}
	return background, throttle, nil
}

func dirtyLimit(name string, avail int64) (int64, error) {
	if n, err := readNumber("/proc/sys/vm/" + name + "_bytes"); err == nil && n > 0 {
		return n, nil
	}
	percent, err := readNumber("/proc/sys/vm/" + name + "_ratio")
	return avail / 100 * percent, err
}
