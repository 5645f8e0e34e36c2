package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"peregrine/broker/clients"
	"peregrine/broker/names"
	"peregrine/broker/relay"
	"peregrine/internal/message"
	"peregrine/wire"
)

// How long clients have for an answer (AdminBrokerProcessor.callConsumer, Broker2Client.getConsumeStatus).
const (
	relayTimeout  = 10 * time.Second
	statusTimeout = 5 * time.Second
)

// clientsAskedMax bounds the clients that one request for code 223 asks.
const clientsAskedMax = 1024

// runningInfo is code 307: what a consumer says of itself, handed on as it is.
func (s *service) runningInfo(r *Request) wire.Reply {
	var h wire.GetConsumerRunningInfoRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	return s.callConsumer(r, wire.RequestGetConsumerRunningInfo, h.ConsumerGroup, h.ClientID, h, nil)
}

// consumeDirectly is code 309: a consumer works on one message now, whatever its offsets are.
func (s *service) consumeDirectly(r *Request) wire.Reply {
	var h wire.ConsumeMessageDirectlyRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	h.BrokerName = s.Config.Get().BrokerName
	if topic := s.Topics.Find(h.Topic); topic != nil {
		h.TopicSysFlag = &topic.Config().TopicSysFlag
	}
	if group := s.Groups.Find(h.ConsumerGroup); group != nil {
		h.GroupSysFlag = &group.Config().GroupSysFlag
	}
	body := r.Cmd.Body
	if h.MsgID != "" {
		_, at, err := message.ParseOffsetMsgID([]byte(h.MsgID))
		if err != nil {
			return failure(wire.ResponseSystemError, "msgId: "+err.Error())
		}
		var v message.View
		if body, err = s.Store.ReadRecord(nil, at, &v); err != nil {
			return failure(wire.ResponseSystemError, "no message for msgId "+names.Quote(h.MsgID)+": "+err.Error())
		}
	}
	return s.callConsumer(r, wire.RequestConsumeMessageDirectly, h.ConsumerGroup, h.ClientID, h, body)
}

// versionCalled is the oldest client that may be called (V3_1_8_SNAPSHOT).
const versionCalled = 62

// callConsumer asks the member of a group and answers with what it says (AdminBrokerProcessor.callConsumer).
func (s *service) callConsumer(r *Request, code wire.RequestCode, group, clientID string, header any, body []byte) wire.Reply {
	client, ok := s.Clients.FindConsumer(group, clientID)
	switch {
	case !ok:
		return failure(wire.ResponseSystemError, fmt.Sprintf("The Consumer <%s> <%s> not online", names.Quote(group), names.Quote(clientID)))
	case client.Version < versionCalled:
		return failure(wire.ResponseSystemError, fmt.Sprintf("The Consumer <%s> Version <%d> too low to finish, please upgrade it to V3_1_8_SNAPSHOT", names.Quote(clientID), client.Version))
	}
	later := r.Later()
	s.Relay.Call(client.Ref, code, header, body, relayTimeout, func(a *relay.Answer, err error) {
		switch {
		case errors.Is(err, relay.ErrTimeout):
			later(failure(wire.ResponseConsumeMsgTimeout, fmt.Sprintf("consumer <%s> <%s> Timeout: %s", names.Quote(group), names.Quote(clientID), err)))
		case err != nil:
			later(failure(wire.ResponseSystemError, fmt.Sprintf("invoke consumer <%s> <%s> Exception: %s", names.Quote(group), names.Quote(clientID), err)))
		default:
			later(wire.Reply{Code: a.Code, Remark: a.Remark, Body: a.Body})
		}
	})
	return Pending
}

// consumerStatus is code 223 (Broker2Client.getConsumeStatus): the offsets that the members of a group believe in, by client id.
// One that does not answer is left out.
func (s *service) consumerStatus(r *Request) wire.Reply {
	var h wire.GetConsumerStatusRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	members := s.Clients.Consumers(h.Group)
	if len(members) == 0 {
		return failure(wire.ResponseSystemError, "No Any Consumer online in the consumer group: ["+names.Quote(h.Group)+"]")
	}
	var asked []clients.Client
	for i := range members {
		if members[i].Version < wire.VersionResetOffsetPush {
			return failure(wire.ResponseSystemError, fmt.Sprintf("the client does not support this feature. version=%d", members[i].Version))
		}
		if h.ClientAddr == "" || h.ClientAddr == members[i].ID {
			asked = append(asked, members[i])
		}
	}
	asked = asked[:min(len(asked), clientsAskedMax)]
	body := wire.ConsumerStatusBody{ConsumerTable: map[string]map[wire.MessageQueue]int64{}, MessageQueueTable: map[wire.MessageQueue]int64{}}
	if len(asked) == 0 {
		return success(nil, wire.EncodeBody(body))
	}
	later := r.Later()
	var mu sync.Mutex // guards body and left
	left := len(asked)
	header := wire.GetConsumerStatusRequestHeader{Topic: h.Topic, Group: h.Group}
	for _, client := range asked {
		s.Relay.Call(client.Ref, wire.RequestGetConsumerStatusFromClient, header, nil, statusTimeout, func(a *relay.Answer, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil && a.Code == wire.ResponseSuccess {
				if table, err := clientOffsets(a.Body); err == nil {
					body.ConsumerTable[client.ID] = table
				}
			}
			if left--; left == 0 {
				later(success(nil, wire.EncodeBody(body)))
			}
		})
	}
	return Pending
}

// clientOffsets reads what a client answers to code 221: a map with queues as keys.
func clientOffsets(body []byte) (map[wire.MessageQueue]int64, error) {
	var raw struct {
		MessageQueueTable map[string]int64 `json:"messageQueueTable"`
	}
	if err := wire.DecodeBody(body, &raw); err != nil {
		return nil, err
	}
	table := make(map[wire.MessageQueue]int64, len(raw.MessageQueueTable))
	for key, offset := range raw.MessageQueueTable {
		var mq wire.MessageQueue
		if err := json.Unmarshal([]byte(key), &mq); err != nil {
			return nil, err
		}
		table[mq] = offset
	}
	return table, nil
}
