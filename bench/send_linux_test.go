package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"peregrine/wire"
)

// shortLoad is a load that a test can afford.
func shortLoad(f *fakeBroker) Options {
	o := DefaultOptions()
	o.Addr, o.Warmup, o.Duration = f.addr(), 50*time.Millisecond, 300*time.Millisecond
	o.Connections, o.Inflight, o.Threads = 3, 8, 2
	return o
}

func send(t *testing.T, o Options) *Report {
	t.Helper()
	var notes bytes.Buffer
	rep, err := Run(context.Background(), o, &notes)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func TestClosedLoopCountsExactlyWhatTheBrokerStored(t *testing.T) {
	for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
		for _, batch := range []int{1, 5} {
			t.Run(fmt.Sprintf("%s batch %d", enc, batch), func(t *testing.T) {
				f := startFakeBroker(t, nil)
				o := shortLoad(f)
				o.Encoding, o.Batch, o.CheckDispatch, o.Keys = enc, batch, true, true
				rep := send(t, o)
				if len(rep.Failures) > 0 {
					t.Fatal(rep.Failures)
				}
				if stored := f.messages.Load(); rep.Dispatch.Acknowledged != stored || rep.Dispatch.Grown != int64(stored) || !rep.Dispatch.InTime {
					t.Errorf("stored %d, dispatch %+v", stored, rep.Dispatch)
				}
				if rep.Acked == 0 || rep.Service.Count == 0 || rep.Response != nil {
					t.Errorf("acked %d rate %v", rep.Acked, rep.Rate)
				}
				f.look(func() {
					if len(f.uniq) != int(f.messages.Load()) {
						t.Errorf("%d distinct UNIQ_KEYs in %d messages", len(f.uniq), f.messages.Load())
					}
					if len(f.queues) != o.Queues {
						t.Errorf("%d queues were used, want %d", len(f.queues), o.Queues)
					}
				})
				var page bytes.Buffer
				rep.WriteText(&page)
				for _, want := range []string{"closed loop", "V5_5_0", "flushDiskType=ASYNC_FLUSH", "dispatch: level"} {
					if !strings.Contains(page.String(), want) {
						t.Errorf("the report does not mention %q:\n%s", want, page.String())
					}
				}
			})
		}
	}
}

// loggedTimes adds up the intervals without a tag of a histogram log.
func loggedTimes(t *testing.T, file string) (all *hdr.Histogram, intervals int) {
	t.Helper()
	log, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	all = hdr.New(1, latencyMaxNs, latencyDigits)
	reader := hdr.NewHistogramLogReader(log)
	for {
		h, err := reader.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			return all, intervals
		}
		if h.Tag() == "" {
			all.Merge(h)
			intervals++
		}
	}
}

// Case B01: the broker stands still for a second. Every message that the schedule wanted sent in that second is a slow
// sample, by as much as was left of the second; nothing is left out because the generator was waiting.
func TestStallIsSeenByEveryMessageItDelays(t *testing.T) {
	f := startFakeBroker(t, nil)
	o := shortLoad(f)
	o.Rate, o.Warmup, o.Duration, o.HistogramFile = 1000, 200*time.Millisecond, 2500*time.Millisecond, filepath.Join(t.TempDir(), "b01.hlog")
	frozen := make(chan struct{})
	go func() {
		defer close(frozen)
		for f.sends.Load() < 700 {
			time.Sleep(time.Millisecond) // until half a second of the measured part is over
		}
		f.frozen.Lock()
		time.Sleep(time.Second) // the stall itself
		f.frozen.Unlock()
	}()
	rep := send(t, o)
	<-frozen
	if len(rep.Errors) > 0 || rep.Skipped > 0 {
		t.Fatal(rep.Failures)
	}
	if rep.Offered < 2498 || rep.Offered > 2502 || rep.Acked < rep.Offered || rep.Response.Count != int64(rep.Offered) {
		t.Errorf("offered %d acked %d samples %d, want 2500", rep.Offered, rep.Acked, rep.Response.Count)
	}
	all, intervals := loggedTimes(t, o.HistogramFile)
	if all.TotalCount() != rep.Response.Count || intervals < 3 {
		t.Errorf("the histogram log has %d samples in %d intervals, the report %d", all.TotalCount(), intervals, rep.Response.Count)
	}
	// 1,000 messages fall into the stall, 100 of them into each tenth of it; lower bounds only, a busy machine adds slow ones.
	for tenth := range int64(9) {
		n := int64(0)
		for _, b := range all.Distribution() {
			if b.From >= (tenth+1)*1e8 && b.From < (tenth+2)*1e8 {
				n += b.Count
			}
		}
		if n < 70 {
			t.Errorf("%d samples between %d and %d ms, want about 100", n, (tenth+1)*100, (tenth+2)*100)
		}
	}
	if rep.Response.MaxNs < 950e6 || rep.Response.P90Ns < 500e6 {
		t.Errorf("max %v p90 %v", rep.Response.MaxNs, rep.Response.P90Ns)
	}
}

