// Package store owns the messages on disk, in the files of the original (RocketMQ 5.5.0, DefaultMessageStore): the
// CommitLog, the ConsumeQueues, checkpoint, lock and abort file, and their recovery. It appends, syncs and reads; it does not
// decide when to sync (flush), does not fill queues (dispatch calls AppendUnits) and knows nothing of clients.
//
// # Files
//
//	path                                made                  content
//	commitlog/<start, 20 digits>        ahead of need         records, full length from the beginning, see message
//	consumequeue/<topic>/<queue>/<start> with its first unit  20-byte units, full length (sparse)
//	consumequeue_ext/<topic>/<queue>/<start> first unit      what extunit.go says; only with enableConsumeQueueExt
//	index/<local time, 17 digits>       first key           hash table of keys, see indexfile.go
//	checkpoint                          first start           48 of 4096 bytes, see checkpointFields
//	lock                                start                 the run, see lockText; the guard is the lock on its byte 0
//	abort                               start                 process id; deleted by a clean stop
//	peregrine.state                     start, stop           how the directory was left; the original ignores it
//	peregrine.deleted                    deleting a topic      topics whose older records are in no queue, see deletedName
//	peregrine.repair/                    dump --repair         what a repair replaced, see package repair; nothing reads it
//	commitlog/cut/                      rarely                files that recovery found behind the end, not empty
//
// A record of length L goes into a file with at least L+8 free bytes; else the file gets an end mark (i32 bytes left, i32
// magic CBD43194) and the record starts the next file. Positions are start + place in file, files are contiguous.
//
// A unit of a ConsumeQueue, at offset*20 (CQ_STORE_UNIT_SIZE, ConsumeQueue 5.5.0):
//
//	offset  size  name      meaning
//	0       8     position  of the record in the log
//	8       4     size      of the whole record; 0 = free space; 2147483647 = pre-blank: the offset is occupied, no record
//	12      8     tagsCode  hash of TAGS, sign-extended; delivery time in SCHEDULE_TOPIC_XXXX; or the address of an ext unit
//
// # Positions of the log
//
//	flushed   <= wrote <= touched <= allocated
//	durable      complete    pages present    blocks on disk
//
// Append never passes allocated: a store into a mapped page without a block is SIGBUS on a full disk. Confirmed is flushed
// in SYNC_FLUSH and wrote otherwise; nothing behind it may become visible.
//
// # Goroutines
//
//	allocator  makes the log's files ahead, adds them to the file table
//	cleaner    retention: takes the oldest files out of the table and deletes them, trims the queues
//	toucher    populates the pages of a small window ahead of the write position (not with writeWithoutMmap)
//	warmer     with warmMapedFileEnable: touches the rest of the file being written and the next one, and locks both
//	ticker     once a second: disk space, hot window, unmapping, idle rings, checkpoint file
//
// Index.Recover, Add, NextFile and Flush run on one goroutine of dispatch. Append, Sync, AppendUnits, FlushQueues and all readers run on their callers' goroutines.
//
// # Locks, in the order they may be taken
//
//	cleaner.passMu      one pass of retention at a time
//	Store.deleteMu      one deletion of queues at a time
//	Store.queueSyncMu   one FlushQueues at a time
//	Store.stateMu       one writer of the state file at a time
//	Queue.writeMu       the queue's files: AppendUnits, FlushQueues
//	CommitLog.syncMu    one Sync at a time
//	CommitLog.mu        the append lock: write position, next offsets of all queues
//	queueTable.mu       making a queue
//	leaves: CommitLog.gateMu, CommitLog.tableMu, deletedTopics.mu, allocator.mu, Queue.ringMu, Index.mu, Store.dirtyMu,
//	        checkpoint.mu, fileCache.mu
//
// Readers of positions, files and queues take no lock; what they read is published by atomics (each says what). A queue's
// maximum is stored after its units are in the file and in memory.
//
// # What survives
//
//	                        kill -9   power cut, ASYNC_FLUSH          power cut, SYNC_FLUSH
//	appended                yes       what was synced or written back what was synced
//	synced (Sync returned)  yes       yes                             yes
//	units of a queue        yes       rebuilt from the log            rebuilt from the log
//	keys in the index       yes       completed from the log          completed from the log
//
// kill -9 in the middle of an append leaves a record whose size is 0: its size is written last.
//
// # Recovery
//
// How much of a directory is taken as it is depends on the state file (peregrine.state, see savedState) and the abort file:
//
//	abort  state file                         what a start does
//	no     as the directory is                nothing is scanned; the ends of log and queues are compared with it
//	any    missing, damaged, not as it says   every record of the log is checked, once, and its unit compared with it
//	yes    of another run                     the same: the lock file names another one, or none; an original was there
//	yes    of this boot                       the page cache survived: from the record of the checkpoint on, likewise
//	yes    of another boot                    from the file of the checkpoint on; what queues have from there on is cut
//
// A queue that holds less than what the state file says was durable once is a reason to check every record, too. The file of the checkpoint
// is the newest that begins at or before logicsPhysicalOffset (older checkpoints: whose first record is older than
// logicsMsgTimestamp).
//
// Checked are lengths, magic, own position, CRC of the body, properties not torn, and that the records of a queue follow each other (see
// queueOrder). The end is the end of the last good record. Behind it
// the log is zeroed, queues are cut. Damage with good records behind it stays where it is and is not shown: a damaged body
// is stepped over by the record's own length; else records go on at the nearest place that a queue entry (behind a hole in its
// queue's files, too), an index item or the start of a file names and that holds the good record that was meant. Nothing is searched for:
// bodies can hold bytes that look like records. Only when nobody names anything the log is cut. What was stepped over is in the
// state file before the names that led on are cut: a start that was cut off is followed by one that finds the same. The queue offset of a
// damaged record is kept, by a pre-blank unit or by the next offset. After a crash what follows the durable mark is written once more, and
// in SYNC_FLUSH synced before anything becomes visible: after a failed sync the kernel may take pages for clean that never
// reached the disk; so are the units that are trusted after kill -9. Next offsets are right when Open returns; dispatch then fills the
// queues from RedispatchFrom: with a scan of both, the first record that has no unit.
//
// Ext units are written, and synced, before the units that name them. What cannot be read makes the tags unknown, and where all records
// are looked at, the queue is filled again from there. The end of a queue's ext files is behind the unit that it names last; what
// follows is cleared before the first write of a run (openExt).
//
// The index is brought up to the log after Open, by dispatch, while messages flow: see Index.Recover. Where files are missing in front
// of others, those behind are made again: see firstGap. Where every record was checked, so is every item.
//
// Refused before anything is written, with what to do, is what cannot be understood: see inspect, refuseLostLog, judgeQueueSizes.
//
// Assumptions about disks: a sector of 512 bytes is written whole or not at all; a sync that returned covers what was
// written before it; SyncDir makes names durable; of what was not synced any page may be there or not.
package store
