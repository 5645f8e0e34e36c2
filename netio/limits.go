package netio

import (
	"time"

	"golang.org/x/sys/unix"
)

// lengthWordBytes is the size of the length field in front of each frame.
const lengthWordBytes = 4

// What is not worth a setting, but has a reason.
const (
	// readBufferBytes is gnet's read buffer, one per loop. It bounds what one connection may do in a
	// turn; larger makes a turn of a busy connection longer for all others, smaller costs reads. With
	// 256 KiB consumers fell behind producers that filled the CPU (case C21): a pull waited for turns
	// of 800 sends. 16 KiB cost sends of 8 x 128 in flight 12 %, 64 KiB 3 %.
	readBufferBytes = 64 << 10
	// writeBufferBytes is where gnet's outbound buffer changes from a ring to a list of slices.
	writeBufferBytes = 64 << 10
	// outFlushBytes bounds Conn.Out within a turn: above it the output is written before the turn
	// ends. Without it 256 KiB of pull requests could ask for gigabytes of answers in one turn.
	outFlushBytes = 256 << 10
	// outKeepBytes is the largest output buffer that a loop keeps for itself between turns.
	outKeepBytes = 64 << 10
	// outKeepMax is how many of them it keeps; more go back to the shared pools.
	outKeepMax = 64
	// gatherFreeBytes is the gathered size that is granted even over the budget, so that ordinary
	// requests split over two reads live on while someone holds the budget. Bounded by connections.
	gatherFreeBytes = 4 << 10
	// gatherGrowth is how many times the bytes that arrived a gather buffer may be large.
	gatherGrowth = 8
	// writevChunk is how many slices go into one writev: x/sys keeps 8 on its stack and allocates
	// beyond; the kernel's own limit is 1,024.
	writevChunk = 8
	// writevMergeBytes is the part size below which a copy is cheaper than a slice of its own.
	writevMergeBytes = 1 << 10
	// writevScratchBytes holds the merged parts of one chunk.
	writevScratchBytes = 16 << 10
	// answerCopyBytes is the largest posted answer that is copied behind the others of its
	// connection; larger ones are written from where they are.
	answerCopyBytes = 16 << 10
	// mailKeepLen is the capacity a mailbox keeps after a burst.
	mailKeepLen = 4096
	// earlyDrainMails and earlyDrainTurns are how many mails may wait, and for how many turns of
	// connections, before they go ahead of the connections that are ready too.
	earlyDrainMails = 256
	earlyDrainTurns = 32
	// lostAnswersMax is how many connections whose answer met a full mailbox are remembered, to be
	// closed. It is only met when a loop stands still.
	lostAnswersMax = 1024
	// enrollPatience is how long the end waits for a waker that is on its way into its loop: longer only
	// if the loop has died, or stands still in a handler.
	enrollPatience = time.Second
	// watchFastInterval is how often a loop looks whether a parked or closing connection has drained
	// (gnet tells nobody when it empties an outbound buffer); it runs only while there is one.
	watchFastInterval = 5 * time.Millisecond
	// watchSlowInterval is the same while output is pending and nobody waits for it.
	watchSlowInterval = 50 * time.Millisecond
	// logInterval is how often a repeated line may be written, per kind of line.
	logInterval = 10 * time.Second
	// backlogMax is the listen backlog of the original's Netty server.
	backlogMax = 1024
)

// Limits bounds what clients can make netio hold. A zero field takes its default.
type Limits struct {
	// Connections is the cap over all listeners (peregrine.maxConnections). Default and maximum come
	// from RLIMIT_NOFILE, see descriptorPlan. Above it a connection is closed when it opens.
	Connections int
	// GatheredBytes bounds the buffers of all incomplete frames together. Default 256 MiB. Above it
	// the connection that asks is closed with ErrGatherBudget.
	GatheredBytes int64
	// OutboundSoftBytes of one connection: above it IsBackedUp says so. Default 1 MiB.
	OutboundSoftBytes int
	// OutboundHardBytes of one connection: a write that finds more than this pending closes the
	// connection with ErrOutboundHard. Default 8 MiB. One answer may exceed it.
	OutboundHardBytes int
	// OutboundBytes over all connections, divided evenly among the loops. Default 256 MiB. Above it
	// a connection that holds more than an even share is closed with ErrOutboundBudget.
	OutboundBytes int64
	// MailboxLen is how many values wait in the mailbox of one loop, MailRerun not counted. Default
	// 65,536. Above it Post refuses; a refused answer closes its connection with ErrMailboxFull.
	MailboxLen int
	// MailboxBytes is how many bytes of answers wait in the mailbox of one loop. Default 64 MiB.
	MailboxBytes int
	// IdleTimeout closes a connection without traffic in either direction. Default 120 s
	// (NettyServerConfig.serverChannelMaxIdleTimeSeconds).
	IdleTimeout time.Duration
	// FrameTimeout closes a connection whose frame is incomplete for so long. Default 120 s.
	FrameTimeout time.Duration
	// SweepInterval is how often both are looked at. Default 10 s.
	SweepInterval time.Duration
	// CloseLinger is how long CloseAfterTurn waits for pending output. Default 5 s.
	CloseLinger time.Duration
}

func (l Limits) withDefaults() Limits {
	setInt := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	setInt64 := func(v *int64, def int64) {
		if *v <= 0 {
			*v = def
		}
	}
	setDuration := func(v *time.Duration, def time.Duration) {
		if *v <= 0 {
			*v = def
		}
	}
	setInt64(&l.GatheredBytes, 256<<20)
	setInt(&l.OutboundSoftBytes, 1<<20)
	setInt(&l.OutboundHardBytes, 8<<20)
	setInt64(&l.OutboundBytes, 256<<20)
	setInt(&l.MailboxLen, 1<<16)
	setInt(&l.MailboxBytes, 64<<20)
	setDuration(&l.IdleTimeout, 120*time.Second)
	setDuration(&l.FrameTimeout, 120*time.Second)
	setDuration(&l.SweepInterval, 10*time.Second)
	setDuration(&l.CloseLinger, 5*time.Second)
	l.OutboundHardBytes = max(l.OutboundHardBytes, l.OutboundSoftBytes)
	return l
}

// descriptorPlan divides the descriptors of the process: a quarter (64 to 2,048) stays for the store
// and everything else, the backlog of each listener is what may be accepted before a loop has counted
// it (gnet accepts until the queue is empty and registers later), twice over, and each loop has some of
// its own. The rest are connections.
// The backlog shrinks with the limit so that a small limit still leaves room for clients.
func descriptorPlan(limit uint64, listeners, loops int) (connections, backlog int) {
	const (
		descriptorsMax = 1 << 24
		ofLoop         = 4 // gnet's epoll and eventfd, ours of the waker and gnet's duplicate
	)
	n := int(min(limit, descriptorsMax))
	listeners = max(listeners, 1)
	reserve := min(max(n/4, 64), 2048)
	backlog = min(max(n/16/listeners, 8), backlogMax)
	return max(n-reserve-2*backlog*listeners-ofLoop*loops, 1), backlog
}

// descriptorLimit is the soft RLIMIT_NOFILE; the Go runtime has raised it to the hard one at start.
func descriptorLimit() uint64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 1024 // POSIX's usual default: never optimistic
	}
	return r.Cur
}
