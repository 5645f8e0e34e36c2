package store

import (
	"maps"
	"slices"

	"peregrine/internal/message"
)

// An original that finds damage cuts the log there and appends anew, maybe past the place where a topic was deleted: records of a new
// life of the topic then lie in front of that place. They are younger than the deletion, and so is all that follows them; store times tell.

// deletion is the place up to which records of a topic are in no queue, and the newest store time in front of it; 0 if that is not known.
type deletion struct {
	at   message.PhyOffset
	time message.Millis
}

// lowerDeleted moves deletions to the end that the log had when another broker cut it below them and appended. Of each file of the log in
// which one may lie it looks at all records; the log may be another one only where recovery looks at all of it anyway.
func (r *recovery) lowerDeleted() error {
	table := r.s.log.files.Load()
	byFile := map[*mappedFile][]string{}
	for _, topic := range slices.Sorted(maps.Keys(r.lay.deleted)) {
		d := r.lay.deleted[topic]
		if d.time <= 0 || d.at <= r.s.MinPhy() || len(table.files) == 0 {
			continue
		}
		i := len(table.files) - 1
		for ; i >= 0; i-- {
			f := table.files[i]
			if f.start >= d.at {
				continue
			}
			v, err := r.probe.look(f.start)
			if err != nil {
				return err
			}
			if v != recordGood || r.probe.view.StoreTimestamp <= d.time {
				break
			}
			r.lowerTo(topic, f.start)
		}
		if i >= 0 {
			byFile[table.files[i]] = append(byFile[table.files[i]], topic)
		}
	}
	for _, f := range table.files {
		if topics := byFile[f]; len(topics) > 0 {
			if err := r.lowerIn(f, topics); err != nil {
				return err
			}
		}
	}
	return nil
}

// lowerIn looks for the first record of f from which on all, up to its end or the place of the deletion, are younger than a deletion.
func (r *recovery) lowerIn(f *mappedFile, topics []string) error {
	sc := &logScanner{fsys: r.s.fsys, table: r.s.log.files.Load()}
	defer sc.close()
	oldest := r.lay.deleted[topics[0]].time
	for _, topic := range topics {
		oldest = min(oldest, r.lay.deleted[topic].time)
	}
	later := map[string]message.PhyOffset{}
	for pos := f.start; pos < f.end(); {
		v, err := sc.look(pos)
		if err != nil {
			return err
		}
		if v != recordGood && v != recordDamaged {
			break
		}
		if time := sc.view.StoreTimestamp; time <= oldest {
			clear(later) // the clock of another broker was set back
		} else {
			for _, topic := range topics {
				d := r.lay.deleted[topic]
				_, is := later[topic]
				switch {
				case pos >= d.at:
				case time <= d.time:
					delete(later, topic)
				case !is:
					later[topic] = pos
				}
			}
		}
		pos += message.PhyOffset(sc.view.Size)
	}
	for topic, pos := range later {
		r.lowerTo(topic, pos)
	}
	return nil
}

func (r *recovery) lowerTo(topic string, pos message.PhyOffset) {
	d := r.lay.deleted[topic]
	r.logger.Warn("another broker cut the log below the place where a topic was deleted; what it appended counts", "topic", topic, "deleted", int64(d.at), "cut", int64(pos))
	d.at = pos
	r.lay.deleted[topic] = d // the list of the store, too, until settleDeleted writes it
	r.lowered = true
	for _, q := range r.s.queues.ofTopic(topic) {
		q.bornAt = pos
	}
}
