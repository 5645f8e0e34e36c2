package dispatch

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"peregrine/internal/message"
	"peregrine/store"
)

// reader reads the log in order. Everything in it belongs to its goroutine.
type reader struct {
	d       *Dispatcher
	log     Log
	routes  routeTable
	segment message.PhyOffset // bytes of a log file

	at     Mark     // everything below is in a batch or done
	handed Mark     // at, when batches were handed out last
	open   []*batch // by shard; nil: none
	full   bool     // one of them is
	serial uint64   // of the last batch opened

	starved int               // shard that had no batch free, -1 if none
	tornAt  message.PhyOffset // Confirmed when it ended inside a record; nothing to read before it moves. -1 if it did not
	need    int64             // bytes the next block has to have, if more than blockBytesMax
	block   []byte            // for preads, nil while the log is read from its mapping
	view    message.View
	damaged []store.DamagedRange // what recovery stepped over and is not passed yet, in order

	records, skipped, coldBytes int64 // not yet in d.counters
}

func newReader(d *Dispatcher, from message.PhyOffset, damaged []store.DamagedRange) *reader {
	return &reader{
		d:       d,
		log:     d.log,
		routes:  newRouteTable(d.opts.Store, len(d.shards)),
		segment: message.PhyOffset(d.opts.Store.SegmentBytes()),
		at:      Mark{Pos: from, Newest: NoRecord},
		handed:  Mark{Pos: from, Newest: NoRecord},
		open:    make([]*batch, len(d.shards)),
		starved: -1,
		tornAt:  -1,
		damaged: damaged,
	}
}

// run is the reader goroutine.
func (r *reader) run() {
	defer func() {
		for _, s := range r.d.shards {
			close(s.in)
		}
	}()
	for !r.quitting() {
		stopping := r.d.stopping.Load() // before Confirmed: then all that was confirmed before Stop is read
		confirmed := r.log.Confirmed()
		r.passExpired()
		switch {
		case r.at.Pos >= confirmed || r.tornAt == confirmed:
			burst := r.records >= paceRecordsMin
			r.handOut()
			if stopping {
				return
			}
			if burst {
				time.Sleep(paceInterval) // let the next batch grow instead of being woken by every turn of every loop
				continue
			}
			r.park(confirmed)
		case r.starved >= 0:
			r.handOut()
			if !r.awaitBatch() {
				return
			}
		default:
			if err := r.readBlock(confirmed); err != nil {
				r.handOut()
				r.d.fail(err)
				return
			}
		}
	}
}

// readBlock reads from at up to limit, the end of the file or the end of a block, whatever comes first, and advances at. It
// stops early where a shard has no batch free.
//
// hot: 0 allocs and no clock per record.
func (r *reader) readBlock(limit message.PhyOffset) error {
	pos := r.at.Pos
	fileEnd := pos - pos%r.segment + r.segment
	damage := r.nextDamage(pos)
	if pos == damage {
		r.stepOver(pos + message.PhyOffset(r.damaged[0].Bytes))
		return nil
	}
	end := min(limit, fileEnd, pos+message.PhyOffset(max(blockBytesMax, r.need)))
	r.need = 0
	var b []byte
	if r.log.IsHot(pos) {
		b = r.log.Slice(pos, int(end-pos))
	}
	if b == nil {
		// A page that is not in memory would stop this goroutine's processor, a system call does not.
		var err error
		if b, err = r.pread(pos, int(end-pos)); b == nil {
			return err
		}
	}
	for len(b) > 0 && pos != damage {
		if err := message.ParseView(b, &r.view); err != nil {
			return r.odd(err, b, limit, fileEnd)
		}
		size := int(r.view.Size)
		if r.view.PhyOffset != pos {
			return r.bad(errPhyOffset, fileEnd)
		}
		if !r.take(pos) {
			return nil
		}
		r.at = Mark{Pos: pos + message.PhyOffset(size), Newest: pos, StoreTime: r.view.StoreTimestamp}
		pos = r.at.Pos
		b = b[size:]
		if r.full {
			r.handOut()
		}
	}
	if r.at.Pos-r.handed.Pos >= batchLogBytesMax {
		r.handOut()
	}
	return nil
}

// odd decides what bytes mean that are no whole record. b begins at r.at.Pos and is not empty.
func (r *reader) odd(err error, b []byte, limit, fileEnd message.PhyOffset) error {
	pos := r.at.Pos
	switch {
	case errors.Is(err, message.ErrBlank):
		r.at.Pos = fileEnd
		return nil
	case !errors.Is(err, message.ErrTornTail):
		return r.bad(err, fileEnd)
	}
	// The record, or the end-of-file mark, goes on behind b. How long it is stands in its first four bytes.
	size := message.PhyOffset(message.BlankBytes)
	if len(b) >= message.BlankBytes {
		size = message.PhyOffset(int32(binary.BigEndian.Uint32(b)))
	}
	switch {
	case pos+message.BlankBytes > fileEnd:
		return r.bad(errNoEndOfFile, fileEnd)
	case pos+size > fileEnd:
		return r.bad(errPastFileEnd, fileEnd)
	case pos+size > limit:
		// Confirmed ends inside it; it comes when Confirmed has moved.
		r.tornAt = limit
	default:
		r.need = int64(size)
	}
	return nil
}

// bad decides about bytes at at.Pos that are no record.
func (r *reader) bad(cause error, fileEnd message.PhyOffset) error {
	err := &RecordError{Phy: r.at.Pos, Cause: cause}
	if r.at.Pos >= r.d.recovered {
		return err
	}
	r.d.logger.Warn("stepped over the rest of a log file", "error", err)
	r.stepOver(fileEnd)
	return nil
}

