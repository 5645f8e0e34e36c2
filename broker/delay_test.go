package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/netio"
	"peregrine/store/storetest"
	"peregrine/wire"
)

func plain(text []byte) string {
	return strings.NewReplacer("\x01", "=", "\x02", "|").Replace(string(text))
}

// A delayed send is answered with its own queue, lies in the schedule topic with the original's properties, and comes when
// its second is over.
func TestADelayedSendComesLater(t *testing.T) {
	for _, mode := range []string{"flushDiskType=ASYNC_FLUSH", syncFlush} {
		for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
			t.Run(fmt.Sprint(mode, enc), func(t *testing.T) {
				b := startBroker(t, sysio.NewFaultFS(), "store", mode, "messageDelayLevel=1s 1h")
				c := dial(t, b.addr, enc)
				c.makeTopic("Later", 4)
				cmd := c.mustSend(sendHeader("Later", 3, "TAGS\x01a\x02DELAY\x011\x02UNIQ_KEY\x01U\x02TIMER_DELAY_SEC\x019\x02"), []byte("m"))
				var answer wire.SendMessageResponseHeader
				if err := wire.DecodeHeader(cmd, &answer); err != nil || answer.QueueID != 3 || answer.QueueOffset != 0 {
					t.Errorf("answer %+v, %v", answer, err)
				}
				c.mustSend(sendHeader("Later", 0, "DELAY\x0199\x02UNIQ_KEY\x01V\x02"), []byte("clamped"))
				want := "MSG_REGION=DefaultRegion|UNIQ_KEY=U|CLUSTER=DefaultCluster|DELAY=1|TAGS=a|TRACE_ON=true|REAL_TOPIC=Later|REAL_QID=3|"
				v := c.first(message.ScheduleTopic, 0)
				due := v.StoreTimestamp + 1000
				if got := plain(v.Properties); got != want {
					t.Errorf("scheduled with\n%s, want\n%s", got, want)
				}
				if v = c.first(message.ScheduleTopic, 1); !strings.Contains(plain(v.Properties), "|DELAY=2|") {
					t.Errorf("a level beyond the table: %s", plain(v.Properties))
				}
				v = c.first("Later", 3)
				if got := plain(v.Properties); got != want || string(v.Body) != "m" || v.StoreTimestamp < due {
					t.Errorf("delivered %q with\n%s, %d ms after it was due", v.Body, got, v.StoreTimestamp-due)
				}
			})
		}
	}
}

// first waits for the first record of a queue.
func (c *client) first(topic string, queueID int32) message.View {
	c.t.Helper()
	return c.at(topic, queueID, 0)
}

// at waits for the record at an offset of a queue.
func (c *client) at(topic string, queueID int32, offset int64) message.View {
	c.t.Helper()
	for deadline := time.Now().Add(waitMax); time.Now().Before(deadline); {
		h := pullHeader(topic, queueID, offset, "*")
		h.SysFlag |= wire.PullSysFlagSuspend
		h.SuspendTimeoutMillis = 1000
		if cmd := c.pull(h); wire.ResponseCode(cmd.Code) == wire.ResponseSuccess {
			return records(c.t, append([]byte(nil), cmd.Body...))[0]
		}
	}
	c.t.Fatalf("nothing comes in %s queue %d at %d", topic, queueID, offset)
	return message.View{}
}

// What is no level is refused, and so is a delay in a batch; no refusal stores anything.
func TestIllegalDelays(t *testing.T) {
	b := startBroker(t, sysio.NewFaultFS(), "store")
	c := dial(t, b.addr, wire.EncodingJSON)
	c.makeTopic("Later", 1)
	if cmd := c.send(sendHeader("Later", 0, "DELAY\x01soon\x02"), []byte("x")); wire.ResponseCode(cmd.Code) != wire.ResponseSystemError {
		t.Errorf("no number: %d %s", cmd.Code, cmd.Remark)
	}
	batch := message.AppendBatchElement(nil, 0, []byte("x"), []byte("DELAY\x011\x02"))
	inside, around := sendHeader("Later", 0, ""), sendHeader("Later", 0, "DELAY\x011\x02")
	inside.Batch, around.Batch = true, true
	for _, h := range []*wire.SendMessageHeader{inside, around} {
		if cmd := c.send(h, batch); wire.ResponseCode(cmd.Code) != wire.ResponseMessageIllegal {
			t.Errorf("batch: %d %s", cmd.Code, cmd.Remark)
		}
	}
	long := sendHeader("Later", 0, "DELAY\x011\x02UNIQ_KEY\x01U\x02k\x01"+strings.Repeat("v", message.PropertiesBytesMax-100)+"\x02")
	if cmd := c.send(long, []byte("x")); wire.ResponseCode(cmd.Code) != wire.ResponseMessageIllegal {
		t.Errorf("properties that grow too long: %d %s", cmd.Code, cmd.Remark)
	}
	if b.store.Wrote() != 0 {
		t.Errorf("%d bytes are stored", b.store.Wrote())
	}
}

