package perf

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Case R10: every path that can be driven at 1,000 lines a second for a minute, all at the same time, on a clock of the test.
// Each line is written, or counted in a later line of its text, or still counted when the flood ends.
func TestRepeatedLinesAreBounded(t *testing.T) {
	texts := []string{
		"disk full: sends are refused", "connection closed: its request cannot be decoded", "a pull could not read the store",
		"a client sent no heartbeat for too long, its connection is closed", "topics are not saved; the next change or the shutdown tries again",
		"subscription groups are not saved; the next change or the shutdown tries again", "the KV table of the name server is not saved",
		"the settings of the name server are not saved", "a protected setting was to be changed over the wire", "the topic table is full, a topic is not made",
		"the topic table is busy, a change is given up", "a message cannot be read", "a query by key failed", "a queue cannot be written, trying again",
		"the log cannot be read, trying again", "BUG: panic in a request processor", "a broker registered", "topic made by a send",
	}
	const perSecond, seconds = 1000, 60
	var sink bytes.Buffer
	l := NewLog(&sink, slog.LevelInfo)
	lines := l.Handler().WithAttrs([]slog.Attr{slog.String("remote", "192.0.2.1:4711")})
	start := time.Now()
	for i := range perSecond * seconds {
		at := start.Add(time.Duration(i) * time.Second / perSecond)
		for _, text := range texts {
			r := slog.NewRecord(at, slog.LevelWarn, text, 0)
			r.AddAttrs(slog.Int("n", i), slog.String("topic", strings.Repeat("t", 255)))
			if err := lines.Handle(context.Background(), r); err != nil {
				t.Fatal(err)
			}
		}
		for i%100 == 0 && len(l.lines) > logLinesMax/2 { // nothing is to be lost for another reason
			time.Sleep(time.Millisecond)
		}
	}
	// The flood is over; some time later each text is logged once more and tells the rest.
	for _, text := range texts {
		r := slog.NewRecord(start.Add(time.Hour), slog.LevelWarn, text, 0)
		if err := lines.Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	if l.Dropped() > 0 {
		t.Fatalf("%d lines dropped", l.Dropped())
	}
	if sink.Len() >= 1<<20 {
		t.Errorf("%d bytes in a minute of %d lines a second", sink.Len(), perSecond*len(texts))
	}
	written, suppressed := map[string]int{}, map[string]int{}
	count := regexp.MustCompile(`msg="([^"]*)".* suppressed=(\d+)|msg="([^"]*)"`)
	for line := range strings.Lines(sink.String()) {
		m := count.FindStringSubmatch(line)
		if m == nil {
			t.Fatal(line)
		}
		written[m[1]+m[3]]++
		n, _ := strconv.Atoi(m[2])
		suppressed[m[1]] += n
	}
	sum := 0
	for _, text := range texts {
		if got := written[text] + suppressed[text]; got != perSecond*seconds+1 || written[text] > logBurst+8 {
			t.Errorf("%s: %d written, %d suppressed, want %d together", text, written[text], suppressed[text], perSecond*seconds+1)
		}
		sum += suppressed[text]
	}
	if l.Suppressed() != uint64(sum) {
		t.Errorf("the metric says %d, the lines %d", l.Suppressed(), sum)
	}
}

// What a start or an administrator says at once is all there, and a text that pauses gets its budget back.
func TestOrdinaryLinesAreAllThere(t *testing.T) {
	b := newLogBudgets()
	at := time.Now()
	for round := range 3 {
		for i := range logBurst {
			if n, ok := b.take("topic set by an administrator", at); !ok || n != 0 {
				t.Fatalf("round %d: line %d is left out, %d before", round, i, n)
			}
		}
		if _, ok := b.take("topic set by an administrator", at.Add(logRefill-1)); ok {
			t.Fatal("more than logBurst at once")
		}
		if n, ok := b.take("topic set by an administrator", at.Add(logRefill)); !ok || n != 1 {
			t.Fatalf("no line after logRefill: %v, %d", ok, n)
		}
		at = at.Add(time.Hour)
	}
}

func TestTextsWithoutBudgetShareOne(t *testing.T) {
	b := newLogBudgets()
	at := time.Now()
	passed := 0
	for i := range 100 * logTextsMax {
		if _, ok := b.take(fmt.Sprint("text ", i), at); ok {
			passed++
		}
	}
	if passed != logTextsMax+logBurst || len(b.byText) != logTextsMax {
		t.Errorf("%d of %d lines passed, %d texts are kept", passed, 100*logTextsMax, len(b.byText))
	}
}

func TestLongLinesAreCut(t *testing.T) {
	var sink bytes.Buffer
	l := NewLog(&sink, slog.LevelInfo)
	l.Info("long", "value", strings.Repeat("x", 1<<20))
	l.Info("short")
	l.Close()
	first, rest, _ := strings.Cut(sink.String(), "\n")
	if len(first) >= logLineMax || !strings.HasSuffix(first, "… (cut)") || !strings.Contains(rest, "short") {
		t.Errorf("%d bytes, ending in %q", len(first), first[len(first)-20:])
	}
}
