// Package dispatch is reput: it follows the log, tells every queue which records are its own, and announces what became
// visible. It appends to ConsumeQueues through store.Queue.AppendUnits and knows nothing of consumers.
//
// # Goroutines
//
//	reader       1   reads confirmed records once, in order, and collects them into one batch per shard
//	shard        n   appends the units of its batches to their queues and announces them; a queue never changes shard
//	checkpoint   1   syncs the queues' files and moves the checkpoint (Keeper, started on its own)
//	index        1   follows LowWater and adds keys to the index (Indexer, started on its own); nothing waits for it
//
// Reader and shards belong to the Dispatcher: Start begins them, Stop or a final error ends them. They own their state; what
// they share is a bounded ring of batches per shard (two channels) and the progress table (one mutex, taken per
// batch). Nothing is done per record that allocates, locks or reads a clock.
//
// # Order and visibility
//
//   - A unit is appended only if its record ends at or below Store.Confirmed, which is the flushed position in SYNC_FLUSH.
//   - Units of one queue are appended in log order, each once: AppendUnits passes over what is there already, so a
//     start from an older position (after kill -9) repairs and repeats nothing.
//   - Announcer.Arrived is called after the queue's maximum shows the units, per queue in offset order.
//   - LowWater is the position below which every record is done by every shard. The checkpoint, the lag and the question
//     whether the stop was clean use it, never the reader's position.
//
// # Sleeping and waking
//
// The reader sleeps on a channel when it has read up to Confirmed. It sets parked, then reads Confirmed again; whoever
// advances Confirmed does that first and then calls Wake, which looks at parked. One of the two sees the other. The
// compare-and-swap on parked decides who sends the one token. Nobody polls.
//
// # Locks
//
// progress.mu is a leaf. alarm.mu is held while Options.OnError runs and otherwise a leaf. No lock is held while a queue is
// appended to or an announcement is made.
//
// It mirrors DefaultMessageStore.ReputMessageService, CommitLogDispatcherBuildConsumeQueue and FlushConsumeQueueService of
// RocketMQ 5.5.0, except that queues are sharded over goroutines and that a bad record stops it (there the rest of
// the readable bytes of that file is passed over).
//
// # Damage
//
// What recovery has stepped over is stepped over here as well: the ranges that its report lists, and below the end that it
// found also the rest of a file behind bytes that are no record (it lists a bounded number). Above that end every record
// was written by this process, and bytes that are no record are an error that ends dispatching, with their position.
package dispatch