// Case B03: ten times more is offered than the broker can take.
func TestOverloadIsBoundedAndSaidSo(t *testing.T) {
	const perSecond = 2000
	var tokens atomic.Int64
	f := startFakeBroker(t, func(f *fakeBroker) {
		f.before = func(uint64) {
			for tokens.Add(-1) < 0 {
				tokens.Add(1)
				time.Sleep(200 * time.Microsecond) // the slow broker
			}
		}
	})
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				tokens.Store(perSecond / 100)
			case <-stop:
				return
			}
		}
	}()
	o := shortLoad(f)
	o.Rate, o.MaxInflight, o.Duration = 10*perSecond, 300, time.Second
	rep := send(t, o)
	if rep.Skipped == 0 || rep.Offered < 10*perSecond-1 {
		t.Errorf("offered %d skipped %d", rep.Offered, rep.Skipped)
	}
	if got := rep.Skipped + rep.Sent; got > rep.Offered+uint64(o.MaxInflight) || got+uint64(o.MaxInflight) < rep.Offered {
		t.Errorf("offered %d, but skipped %d and sent %d", rep.Offered, rep.Skipped, rep.Sent)
	}
	if rep.Rate > 2*perSecond {
		t.Errorf("rate %.0f of a broker that does %d", rep.Rate, perSecond)
	}
	if !strings.Contains(strings.Join(rep.Failures, "\n"), "target missed") {
		t.Errorf("failures %v", rep.Failures)
	}
}

// Case B10: errors are counted by code and are no part of the rate.
func TestErrorsAreCountedByCodeAndNotInTheRate(t *testing.T) {
	f := startFakeBroker(t, func(f *fakeBroker) {
		f.answer = func(n uint64) (wire.ResponseCode, string) {
			switch {
			case n%10 == 0:
				return wire.ResponseSystemBusy, "[REJECTREQUEST]too busy"
			case n%10 == 5:
				return wire.ResponseServiceNotAvailable, "disk full"
			}
			return wire.ResponseSuccess, ""
		}
	})
	o := shortLoad(f)
	o.CheckDispatch = true
	rep := send(t, o)
	counts := map[string]uint64{}
	for _, e := range rep.Errors {
		counts[e.Name+" "+e.Remark] = e.Count
	}
	n := f.sends.Load()
	if counts["2 SYSTEM_BUSY [REJECTREQUEST]too busy"] != n/10 || counts["14 SERVICE_NOT_AVAILABLE disk full"] != (n+5)/10 || len(counts) != 2 {
		t.Errorf("%d sends, errors %v", n, counts)
	}
	if rep.Dispatch.Acknowledged != f.messages.Load() {
		t.Errorf("acknowledged %d, stored %d", rep.Dispatch.Acknowledged, f.messages.Load())
	}
	if len(rep.Failures) != 2 {
		t.Errorf("failures %v", rep.Failures)
	}
}

