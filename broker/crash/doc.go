// Package crash holds no code of the broker, only its crash harness: store, flush and dispatch, put together as the broker
// does it, on a disk that tears, loses, reorders, fails, fills up and is cut off at any operation (sysio.FaultFS).
//
// A seed is one life of a data directory. It decides the form of the store (SYNC_FLUSH or ASYNC_FLUSH, mapped or written log,
// shards, sizes of files), what is sent, which topics are deleted and made again, when files expire and queues without messages are cleaned
// away, what goes wrong and when the machine or the process dies: at the n-th operation of some kind, in a start, at work, in a
// deletion or in a stop. Then the next process starts on what is left, and so on.
//
// # What has to hold after every cut
//
//   - Nothing that was acknowledged, or visible, under SYNC_FLUSH is lost, by kill -9 or by a power cut; nothing that was
//     acknowledged or visible at all is lost by kill -9; nothing below the durable position is lost by anything.
//   - What is served is what was sent, at the offset and position that its sender was told, once. What was lost stays lost.
//   - A queue has every offset from its minimum on: a message, or a pre-blank unit where recovery reports damage.
//   - Retention takes from the front only, what is durable, and never the newest file. What it left is there, and no offset of
//     what it took is given out again.
//   - A topic is deleted or it is not, all of it; its messages do not come back, and a new one of its name keeps its own.
//   - The index answers for every key as the model does, the queue for every time.
//   - The next start finds the same as this one (recovery is idempotent), and a start without faults succeeds.
//   - No store goes into a page without a block, no descriptor and no mapping is left open.
//
// A failure prints the seed, the last operations before the cut, and the command that runs the seed again. Lives run in
// virtual time; goroutines still interleave freely, so a rare failure may need -count.
//
// The tests named TestTheHarness let the disk lie, acknowledge too early, and damage what is durable, and demand that it is noticed.
package crash
