package clients

import (
	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/wire"
)

// Unregister is code 35: the connection leaves the named groups; an empty name means none.
func (r *Registry) Unregister(ref netio.ConnRef, producerGroup, consumerGroup string) {
	var changed []string
	r.change.Lock()
	if m := r.connections[ref]; m != nil {
		if m.producers[producerGroup] {
			r.leaveProducers(ref, m, producerGroup)
		}
		if m.consumers[consumerGroup] && r.leave(ref, m, consumerGroup) {
			changed = append(changed, consumerGroup)
		}
		r.forget(ref, m)
	}
	r.change.Unlock()
	r.tell(changed)
}

// ConnClosed removes a connection from all its groups and tells the members that remain.
func (r *Registry) ConnClosed(ref netio.ConnRef) {
	var changed []string
	r.change.Lock()
	if m := r.connections[ref]; m != nil {
		for group := range m.producers {
			r.leaveProducers(ref, m, group)
		}
		for group := range m.consumers {
			if r.leave(ref, m, group) {
				changed = append(changed, group)
			}
		}
		r.forget(ref, m)
	}
	r.change.Unlock()
	r.tell(changed)
}

// Scan removes the members whose last heartbeat is too old and closes their connections, as the original without telling
// the others, who notice at their next rebalance. It also sends what is pending without RealTime. Call it every ScanEvery.
func (r *Registry) Scan(now message.Millis) {
	silent := make(map[netio.ConnRef]Client)
	var late []string
	r.change.Lock()
	for ref, m := range r.connections {
		for group := range m.producers {
			if c := r.producers[group][ref]; now-c.LastSeen > r.expiry {
				silent[ref] = *c
				r.leaveProducers(ref, m, group)
			}
		}
		for group := range m.consumers {
			if c := &r.find(group).members[ref].Client; now-c.LastSeen > r.expiry {
				silent[ref] = *c
				r.leave(ref, m, group)
			}
		}
		r.forget(ref, m)
	}
	for group := range r.pending {
		late = append(late, group)
		delete(r.pending, group)
	}
	r.change.Unlock()
	for ref, c := range silent {
		r.logger.Warn("a client sent no heartbeat for too long, its connection is closed", "client", c.ID, "remote", c.Remote,
			"silent", (now-c.LastSeen)/1000)
		r.pusher.Close(ref, "the client sent no heartbeat for too long")
	}
	for _, group := range late {
		r.push(group)
	}
}

// leave removes a consumer. It returns whether others remain. The caller holds change.
func (r *Registry) leave(ref netio.ConnRef, m *membership, group string) (othersRemain bool) {
	delete(m.consumers, group)
	r.registrations--
	g := r.find(group)
	delete(g.members, ref)
	if len(g.members) > 0 {
		return true
	}
	r.mu.Lock()
	delete(r.consumers, group)
	r.mu.Unlock()
	return false
}

func (r *Registry) leaveProducers(ref netio.ConnRef, m *membership, group string) {
	delete(m.producers, group)
	r.registrations--
	if c := r.producers[group][ref]; len(m.producers) == 0 && r.producerIDs[c.ID] == ref {
		delete(r.producerIDs, c.ID)
	}
	delete(r.producers[group], ref)
	if len(r.producers[group]) == 0 {
		delete(r.producers, group)
	}
}

func (r *Registry) forget(ref netio.ConnRef, m *membership) {
	if len(m.consumers)+len(m.producers) == 0 {
		delete(r.connections, ref)
	}
}

// tell sends NOTIFY_CONSUMER_IDS_CHANGED to the members of the changed groups, or remembers to.
func (r *Registry) tell(changed []string) {
	if len(changed) == 0 {
		return
	}
	if r.realTime.Load() {
		for _, group := range changed {
			r.push(group)
		}
		return
	}
	r.change.Lock()
	defer r.change.Unlock()
	for _, group := range changed {
		r.pending[group] = true
	}
}

// push tells all members of a group, the one that caused the change included. A member that cannot be reached is left to
// its own rebalance timer, as in the original.
func (r *Registry) push(group string) {
	r.change.Lock()
	g := r.find(group)
	if g == nil || g.Broadcasting() || !r.notify(group) {
		r.change.Unlock()
		return
	}
	refs := make([]netio.ConnRef, 0, len(g.members))
	for ref := range g.members {
		refs = append(refs, ref)
	}
	r.change.Unlock()
	frame := wire.AppendRequest(nil, wire.EncodingJSON, wire.RequestNotifyConsumerIDsChanged, r.opaque.Add(1), wire.FlagOneway,
		wire.LanguageJava, wire.Version, wire.ConsumerGroupRequestHeader{ConsumerGroup: group}, nil)
	for _, ref := range refs {
		r.pusher.Push(ref, frame)
	}
}
