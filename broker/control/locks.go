package control

import (
	"peregrine/broker/locks"
	"peregrine/wire"
)

// lockQueues is code 41 (AdminBrokerProcessor.lockBatchMQ). An older lock of another client is no error: the answer names the
// queues that the client got.
func (s *service) lockQueues(r *Request) wire.Reply {
	body, refusal := lockBody(r)
	if refusal != nil {
		return refusal.Reply()
	}
	granted := s.Locks.Lock(body.ConsumerGroup, body.ClientID, body.MQSet, r.Ref, s.Now())
	return success(nil, wire.EncodeBody(wire.LockBatchResponseBody{LockOKMQSet: granted}))
}

// unlockQueues is code 42, often one-way.
func (s *service) unlockQueues(r *Request) wire.Reply {
	body, refusal := lockBody(r)
	if refusal != nil {
		return refusal.Reply()
	}
	s.Locks.Unlock(body.ConsumerGroup, body.ClientID, body.MQSet)
	return success(nil, nil)
}

// lockBody reads and checks the body of both.
func lockBody(r *Request) (*wire.LockBatchBody, *wire.Refusal) {
	var body wire.LockBatchBody
	if err := wire.DecodeBody(r.Cmd.Body, &body); err != nil {
		return nil, wire.Refuse(wire.ResponseSystemError, "the body does not parse: "+err.Error())
	}
	for _, f := range [][2]string{{"consumerGroup", body.ConsumerGroup}, {"clientId", body.ClientID}} {
		if f[1] == "" {
			return nil, wire.Refuse(wire.ResponseSystemError, "the body lacks "+f[0])
		}
		if len(f[1]) > locks.NameBytesMax {
			return nil, wire.Refuse(wire.ResponseSystemError, f[0]+" is too long")
		}
	}
	for i := range body.MQSet {
		mq := &body.MQSet[i]
		if *mq == (wire.MessageQueue{}) {
			return nil, wire.Refuse(wire.ResponseSystemError, "mqSet: an element names no queue")
		}
		if len(mq.Topic)+len(mq.BrokerName) > 2*locks.NameBytesMax {
			return nil, wire.Refuse(wire.ResponseSystemError, "mqSet: a name is too long")
		}
	}
	return &body, nil
}
