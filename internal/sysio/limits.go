package sysio

const (
	// PageSize is the unit of every range that is synced, populated or counted. It is the page of x86-64 and of most arm64
	// kernels, and RocketMQ's unit for "pages" settings. On a kernel with larger pages ranges are widened to those.
	PageSize = 4096

	// IovecMax is the most parts that one pwritev call takes (IOV_MAX of Linux); more parts cost more calls.
	IovecMax = 1024

	// WholeFileMax bounds ReadFile and ReadFileWithBackup in bytes: state files are a few KiB to some ten MiB, and a broken or
	// foreign file must not take the memory of the process.
	WholeFileMax = 512 << 20

	// faultFileMax bounds a file of FaultFS in bytes: it lies in memory.
	faultFileMax = 2 << 30
)
