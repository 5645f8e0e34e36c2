// Package netio owns the sockets: a gnet engine over several listen addresses, the split of the
// byte stream into frames, the output of each connection, and one mailbox per event loop. It knows
// no request code; what a frame means is the business of the Handler.
//
// # Goroutines and ownership
//
// gnet runs one acceptor and N event loops. A connection belongs to one loop for its whole life:
// *Conn and *Loop are touched only by callbacks on that loop. What leaves the loop is a ConnRef
// (loop, slot, generation) which can be resolved only on the loop, where a stale one gives nil.
// Everything that comes back to a loop comes through Server.Post. Lock order: claimMu, then
// mailbox.mu; nothing is called with either held.
//
// # Waking a loop
//
// The first post into an empty mailbox wakes its loop, the others find it awake. Each loop watches an
// eventfd of ours for this (waker.go), one write a wake-up and no allocation. It is registered by
// EventLoop.Enroll when the loop has its first connection, for gnet does not show its loops earlier; a
// loop without one has nobody to tell anything. Until then, and if it fails, gnet's Execute does it.
// At the end of the drain of Shutdown the mailboxes are closed first (Server.hush), because both ways
// write to a descriptor that the engine's end closes. Per loop: two descriptors, and at its start one
// goroutine of gnet's pool that goes after ten idle seconds or more.
//
// # A turn
//
// One callback of gnet is one turn: the frames of one read of one connection (at most the read
// buffer, 64 KiB: the bound that keeps a busy connection from starving its neighbours, since
// level-triggered epoll serves every other ready connection before it comes back), one drain of the
// mailbox, one Opened, or one Closed. After the callbacks of a turn Handler.TurnEnd runs, then each
// connection with output is written once, then Handler.TurnWritten runs, then the connections marked by CloseAfterTurn go.
// Frame slices alias gnet's read buffer or a gathered buffer and die when TurnEnd has returned.
//
// # Framing
//
//	offset 0, 4 bytes, big endian: length L, 4 <= L <= 16,777,212 (NettyDecoder, 4.9.4 and 5.x)
//	offset 4, L bytes: what Handler.Frame gets
//
// Whole frames are handed out in place. The incomplete rest of a read is copied into a buffer of our
// own, so that gnet's inbound ring stays empty and Peek never allocates. The capacity of that buffer
// follows what has arrived (at most eight times as much, or 4 KiB), not what the sender announced.
//
// # The traps of gnet v2.9.7 and how each is closed here
//
//	 1 accept failing with EMFILE ends the engine with a nil error: the connection cap leaves room
//	   for the store and for accepts in flight, the backlog is cut to that room (listen.go,
//	   limits.go), and the end is an error of Server.Err
//	 2 Write on a closed connection reaches whoever owns the descriptor: Conn.closed, set first in
//	   OnClose, is checked before each write (conn.go); Loop.Conn gives nil for a stale ConnRef
//	 3 unbounded outbound memory: soft and hard mark, and a budget of the loop (outbound.go)
//	 4 unread input grows without limit: each turn takes all that was read (framing.go)
//	 5 Peek aliases the read buffer: race and invariants builds scribble over it after the turn
//	 6 a length of 0 means everything: only Peek(-1) and Discard(-1) are used
//	 7 split frames are copied twice: the ring is never used
//	 8 one OnTraffic per read: the loop over frames ends only when nothing whole is left
//	 9 callbacks mean accepted, not sent; 10 their context is nil; 11 they are lost after the stop:
//	   no asynchronous write is used, the mailbox owns its buffers and frees the rest after the end
//	12 Writev over 1,024 slices fails and edits the slices: own array of 8 (outbound.go)
//	13 ReadFrom and Flush hang: not used
//	14 Close drops pending output: CloseAfterTurn waits for it, bounded by CloseLinger
//	15 OnShutdown runs before the loops end: the drain is inside it; Shutdown waits for Run's end
//	16 no SO_REUSEADDR, 17 ReusePort and port 0: the first is set, the second never (listen.go)
//	18 OnTick is beside the loops: it only signals them; no deadlines: sweep.go
//	19 a panic ends the process: each call of the Handler is under a recover (loop.go)
//	20 setters and addresses after close: addresses are copied in OnOpen, no setters are used
//	21 logger: an adapter over slog (logging.go)
//	22 build tags poll_opt and gc_opt: not used
//	23 half-close ends the connection: the same holds for RocketMQ's own server
//	24 no sendfile: Writev from the mapping
//	25 Execute and Wake allocate two or three objects a call, AsyncWrite three and more: waker.go
//	26 Execute writes to the eventfd of a poller that is closed already, if it comes at the wrong moment
//	   of the end; that is somebody else's descriptor by then: hush in OnShutdown
//	27 Enroll takes TCP, UDP and Unix connections only; it reports success when epoll refused, and never
//	   anything when the loop ends before: OnOpen is what counts, the wait for it is bounded (waker.go)
package netio
