package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing/synctest"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
)

// generations bounds how many processes a life has.
const generations = 6

// life is one data directory from its first start to its last, as a seed decides.
type life struct {
	seed    uint64
	r       *rand.Rand
	form    form
	model   *model
	ext     *rand.Rand
	healthy bool // no troubles, only cuts
	ids     uint64
	covered *coverage
	spoil   spoiler
	cutter  *cutter  // of the present process
	history []string // what happened so far, for a failure
}

// spoiler is how the tests of the harness itself make a broker that breaks its word.
type spoiler struct {
	lies  bool                      // syncs do nothing
	early bool                      // sends are acknowledged before they are durable
	after func(disk *sysio.FaultFS) // damages what a cut has left
}

func newLife(seed uint64, covered *coverage, spoil spoiler) *life {
	r := rand.New(rand.NewPCG(seed, 0x6c6f67))
	l := &life{seed: seed, r: r, covered: covered, spoil: spoil, form: form{
		syncFlush: r.IntN(2) == 0, direct: r.IntN(2) == 0, shards: 1 + 3*r.IntN(2),
		segment: []int64{8 << 10, 8 << 10, 16 << 10, 32 << 10}[r.IntN(4)], queueFile: []int64{60, 140, 500, 4000}[r.IntN(4)], pages: r.IntN(3), index: r.IntN(2) * (3 + r.IntN(40)),
		retain: r.IntN(2) * (1 + r.IntN(5)),
	}}
	l.ext = rand.New(rand.NewPCG(seed, 0x657874)) // of its own, so that a seed's life stays what it was
	l.form.extFile = []int64{0, 0, 44, 64, 500}[l.ext.IntN(5)]
	l.healthy = r.IntN(3) == 0
	l.model = newModel(l.form.syncFlush || spoil.early)
	return l
}

// run lives the life. It runs in a bubble of virtual time.
func (l *life) run() error {
	disk := sysio.NewFaultFS()
	for range 2 + l.r.IntN(generations-1) {
		next, err := l.generation(disk)
		if err != nil {
			return l.explain(err)
		}
		if l.spoil.after != nil {
			l.spoil.after(next)
		}
		disk = next
	}
	if err := l.last(disk); err != nil {
		return l.explain(err)
	}
	return nil
}

// explain adds to an error what led to it.
func (l *life) explain(err error) error {
	return fmt.Errorf("%w\n%s\nthis life:\n  %s\nthe last operations before the last cut:\n  %s", err, l.form, strings.Join(l.history, "\n  "),
		l.cutter.operations())
}

// note adds a line to the life's history.
func (l *life) note(format string, args ...any) {
	l.history = append(l.history, fmt.Sprintf(format, args...))
}

// generation is one process from its start to its cut. It returns the disk that the next one finds.
func (l *life) generation(disk *sysio.FaultFS) (*sysio.FaultFS, error) {
	l.model.next()
	disk.SetCapacity(0, 0) // somebody has made room meanwhile
	l.form.ext = l.form.extFile > 0 && l.ext.IntN(4) > 0
	p := &process{form: l.form, model: l.model}
	l.cutter = planCut(l.r, disk, l.model, p)
	t := &trouble{r: l.r, disk: disk, lies: l.spoil.lies}
	if !l.healthy || t.lies {
		t.before()
	}
	err := p.start(disk)
	if !t.lies {
		t.end()
	}
	switch {
	case err != nil && l.model.isFrozen(), err != nil && t.hit && !errors.Is(err, store.ErrRefused):
		l.note("start failed: %v", err)
		return l.cut(t), l.leftOver(disk)
	case err != nil:
		return nil, fmt.Errorf("the start failed: %w", err)
	}
	err = l.atWork(p, t)
	next := l.cut(t)
	t.lies = false
	t.end()
	p.stop()
	return next, errors.Join(err, l.leftOver(disk))
}

// cut takes the picture, if that is not done yet, and notes what there is to know about it.
func (l *life) cut(t *trouble) *sysio.FaultFS {
	next := l.cutter.finish()
	l.covered.add(l.cutter.at)
	l.history = append(l.history, t.did...)
	l.note("%s", l.model.lastCut)
	return next
}

