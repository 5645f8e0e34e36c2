// Package repair mends a store directory at rest, for `peregrine dump --repair`. It decides what has to be done from what package
// inspect finds, keeps what it takes away, and leaves the making of queues and index to the store's recovery and to dispatch, which
// do it at every start. It holds no lock: the store calls Apply while it has the directory (store.Options.Prepare).
//
// # Damaged records
//
// A part of the log that holds no good record, with good ones behind it, is where a start of the original may cut the log. With
// Options.Fill it is overwritten by whole records (message.Filler) and, at the end of a file, by an end-of-file mark:
//
//   - A record whose head is right, and fits what its queue says, becomes a filler of the same queue and offset; one with a damaged head
//     that of the unit that names it.
//   - In other parts, each unit that names a place there becomes a filler of its queue, offset and length. Queue offsets that must
//     have lain there (their units only keep the place) get the shortest fillers between those, and the rest is filled with
//     fillers that belong to no queue.
//   - What is too short for that stays as it is, and is reported.
//
// # Queues and index
//
// A queue that does not agree with the log is moved away and made again from the log, if the log shows every queue offset that
// must not be given out again; otherwise its files stay, and recovery cuts and completes them. The index is moved away as a whole
// when anything in it is wrong, or when fillers took the place of records that it names.
//
// # What is kept
//
// peregrine.repair/<number>/, a new number with each run, which both brokers ignore:
//
//	commitlog/<position, 20 digits>      the bytes of the log from that position on, before they were replaced or cut
//	consumequeue/<topic>/<queue>/<start>  files of queues that are made again
//	index/<name>                          files of the index, likewise
//
// # Cut at any point
//
// The damaged bytes are synced before the directory is touched. Then the directory is marked as crashed and unknown, so that any
// start of peregrine looks at everything. Fillers are a function of the damage, the units and the log's other records: after a cut
// the next run puts the same ones in the same places, and keeps what it finds there under a new number. Files of queues and index are
// moved when the log is synced; what they held can be made from it.
package repair