func (r *reader) stepOver(to message.PhyOffset) {
	r.d.counters.damagedBytes.Add(int64(to - r.at.Pos))
	r.at.Pos = to
}

// nextDamage returns where the next range begins that recovery stepped over, at or behind pos.
func (r *reader) nextDamage(pos message.PhyOffset) message.PhyOffset {
	for len(r.damaged) > 0 && r.damaged[0].Phy < pos {
		r.damaged = r.damaged[1:]
	}
	if len(r.damaged) == 0 {
		return math.MaxInt64
	}
	return r.damaged[0].Phy
}

// take puts the record in r.view, which begins at pos, into its shard's batch. False: there is none free now.
//
// hot: 0 allocs, except for the first record of a queue.
func (r *reader) take(pos message.PhyOffset) bool {
	v := &r.view
	switch v.SysFlag & message.SysFlagTransactionMask {
	case message.SysFlagTransactionPrepared, message.SysFlagTransactionRollback:
		r.skipped++
		return true
	}
	rt, topic := r.routes.find(v.Topic, v.QueueID)
	b := r.open[rt.shard]
	if b == nil {
		if b = r.openBatch(rt.shard); b == nil {
			return false
		}
	}
	var tags message.TagsCode
	if topic.kind == scheduled && r.d.opts.ScheduleTags != nil && !v.IsFiller() {
		tags = r.d.opts.ScheduleTags(v)
	} else {
		tags = v.TagsCode()
	}
	b.add(rt, v.QueueOffset, store.Unit{Phy: pos, Size: v.Size, Tags: tags})
	r.records++
	r.full = r.full || len(b.units) == batchRecordsMax
	return true
}

// openBatch opens a batch for the shard that begins behind at; nil: all are in use, and starved is set.
func (r *reader) openBatch(shard int) *batch {
	select {
	case b := <-r.d.shards[shard].free:
		r.opened(shard, b)
		return b
	default:
		r.starved = shard
		return nil
	}
}

func (r *reader) opened(shard int, b *batch) {
	r.serial++
	b.serial = r.serial
	b.before = r.at
	r.open[shard] = b
}

// awaitBatch blocks until the starved shard has a batch free. No slice of the mapping is held meanwhile.
func (r *reader) awaitBatch() bool {
	r.d.counters.starved.Add(1)
	select {
	case b := <-r.d.shards[r.starved].free:
		r.opened(r.starved, b)
		r.starved = -1
		return true
	case <-r.d.quit:
		return false
	}
}

// handOut gives all open batches to their shards and publishes how far the log is read.
func (r *reader) handOut() {
	if r.at == r.handed {
		return
	}
	r.d.progress.handOut(r.open, r.at)
	for i, b := range r.open {
		if b != nil {
			r.open[i] = nil
			r.d.shards[i].in <- b // never blocks: it has room for all batches of the shard
		}
	}
	r.d.lowMoved() // when no shard has anything to do with it
	r.handed, r.full = r.at, false
	r.d.counters.add(r.records, r.skipped, r.coldBytes)
	r.records, r.skipped, r.coldBytes = 0, 0, 0
}

// park sleeps until Confirmed is not seen any more or Stop was called.
func (r *reader) park(seen message.PhyOffset) {
	d := r.d
	r.block = nil
	d.parked.Store(true)
	// Look again after parked is published: who advanced Confirmed before will not wake us.
	if r.log.Confirmed() != seen || d.stopping.Load() {
		if !d.parked.CompareAndSwap(true, false) {
			<-d.wake
		}
		return
	}
	d.counters.parks.Add(1)
	select {
	case <-d.wake:
	case <-d.quit:
	}
}

// passExpired steps over what retention has removed before it was dispatched. Its units would point to nothing.
func (r *reader) passExpired() {
	if oldest := r.log.MinPhy(); r.at.Pos < oldest {
		r.d.logger.Warn("log files were removed before they were dispatched; their messages are not in any queue",
			"from", int64(r.at.Pos), "to", int64(oldest))
		r.d.counters.expiredBytes.Add(int64(oldest - r.at.Pos))
		r.at.Pos = oldest
		r.tornAt = -1
	}
}

// pread reads n bytes at pos with system calls. A nil slice without an error means: look at the positions again.
func (r *reader) pread(pos message.PhyOffset, n int) ([]byte, error) {
	if cap(r.block) < n {
		r.block = make([]byte, max(n, min(blockBytesMax, int(r.segment))))
	}
	pause := retryPauseMin
	for try := 1; ; try++ {
		got, err := r.log.ReadAt(r.block[:n], pos)
		if got == n {
			r.coldBytes += int64(n)
			return r.block[:n], nil
		}
		if r.log.MinPhy() > pos {
			return nil, nil
		}
		if try == readTriesMax {
			return nil, &RecordError{Phy: pos, Cause: err}
		}
		r.d.logger.Warn("the log cannot be read, trying again", "position", int64(pos), "bytes", n, "error", err)
		if !r.d.pause(pause) {
			return nil, nil
		}
		pause = min(2*pause, retryPauseMax)
	}
}

// quitting tells whether everything has to end now.
func (r *reader) quitting() bool {
	select {
	case <-r.d.quit:
		return true
	default:
		return false
	}
}

// pause waits; false: everything has to end now.
func (d *Dispatcher) pause(t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.quit:
		return false
	}
}