// atWork checks what the start found, sends, and perhaps stops.
func (l *life) atWork(p *process, t *trouble) error {
	s := p.store.Load()
	if _, err := l.model.verify(s); err != nil {
		return fmt.Errorf("%w\n%+v", err, s.Recovery())
	}
	if l.form.index > 0 && l.r.IntN(3) == 0 && !l.model.isFrozen() {
		if err := l.checkIndex(p); err != nil && !l.model.isFrozen() {
			return err
		}
	}
	report := s.Recovery()
	l.note("started: ext files %v, clean %v, scanned from %d to %d, dispatched from %d, %d damaged, %d bytes and %d files and %d units cut, %d rewritten, durable to %d",
		l.form.ext, report.Clean, report.From, report.End, report.RedispatchFrom, report.DamagedCount, report.Cut, report.CutFiles, report.UnitsCut, report.Rewritten, s.Flushed())
	for _, d := range report.Damaged {
		l.note("damaged at %d: %d bytes: %s", d.Phy, d.Bytes, d.Reason)
	}
	l.cutter.phase.Store(int32(working))
	if l.r.IntN(4) > 0 {
		if err := l.work(p, t); err != nil {
			return err
		}
	}
	if l.model.isFrozen() || p.fatal.Load() != nil || l.r.IntN(2) == 0 {
		return nil
	}
	l.cutter.phase.Store(int32(stopping))
	t.end()
	if err := p.close(); err != nil && !l.model.isFrozen() && !t.hit {
		return fmt.Errorf("the stop failed: %w", err)
	} else {
		l.note("stopped: %v", err)
	}
	return nil
}

// checkIndex compares the answers of the index with what was found.
func (l *life) checkIndex(p *process) error {
	if err := p.indexed(); err != nil {
		return err
	}
	return l.model.checkQueries(p.store.Load())
}

// leftOver checks what a process has left behind.
func (l *life) leftOver(disk *sysio.FaultFS) error {
	if files, mappings := disk.Open(); files != 0 || mappings != 0 {
		return fmt.Errorf("%d files and %d mappings are left open", files, mappings)
	}
	return disk.CheckSpace()
}

// last starts twice on what the last cut has left, without any faults, and stops cleanly.
func (l *life) last(disk *sysio.FaultFS) error {
	disk.SetCapacity(0, 0)
	again := disk.Kill()
	var first *look
	for _, d := range []*sysio.FaultFS{disk, again, nil} {
		if d == nil {
			d = disk.PowerCut(nil) // a clean stop has made everything durable
			l.note("clean stop, then a power cut")
		}
		l.model.next()
		p := &process{form: l.form, model: l.model}
		if err := p.start(d); err != nil {
			return fmt.Errorf("the last start failed: %w", err)
		}
		s := p.store.Load()
		seen, err := l.model.verify(s)
		if err == nil && first != nil {
			if diff := first.compare(seen, d == again); diff != "" {
				err = fmt.Errorf("recovery is not idempotent: %s", diff)
			}
		}
		first = seen
		if err == nil && l.form.index > 0 {
			err = l.checkIndex(p)
		}
		if err != nil {
			p.stop()
			return fmt.Errorf("%w\n%+v", err, s.Recovery())
		}
		if err := p.close(); err != nil {
			return fmt.Errorf("the last stop failed: %w", err)
		}
		if err := l.leftOver(d); err != nil {
			return err
		}
	}
	return nil
}

