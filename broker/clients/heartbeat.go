package clients

import (
	"slices"
	"strings"

	"peregrine/broker/filter"
	"peregrine/broker/names"
	"peregrine/netio"
	"peregrine/wire"
)

// Beat is one heartbeat after the broker sorted out the groups that may not exist.
type Beat struct {
	Client    Client // LastSeen is the time of the heartbeat
	Consumers []wire.ConsumerData
	Producers []string // group names
	// Fingerprint is 0 for heartbeats of the first kind; WithoutSub says that the subscription sets were left out.
	Fingerprint int32
	WithoutSub  bool
}

// Heartbeat registers the client in its groups. It returns what the answer's IS_SUB_CHANGE says: for the first kind always
// true; for the second whether a group was known with another fingerprint, or has no subscription although the client left
// its own out (after a restart of the broker, where the original stays silent and the group would pull nothing).
func (r *Registry) Heartbeat(b *Beat) (subscriptionChanged bool) {
	if len(b.Client.ID) > ClientIDBytesMax {
		b.Client.ID = b.Client.ID[:ClientIDBytesMax]
	}
	var changed, resubscribed []string
	second := b.Fingerprint != 0
	subscriptionChanged = !second
	r.change.Lock()
	for i := range b.Consumers {
		data := &b.Consumers[i]
		g, isNew := r.join(b, data)
		if g == nil {
			continue
		}
		if !(second && b.WithoutSub) {
			topicsChanged, rewritten := r.subscribe(g, data, &b.Client)
			isNew = topicsChanged || isNew
			resubscribed = append(resubscribed, rewritten...)
		} else if len(*g.subscriptions.Load()) == 0 {
			subscriptionChanged = true
		}
		if second {
			subscriptionChanged = subscriptionChanged || g.fingerprint != 0 && g.fingerprint != b.Fingerprint
			g.fingerprint = b.Fingerprint
		}
		if isNew {
			changed = append(changed, data.GroupName)
		}
	}
	for _, group := range b.Producers {
		r.joinProducers(b, group)
	}
	r.change.Unlock()
	r.tell(changed)
	if r.resubscribed != nil {
		for _, topic := range resubscribed {
			r.resubscribed(topic)
		}
	}
	return subscriptionChanged
}

// join makes the client a member and takes over the scalars. isNew says that the connection was no member before; a nil
// group that a limit was reached.
func (r *Registry) join(b *Beat, data *wire.ConsumerData) (g *ConsumerGroup, isNew bool) {
	g = r.find(data.GroupName)
	var known *member
	if g != nil {
		known = g.members[b.Client.Ref]
	}
	if known == nil {
		if !r.admit(b, data.GroupName, false) {
			return nil, false
		}
		if g == nil {
			g = &ConsumerGroup{name: data.GroupName, members: make(map[netio.ConnRef]*member)}
			g.subscriptions.Store(&map[string]*filter.Subscription{})
		}
		known = &member{}
		g.members[b.Client.Ref] = known
		isNew = true
	}
	known.Client = b.Client
	g.scalars.Store(&Scalars{ConsumeType: data.ConsumeType, MessageModel: canonicalModel(data.MessageModel), ConsumeFromWhere: data.ConsumeFromWhere})
	if r.find(g.name) != g {
		r.mu.Lock()
		r.consumers[g.name] = g
		r.mu.Unlock()
	}
	return g, isNew
}

// canonicalModel is the original's spelling: the Go client's constants are `Clustering` and `BroadCasting`.
func canonicalModel(model string) string {
	for _, known := range []string{wire.ModelClustering, wire.ModelBroadcasting} {
		if strings.EqualFold(model, known) {
			return known
		}
	}
	return model
}

func (r *Registry) joinProducers(b *Beat, group string) {
	clients := r.producers[group]
	if clients[b.Client.Ref] == nil {
		if !r.admit(b, group, true) {
			return
		}
		if clients == nil {
			clients = make(map[netio.ConnRef]*Client)
			r.producers[group] = clients
		}
	}
	client := b.Client
	clients[b.Client.Ref] = &client
	r.producerIDs[client.ID] = client.Ref
}