// A client that resends what it could not consume: up to the last retry it is delayed, then it is a dead letter at once (case
// C13), without a delay, with the original topic and ids.
func TestResentMessagesBecomeDeadLetters(t *testing.T) {
	b := startBroker(t, sysio.NewFaultFS(), "store")
	c := dial(t, b.addr, wire.EncodingJSON)
	resend := func(group string, times, most int32) {
		h := sendHeader("%RETRY%"+group, 0, "DELAY\x0118\x02RETRY_TOPIC\x01T\x02ORIGIN_MESSAGE_ID\x01M\x02UNIQ_KEY\x01U\x02")
		h.ReconsumeTimes, h.MaxReconsumeTimes, h.HasMaxReconsumeTimes = times, most, true
		c.mustSend(h, []byte(fmt.Sprint(times)))
	}
	resend("G", 2, 2)
	if v := c.first(message.ScheduleTopic, 17); string(v.Body) != "2" || !strings.Contains(plain(v.Properties), "REAL_TOPIC=%RETRY%G|") {
		t.Errorf("the last retry: %s", plain(v.Properties))
	}
	if b.topics.Find("%DLQ%G") != nil {
		t.Error("a dead letter queue without a dead letter")
	}
	began := time.Now()
	resend("G", 3, 2)
	v := c.first("%DLQ%G", 0)
	t.Logf("a dead letter after %s", time.Since(began))
	if got := plain(v.Properties); got != "ORIGIN_MESSAGE_ID=M|RETRY_TOPIC=T|MSG_REGION=DefaultRegion|UNIQ_KEY=U|CLUSTER=DefaultCluster|DELAY=-1|TRACE_ON=true|" || v.ReconsumeTimes != 3 {
		t.Errorf("the dead letter has %s, %d times", got, v.ReconsumeTimes)
	}
	if config := b.topics.Find("%DLQ%G").Config(); config.Perm != 6 || config.ReadQueueNums != 1 || config.WriteQueueNums != 1 {
		t.Errorf("%+v", config)
	}
	// The group of an orderly consumer retries in place: what it sends is dead.
	b.locks.Lock("Orderly", "client", []wire.MessageQueue{{Topic: "T", BrokerName: "test"}}, netio.ConnRef{Slot: 1, Gen: 1}, now())
	resend("Orderly", 0, 16)
	if v := c.first("%DLQ%Orderly", 0); string(v.Body) != "0" {
		t.Errorf("%q", v.Body)
	}
	if n := b.retries.DeadLetters.Load(); n != 2 {
		t.Errorf("%d dead letters counted", n)
	}
}

// Code 36 end to end: a poison message goes round until it is dead, and those behind it are consumed meanwhile.
func TestASentBackMessageGoesRoundUntilItIsDead(t *testing.T) {
	b := startBroker(t, sysio.NewFaultFS(), "store", "messageDelayLevel=1s")
	c := dial(t, b.addr, wire.EncodingBinary)
	c.makeTopic("T", 1)
	c.mustSend(sendHeader("T", 0, "UNIQ_KEY\x01U\x02"), []byte("poison"))
	c.mustSend(sendHeader("T", 0, ""), []byte("next"))
	v := c.first("T", 0)
	most := int32(1)
	back := func(v message.View) {
		t.Helper()
		h := wire.ConsumerSendMsgBackRequestHeader{Offset: int64(v.PhyOffset), Group: "G", OriginTopic: "T", MaxReconsumeTimes: &most}
		if cmd := c.call(wire.RequestConsumerSendMsgBack, &h, nil); cmd.Code != 0 {
			t.Fatalf("code %d %s", cmd.Code, cmd.Remark)
		}
	}
	origin := string(message.AppendOffsetMsgID(nil, v.StoreHost, v.PhyOffset))
	back(v)
	if got := fmt.Sprint(c.drain("T", 0, 1, 1)); got != "[next]" {
		t.Errorf("behind the poison: %s", got)
	}
	v = c.first("%RETRY%G", 0)
	if v.ReconsumeTimes != 1 || string(v.Body) != "poison" {
		t.Errorf("%q, %d times", v.Body, v.ReconsumeTimes)
	}
	back(v)
	v = c.first("%DLQ%G", 0)
	if got := plain(v.Properties); v.ReconsumeTimes != 2 || !strings.Contains(got, "ORIGIN_MESSAGE_ID="+origin+"|RETRY_TOPIC=T|") || !strings.Contains(got, "|DELAY=0|") {
		t.Errorf("%d times, %s", v.ReconsumeTimes, got)
	}
}

// Case S15, the part about delays: what waits in a directory of the original comes, once, and what it had delivered stays as
// it is; and so again after a second start.
func TestDelaysOfTheOriginalsDirectoriesAreTakenOver(t *testing.T) {
	for _, name := range []string{"clean-5.5.0", "killed-5.5.0", "clean-4.9.4"} {
		t.Run(name, func(t *testing.T) {
			root := storetest.Unpack(t, "../store/testdata/"+name+".tar.gz", t.TempDir())
			for start := range 2 {
				b := startBroker(t, sysio.OS{}, root, "mappedFileSizeCommitLog=65536", "mappedFileSizeConsumeQueue=4000", "maxHashSlotNum=200", "maxIndexNum=1000",
					"fileReservedTime=876000", "cleanFileForciblyEnable=false")
				waitUntil(t, func() bool { return b.delays.Stats().Levels[17].Pending()+b.delays.Stats().Levels[16].Pending() == 0 })
				if err := b.dispatcher.CaughtUp(b.store.Confirmed(), time.Now().Add(waitMax)); err != nil {
					t.Fatal(err)
				}
				c := dial(t, b.addr, wire.EncodingJSON)
				times := map[string]int{}
				for queue := range int32(2) {
					if q := b.store.LookupQueue([]byte("FixDelay"), message.QueueID(queue)); q != nil {
						for _, body := range c.drain("FixDelay", queue, 0, int(q.Max())) {
							times[body]++
						}
					}
				}
				if want := "map[delayed 0:1 delayed 1:1 delayed 2:1 delayed 3:1 delayed 4:1 delayed 5:1]"; fmt.Sprint(times) != want {
					t.Errorf("start %d: %v", start, times)
				}
				if stats := b.delays.Stats(); stats.Corrected != 0 {
					t.Errorf("%d offsets were corrected", stats.Corrected)
				}
				if !b.stop() {
					t.Error("the stop was not clean")
				}
			}
		})
	}
}