// work sends until the cut has come or the seed has had enough.
func (l *life) work(p *process, t *trouble) error {
	for range 1 + l.r.IntN(60) {
		if l.model.isFrozen() || p.fatal.Load() != nil {
			return nil
		}
		if err := p.failed(); err != nil && !t.hit {
			return fmt.Errorf("without any fault: %w", err)
		}
		if !l.healthy && l.r.IntN(25) == 0 {
			t.next()
		}
		switch l.r.IntN(23) {
		case 20:
			if l.form.retain > 0 {
				p.store.Load().DeleteExpiredLog()
			}
		case 21:
			if err := l.deleteTopic(p, t); err != nil {
				return err
			}
		case 22:
			if err := l.cleanExpired(p, t); err != nil {
				return err
			}
		case 0:
			synctest.Wait()
		case 1:
			time.Sleep(time.Second + time.Millisecond) // the ticker's work
		case 2, 3, 4, 5:
			time.Sleep(time.Duration(l.r.IntN(3000)) * time.Microsecond)
		case 6:
			p.flusher.Wait(p.store.Load().Wrote(), time.Now().Add(patience))
		default:
			if err := l.send(p, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteTopic is what an administrator asks for now and then. Mostly the next sends make the topic again.
func (l *life) deleteTopic(p *process, t *trouble) error {
	topic := l.topic()
	if l.r.IntN(3) > 0 {
		return nil
	}
	s := p.store.Load()
	t.openGates() // a deletion syncs the log, and waits for a mutex when a slow sync is under way
	if !l.model.deleting(topic) {
		return nil
	}
	err := s.DeleteTopic(topic)
	l.note("topic %s deleted at %d: %v", topic, s.Wrote(), err)
	if err != nil && !t.hit && !l.model.isFrozen() {
		return fmt.Errorf("delete a topic without any fault: %w", err)
	}
	l.model.deleted(s, topic, err)
	return nil
}

// cleanExpired deletes the queues that retention has emptied.
func (l *life) cleanExpired(p *process, t *trouble) error {
	s := p.store.Load()
	kept := l.topic()
	t.openGates() // as for a deletion
	l.model.cleaning(kept)
	n, err := s.CleanExpiredQueues(func(topic string) bool { return topic == kept })
	if n > 0 || err != nil {
		l.note("%d expired queues deleted: %v", n, err)
	}
	if err != nil && !t.hit && !l.model.isFrozen() {
		return fmt.Errorf("delete expired queues without any fault: %w", err)
	}
	l.model.cleaned(s)
	return nil
}

func (l *life) topic() string { return fmt.Sprint("T", l.r.IntN(3)) }

// send appends one batch and does what the broker does behind it.
func (l *life) send(p *process, t *trouble) error {
	s := p.store.Load()
	batch := make([]store.Message, 1+l.r.IntN(6)*l.r.IntN(2))
	records := make([]*sent, len(batch))
	at := s.Wrote() // where the first one goes, if it fits
	joined := l.r.IntN(3) == 0
	for i := range batch {
		records[i] = l.compose(s, &batch[i], at)
		batch[i].Joined = joined && i > 0
		at += message.PhyOffset(batch[i].Size())
	}
	end := s.Append(batch)
	for i := range batch {
		m, r := &batch[i], records[i]
		r.offset, r.phy, r.refused = m.QueueOffset, m.PhyOffset, m.Err != nil
		if m.Err != nil && !t.hit && !l.model.isFrozen() && !errors.Is(m.Err, store.ErrTooLarge) {
			return fmt.Errorf("append without any fault: %w", m.Err)
		}
	}
	l.model.appended(records, !l.form.syncFlush)
	p.flusher.Request(end)
	if !l.form.syncFlush {
		p.dispatcher.Wake()
	}
	return nil
}

// compose makes a record that goes to position at if it fits there. Its size often ends a sector, a page or a file.
func (l *life) compose(s *store.Store, m *store.Message, at message.PhyOffset) *sent {
	l.ids++
	r := &sent{id: l.ids, queue: queueKey{l.topic(), message.QueueID(l.r.IntN(2))}}
	tag := fmt.Sprint("Tag", l.r.IntN(3))
	r.properties = message.AppendProperty(nil, message.PropertyUniqKey, fmt.Sprintf("%016x", r.id))
	r.key = fmt.Sprint("k", l.r.IntN(9))
	r.properties = message.AppendProperty(r.properties, message.PropertyKeys, r.key)
	if l.r.IntN(4) > 0 {
		r.properties = message.AppendProperty(r.properties, message.PropertyTags, tag)
		r.tags = message.TagsCodeOf([]byte(tag))
	}
	m.Queue = s.Queue(r.queue.topic, r.queue.id)
	m.Record = message.Record{Topic: []byte(r.queue.topic), QueueID: r.queue.id, Properties: r.properties, BornTimestamp: 1,
		BornHost: message.Host{IPLen: 4}, StoreHost: message.Host{IPLen: 4}}
	bare := int64(m.Size())
	r.body = make([]byte, l.bodyBytes(int64(at), bare))
	for i := range r.body {
		r.body[i] = byte(r.id*31 + uint64(i)*uint64(i>>3+7))
	}
	if len(r.body) > 300 && l.r.IntN(4) == 0 {
		l.forge(r.body, at+message.PhyOffset(bare))
	}
	m.Body, m.BodyCRC = r.body, message.BodyCRC(r.body)
	r.size = int32(m.Size())
	return r
}

// bodyBytes chooses the length of a body for a record at position at with bare bytes around it.
func (l *life) bodyBytes(at, bare int64) int64 {
	left := l.form.segment - at%l.form.segment
	n := int64(l.r.IntN(300))
	switch l.r.IntN(12) {
	case 0:
		n = left - bare - 8 // as large as the rest of the file allows
	case 1:
		n = left - bare - int64(l.r.IntN(40)) // about as large
	case 2:
		n = l.form.segment - bare - 8 - int64(l.r.IntN(2))*int64(l.r.IntN(100))
	case 3:
		n = sysio.PageSize - (at+bare)%sysio.PageSize
	case 4, 5:
		n = 512 - (at+bare)%512
	case 6:
		n = int64(l.r.IntN(6000))
	case 7:
		n = 0
	}
	if n < 0 {
		n = int64(l.r.IntN(100))
	}
	return n
}

// forge puts a valid record that nobody sent into a body, which is about to lie at position at (nearly: the body begins in front
// of the topic and the properties).
func (l *life) forge(body []byte, at message.PhyOffset) {
	place := l.r.IntN(len(body) - 250)
	forged := message.Record{Topic: []byte("T0"), Body: []byte("forged"), BodyCRC: message.BodyCRC([]byte("forged")),
		QueueOffset: message.QueueOffset(l.r.IntN(30)), PhyOffset: at + message.PhyOffset(place), StoreTimestamp: 1, BornTimestamp: 1,
		BornHost: message.Host{IPLen: 4}, StoreHost: message.Host{IPLen: 4}}
	forged.EncodeTo(body[place:])
}
