package broker

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"peregrine/broker/longpoll"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

// heldPullHeader is a pull that waits up to a minute for a message.
func heldPullHeader(topic string, queueID int32, offset int64, expression string) *wire.PullMessageHeader {
	h := pullHeader(topic, queueID, offset, expression)
	h.SysFlag |= wire.PullSysFlagSuspend
	h.SuspendTimeoutMillis = 60_000
	return h
}

// Twenty queues with a pull held on each (case C05): a message answers the pull of its queue at once and no other. Half of
// them come within ten times the promised 5 ms, and none waits for a tick of anything: this machine runs other tests as well (the times are make bench-longpoll's).
func TestAMessageAnswersThePullOfItsQueue(t *testing.T) {
	const queues, rounds = 20, 400
	shapes(t, func(t *testing.T, settings ...string) {
		b := startBroker(t, sysio.OS{}, t.TempDir(), append(settings, smallFiles)...)
		consumer, producer := dial(t, b.addr, wire.EncodingBinary), dial(t, b.addr, wire.EncodingBinary)
		producer.makeTopic("Held", queues)
		var next [queues]int64
		park := func(q int32) {
			consumer.write(wire.AppendPullRequest(nil, consumer.enc, wire.RequestPullMessage, q, heldPullHeader("Held", q, next[q], "*")))
		}
		for q := range int32(queues) {
			park(q)
		}
		waitUntil(t, func() bool { return b.polls.Held() == queues })
		random, took := newRand(5), make([]time.Duration, 0, rounds)
		for i := range rounds {
			q := random.Int32N(queues)
			began := time.Now()
			producer.mustSend(sendHeader("Held", q, "UNIQ_KEY\x01k\x02"), fmt.Append(nil, i))
			cmd := consumer.receive()
			took = append(took, time.Since(began))
			if got := records(t, cmd.Body); cmd.Opaque != q || len(got) != 1 || string(got[0].Body) != fmt.Sprint(i) {
				t.Fatalf("message %d of queue %d: the pull of queue %d is answered, code %d, with %d messages", i, q, cmd.Opaque, cmd.Code, len(got))
			}
			next[q]++
			if held := b.polls.Held(); held != queues-1 {
				t.Fatalf("%d pulls are held beside the one that was answered", held)
			}
			park(q)
			waitUntil(t, func() bool { return b.polls.Held() == queues })
		}
		slices.Sort(took)
		t.Logf("p50 %v, p99 %v, max %v", took[rounds/2], took[rounds*99/100], took[rounds-1])
		if took[rounds/2] > 50*time.Millisecond || took[rounds-1] > 5*time.Second {
			t.Error("too late")
		}
	})
}

// Producers send as fast as they can (case C21) while eight consumers read from the tail: these keep up while it lasts, and are level
// within ten times the promised second after it. How late messages come then is the machine's: it is told, not judged.
func TestConsumptionKeepsUpWithABurst(t *testing.T) {
	const queues = 8
	each := 40_000
	if testing.Short() {
		each /= 10
	}
	shapes(t, func(t *testing.T, settings ...string) {
		b := startBroker(t, sysio.OS{}, t.TempDir(), append(settings, "mappedFileSizeCommitLog=268435456")...)
		dial(t, b.addr, wire.EncodingBinary).makeTopic("Burst", queues)
		var consumed atomic.Int64
		var producers, consumers sync.WaitGroup
		for q := range int32(queues) {
			c := dial(t, b.addr, wire.EncodingBinary)
			consumers.Go(func() {
				for offset := int64(0); offset < int64(each); {
					if _, err := c.conn.Write(wire.AppendPullRequest(nil, c.enc, wire.RequestPullMessage, c.next(), heldPullHeader("Burst", q, offset, "*"))); err != nil {
						t.Error(err)
						return
					}
					cmd, err := c.tryReceive(waitMax)
					if err != nil || cmd.Code != 0 && wire.ResponseCode(cmd.Code) != wire.ResponsePullNotFound {
						t.Errorf("queue %d at %d: %v, code %d", q, offset, err, c.cmd.Code)
						return
					}
					before := offset
					for _, v := range records(t, cmd.Body) {
						if int64(v.QueueOffset) != offset {
							t.Errorf("queue %d: offset %d where %d is due", q, v.QueueOffset, offset)
							return
						}
						offset++
					}
					consumed.Add(offset - before)
				}
			})
			p := newPipeline(t, b, 64, wire.AppendSendRequestV2(nil, wire.EncodingBinary, 1, 0, sendHeader("Burst", q, "UNIQ_KEY\x01k\x02"), make([]byte, 128)))
			producers.Go(func() {
				if err := p.run(each); err != nil {
					t.Error(err)
				}
			})
		}
		began := time.Now()
		producers.Wait()
		ended := time.Now()
		during := consumed.Load()
		waitUntil(t, func() bool { return b.dispatcher.BehindBytes() == 0 })
		dispatched := time.Since(ended)
		consumers.Wait()
		behind := time.Since(ended)
		t.Logf("%d messages in %v, %d consumed by then; dispatch level after %v, consumers after %v", queues*each, ended.Sub(began), during, dispatched, behind)
		if during < int64(queues*each/10) { // all but the last moments, on an idle machine
			t.Errorf("consumers had %d of %d messages when the burst ended", during, queues*each)
		}
		if behind > 10*time.Second {
			t.Errorf("consumers were level %v after the burst", behind)
		}
	})
}

