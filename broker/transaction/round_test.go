package transaction

import (
	"fmt"
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/store"
	"peregrine/wire"
)

// Commit, rollback and unknown, and what each leaves in the log.
func TestEndsLeaveTheOriginalsRecords(t *testing.T) {
	b := newBench(t, defaults())
	one, two, three := b.half("p", "one"), b.half("p", "two"), b.half("p", "three")
	b.mustEnd(one, commit)
	b.mustEnd(two, rollback)
	if r := b.end("p", three, 0, false); !r.None {
		t.Errorf("an unknown state is answered: %+v", r)
	}
	must(t, b.flushOps())
	if got := b.bodies("T", 1); got != "[one]" {
		t.Errorf("visible: %s", got)
	}
	v := b.read("T", 1)[0]
	if v.SysFlag != commit || v.PreparedTransactionOffset != one.phy || v.Flag != 5 || property(&v, "REAL_TOPIC") != "" || property(&v, "TRAN_MSG") != "true" {
		t.Errorf("committed: %+v %q", v, v.Properties)
	}
	op := b.read("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0)
	if len(op) != 1 || string(op[0].Body) != "0,1," || string(op[0].Properties) != "WAIT\x01true\x02TAGS\x01d\x02" {
		t.Errorf("op messages: %d %+v", len(op), op)
	}
}

func TestEndsAreRefusedInTheOriginalsWords(t *testing.T) {
	b := newBench(t, defaults())
	at := b.half("p", "x")
	immune := b.half("p", "y", "CHECK_IMMUNITY_TIME_IN_SECONDS", "10")
	plain := store.Message{Record: message.Record{Topic: []byte("T"), Body: []byte("z"), BodyCRC: message.BodyCRC([]byte("z"))}}
	must(t, b.Send(&plain, false))
	b.clock += 10_001
	for _, c := range []struct {
		name, group string
		at          place
		fromCheck   bool
		code        wire.ResponseCode
		remark      string
	}{
		{"group", "q", at, false, 1, "The producer group wrong"},
		{"offset", "p", place{at.offset + 1, at.phy}, false, 1, "The transaction state table offset wrong"},
		{"no record", "p", place{at.offset, at.phy + 1}, false, 1, "Find prepared transaction message failed"},
		{"beyond the log", "p", place{at.offset, 1 << 40}, false, 1, "Find prepared transaction message failed"},
		{"no half", "", place{0, plain.PhyOffset}, false, 1, "Find prepared transaction message failed"},
		{"immunity is over", "p", immune, false, wire.ResponseIllegalOperation, ""},
		{"immunity is over, asked", "p", immune, true, 0, ""},
	} {
		if r := b.end(c.group, c.at, commit, c.fromCheck); r.Code != c.code || r.Remark != c.remark {
			t.Errorf("%s: %d %q", c.name, r.Code, r.Remark)
		}
	}
}

// Case D09: no check during the immunity, then exactly the configured number, then the discard topic; none is lost.
func TestImmunityThenAllChecksThenGivenUp(t *testing.T) {
	s := defaults()
	s.CheckMax = 5
	b := newBench(t, s)
	b.half("p", "x", "CHECK_IMMUNITY_TIME_IN_SECONDS", "20")
	born := b.clock
	for checked := 0; b.bodies("TRANS_CHECK_MAX_TIME_TOPIC", 0) != "[x]"; {
		b.clock += 2000
		b.Round()
		checks := b.takeChecks()
		if age := b.clock - born; age <= 20_000 && len(checks) != 0 || age > 20_000 && checked < 5 && len(checks) != 1 {
			t.Fatalf("%d checks at an age of %d ms", len(checks), age)
		}
		for _, c := range checks {
			checked++
			if got := property(&c.record, "TRANSACTION_CHECK_TIMES"); got != fmt.Sprint(checked) || string(c.record.Topic) != "T" || c.record.QueueID != 1 || c.record.Flag != 5 {
				t.Errorf("check %d: times %s, %s-%d, flag %d", checked, got, c.record.Topic, c.record.QueueID, c.record.Flag)
			}
		}
		if b.clock-born > 100_000 {
			t.Fatalf("not given up after %d checks", checked)
		}
	}
	gone := b.read("TRANS_CHECK_MAX_TIME_TOPIC", 0)[0]
	if b.Stats().Checks != 5 || property(&gone, "TRANSACTION_CHECK_TIMES") != "5" || property(&gone, "REAL_TOPIC") != "T" || property(&gone, "TRAN_PREPARED_QUEUE_OFFSET") != "0" {
		t.Errorf("%d checks, %q", b.Stats().Checks, gone.Properties)
	}
	b.clock += 30_000
	if b.Round(); len(b.takeChecks()) != 0 {
		t.Error("checked after it was given up")
	}
	// Case D11: resumed, it is checked again and can commit.
	if r := b.Resume(string(message.AppendOffsetMsgID(nil, gone.StoreHost, gone.PhyOffset))); r != nil {
		t.Fatal(r)
	}
	b.clock += 30_000
	b.Round()
	checks := b.takeChecks()
	if len(checks) != 1 {
		t.Fatalf("%d checks after resume", len(checks))
	}
	if r := b.end("p", checks[0].place(), commit, true); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	if got := b.bodies("T", 1); got != "[x]" {
		t.Errorf("visible: %s", got)
	}
	for _, id := range []string{"", "xyz", string(message.AppendOffsetMsgID(nil, gone.StoreHost, 1<<40)), string(message.AppendOffsetMsgID(nil, gone.StoreHost, 0))} {
		if r := b.Resume(id); r == nil || r.Code != wire.ResponseSystemError {
			t.Errorf("resume %q: %v", id, r)
		}
	}
}

// Case D10: a dead group, damaged halves and one that cannot be copied hold nobody up, and both progresses go on.
func TestBadHalvesBlockNobody(t *testing.T) {
	b := newBench(t, defaults())
	b.half("nobody", "dead group")
	b.half("p", "no number", "TRANSACTION_CHECK_TIMES", "abc", "TRAN_PREPARED_QUEUE_OFFSET", "x", "CHECK_IMMUNITY_TIME_IN_SECONDS", "later")
	b.half("p", "immune and damaged", "TRAN_PREPARED_QUEUE_OFFSET", "x", "CHECK_IMMUNITY_TIME_IN_SECONDS", "3600")
	b.half("p", "too long", "long", strings.Repeat("x", message.PropertiesBytesMax-200))
	nowhere := store.Message{Record: message.Record{Topic: halfTopic, Body: []byte("n"), BodyCRC: message.BodyCRC([]byte("n")), BornTimestamp: b.clock}}
	must(t, b.Send(&nowhere, false))
	must(t, b.store.Queue("RMQ_SYS_TRANS_HALF_TOPIC", 0).AppendUnits(5, []store.Unit{{Phy: nowhere.PhyOffset + 1, Size: 100}})) // no record begins there
	b.refuse = func(m *store.Message) error {
		if len(m.Properties) > message.PropertiesBytesMax-60 && string(m.Topic) == string(halfTopic) {
			return store.ErrProperties
		}
		return nil
	}
	b.mustEnd(b.half("p", "ended"), commit) // gets offset 5 in its record, and 6 in the queue: such drift exists
	for i := range 1000 {
		b.half("p", fmt.Sprint(i))
	}
	seen := map[string]int{}
	var lastHalf, lastOp message.QueueOffset
	for round := range 4 {
		b.clock += 30_000
		b.Round()
		for _, c := range b.takeChecks() {
			seen[string(c.record.Body)]++
		}
		half, op := b.progressed()
		if half <= lastHalf || round == 0 && op <= lastOp {
			t.Errorf("round %d: progress %d and %d after %d and %d", round, half, op, lastHalf, lastOp)
		}
		lastHalf, lastOp = half, op
	}
	for i := range 1000 {
		if n := seen[fmt.Sprint(i)]; n != 4 {
			t.Fatalf("half %d was asked for %d times in 4 rounds", i, n)
		}
	}
	if seen["dead group"] != 0 || seen["no number"] != 4 || seen["immune and damaged"] != 0 {
		t.Errorf("%d, %d, %d", seen["dead group"], seen["no number"], seen["immune and damaged"])
	}
	if b.Stats().Damaged == 0 || b.Stats().Unasked != 8 {
		t.Errorf("%+v", b.Stats())
	}
	b.online["nobody"] = 2
	b.dead[netio.ConnRef{Slot: 1, Gen: 1}] = true
	b.clock += 30_000
	b.Round()
	found := false
	for _, c := range b.takeChecks() {
		found = found || string(c.record.Body) == "dead group" && c.ref.Slot == 2 && property(&c.record, "TRANSACTION_CHECK_TIMES") == "5"
	}
	if !found {
		t.Error("the group came back and was not asked over its living connection")
	}
}

// A store that refuses only delays: nothing is skipped, nothing asked twice.
func TestRefusalsOfTheStoreDelay(t *testing.T) {
	b := newBench(t, defaults())
	for i := range 200 {
		b.half("p", fmt.Sprint(i))
	}
	b.clock += 30_000
	left := 100
	b.refuse = func(*store.Message) error {
		if left--; left < 0 {
			return store.ErrDiskFull
		}
		return nil
	}
	b.Round()
	if half, _ := b.progressed(); half != 100 || len(b.takeChecks()) != 100 {
		t.Errorf("progress %d", half)
	}
	b.refuse = nil
	b.Round()
	// The other hundred, and the copies of the first.
	if half, _ := b.progressed(); half != 300 || len(b.takeChecks()) != 200 {
		t.Errorf("progress %d", half)
	}
}

// Ends that are not in the op queue yet are known to a round; an end of an older copy ends the newest.
func TestNothingThatEndedIsChecked(t *testing.T) {
	b := newBench(t, defaults())
	one, late := b.half("p", "one"), b.half("p", "late")
	b.clock += 7000
	b.mustEnd(one, commit)
	b.Round()
	checks := b.takeChecks()
	if len(checks) != 1 || string(checks[0].record.Body) != "late" {
		t.Fatalf("%d checks", len(checks))
	}
	b.mustEnd(late, commit) // by the first place, though a copy exists
	for range 3 {
		b.clock += 30_000
		b.Round()
	}
	if n := len(b.takeChecks()); n != 0 || b.bodies("T", 1) != "[one late]" {
		t.Errorf("%d checks, visible %s", n, b.bodies("T", 1))
	}
	half, op := b.progressed()
	if half != 3 || op != b.store.Queue("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0).Max() {
		t.Errorf("progress %d and %d", half, op)
	}
	if r := b.end("p", late, commit, false); r.Code != 0 || b.bodies("T", 1) != "[one late late]" {
		t.Errorf("a second commit delivers again, as in the original: %+v %s", r, b.bodies("T", 1))
	}
}

// A run that was killed between its copies and its saved progress leaves both; the half is asked for once.
func TestCopiesOfAKilledRoundAreFound(t *testing.T) {
	b := newBench(t, defaults())
	for i := range 100 {
		b.half("p", fmt.Sprint(i))
	}
	b.half("p", "immune", "CHECK_IMMUNITY_TIME_IN_SECONDS", "3600")
	b.clock += 30_000
	before, err := sysioRead(b, "data/config/consumerOffset.json")
	b.Round()
	first := b.takeChecks()
	sysioWrite(b, "data/config/consumerOffset.json", before, err)
	b.restart(false)
	b.clock += 30_000
	b.Round()
	second := b.takeChecks()
	if len(first) != 100 || len(second) != 100 {
		t.Fatalf("%d and %d checks", len(first), len(second))
	}
	for i, c := range second {
		if property(&c.record, "TRANSACTION_CHECK_TIMES") != "2" {
			t.Fatal("the first copy was asked for again")
		}
		// Answers to both checks: the older one ends the newest copy, too.
		b.mustEnd(first[i].place(), rollback)
	}
	b.clock += 30_000
	if b.Round(); len(b.takeChecks()) != 0 {
		t.Error("ended halves are checked")
	}
	if got := len(b.read("RMQ_SYS_TRANS_HALF_TOPIC", 0)); got != 101+101+101+1 {
		t.Errorf("%d records", got)
	}
}

// Progress that points out of its queue is corrected, and written back.
func TestProgressIsCorrected(t *testing.T) {
	b := newBench(t, defaults())
	b.half("p", "x")
	b.table.Commit(groupBytes, halfTopic, 0, 1_000_000_000)
	b.table.Commit(groupBytes, opTopic, 0, 77)
	b.Round()
	if half, op := b.progressed(); half != 1 || op != 0 {
		t.Errorf("progress %d and %d", half, op)
	}
	b.half("p", "y")
	b.clock += 30_000
	if b.Round(); len(b.takeChecks()) != 1 {
		t.Error("not checked")
	}
}
