package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"peregrine/internal/message"
	"peregrine/wire"
)

func TestMain(m *testing.M) {
	// Importing gnet starts two goroutines of its worker pool, once a process.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"), goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
}

func TestOpaqueFindsItsRequestInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 300).Draw(t, "capacity")
		table := newInflight(capacity)
		live := map[int32]int64{}
		var gone []int32
		for i := range int64(rapid.IntRange(1, 2000).Draw(t, "steps")) {
			if table.waiting() != len(live) {
				t.Fatalf("waiting %d, want %d", table.waiting(), len(live))
			}
			if !table.full() && rapid.Bool().Draw(t, "take") {
				opaque := table.take(request{intendedNs: i, sentNs: i + 1})
				if len(fmt.Sprint(opaque)) != opaqueWidth {
					t.Fatalf("opaque %d has not %d digits", opaque, opaqueWidth)
				}
				if _, dup := live[opaque]; dup {
					t.Fatalf("opaque %d is in use", opaque)
				}
				live[opaque] = i
				continue
			}
			for opaque, at := range live { // any one
				r, ok := table.give(opaque)
				if !ok || r.intendedNs != at || r.sentNs != at+1 {
					t.Fatalf("give(%d) = %+v %v", opaque, r, ok)
				}
				delete(live, opaque)
				gone = append(gone, opaque)
				break
			}
			if len(gone) > 0 {
				if _, again := live[gone[len(gone)-1]]; !again {
					if _, ok := table.give(gone[len(gone)-1]); ok {
						t.Fatal("an answer counted twice")
					}
				}
			}
		}
	})
}

func TestForeignOpaquesAreRefused(t *testing.T) {
	table := newInflight(5)
	table.take(request{})
	for _, opaque := range []int32{0, -1, 1, opaqueBase - 1, math.MaxInt32, math.MinInt32, opaqueBase + 7, opaqueBase + 5} {
		if _, ok := table.give(opaque); ok {
			t.Errorf("took %d", opaque)
		}
	}
}

func TestScheduleAdmitsEveryArrivalOnceAtItsTime(t *testing.T) {
	s := newSchedule(1000, 1000+1_000_000_000, 1000, 0.5, 5000)
	var got []int64
	for now := int64(0); now < 1_200_000_000; now += 7_777_777 {
		due, skipped, _ := s.admit(now, now, 0, 5000)
		if skipped != 0 {
			t.Fatalf("skipped %d of %d", skipped, due)
		}
		for s.len > 0 {
			at := s.pop()
			if at > now {
				t.Fatalf("arrival of %d at %d", at, now)
			}
			got = append(got, at)
		}
	}
	if len(got) != 1000 {
		t.Fatalf("%d arrivals in a second at 1000/s", len(got))
	}
	for i, at := range got {
		if want := 1000 + 500_000 + int64(i)*1_000_000; at != want {
			t.Fatalf("arrival %d at %d, want %d", i, at, want)
		}
	}
	if s.nextNs() != math.MaxInt64 {
		t.Error("arrivals after the end")
	}
}

// The arrivals that found room keep their place and their intended time; the newer ones are skipped, not the ones that wait.
func TestScheduleSkipsNewArrivalsWhenTooManyAreUnfinished(t *testing.T) {
	s := newSchedule(0, math.MaxInt64, 1e6, 0, 10)
	due, skipped, lag := s.admit(99_999, 99_999, 4, 10)
	if due != 100 || skipped != 94 || s.len != 6 || lag != 99_999 {
		t.Fatalf("due %d skipped %d queued %d lag %d", due, skipped, s.len, lag)
	}
	for i := range int64(6) {
		if at := s.pop(); at != i*1000 {
			t.Errorf("arrival %d at %d", i, at)
		}
	}
	if due, skipped, _ = s.admit(100_000, 100_000, 10, 10); due != 1 || skipped != 1 {
		t.Errorf("due %d skipped %d with a full table", due, skipped)
	}
}