// One message in a thousand has the tag that a consumer wants (case C07), all others pass by at full speed: each comes within ten times
// the promised 100 ms, in order, and what is dropped wakes nobody.
func TestRareTagsComeAtOnce(t *testing.T) {
	const messages, every = 20_000, 1_000
	shapes(t, func(t *testing.T, settings ...string) {
		b := startBroker(t, sysio.OS{}, t.TempDir(), append(settings, "mappedFileSizeCommitLog=67108864")...)
		consumer, producer := dial(t, b.addr, wire.EncodingBinary), dial(t, b.addr, wire.EncodingBinary)
		producer.makeTopic("Rare", 1)
		sent := make(chan time.Time, messages/every)
		go func() {
			for i := range messages {
				tag := "Other"
				if i%every == every-1 {
					tag = "Want"
				}
				answer, err := producer.trySend(sendHeader("Rare", 0, "UNIQ_KEY\x01k\x02TAGS\x01"+tag+"\x02"), fmt.Append(nil, i))
				if err != nil || answer.Code != 0 {
					t.Errorf("send %d: %v", i, err)
					close(sent)
					return
				}
				if tag == "Want" {
					sent <- time.Now()
				}
			}
		}()
		offset, pulls, last := int64(0), 0, time.Duration(0)
		for want := every - 1; want < messages; {
			pulls++
			cmd := consumer.pull(heldPullHeader("Rare", 0, offset, "Want"))
			arrived := time.Now()
			if code := wire.ResponseCode(cmd.Code); code != wire.ResponseSuccess && code != wire.ResponsePullNotFound && code != wire.ResponsePullRetryImmediately {
				t.Fatalf("pull at %d: %d %s", offset, cmd.Code, cmd.Remark)
			}
			for _, v := range records(t, cmd.Body) {
				if string(v.Body) != fmt.Sprint(want) {
					t.Fatalf("got %s where %d is due", v.Body, want)
				}
				want += every
				last = max(last, arrived.Sub(<-sent))
			}
			next, _ := cmd.GetExt("nextBeginOffset")
			before := offset
			if _, err := fmt.Sscan(string(next), &offset); err != nil || offset <= before {
				t.Fatalf("a pull at %d goes on at %q", before, next)
			}
		}
		woken := b.polls.Woken()
		t.Logf("%d pulls, %d of them held and woken, the latest message after %v", pulls, woken, last)
		if last > time.Second {
			t.Errorf("a message took %v", last)
		}
		// A held pull is woken by each message that it wants, and when so many that its filter drops have gone by, not by each of them. What a
		// pull finds when it comes is another matter: how often that is depends on who is faster, consumer or producer.
		if most := uint64(messages/every + messages/longpoll.SkippedUnitsMax); woken > most {
			t.Errorf("held pulls were woken %d times for %d messages, at most %d expected", woken, messages/every, most)
		}
	})
}

