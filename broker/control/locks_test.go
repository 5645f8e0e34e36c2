package control

import (
	"strings"
	"testing"

	"peregrine/broker/locks"
	"peregrine/wire"
)

func TestLockBatch(t *testing.T) {
	b := newBench(t)
	body := func(client, queues string) string {
		return `{"clientId":"` + client + `","consumerGroup":"g","mqSet":[` + queues + `]}`
	}
	const q0, q1 = `{"brokerName":"broker-a","queueId":0,"topic":"t"}`, `{"brokerName":"broker-a","queueId":1,"topic":"t"}`
	b.expect("A locks", b.askFrom(1, wire.RequestLockBatchMQ, body("A", q0+","+q1)), wire.ResponseSuccess, "", `{"lockOKMQSet":[`+q0+","+q1+`]}`)
	b.expect("B gets nothing", b.askFrom(2, wire.RequestLockBatchMQ, body("B", q1)), wire.ResponseSuccess, "", `{"lockOKMQSet":[]}`)
	b.expect("B unlocks what it has not", b.askFrom(2, wire.RequestUnlockBatchMQ, body("B", q1)), wire.ResponseSuccess, "", "")
	b.expect("B gets nothing", b.askFrom(2, wire.RequestLockBatchMQ, body("B", q1)), wire.ResponseSuccess, "", `{"lockOKMQSet":[]}`)
	b.expect("A unlocks", b.askFrom(1, wire.RequestUnlockBatchMQ, body("A", q1)), wire.ResponseSuccess, "", "")
	b.expect("B gets it", b.askFrom(2, wire.RequestLockBatchMQ, body("B", q0+","+q1)), wire.ResponseSuccess, "", `{"lockOKMQSet":[`+q1+`]}`)
	b.expect("references of old clients", b.askFrom(1, wire.RequestLockBatchMQ, `{"clientId":"A","consumerGroup":"h","mqSet":[`+q0+`,{"$ref":"$.mqSet[0]"}]}`),
		wire.ResponseSuccess, "", `{"lockOKMQSet":[`+q0+`]}`)
	b.expect("no group", b.ask(wire.RequestLockBatchMQ, `{"clientId":"A","mqSet":[]}`), wire.ResponseSystemError, "consumerGroup", "")
	b.expect("no client", b.ask(wire.RequestUnlockBatchMQ, `{"consumerGroup":"g","mqSet":[]}`), wire.ResponseSystemError, "clientId", "")
	b.expect("no body", b.ask(wire.RequestLockBatchMQ, ``), wire.ResponseSystemError, "body", "")
	b.expect("no queue", b.ask(wire.RequestLockBatchMQ, body("A", "null")), wire.ResponseSystemError, "mqSet", "")
	b.expect("a long name", b.ask(wire.RequestLockBatchMQ, body(strings.Repeat("x", locks.NameBytesMax+1), q0)), wire.ResponseSystemError, "clientId", "")
}