func TestLostConnectionsAreErrorsAndComeBack(t *testing.T) {
	for _, rate := range []float64{0, 5000} {
		t.Run(fmt.Sprintf("rate %v", rate), func(t *testing.T) {
			var f *fakeBroker
			var hung atomic.Bool
			f = startFakeBroker(t, func(f *fakeBroker) {
				f.before = func(n uint64) {
					if n == 200 && hung.CompareAndSwap(false, true) {
						f.hangUp()
					}
				}
			})
			o := shortLoad(f)
			o.Rate, o.Duration = rate, time.Second
			rep := send(t, o)
			lost := uint64(0)
			for _, e := range rep.Errors {
				if e.Code != codeConnectionLost {
					t.Errorf("error %+v", e)
				}
				lost += e.Count
			}
			if rep.Reconnects != o.Connections || rep.OutageMax < reconnectPause {
				t.Errorf("%d reconnects, outage %v", rep.Reconnects, rep.OutageMax)
			}
			if lost == 0 && rate == 0 || len(rep.Failures) == 0 && lost > 0 {
				t.Errorf("%d lost, failures %v", lost, rep.Failures)
			}
			if rep.Acked < 400 {
				t.Errorf("acked %d: the load did not go on", rep.Acked)
			}
		})
	}
}

func TestRateDoesNotCountWhileDispatchIsBehind(t *testing.T) {
	var begun atomic.Int64
	f := startFakeBroker(t, func(f *fakeBroker) {
		f.hideFor = func() bool {
			if begun.Load() == 0 { // the look before the load
				return false
			}
			return time.Now().UnixNano() < begun.Load()+int64(2*time.Second)
		}
		f.before = func(n uint64) { begun.CompareAndSwap(0, time.Now().UnixNano()) }
	})
	o := shortLoad(f)
	o.CheckDispatch = true
	rep := send(t, o)
	if !rep.Dispatch.Level || rep.Dispatch.InTime || rep.Dispatch.AfterSeconds < 1 {
		t.Errorf("%+v", rep.Dispatch)
	}
	if !strings.Contains(strings.Join(rep.Failures, "\n"), "does not count") {
		t.Errorf("failures %v", rep.Failures)
	}
}

func TestForeignTopicsAreNeverChanged(t *testing.T) {
	f := startFakeBroker(t, nil)
	o := shortLoad(f)
	o.Topic = "Orders"
	send(t, o)
	f.look(func() {
		if len(f.created) != 0 {
			t.Errorf("created %v", f.created)
		}
	})
	o.Topic = DefaultTopic + "Mine"
	send(t, o)
	f.look(func() {
		if len(f.created) != 1 || f.created[0].WriteQueueNums != int32(o.Queues) || f.created[0].Topic != o.Topic {
			t.Errorf("created %+v", f.created)
		}
	})
	g := startFakeBroker(t, func(f *fakeBroker) { f.topicKnown = 3 })
	o.Addr = g.addr()
	var notes bytes.Buffer
	if _, err := Run(context.Background(), o, &notes); err != nil {
		t.Fatal(err)
	}
	g.look(func() {
		if len(g.created) != 0 || len(g.queues) != 3 || !strings.Contains(notes.String(), "3 queues") {
			t.Errorf("created %v, %d queues used, notes %q", g.created, len(g.queues), notes.String())
		}
	})
}

func TestNameServerTellsTheBrokers(t *testing.T) {
	broker := startFakeBroker(t, nil)
	for name, keys := range map[string]string{"standard JSON": `{"0":"%s","1":"192.0.2.9:1"}`, "bare keys": `{0:"%s",1:"192.0.2.9:1"}`} {
		t.Run(name, func(t *testing.T) {
			ns := startFakeBroker(t, func(f *fakeBroker) {
				f.routeOf = templateTopic // the topic itself does not exist yet
				f.routeBody = fmt.Sprintf(`{"brokerDatas":[{"brokerAddrs":`+keys+`,"brokerName":"broker-a","cluster":"c"},`+
					`{"brokerAddrs":{"1":"192.0.2.1:1"},"brokerName":"slave-only","cluster":"c"}],"filterServerTable":{},"queueDatas":[`+
					`{"brokerName":"broker-a","perm":7,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8},`+
					`{"brokerName":"slave-only","perm":6,"readQueueNums":8,"writeQueueNums":8}]}`, broker.addr())
			})
			o := shortLoad(broker)
			o.Addr, o.Namesrv, o.Queues = "", "127.0.0.1:1;"+ns.addr(), 4
			rep := send(t, o)
			if b := rep.Conditions.Brokers; len(b) != 1 || b[0].Name != "broker-a" || b[0].Addr != broker.addr() || b[0].Queues != 4 {
				t.Errorf("brokers %+v", b)
			}
			if rep.Acked == 0 {
				t.Error("nothing was acknowledged")
			}
		})
	}
}