func TestTallyKeepsItsSizeUnderAnyCodes(t *testing.T) {
	var a, b tally
	for code := range int32(1000) {
		a.add(code, 2, []byte(strings.Repeat("x", 1000)))
	}
	b.merge(&a)
	if a.n > errorCodesMax || b.sum() != 2000 || a.sum() != 2000 {
		t.Errorf("n %d sums %d %d", a.n, a.sum(), b.sum())
	}
	if len(a.rows[0].remark) != remarkBytesMax {
		t.Errorf("remark of %d bytes", len(a.rows[0].remark))
	}
}

func testFrames(t testing.TB, change func(*frameSpec)) *frames {
	t.Helper()
	spec := frameSpec{encoding: wire.EncodingBinary, group: "g", topic: "T", brokerName: "b", queues: 12, bodyBytes: 100, batch: 1, tags: "TagA"}
	if change != nil {
		change(&spec)
	}
	f, err := newFrames(spec, message.Host{IP: [16]byte{127, 0, 0, 1}, IPLen: 4}, 4711, 99)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// --key: every message has the one key, its own UNIQ_KEY, and nothing else is different.
func TestFramesWithOneKey(t *testing.T) {
	for _, batch := range []int{1, 7} {
		f := testFrames(t, func(s *frameSpec) { s.batch, s.key = batch, "hot" })
		ids := map[string]bool{}
		check := func(properties []byte) {
			key, _ := message.GetProperty(properties, message.PropertyKeys)
			id, ok := message.GetProperty(properties, message.PropertyUniqKey)
			if string(key) != "hot" || !ok || len(id) != uniqWidth || ids[string(id)] {
				t.Fatalf("KEYS %q UNIQ_KEY %q", key, id)
			}
			ids[string(id)] = true
		}
		for i := range 100 {
			frame, _, err := wire.SplitFrame(f.append([]byte{}, i%12, false, int32(opaqueBase+i), 1_795_984_496_940, stamp{sequence: uint64(i)}))
			if err != nil {
				t.Fatal(err)
			}
			var dec wire.Decoder
			var cmd wire.Command
			var h wire.SendMessageHeader
			if err := errors.Join(dec.Decode(frame, &cmd), h.DecodeV2(&cmd)); err != nil {
				t.Fatal(err)
			}
			if batch == 1 {
				check(h.Properties)
				continue
			}
			it := message.Batch(cmd.Body)
			for e := (message.BatchElement{}); it.Next(&e); {
				check(e.Properties)
			}
		}
		if len(ids) != 100*batch {
			t.Errorf("%d messages in batches of %d", len(ids), batch)
		}
	}
	for _, o := range []func(*Options){
		func(o *Options) { o.Keys, o.Key = true, "hot" },
		func(o *Options) { o.Key = "two keys" },
		func(o *Options) { o.Key = "a\x01b" },
		func(o *Options) { o.Key = strings.Repeat("k", keyBytesMax+1) },
	} {
		opts := DefaultOptions()
		o(&opts)
		if err := opts.check(); err == nil || !strings.Contains(err.Error(), "--key") {
			t.Errorf("keys %v key %.20q: %v", opts.Keys, opts.Key, err)
		}
	}
}

func TestFramesAreWhatTheJavaClientSends(t *testing.T) {
	for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
		for _, batch := range []int{1, 7} {
			t.Run(fmt.Sprintf("%s batch %d", enc, batch), func(t *testing.T) {
				f := testFrames(t, func(s *frameSpec) { s.encoding, s.batch, s.keys = enc, batch, true })
				seen := map[string]bool{}
				var dec wire.Decoder
				var cmd wire.Command
				var h wire.SendMessageHeader
				for i := range 500 {
					q, opaque, born := i%12, int32(opaqueBase+i*12345), int64(1_795_984_496_940+i/3)
					frame, size, err := wire.SplitFrame(f.append([]byte{}, q, false, opaque, born, stamp{}))
					if err != nil || frame == nil || size != len(frame)+4 {
						t.Fatalf("no whole frame: %d %v", size, err)
					}
					if err := dec.Decode(frame, &cmd); err != nil {
						t.Fatal(err)
					}
					if err := h.DecodeV2(&cmd); err != nil {
						t.Fatal(err)
					}
					wantCode := wire.RequestSendMessageV2
					if batch > 1 {
						wantCode = wire.RequestSendBatchMessage
					}
					if cmd.Code != int32(wantCode) || cmd.Opaque != opaque || cmd.Flag != 0 || cmd.Encoding != enc {
						t.Fatalf("code %d opaque %d flag %d", cmd.Code, cmd.Opaque, cmd.Flag)
					}
					if h.QueueID != int32(q) || h.BornTimestamp != born || string(h.Topic) != "T" || string(h.BrokerName) != "b" || string(h.DefaultTopic) != templateTopic || h.Batch != (batch > 1) {
						t.Fatalf("header %+v", h)
					}
					check := func(properties []byte, names ...string) {
						var got []string
						for it := message.Properties(properties); ; {
							name, value, ok := it.Next()
							if !ok {
								break
							}
							got = append(got, string(name))
							switch string(name) {
							case message.PropertyUniqKey, message.PropertyKeys:
								if seen[string(value)] || len(value) != uniqWidth && len(value) != keyWidth || bytes.ContainsAny(value, "GHIJKLMNOPQRSTUVWXYZ") {
									t.Fatalf("%s %q", name, value)
								}
								seen[string(value)] = true
							case message.PropertyWait:
								if string(value) != "true" {
									t.Fatalf("WAIT %q", value)
								}
							}
						}
						if strings.Join(got, " ") != strings.Join(names, " ") {
							t.Fatalf("properties %v, want %v", got, names)
						}
					}
					if batch == 1 {
						check(h.Properties, "KEYS", "UNIQ_KEY", "WAIT", "TAGS")
						if len(cmd.Body) != 100 {
							t.Fatalf("body of %d bytes", len(cmd.Body))
						}
						continue
					}
					check(h.Properties, "UNIQ_KEY", "WAIT")
					it, n := message.Batch(cmd.Body), 0
					var e message.BatchElement
					for it.Next(&e) {
						n++
						check(e.Properties, "KEYS", "UNIQ_KEY", "WAIT", "TAGS")
						if len(e.Body) != 100 {
							t.Fatalf("body of %d bytes", len(e.Body))
						}
					}
					if it.Err() != nil || n != batch {
						t.Fatalf("%d elements, %v", n, it.Err())
					}
				}
			})
		}
	}
}

