package broker

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/store"
	"peregrine/wire"
)

// coldReaders answer the pulls whose units or records are not in memory: a page fault would stop a loop with all its
// connections, a goroutine blocked in pread stops nobody.
type coldReaders struct {
	broker *Broker
	jobs   chan pullRequest
	done   sync.WaitGroup
}

func startColdReaders(b *Broker, count int) *coldReaders {
	r := &coldReaders{broker: b, jobs: make(chan pullRequest, coldJobsMax)}
	for range count {
		r.done.Add(1)
		go r.run()
	}
	return r
}

// stop ends the readers after the jobs that they have. Nothing may be submitted any more.
func (r *coldReaders) stop() {
	close(r.jobs)
	r.done.Wait()
}

// submit hands a pull over, or refuses it when too many wait.
func (r *coldReaders) submit(ls *loopState, c *netio.Conn, req *pullRequest) {
	select {
	case r.jobs <- *req:
		c.BeginRequest()
		ls.count[countColdPulls]++
	default:
		ls.count[countBusy]++
		c.Out = wire.AppendPullResponse(c.Out, req.enc, req.opaque, wire.ResponseSystemBusy,
			"[OVERLOAD]system busy, start flow control for a while (limit coldJobsMax)", nil, 0)
	}
}

func (r *coldReaders) run() {
	defer r.done.Done()
	units := make([]store.Unit, unitsPerLook)
	for req := range r.jobs {
		buf := r.answer(&req, units)
		r.broker.server.Post(int(req.ref.Loop), netio.Mail{Kind: netio.MailAnswer, Done: 1, Ref: req.ref, Buf: buf})
	}
}

// answer gives the whole answer frame. When retention deletes what is being read it looks again: the queue begins elsewhere
// then, or its records are stepped over.
func (r *coldReaders) answer(req *pullRequest, units []store.Unit) *netio.Buffer {
	buf, err := r.tryAnswer(req, units)
	for tries := 1; errors.Is(err, store.ErrOutOfRange) && tries < coldTriesMax; tries++ {
		buf, err = r.tryAnswer(req, units)
	}
	if err == nil {
		return buf
	}
	b := r.broker
	b.coldErrors.Add(1)
	b.logger.Warn("a pull could not read the store", "topic", req.queue.Topic(), "queue", req.queue.ID(), "offset", req.offset, "err", err)
	buf = netio.GetBuffer(512)
	buf.B = wire.AppendPullResponse(buf.B, req.enc, req.opaque, wire.ResponseSystemError, fmt.Sprintf("the store cannot be read: %v", err), nil, 0)
	return buf
}

// tryAnswer reads with pread. The frame's head comes last, in front of the records: it tells their bytes.
func (r *coldReaders) tryAnswer(req *pullRequest, units []store.Unit) (*netio.Buffer, error) {
	buf := netio.GetBuffer(coldAnswerBytes)
	buf.B = buf.B[:coldHeadBytes]
	found, err := r.lookUp(req, units, buf)
	if err != nil {
		netio.PutBuffer(buf)
		return nil, err
	}
	var header wire.PullMessageResponse
	var key []byte
	req.response(&header, &found)
	r.broker.countPull(&key, req, &found)
	head := wire.AppendPullResponse(make([]byte, 0, coldHeadBytes), req.enc, req.opaque, found.status.code(req.offset), statusNames[found.status], &header, found.bytes)
	buf.B = slices.Replace(buf.B, 0, coldHeadBytes, head...)
	return buf, nil
}

// lookUp is Broker.lookUp for what lies in the files. It appends the records to buf. What is damaged is stepped over.
func (r *coldReaders) lookUp(req *pullRequest, units []store.Unit, buf *netio.Buffer) (lookup, error) {
	found := lookup{min: req.queue.Min(), max: req.queue.Max()}
	if found.outOfRange(req.offset) {
		return found, nil
	}
	var view message.View
	t := r.broker.newTake(req)
	found.next, found.status = req.offset, statusNoMatchedMessage
	scanMax := req.scanMax(r.broker)
	for scanned := 0; scanned < scanMax && found.next < found.max && !t.full; {
		n, err := req.queue.ReadUnits(units[:min(len(units), scanMax-scanned)], found.next)
		if err != nil {
			return found, err
		}
		if n == 0 {
			break
		}
		for i := range units[:n] {
			u := &units[i]
			if !u.Hidden() && req.filter.Match(u.Tags) {
				if !t.fits(&found, u) {
					break
				}
				buf.B, err = req.queue.ReadRecord(buf.B, found.next, *u, &view)
				switch {
				case err == nil:
					found.add(u)
				case errors.Is(err, store.ErrOutOfRange):
					found.status = statusMessageWasRemoving // its log file is gone: step over
				case !errors.Is(err, store.ErrNoRecord):
					return found, err
				}
			}
			found.next++
			scanned++
		}
	}
	return found.settle(found.messages > 0), nil
}

// memoryWindowOf is how far behind the end of the log a record counts as lying in memory for the limits of one answer.
func memoryWindowOf(physicalBytes uint64, ratioPercent int) message.PhyOffset {
	return message.PhyOffset(physicalBytes / 100 * uint64(ratioPercent))
}