// admit counts a new pair of connection and group, or refuses it.
func (r *Registry) admit(b *Beat, group string, producer bool) bool {
	m := r.connections[b.Client.Ref]
	groups := 0
	if m != nil {
		groups = len(m.consumers) + len(m.producers)
	}
	if r.registrations >= RegistrationsMax || groups >= GroupsPerConnectionMax {
		if suppressed, write := r.full.due(b.Client.LastSeen); write {
			r.logger.Warn("a client is not registered: too many registrations", "client", b.Client.ID, "remote", b.Client.Remote,
				"group", group, "registrations", r.registrations, "groups of the connection", groups, "suppressed", suppressed)
		}
		return false
	}
	if m == nil {
		m = &membership{consumers: make(map[string]bool), producers: make(map[string]bool)}
		r.connections[b.Client.Ref] = m
	}
	if producer {
		m.producers[group] = true
	} else {
		m.consumers[group] = true
	}
	r.registrations++
	return true
}

// subscribe replaces the group's subscription set by the one in the heartbeat: new topics are added, known ones replaced
// when their version is newer, others removed. It returns whether the set of topics changed, and the topics whose expression did. A
// newer version of a known topic is no change that members are told (observed on 5.5.0).
func (r *Registry) subscribe(g *ConsumerGroup, data *wire.ConsumerData, from *Client) (changed bool, rewritten []string) {
	old := *g.subscriptions.Load()
	wanted := data.SubscriptionDataSet
	if len(wanted) > TopicsPerGroupMax {
		wanted = wanted[:TopicsPerGroupMax]
	}
	fresh := make(map[string]*filter.Subscription, len(wanted))
	replaced := false
	for i := range wanted {
		s := &wanted[i]
		had := old[s.Topic]
		if twin := fresh[s.Topic]; twin != nil {
			had = twin
		}
		switch {
		case had == nil:
			fresh[s.Topic] = filter.NewSubscription(*s)
			changed = true
		case s.SubVersion > had.SubVersion:
			fresh[s.Topic] = filter.NewSubscription(*s)
			replaced = true
			if s.SubString != had.SubString {
				rewritten = append(rewritten, s.Topic)
			}
		default:
			fresh[s.Topic] = had
		}
	}
	for topic := range old {
		if fresh[topic] == nil {
			changed = true
		}
	}
	if changed || replaced {
		g.subscriptions.Store(&fresh)
	}
	r.compare(g, wanted, from)
	return changed, rewritten
}

// compare warns when a member of the group subscribes something else than another: nothing is refused, but messages get
// lost silently (case C09).
func (r *Registry) compare(g *ConsumerGroup, wanted []wire.SubscriptionData, from *Client) {
	declared := declaration(wanted)
	g.members[from.Ref].declared = declared
	for ref, other := range g.members {
		if ref == from.Ref || other.declared == "" || other.declared == declared {
			continue
		}
		if suppressed, write := g.conflict.due(from.LastSeen); write {
			r.logger.Warn("members of a consumer group subscribe differently: messages are lost for some of them",
				"group", g.name, "client", from.ID, "subscribes", names.Quote(declared), "other", other.ID, "other subscribes", names.Quote(other.declared),
				"suppressed", suppressed)
		}
		return
	}
}

func declaration(wanted []wire.SubscriptionData) string {
	parts := make([]string, len(wanted))
	for i := range wanted {
		parts[i] = wanted[i].Topic + ":" + wanted[i].SubString
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ") + "."
}

// Conflict is a group whose members subscribe differently, and how many different subscriptions they have.
type Conflict struct {
	Group         string
	Subscriptions int
}

// Conflicting returns the groups whose members subscribe differently at the moment, sorted by name. Any goroutine.
func (r *Registry) Conflicting() []Conflict {
	r.change.Lock()
	defer r.change.Unlock()
	r.mu.RLock()
	defer r.mu.RUnlock()
	var list []Conflict
	for name, g := range r.consumers {
		first := ""
		var others map[string]bool // rarely needed
		for _, m := range g.members {
			switch {
			case first == "":
				first = m.declared
			case m.declared == "" || m.declared == first:
			case others == nil:
				others = map[string]bool{m.declared: true}
			default:
				others[m.declared] = true
			}
		}
		if len(others) > 0 {
			list = append(list, Conflict{name, 1 + len(others)})
		}
	}
	slices.SortFunc(list, func(a, b Conflict) int { return strings.Compare(a.Group, b.Group) })
	return list
}
