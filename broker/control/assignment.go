package control

import (
	"slices"

	"peregrine/broker/names"
	"peregrine/broker/topics"
	"peregrine/wire"
)

// assignment is an entry of the answer to code 400 (common.message.MessageQueueAssignment). Mode is PULL: there is no POP.
type assignment struct {
	MessageQueue wire.MessageQueue `json:"messageQueue"`
	Mode         string            `json:"mode"`
}

// queryAssignment is code 400 (QueryAssignmentProcessor.queryAssignment): the queues that a consumer has to pull, for clients
// that leave rebalancing to the broker. Where nobody can say, the answer is a success without a list.
func (s *service) queryAssignment(r *Request) wire.Reply {
	var q struct {
		Topic         *string `json:"topic"`
		ConsumerGroup *string `json:"consumerGroup"`
		ClientID      string  `json:"clientId"`
		StrategyName  string  `json:"strategyName"`
		MessageModel  string  `json:"messageModel"`
	}
	if err := wire.DecodeBody(r.Cmd.Body, &q); err != nil {
		return wire.ReplyOf(err)
	}
	clustering := q.MessageModel == "CLUSTERING"
	switch {
	case q.Topic == nil:
		return failure(wire.ResponseSystemError, "topic is missing in the body")
	case clustering && q.ConsumerGroup == nil:
		return failure(wire.ResponseSystemError, "consumerGroup is missing in the body")
	case !clustering && q.MessageModel != "BROADCASTING" && q.MessageModel != "LITE_SELECTIVE":
		return failure(wire.ResponseSystemError, "messageModel is missing in the body or unknown: "+names.Quote(q.MessageModel))
	}
	var body struct {
		MessageQueueAssignments *[]assignment `json:"messageQueueAssignments,omitempty"`
	}
	topic := s.Topics.Find(*q.Topic)
	if topic == nil || q.MessageModel == "LITE_SELECTIVE" {
		return success(nil, wire.EncodeBody(body))
	}
	first, end, step := 0, 0, 1
	if config := topic.Config(); config.Perm&wire.PermRead != 0 {
		end = int(min(config.ReadQueueNums, topics.QueueNumsMax))
	}
	if clustering {
		var ok bool
		if first, end, step, ok = shareOf(q.StrategyName, q.ClientID, s.Clients.ConsumerIDs(*q.ConsumerGroup), end); !ok {
			return success(nil, wire.EncodeBody(body))
		}
	}
	list := []assignment{}
	for id := first; id < end; id += step {
		list = append(list, assignment{s.messageQueue(*q.Topic, int32(id)), "PULL"})
	}
	body.MessageQueueAssignments = &list
	return success(nil, wire.EncodeBody(body))
}

// shareOf says which of a topic's queues belong to a member of a group: from first on every step-th below end. ok is false
// when there is nothing to share or no such strategy (AllocateMessageQueueAveragely and AllocateMessageQueueAveragelyByCircle).
func shareOf(strategy, client string, members []string, queues int) (first, end, step int, ok bool) {
	if client == "" || len(members) == 0 || queues <= 0 || strategy != "AVG" && strategy != "AVG_BY_CIRCLE" {
		return 0, 0, 1, false
	}
	slices.Sort(members)
	at := slices.Index(members, client)
	each, more := queues/len(members), queues%len(members)
	switch {
	case at < 0:
		return 0, 0, 1, true
	case strategy == "AVG_BY_CIRCLE":
		return at, queues, len(members), true
	}
	share := func(at int) int { return at*each + min(at, more) } // the first ones get one more
	return share(at), share(at + 1), 1, true
}
