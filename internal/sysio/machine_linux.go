package sysio

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func kernelAndMemory() (kernel string, memoryBytes uint64) {
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		memoryBytes = uint64(info.Totalram) * uint64(info.Unit)
	}
	return kernel, memoryBytes
}

// fileSystemName names the file system that holds path by the magic number that statfs gives, in hexadecimal if unknown.
func fileSystemName(path string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return ""
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.F2FS_SUPER_MAGIC:
		return "f2fs"
	case 0x2fc12fc1:
		return "zfs"
	}
	return fmt.Sprintf("0x%x", uint32(st.Type))
}
