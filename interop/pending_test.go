package interop

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/store/storetest"
	"peregrine/wire"
)

const (
	pendingTopic    = "Pending"
	pendingMessages = 300
	pendingLevels   = 3
	pendingMax      = 2 * time.Minute // for what takes seconds
)

// Delayed messages that wait while the process is killed, again and again: each comes once and not before its time, and those of one
// level in the order in which they were sent.
func TestPendingDelaysSurviveKills(t *testing.T) {
	if bed.apache {
		t.Skip("the original delivers the last seconds before a kill again")
	}
	t.Parallel()
	for _, row := range matrix() {
		for _, mode := range []string{"ASYNC_FLUSH", "SYNC_FLUSH"} {
			t.Run(row.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				values := map[string]string{"messageDelayLevel": "1s 2s 3s", "flushDiskType": mode, "mappedFileSizeCommitLog": "1048576"}
				maps.Copy(values, row.values)
				pendingDelays(t, startBroker(t, settings{row.name, values}, true).(*Peregrine))
			})
		}
	}
}

func pendingDelays(t *testing.T, broker *Peregrine) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	if err := createTopic(broker.Addr(), pendingTopic, 1); err != nil {
		t.Fatal(err)
	}
	c, err := DialRaw(broker.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for i := range pendingMessages {
		cmd, err := c.Send(SendHeader(pendingTopic, 0, fmt.Sprintf("DELAY\x01%d\x02UNIQ_KEY\x01%032X\x02", 1+i%pendingLevels, i)), fmt.Append(nil, i))
		if err != nil || cmd.Code != 0 {
			t.Fatalf("send %d: %v %+v", i, err, cmd)
		}
	}
	c.Close()
	for _, least := range []int{0, random.IntN(pendingMessages / 3), pendingMessages/3 + random.IntN(pendingMessages/3)} {
		delivered, err := awaitQueue(broker.Addr(), pendingTopic, least)
		if err != nil {
			t.Fatal(err)
		}
		if err := broker.Stop(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := broker.Start(); err != nil {
			t.Fatal(err)
		}
		t.Logf("killed with %d of %d delivered", len(delivered), pendingMessages)
	}
	if _, err := awaitQueue(broker.Addr(), pendingTopic, pendingMessages); err != nil {
		t.Fatal(err)
	}
	gauges(t, broker, func(values map[string]float64) bool {
		for level := 1; level <= pendingLevels; level++ {
			if values[fmt.Sprintf(`peregrine_delayed_pending{level="%d"}`, level)] != 0 {
				return false
			}
		}
		return values["peregrine_dispatch_behind_bytes"] == 0
	})
	all, err := awaitQueue(broker.Addr(), pendingTopic, pendingMessages)
	if err != nil {
		t.Fatal(err)
	}
	var next [pendingLevels]int
	for level := range next {
		next[level] = level
	}
	for _, m := range all {
		var i int
		if _, err := fmt.Sscan(m.body, &i); err != nil {
			t.Fatalf("body %q: %v", m.body, err)
		}
		level := i % pendingLevels
		if i != next[level] {
			t.Fatalf("level %d: message %d where %d is due", 1+level, i, next[level])
		}
		next[level] += pendingLevels
		if early := m.BornTimestamp + message.Millis(1000*(1+level)) - m.StoreTimestamp; early > 0 {
			t.Errorf("message %d of level %d came %d ms too early", i, 1+level, early)
		}
	}
	if len(all) != pendingMessages {
		t.Errorf("%d messages were delivered, %d sent", len(all), pendingMessages)
	}
}

// awaitQueue reads queue 0 of a topic from its begin until it has so many messages.
func awaitQueue(addr, topic string, least int) (all []stored, err error) {
	c, err := DialRaw(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return all, eventually(pendingMax, func() error {
		if _, err := c.ReadQueue(topic, 0, int64(len(all)), func(v *message.View) error {
			all = append(all, stored{*v, string(v.Body)})
			return nil
		}); err != nil {
			return err
		}
		if len(all) < least {
			return fmt.Errorf("%d of %d messages of %s are there", len(all), least, topic)
		}
		return nil
	})
}

// Case S15, the part about transactions: what a directory of the original holds undecided is asked for and decided, also when
// peregrine is killed on the way; what the original had decided stays as it is.
func TestHalfMessagesOfTheOriginalsDirectoriesAreDecided(t *testing.T) {
	if bed.apache {
		t.Skip("about directories that peregrine takes over")
	}
	t.Parallel()
	binary, err := bed.tools.PeregrineBinary(bed.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"clean-5.5.0", "killed-5.5.0", "clean-4.9.4"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			storetest.Unpack(t, "../store/testdata/"+name+".tar.gz", dir)
			values := map[string]string{"mappedFileSizeCommitLog": "65536", "mappedFileSizeConsumeQueue": "4000", "maxHashSlotNum": "200", "maxIndexNum": "1000",
				"fileReservedTime": "876000", "cleanFileForciblyEnable": "false"}
			broker, err := StartPeregrine(PeregrineOptions{Binary: binary, Dir: dir, Settings: quickTransactions(settings{name, values}).values})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := broker.Stop(syscall.SIGTERM); err != nil {
					t.Error(err)
				}
				if t.Failed() {
					t.Log(broker.Logs())
				}
			})
			undecided := []string{"tx2", "tx5", "tx8"}
			decide(t, broker, undecided, map[string]int32{"tx2": message.SysFlagTransactionCommit})
			if err := broker.Stop(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := broker.Start(); err != nil {
				t.Fatal(err)
			}
			decide(t, broker, undecided[1:], map[string]int32{"tx5": message.SysFlagTransactionCommit, "tx8": message.SysFlagTransactionRollback})
			// Then a round finds nothing open any more: nobody is asked again.
			gauges(t, broker, func(values map[string]float64) bool { return values["peregrine_transaction_halves_pending"] == 0 })
			var keys []string
			c, err := DialRaw(broker.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for queue := range int32(2) {
				if _, err := c.ReadQueue("FixTx", queue, 0, func(v *message.View) error {
					keys = append(keys, keysOf(v))
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(keys)
			if want := []string{"tx0", "tx2", "tx3", "tx5", "tx6"}; !slices.Equal(keys, want) {
				t.Errorf("visible: %v, want %v", keys, want)
			}
		})
	}
}

// keysOf is the KEYS property of a record.
func keysOf(v *message.View) string {
	_, rest, _ := strings.Cut(string(v.Properties), "KEYS\x01")
	keys, _, _ := strings.Cut(rest, "\x02")
	return keys
}

// decide joins the producer group of the fixtures, waits until the broker has asked for each of the undecided halves, by their keys,
// and for no other, ends those that have an end, and returns when the op messages of the ends are written.
func decide(t *testing.T, broker Broker, undecided []string, ends map[string]int32) {
	t.Helper()
	c, err := DialRaw(broker.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ops := func() string {
		a, err := call(broker.Addr(), int(wire.RequestGetMaxOffset), map[string]string{"topic": "RMQ_SYS_TRANS_OP_HALF_TOPIC", "queueId": "0"}, nil)
		if err != nil || a.Code != 0 {
			t.Fatalf("%+v, %v", a, err)
		}
		return a.ExtFields["offset"]
	}
	before := ops()
	if _, err := ask(c, wire.RequestHeartBeat, nil, `{"clientID":"decides","producerDataSet":[{"groupName":"PFixTx"}],"consumerDataSet":[]}`); err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for len(asked) < len(undecided) {
		cmd, err := c.Receive()
		if err != nil {
			t.Fatalf("asked for %v only: %v", asked, err)
		}
		var h wire.CheckTransactionStateRequestHeader
		var v message.View
		if wire.RequestCode(cmd.Code) != wire.RequestCheckTransactionState {
			t.Fatalf("no check: %+v", cmd)
		}
		if err := wire.DecodeHeader(cmd, &h); err != nil {
			t.Fatal(err)
		}
		if err := message.ParseView(cmd.Body, &v); err != nil {
			t.Fatal(err)
		}
		key := keysOf(&v)
		if !slices.Contains(undecided, key) || string(v.Topic) != "FixTx" {
			t.Errorf("asked for %s of %s", key, v.Topic)
		}
		if end, decided := ends[key]; decided && !asked[key] {
			yes := true
			header := wire.EndTransactionRequestHeader{ProducerGroup: "PFixTx", TranStateTableOffset: h.TranStateTableOffset, CommitLogOffset: h.CommitLogOffset,
				MsgID: *h.MsgID, FromTransactionCheck: &yes, CommitOrRollback: end}
			if err := c.Write(wire.AppendRequest(nil, c.Enc, wire.RequestEndTransaction, c.NextOpaque(), wire.FlagOneway, wire.LanguageJava, wire.Version, &header, nil)); err != nil {
				t.Fatal(err)
			}
		}
		asked[key] = true
	}
	if err := eventually(pendingMax, func() error {
		if ops() == before {
			return fmt.Errorf("no op message behind offset %s", before)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