func TestNumbersReadWell(t *testing.T) {
	for ns, want := range map[int64]string{7: "7 ns", 1500: "1.50 us", 31_400: "31.4 us", 999_000: "999 us", 12_800_000: "12.8 ms", 1_050_000_000: "1.05 s"} {
		if got := short(ns); got != want {
			t.Errorf("short(%d) = %q, want %q", ns, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, want %q", n, got, want)
		}
	}
}

// NaN is neither below nor above any limit; a schedule with it would never come to its end. A report that cannot be written is not worth a load.
func TestValuesThatCannotBeAreRefused(t *testing.T) {
	for _, args := range []string{
		"send --rate NaN", "e2e --delayed NaN", "plan --disk NaN", "plan --disk Inf", "plan --plan-rate NaN", "plan --pid -1",
		"sweep --from NaN", "sweep --up-to NaN", "sweep --factor NaN", "send --json /no/such/report.json", "plan --json /no/such/report.json", "compare --html /no/such/report.html",
	} {
		words := strings.Fields(args)
		var stdout, stderr bytes.Buffer
		code := Main(append(words, "--addr", "127.0.0.1:1"), &stdout, &stderr) // where no broker listens: who got so far says so
		if code != exitUsage || !strings.Contains(stderr.String(), words[1]) {
			t.Errorf("%s: exit %d, %s", args, code, stderr.String())
		}
	}
}

// A schedule of arrivals at random seldom has as many as its rate says: only what it had can be missed.
func TestRandomArrivalsAreMeasuredByTheirOwnNumber(t *testing.T) {
	for _, c := range []struct {
		poisson bool
		reached float64
		missed  bool
	}{{true, 283, false}, {true, 270, true}, {false, 283, true}, {false, 300, false}} {
		rep := &Report{Seconds: 1, Offered: 283, Sent: 283, Acked: 283, Rate: c.reached}
		rep.judge(&run{opts: Options{Connections: 1, Rate: 300, Poisson: c.poisson}})
		if missed := strings.Contains(strings.Join(rep.Failures, "\n"), "target missed"); missed != c.missed {
			t.Errorf("%+v: %v", c, rep.Failures)
		}
	}
}
