package broker

import (
	"errors"
	"fmt"
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
	var parts []part
	for req := range r.jobs {
		buf := r.answer(&req, units, &parts)
		r.broker.server.Post(int(req.ref.Loop), netio.Mail{Kind: netio.MailAnswer, Done: 1, Ref: req.ref, Buf: buf})
	}
}

// answer gives the whole answer frame. When retention deletes what is being read it looks again: the queue begins elsewhere
// then, or its records are stepped over.
func (r *coldReaders) answer(req *pullRequest, units []store.Unit, parts *[]part) *netio.Buffer {
	buf, err := r.tryAnswer(req, units, parts)
	for tries := 1; errors.Is(err, store.ErrOutOfRange) && tries < coldTriesMax; tries++ {
		buf, err = r.tryAnswer(req, units, parts)
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

// tryAnswer reads with pread.
func (r *coldReaders) tryAnswer(req *pullRequest, units []store.Unit, parts *[]part) (*netio.Buffer, error) {
	b := r.broker
	found, err := r.lookUp(req, units, parts)
	var header wire.PullMessageResponse
	var key []byte
	if err == nil {
		req.response(&header, &found)
		b.countPull(&key, req, &found)
		code, body := found.status.code(req.offset), found.bytes
		buf := netio.GetBuffer(512 + body)
		buf.B = wire.AppendPullResponse(buf.B, req.enc, req.opaque, code, statusNames[found.status], &header, body)
		for _, p := range *parts {
			at := len(buf.B)
			buf.B = buf.B[:at+p.size]
			if _, err = b.store.ReadAt(buf.B[at:], p.from); err != nil {
				break
			}
		}
		if err == nil {
			return buf, nil
		}
		netio.PutBuffer(buf)
	}
	return nil, err
}

// lookUp is Broker.lookUp for what lies in the files.
func (r *coldReaders) lookUp(req *pullRequest, units []store.Unit, parts *[]part) (lookup, error) {
	*parts = (*parts)[:0]
	found := lookup{min: req.queue.Min(), max: req.queue.Max()}
	if found.outOfRange(req.offset) {
		return found, nil
	}
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
			if u.Phy < r.broker.store.MinPhy() && !u.Hidden() {
				found.status = statusMessageWasRemoving // its log file is gone: step over
			} else if !u.Hidden() && req.filter.Match(u.Tags) {
				if !t.add(&found, u) {
					break
				}
				*parts = append(*parts, part{u.Phy, int(u.Size)})
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
