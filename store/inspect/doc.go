// Package inspect reads a store directory without touching it: for `peregrine dump` and its --verify. It knows the files of
// the original (5.5.0, and 4.9.4 where they differ) by themselves and shares no code with the store's own recovery apart from
// package message, so that the two check each other.
//
// It only opens files for reading and reads them with pread. It takes no lock, so it works on the directory of a running
// broker too: there it reads up to the newest ConsumeQueue entry that it found when it came, and gives a record that has no
// entry yet a second look before it says so. Files that retention deletes meanwhile are passed over.
//
// # What is checked
//
//	CommitLog     names and lengths of files, every record's lengths, magic, position and CRCs, the end-of-file marks, what
//	              stands behind the end, queue offsets in order and given out once
//	ConsumeQueue  a unit for every record, with its position, size and tags code; units that name no record; holes
//	IndexFile     header, an item for every key, the hash and position of every item, chains and slots
//	checkpoint    there, of full length, not ahead of the log
//
// Log, queues and index are walked together, once, in the order of the log: index items are written in that order, and so are
// the units of one queue. A unit that no record claimed by the time that a later one of its queue is claimed names none.
//
// Behind a place that cannot be read the next record is looked for only where a unit, an index item or the next file's start names
// it, never by its magic: bodies may hold records.
//
// # Memory
//
// A few MiB of read buffers (limits.go), 4 bytes for each hash slot of an index file (20 MB with the original's default), and
// about 200 bytes for each queue.
//
// A Directory and everything made from it belong to one goroutine.
package inspect