func TestInterruptReportsWhatThereIs(t *testing.T) {
	f := startFakeBroker(t, nil)
	o := shortLoad(f)
	o.Warmup, o.Duration = 0, time.Hour
	ctx, cancel := context.WithCancel(context.Background())
	f.before = func(n uint64) {
		if n == 100 {
			cancel()
		}
	}
	var notes bytes.Buffer
	rep, err := Run(ctx, o, &notes)
	if err != nil {
		t.Fatal(err)
	}
	if !rep.Interrupted || rep.Seconds > 3 || rep.Acked == 0 || len(rep.Failures) == 0 {
		t.Errorf("interrupted %v after %v s, acked %d, failures %v", rep.Interrupted, rep.Seconds, rep.Acked, rep.Failures)
	}
}

// A broker that is gone ends a sweep as an interrupt does: what was measured before is reported, and not as a result.
func TestWhatEndsEarlyReportsWhatThereIs(t *testing.T) {
	load := []string{"--warmup", "0s", "--duration", "200ms", "--json"}
	for _, args := range [][]string{{"sweep", "--from", "100", "--p99", "10s"}, {"compare", "--rounds", "50", "--rate", "100"}} {
		for again := true; again; {
			f := startFakeBroker(t, nil)
			file := filepath.Join(t.TempDir(), "out.json")
			all := append(append(append([]string{}, args...), load...), file, "--addr", f.addr())
			notes := &notesUntil{lines: 1, then: func() { _ = f.ln.Close() }}
			if args[0] == "compare" {
				all, notes.lines = append(all, "--with", f.addr()), 2
			}
			var stdout bytes.Buffer
			code := Main(all, &stdout, notes)
			text, err := os.ReadFile(file)
			var doc struct {
				Points     []SweepPoint
				Conditions Conditions // of a sweep
				Ended      string
			}
			if err == nil {
				err = json.Unmarshal(text, &doc)
			}
			if err != nil || code != exitBad {
				t.Fatalf("%s: exit %d, %v\n%s", args[0], code, err, notes)
			}
			if again = len(doc.Points) == 1 && !doc.Points[0].Good; again {
				continue // a busy machine: with its first rate not kept the sweep was over before the broker was gone
			}
			if len(doc.Points) > 0 && (len(doc.Conditions.Brokers) != 1 || doc.Conditions.Machine.LogicalCores == 0) {
				t.Errorf("a sweep without its conditions: %s", text)
			}
			if doc.Ended == "" || !strings.Contains(stdout.String(), "ended early") || strings.Contains(stdout.String(), "no rate keeps") {
				t.Errorf("%s: %s\n%s", args[0], stdout.String(), text)
			}
		}
	}
}

// notesUntil does something when so many lines were written: that many loads are over.
type notesUntil struct {
	bytes.Buffer
	lines int
	then  func()
}

func (n *notesUntil) Write(p []byte) (int, error) {
	before := bytes.Count(n.Bytes(), []byte("messages/s"))
	_, _ = n.Buffer.Write(p)
	if before < n.lines && bytes.Count(n.Bytes(), []byte("messages/s")) >= n.lines {
		n.then()
	}
	return len(p), nil
}

