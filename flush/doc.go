// Package flush is the group commit: it decides when the log is synced, syncs it, and tells who waits how far it got.
//
// It keeps no connections and knows no store. The log is seen through the interface [Log]; event loops keep their own
// queues of pending answers and are told through [Committer.Subscribe] how far the log is durable; goroutines that may
// block use [Committer.Wait].
//
// # Goroutines
//
// One flusher, started by Start and ended by Stop or by the first failed sync. It alone calls Log.Sync, the
// subscribers, and moves the flushed position. Everything else may be called from any goroutine.
//
// # Rules
//
//   - One sync covers everything that was appended before it began, and acknowledges nothing else: the position to
//     sync is read before the sync begins, and a log that claims more is not believed.
//   - No fixed window. SYNC_FLUSH: the flusher syncs whenever something requested is not flushed, back to back
//     under load, so the group is what arrived during the previous sync; with one client each acknowledgement takes
//     exactly one sync. ASYNC_FLUSH: see [Options].
//   - A failed sync is final. After it the kernel may call pages clean that never reached the disk, so a second try
//     that succeeds proves nothing. The error sticks, everybody is told once, nothing is synced again.
//
// # Sleeping and waking
//
// The flusher sleeps on a channel; wakeAt says which requested position wakes it, and is [awake] while it runs. It
// publishes wakeAt and then looks at the requested position again; a requester publishes its position and then looks
// at wakeAt. With sequentially consistent atomics at least one of the two sees the other. Whoever changes wakeAt back
// to awake by compare-and-swap owns the wake-up: exactly one token is sent for each sleep that somebody ended, so the
// channel (capacity one) never blocks a requester.
//
// # Locks
//
// Committer.mu guards the list of waiters and nothing else; it is a leaf, never held while a sync or a subscriber runs.
//
// It mirrors CommitLog.GroupCommitService and CommitLog.FlushRealTimeService of RocketMQ 5.5.0 in what the settings
// mean, not in how it works: there a request may wait up to 10 ms and is completed by a second look at the position.
package flush
