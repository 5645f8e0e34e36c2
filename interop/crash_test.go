package interop

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/wire"
)

const (
	crashRounds   = 30
	crashQueues   = 8
	crashInFlight = 64
	crashTopic    = "Crash"
	// crashTopicHeader is in wire's table; 1 MiB segments make every round cross many file borders.
	crashSegment = "1048576"
)

// ack is one acknowledged message: where the broker said that it is.
type ack struct {
	offset int64
	id     uint64
}

// burst is one connection that sends to one queue, with a number of sends unanswered, until it is cut off.
type burst struct {
	queue int32
	acks  []ack
	err   error // anything but the cut
}

func (b *burst) run(c *RawClient, next func() uint64, stop <-chan struct{}) {
	defer c.Close()
	c.Enc = wire.EncodingBinary
	h := SendHeader(crashTopic, b.queue, "TAGS\x01TagA\x02WAIT\x01true\x02")
	sent := make(map[int32]uint64, crashInFlight)
	out := bufio.NewWriterSize(c.Conn, 64<<10)
	body := make([]byte, 100)
	var frame []byte
	for {
		for len(sent) < crashInFlight {
			select {
			case <-stop:
				return
			default:
			}
			id, opaque := next(), c.NextOpaque()
			binary.BigEndian.PutUint64(body, id)
			frame = wire.AppendSendRequestV2(frame[:0], c.Enc, opaque, 0, h, body[:8+int(id%92)])
			sent[opaque] = id
			if _, err := out.Write(frame); err != nil {
				return
			}
		}
		if out.Flush() != nil {
			return
		}
		cmd, err := c.Receive()
		if err != nil {
			return // the broker is gone
		}
		id, known := sent[cmd.Opaque]
		offset, _ := cmd.GetExt("queueOffset")
		var at int64
		if _, err := fmt.Sscan(string(offset), &at); err != nil || !known || cmd.Code != 0 {
			b.err = fmt.Errorf("queue %d: answer %d %s to opaque %d", b.queue, cmd.Code, cmd.Remark, cmd.Opaque)
			return
		}
		delete(sent, cmd.Opaque)
		b.acks = append(b.acks, ack{at, id})
	}
}

// Case S01: records that were acknowledged but not yet dispatched when the process was killed are there after the restart, at
// the offsets that the answers named, without a gap, in both flush modes and with 1 and 4 of loops and shards.
func TestAckedSurvivesKill(t *testing.T) {
	if bed.apache {
		t.Skip("the crash harness is for peregrine")
	}
	for _, s := range matrix() {
		for _, flush := range []string{"ASYNC_FLUSH", "SYNC_FLUSH"} {
			t.Run(s.name+"/"+flush, func(t *testing.T) {
				t.Parallel()
				row := settings{s.name, map[string]string{"mappedFileSizeCommitLog": crashSegment, "flushDiskType": flush}}
				for k, v := range s.values {
					row.values[k] = v
				}
				crashRun(t, startBroker(t, row, true), crashRounds)
			})
		}
	}
}

func crashRun(t *testing.T, broker Broker, rounds int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	if err := makeCrashTopic(broker.Addr()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	last := uint64(0)
	next := func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		last++
		return last
	}
	read := make([]int64, crashQueues) // offsets verified so far
	total := 0
	for round := range rounds {
		stop := make(chan struct{})
		bursts := make([]*burst, crashQueues)
		var all sync.WaitGroup
		for q := range bursts {
			bursts[q] = &burst{queue: int32(q)}
			c, err := DialRaw(broker.Addr())
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			all.Go(func() { bursts[q].run(c, next, stop) })
		}
		time.Sleep(time.Duration(20+random.IntN(180)) * time.Millisecond) // the moment of death is what is random here
		if err := broker.Stop(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		close(stop)
		all.Wait()
		if err := broker.Start(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for q, b := range bursts {
			if b.err != nil {
				t.Fatalf("round %d: %v", round, b.err)
			}
			total += len(b.acks)
			end, err := verify(broker.Addr(), int32(q), read[q], b.acks)
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			read[q] = end
		}
	}
	for q := range read {
		end, err := verify(broker.Addr(), int32(q), 0, nil)
		if err != nil || end != read[q] {
			t.Fatalf("queue %d from its beginning: ends at %d, %v; it ended at %d before", q, end, err, read[q])
		}
	}
	if !strings.Contains(broker.Logs(), " redispatched=") {
		t.Errorf("the start does not say how many records were dispatched again:\n%s", broker.Logs())
	}
	t.Logf("%d acknowledged messages in %d rounds", total, rounds)
}

// verify reads a queue from an offset to its end and finds each acknowledged message where its answer said.
func verify(addr string, queue int32, from int64, acks []ack) (end int64, err error) {
	c, err := DialRaw(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.Enc = wire.EncodingBinary
	ids := map[int64]uint64{}
	end, err = c.ReadQueue(crashTopic, queue, from, func(v *message.View) error {
		id := binary.BigEndian.Uint64(v.Body)
		if want := 8 + int(id%92); len(v.Body) != want || v.TagsCode() != 2598919 {
			return fmt.Errorf("queue %d offset %d: body of %d bytes, tags code %d", queue, v.QueueOffset, len(v.Body), v.TagsCode())
		}
		ids[int64(v.QueueOffset)] = id
		return nil
	})
	if err != nil {
		return end, err
	}
	for _, a := range acks {
		if id, there := ids[a.offset]; !there || id != a.id {
			return end, fmt.Errorf("queue %d: acknowledged message %d is not at offset %d (found %d, present %v); the queue ends at %d", queue, a.id, a.offset, id, there, end)
		}
	}
	seen := make(map[uint64]bool, len(ids))
	for offset, id := range ids {
		if seen[id] {
			return end, fmt.Errorf("queue %d: message %d is there twice, the second time at offset %d", queue, id, offset)
		}
		seen[id] = true
	}
	return end, nil
}

func makeCrashTopic(addr string) error {
	c, err := DialRaw(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	cmd, err := c.Call(wire.RequestUpdateAndCreateTopic, &wire.CreateTopicRequestHeader{Topic: crashTopic, DefaultTopic: "TBW102",
		ReadQueueNums: crashQueues, WriteQueueNums: crashQueues, Perm: 6, TopicFilterType: "SINGLE_TAG"}, nil)
	if err == nil && cmd.Code != 0 {
		err = fmt.Errorf("create %s: %d %s", crashTopic, cmd.Code, cmd.Remark)
	}
	return err
}
