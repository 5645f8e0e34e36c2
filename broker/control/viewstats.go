package control

import (
	"fmt"

	"peregrine/broker/names"
	"peregrine/broker/stats"
	"peregrine/internal/message"
	"peregrine/store"
	"peregrine/wire"
)

// viewStats is code 315 (AdminBrokerProcessor.ViewBrokerStatsData).
func (s *service) viewStats(r *Request) wire.Reply {
	var h wire.ViewBrokerStatsDataRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	var item *stats.Item
	if kind, ok := stats.KindOf(h.StatsName); ok {
		item = s.Stats.Find(kind, h.StatsKey)
	}
	if item == nil {
		return failure(wire.ResponseSystemError, fmt.Sprintf("The stats <%s> <%s> not exist", names.Quote(h.StatsName), names.Quote(h.StatsKey)))
	}
	return success(nil, wire.EncodeBody(struct {
		StatsDay    stats.Data `json:"statsDay"`
		StatsHour   stats.Data `json:"statsHour"`
		StatsMinute stats.Data `json:"statsMinute"`
	}{item.Day(), item.Hour(), item.Minute()}))
}

// unitsShownMax bounds the units in one answer of code 321.
const unitsShownMax = 10_000

// queryConsumeQueue is code 321 (AdminBrokerProcessor.queryConsumeQueue): units of a queue as they are.
func (s *service) queryConsumeQueue(r *Request) wire.Reply {
	var h wire.QueryConsumeQueueRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	q := s.Store.LookupQueue([]byte(h.Topic), message.QueueID(h.QueueID))
	if q == nil {
		return failure(wire.ResponseSystemError, fmt.Sprintf("%d@%s is not exist!", h.QueueID, names.Quote(h.Topic)))
	}
	body := wire.QueryConsumeQueueBody{MaxQueueIndex: int64(q.Max()), MinQueueIndex: int64(q.Min()), QueueData: []wire.ConsumeQueueData{}}
	if h.ConsumerGroup != nil {
		body.FilterData = names.Quote(*h.ConsumerGroup) + "@" + h.Topic + " is not online!"
		if group := s.Clients.LookupGroup([]byte(*h.ConsumerGroup)); group != nil {
			if subscription := group.Subscription([]byte(h.Topic)); subscription != nil {
				body.FilterData, body.SubscriptionData = "null", &subscription.SubscriptionData
			}
		}
	}
	from, to := message.QueueOffset(h.Index), message.QueueOffset(h.Index)+message.QueueOffset(min(max(h.Count, 0), unitsShownMax))
	if from < q.Min() || from >= q.Max() {
		return wire.Reply{Code: wire.ResponseSuccess, Remark: fmt.Sprintf("Index %d of %d@%s is not exist!", h.Index, h.QueueID, names.Quote(h.Topic))}
	}
	var units [256]store.Unit
	for at := from; at < min(to, q.Max()); {
		n, err := q.ReadUnits(units[:min(len(units), int(to-at))], at)
		if err != nil {
			return failure(wire.ResponseSystemError, "the queue cannot be read: "+err.Error())
		}
		if n == 0 {
			break
		}
		for i := range units[:n] {
			u := &units[i]
			data := wire.ConsumeQueueData{PhysicOffset: int64(u.Phy), PhysicSize: u.Size, TagsCode: int64(u.Tags)}
			if u.Tags.IsExtAddress() {
				data.Msg = fmt.Sprint("Cq extend not exist!addr: ", int64(u.Tags))
			}
			body.QueueData = append(body.QueueData, data)
		}
		at += message.QueueOffset(n)
	}
	return success(nil, wire.EncodeBody(body))
}