// A group changes its tags while a pull of it is held: the pull goes by what the group wants now. By the filter that it came with it
// would wait for its end, and then step over the message that the group has subscribed meanwhile.
func TestAHeldPullFollowsItsGroupsSubscription(t *testing.T) {
	shapes(t, func(t *testing.T, settings ...string) {
		b := startBroker(t, sysio.OS{}, t.TempDir(), append(settings, smallFiles)...)
		consumer, other, producer := dial(t, b.addr, wire.EncodingJSON), dial(t, b.addr, wire.EncodingJSON), dial(t, b.addr, wire.EncodingJSON)
		producer.makeTopic("T", 2)
		consumer.join("g", "consumer", "T", "old", 1)
		h := heldPullHeader("T", 1, 0, "")
		h.ConsumerGroup, h.SysFlag, h.Subscription, h.SubVersion = []byte("g"), wire.PullSysFlagSuspend, nil, 1
		consumer.write(wire.AppendPullRequest(nil, consumer.enc, wire.RequestPullMessage, 100, h))
		waitUntil(t, func() bool { return b.polls.Held() == 1 })
		producer.mustSend(sendHeader("T", 1, "TAGS\x01new\x02"), []byte("m"))
		producer.drain("T", 1, 0, 1)
		if held := b.polls.Held(); held != 1 {
			t.Fatalf("%d pulls are held: the tags of the message are not the group's yet", held)
		}
		other.join("g", "other", "T", "new", 2)
		for {
			cmd := consumer.receive()
			if !cmd.IsResponse() {
				continue // the group's change
			}
			if got := records(t, cmd.Body); cmd.Opaque != 100 || len(got) != 1 || string(got[0].Body) != "m" {
				t.Errorf("answer to %d: code %d %s with %d messages", cmd.Opaque, cmd.Code, cmd.Remark, len(got))
			}
			return
		}
	})
}

// What an administrator forbids while a pull is held is forbidden for that pull, too: a message that comes afterwards is not its answer.
func TestAHeldPullIsForbiddenLater(t *testing.T) {
	b := startBroker(t, sysio.NewFaultFS(), "store", smallFiles)
	admin := dial(t, b.addr, wire.EncodingJSON)
	topic := func(name string, perm, queues int32) {
		admin.call(wire.RequestUpdateAndCreateTopic, &wire.CreateTopicRequestHeader{Topic: name, DefaultTopic: "TBW102", ReadQueueNums: queues, WriteQueueNums: 1,
			Perm: perm, TopicFilterType: "SINGLE_TAG"}, nil)
	}
	for name, c := range map[string]struct {
		forbid func(name string)
		code   wire.ResponseCode
		remark string
	}{
		"Perm":  {func(name string) { topic(name, 2, 1) }, wire.ResponseNoPermission, "the topic[Perm] pulling message is forbidden"},
		"Fewer": {func(name string) { topic(name, 6, 0) }, wire.ResponseInvalidParameter, "queueId[0] is illegal, topic:[Fewer] topicConfig.readQueueNums:[0]"},
		"Group": {func(name string) {
			admin.request(wire.RequestUpdateAndCreateSubscriptionGroup, []byte(`{"groupName":"`+name+`","consumeEnable":false}`))
		}, wire.ResponseNoPermission, "subscription group no permission, Group"},
	} {
		topic(name, 6, 1)
		consumer := dial(t, b.addr, wire.EncodingJSON)
		h := heldPullHeader(name, 0, 0, "*")
		h.ConsumerGroup = []byte(name)
		consumer.write(wire.AppendPullRequest(nil, consumer.enc, wire.RequestPullMessage, 100, h))
		waitUntil(t, func() bool { return b.polls.Held() == 1 })
		c.forbid(name)
		admin.mustSend(sendHeader(name, 0, ""), []byte("m"))
		if cmd := consumer.receive(); wire.ResponseCode(cmd.Code) != c.code || string(cmd.Remark) != c.remark || len(cmd.Body) != 0 {
			t.Errorf("%s: code %d %q with %d bytes, want %d %q", name, cmd.Code, cmd.Remark, len(cmd.Body), c.code, c.remark)
		}
	}
}
