package broker

import (
	"slices"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

// A send that is refused after its record was begun, and one that a bug ended in the middle of, leave nothing behind that the turn's append takes.
func TestOnlyAdmittedSendsAreAppended(t *testing.T) {
	b := startBroker(t, sysio.NewFaultFS(), "store", smallFiles)
	dial(t, b.addr, wire.EncodingJSON).makeTopic("T", 1)
	host := message.HostOf(b.server.Addrs()[0])
	var turn sendTurn
	turn.uniqIDs = b.newUniqIDs()
	admit := func(h *wire.SendMessageHeader, body []byte) admission {
		var d wire.Decoder
		var cmd wire.Command
		if err := d.Decode(wire.AppendSendRequestV2(nil, wire.EncodingBinary, 1, 0, h, body)[4:], &cmd); err != nil {
			t.Fatal(err)
		}
		how, _ := b.admitSend(&turn, &cmd, &sender{host: &host, opaque: 1, enc: wire.EncodingBinary})
		return how
	}
	torn := sendHeader("T", 0, "")
	torn.Batch = true
	whole := message.AppendBatchElement(nil, 0, []byte("of a batch"), []byte("UNIQ_KEY\x01k\x02"))
	for range 2 {
		if how := admit(torn, append(slices.Clone(whole), whole[:len(whole)-1]...)); how != refused {
			t.Fatalf("a torn batch: %d", how)
		}
		if how := admit(sendHeader("T", 0, "TAGS\x01a\x02"), []byte("good")); how != admitted {
			t.Fatalf("a good message: %d", how)
		}
		turn.addMessage() // as far as a bug let it come
	}
	if how := admit(torn, append(slices.Clone(whole), 1)); how != refused {
		t.Fatalf("a torn batch: %d", how)
	}
	before := b.store.Wrote()
	end := b.store.Append(turn.messages[:turn.admitted()])
	if n := turn.admitted(); n != 2 || len(turn.pending) != 2 {
		t.Fatalf("%d messages of %d sends are admitted, 2 of 2 were", n, len(turn.pending))
	}
	size := 0
	for i := range turn.admitted() {
		if m := &turn.messages[i]; m.Err != nil || string(m.Body) != "good" {
			t.Errorf("message %d: %q, %v", i, m.Body, m.Err)
		}
		size += turn.messages[i].Size()
	}
	if got := int(end - before); got != size {
		t.Errorf("%d bytes were appended, %d were admitted", got, size)
	}
	b.announce(end)
}