func TestCommandLineWritesFilesAndExitCodes(t *testing.T) {
	f := startFakeBroker(t, nil)
	dir := t.TempDir()
	file := filepath.Join(dir, "out.json")
	run := func(args ...string) (int, string, string) {
		var stdout, stderr bytes.Buffer
		code := Main(args, &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	code, out, errs := run("send", "--addr", f.addr(), "--duration", "200ms", "--warmup", "0s", "--rate", "2000", "--encoding", "binary", "--json", file, "--hdr", filepath.Join(dir, "out.hlog"))
	// On a busy machine these 200 ms may miss their rate, which is a failure of the run, not of the command.
	if code != exitGood && !strings.Contains(out, "target missed") || !strings.Contains(out, "open loop") || !strings.Contains(out, "p99.9") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rep Report
	if err := json.Unmarshal(text, &rep); err != nil {
		t.Fatal(err)
	}
	if rep.Acked != 400 || rep.Response.Count != 400 || rep.Conditions.Mode != "open loop" || rep.Conditions.Machine.CPU == "" || len(rep.Series) == 0 {
		t.Errorf("%+v", rep)
	}
	if code, out, errs = run("send", "--addr", f.addr(), "--duration", "100ms", "--warmup", "0s"); code != exitGood || !strings.Contains(out, "closed loop") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	refusing := startFakeBroker(t, func(f *fakeBroker) {
		f.answer = func(uint64) (wire.ResponseCode, string) { return wire.ResponseMessageIllegal, "no" }
	})
	if code, out, _ = run("send", "--addr", refusing.addr(), "--duration", "100ms", "--warmup", "0s"); code != exitBad || !strings.Contains(out, "FAILED") {
		t.Errorf("exit %d with errors only\n%s", code, out)
	}

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := ln.Addr().String()
	ln.Close()
	if code, _, errs = run("send", "--addr", nobody); code != exitBad || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "refused") {
		t.Errorf("exit %d, %q", code, errs)
	}
	for _, args := range [][]string{{}, {"nonsense"}, {"send", "--nonsense"}, {"send", "extra"}, {"send", "--size", "0"}, {"send", "--encoding", "xml"}, {"send", "--rate", "-1"},
		{"send", "--connections", "100000"}, {"e2e", "--connections", "0"}, {"mixed", "--connections", "0"},
		{"send", "--batch", "4096", "--size", "4096"}, {"longpoll", "--rounds", "0"}, {"ceiling", "--loops", "0"}} {
		if code, _, errs = run(args...); code != exitUsage || errs == "" {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
	for _, args := range [][]string{{"help"}, {"send", "--help"}, {"longpoll", "--help"}} {
		if code, out, _ = run(args...); code != exitGood || out == "" {
			t.Errorf("%v: exit %d", args, code)
		}
	}
}

func TestLongpollMeasuresEveryRound(t *testing.T) {
	f := startFakeBroker(t, nil)
	var stdout, stderr bytes.Buffer
	code := Main([]string{"longpoll", "--addr", f.addr(), "--rounds", "20", "--pause", "5ms", "--limit", "10s"}, &stdout, &stderr)
	if code != exitGood || !strings.Contains(stdout.String(), "20 rounds") || !strings.Contains(stdout.String(), "within the limit") {
		t.Errorf("exit %d\n%s%s", code, stdout.String(), stderr.String())
	}
	stdout.Reset()
	if code = Main([]string{"longpoll", "--addr", f.addr(), "--rounds", "3", "--pause", "1ms", "--limit", "1ns"}, &stdout, &stderr); code != exitBad {
		t.Errorf("exit %d with every round late", code)
	}
}

// A broker that knows no delays brings everything too early, and that is a failure.
func TestDelaySeesWhatComesTooEarly(t *testing.T) {
	f := startFakeBroker(t, nil)
	var stdout, stderr bytes.Buffer
	code := Main([]string{"delay", "--addr", f.addr(), "--delays", "1h", "--count", "5", "--spread", "5ms"}, &stdout, &stderr)
	if code != exitBad || !strings.Contains(stdout.String(), "MISSED") {
		t.Errorf("exit %d\n%s%s", code, stdout.String(), stderr.String())
	}
}

// End to end over sockets, generator and ceiling server together: what is allocated does not grow with the messages.
func TestSendingAllocatesNothingPerMessage(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	addr := freeAddr(t)
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- serveCeiling(ctx, addr, 1, func(a string) { ready <- a }) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
		o := DefaultOptions()
		o.Addr, o.Encoding, o.Connections, o.Inflight, o.Warmup, o.Duration = addr, enc, 4, 32, 0, time.Second
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rep := send(t, o)
		runtime.ReadMemStats(&after)
		if len(rep.Failures) > 0 {
			t.Fatal(rep.Failures)
		}
		if perMessage := float64(after.Mallocs-before.Mallocs) / float64(rep.Acked); perMessage > 0.05 {
			t.Errorf("%s: %.3f allocations per message over %d messages", enc, perMessage, rep.Acked)
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
