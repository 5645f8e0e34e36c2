// Package sysio is the only place of peregrine that talks to the operating system about files and memory: open, preallocate,
// map, sync, lock, measure. It knows nothing of logs, queues or messages.
//
// # Two file systems, one interface
//
// OS is the real one. FaultFS keeps everything in memory, lies, fails, blocks and loses power on request; its fault model
// stands at the head of faultfs.go. Code above this package takes an FS and never calls package os for files.
//
// # What is durable when
//
//	call                       survives kill -9   survives a power cut
//	write into a Mapping       yes                no
//	WriteAt, Pwritev           yes                no
//	Mapping.SyncRange          yes                the bytes of these pages, and the file's size
//	File.Datasync              yes                all bytes of the file written before the call, and its size
//	File.Sync                  yes                the same, and the times and mode
//	Allocate, Truncate         yes                not before one of the three syncs above
//	OpenFile(O_CREATE), Rename,
//	Remove, Link, MkdirAll     yes                not before SyncDir of the parent directory
//	AtomicWriteFile            yes                yes: the old content or the new one, never a mixture
//
// A sync covers what was written before it began. A sync that failed says nothing about any byte since the last good one, and
// trying again proves nothing: the kernel may have marked the pages clean (so nobody retries a sync in peregrine).
//
// # Goroutines
//
// Every type may be used by many goroutines at a time. Close and Unmap wait for the calls that are inside and make later
// ones fail with an error that is fs.ErrClosed, so a late sync never reaches a descriptor that belongs to somebody else by
// now. The bytes of a Mapping are not protected: who reads or writes them must know that it is still mapped.
//
// Locks: osFile.mu, osMapping.mu and FaultFS.mu are leaves; nothing else is taken inside them.
package sysio
