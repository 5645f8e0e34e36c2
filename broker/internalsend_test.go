package broker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
	"peregrine/wire"
)

func internalMessage(topic string, queueID message.QueueID, body string) store.Message {
	return store.Message{Record: message.Record{Topic: []byte(topic), QueueID: queueID, Body: []byte(body), BodyCRC: message.BodyCRC([]byte(body))}}
}

// A record that the broker makes becomes visible without other traffic in all flush modes; its topic needs no configuration.
func TestInternalSendsBecomeVisible(t *testing.T) {
	for _, mode := range []string{"flushDiskType=ASYNC_FLUSH", syncFlush} {
		t.Run(mode, func(t *testing.T) {
			b := startBroker(t, sysio.NewFaultFS(), "store", mode)
			s := internalSender{b.Broker}
			one := internalMessage("Inner", 3, "one")
			if err := s.Send(&one, true); err != nil {
				t.Fatal(err)
			}
			if mode == syncFlush && b.flusher.Flushed() < one.PhyOffset+message.PhyOffset(one.Size()) {
				t.Error("Send came back before the sync")
			}
			batch := []store.Message{internalMessage("Inner", 3, "two"), internalMessage("Other", 0, "three")}
			end, err := s.Append(batch)
			if err != nil || batch[0].Err != nil || batch[1].Err != nil || end != b.store.Wrote() {
				t.Fatal(end, err, batch[0].Err, batch[1].Err)
			}
			if err := s.Await(end); err != nil {
				t.Fatal(err)
			}
			c := dial(t, b.addr, wire.EncodingBinary)
			c.makeTopic("Inner", 4) // pulls ask the table of topics
			if got := fmt.Sprint(c.drain("Inner", 3, 0, 2)); got != "[one two]" {
				t.Errorf("got %s", got)
			}
			if host := batch[1].StoreHost; host != b.storeHost {
				t.Errorf("store host %v", host)
			}
		})
	}
}

// A queue that was deleted a moment ago is no reason to lose what belongs to its topic.
func TestInternalSendOutlivesADeletedTopic(t *testing.T) {
	b := startBroker(t, sysio.NewFaultFS(), "store")
	s := internalSender{b.Broker}
	for i := range 3 {
		m := internalMessage("Gone", 0, "m")
		if err := s.Send(&m, true); err != nil || m.QueueOffset != 0 {
			t.Fatalf("round %d: offset %d, %v", i, m.QueueOffset, err)
		}
		if err := b.dispatcher.CaughtUp(b.store.Confirmed(), time.Now().Add(waitMax)); err != nil {
			t.Fatal(err)
		}
		if err := b.store.DeleteTopic("Gone"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInternalSendTellsWhyItIsRefused(t *testing.T) {
	b := startBroker(t, sysio.NewFaultFS(), "store")
	s := internalSender{b.Broker}
	m := internalMessage("a/b", 0, "m")
	var refusal *wire.Refusal
	if err := s.Send(&m, true); !errors.As(err, &refusal) || refusal.Code != wire.ResponseMessageIllegal || !errors.Is(m.Err, store.ErrBadTopic) {
		t.Errorf("a topic that cannot be stored: %v, %v", err, m.Err)
	}
	b.unflushedMax = -1 << 40
	m = internalMessage("T", 0, "m")
	before := b.store.Wrote()
	if err := s.Send(&m, true); !errors.As(err, &refusal) || refusal.Code != wire.ResponseSystemBusy || b.store.Wrote() != before {
		t.Errorf("overloaded: %v", err)
	}
}
