package interop

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"peregrine/wire"
)

// trimMax covers the minute that the original waits before its first look at old files.
const trimMax = 3 * time.Minute

// New groups on a topic whose oldest messages retention has deleted (case C01): now the client's own choice of where to begin counts.
func TestNewGroupsOnATrimmedTopic(t *testing.T) {
	t.Parallel()
	current, old, golang := threeClients(t, "trimmed")
	rows := matrix()
	first, last := rows[0], rows[len(rows)-1]
	for _, test := range []struct {
		client client
		settings
	}{{current, last}, {old, first}, {golang, last}} {
		t.Run(test.client.name+"/"+test.settings.name, func(t *testing.T) {
			t.Parallel()
			values := map[string]string{"mappedFileSizeCommitLog": "1048576", "maxMessageSize": "262144", "fileReservedTime": "1",
				"cleanResourceInterval": "1000", "deletePhysicFilesInterval": "10",
				"deleteWhen": "00;01;02;03;04;05;06;07;08;09;10;11;12;13;14;15;16;17;18;19;20;21;22;23"}
			maps.Copy(values, test.values)
			trimmed(t, test.client, startBroker(t, settings{test.settings.name, values}, true))
		})
	}
}

func trimmed(t *testing.T, c client, broker Broker) {
	r := c.start(t, broker, newRun(), "trimmed")
	defer r.explain()
	r.awaitReady("trimmed")
	sent := named(r.Of("trimmed"), "sent")
	kept := sent[slices.IndexFunc(sent, func(e Event) bool { return e.Tag != "gone" })]
	position, err := strconv.ParseInt(kept.OffsetID[len(kept.OffsetID)-16:], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := ageLog(broker.StoreDir(), position, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	for queue := range 2 {
		if err := awaitMinOffset(broker.Addr(), kept.Topic, queue, *kept.Offset); err != nil {
			t.Fatal(err)
		}
	}
	pullsOutside(t, broker.Addr(), kept.Topic, *kept.Offset, 25)
	if err := r.process.Say("continue"); err != nil {
		t.Error(err)
	}
	r.finish()
	complain(t, trimmedGroups(r.Of("trimmed")))
	record("trimmed", c.name, !t.Failed())
}

// pullsOutside (case C17): pulls at impossible offsets of queue 0 get the original's code and are led back into the queue at once; only
// one at its end waits.
func pullsOutside(t *testing.T, addr, topic string, from, to int64) {
	t.Helper()
	c, err := DialRaw(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const holdMs = 1500
	for _, p := range []struct {
		offset int64
		code   wire.ResponseCode
		next   int64
	}{
		{from - 1, wire.ResponsePullOffsetMoved, from}, {0, wire.ResponsePullOffsetMoved, from}, {-1, wire.ResponsePullOffsetMoved, from},
		{from, wire.ResponseSuccess, to}, {to - 1, wire.ResponseSuccess, to}, {to, wire.ResponsePullNotFound, to},
		{to + 1, wire.ResponsePullOffsetMoved, to}, {to + 1000, wire.ResponsePullOffsetMoved, to}, {1 << 62, wire.ResponsePullOffsetMoved, to},
	} {
		h := PullHeader(topic, 0, p.offset)
		h.SysFlag |= wire.PullSysFlagSuspend
		h.SuspendTimeoutMillis = holdMs
		began := time.Now()
		cmd, err := c.Pull(h)
		if err != nil {
			t.Fatal(err)
		}
		held := time.Since(began) >= holdMs*time.Millisecond
		next, _ := cmd.GetExt("nextBeginOffset")
		least, _ := cmd.GetExt("minOffset")
		most, _ := cmd.GetExt("maxOffset")
		if wire.ResponseCode(cmd.Code) != p.code || string(next) != fmt.Sprint(p.next) || string(least) != fmt.Sprint(from) || string(most) != fmt.Sprint(to) ||
			held != (p.code == wire.ResponsePullNotFound) {
			t.Errorf("pull at %d of %d to %d: code %d, next %s, from %s to %s, after %v; want %d, %d", p.offset, from, to, cmd.Code, next, least, most,
				time.Since(began), p.code, p.next)
		}
	}
}

// ageLog makes the files of a stopped broker's log that end before a position older than retention allows.
func ageLog(storeDir string, keep, fileBytes int64) error {
	files, err := filepath.Glob(filepath.Join(storeDir, "commitlog", "*"))
	if err != nil {
		return err
	}
	aged, old := 0, time.Now().Add(-3*time.Hour)
	for _, file := range files {
		begin, err := strconv.ParseInt(filepath.Base(file), 10, 64)
		if err != nil || begin+fileBytes > keep {
			continue
		}
		if err := os.Chtimes(file, old, old); err != nil {
			return err
		}
		aged++
	}
	if aged == 0 {
		return fmt.Errorf("no file of %v ends before %d", files, keep)
	}
	return nil
}

// awaitMinOffset polls until a queue begins at an offset: nothing announces what retention did.
func awaitMinOffset(broker, topic string, queue int, want int64) error {
	fields := map[string]string{"topic": topic, "queueId": strconv.Itoa(queue)}
	for deadline := time.Now().Add(trimMax); ; time.Sleep(100 * time.Millisecond) {
		a, err := call(broker, requestGetMinOffset, fields, nil)
		if err == nil && a.ExtFields["offset"] == strconv.FormatInt(want, 10) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("queue %d of %s begins at %q, want %d (%s %v)", queue, topic, a.ExtFields["offset"], want, a.Remark, err)
		}
	}
}

// trimmedGroups judges the scenario "trimmed": each new group begins where it asked to, and what retention deleted comes to nobody.
func trimmedGroups(events []Event) (found problems) {
	found.all(ended(events))
	sent, got := named(events, "sent"), named(events, "got")
	for name, tags := range map[string]string{"FIRST": "early late new", "TIMESTAMP": "late new", "LAST": "new"} {
		due := where(sent, func(e Event) bool { return slices.Contains(strings.Fields(tags), e.Tag) })
		if len(due) < 10 {
			found.addf("%d messages for %s", len(due), name)
		}
		for _, problem := range once(due, where(got, func(e Event) bool { return e.By == name })) {
			found.addf("%s: %s", name, problem)
		}
	}
	return found
}

func TestATrimmedTopicHidesNothingElse(t *testing.T) {
	var sent, got []Event
	for i, tag := range []string{"gone", "early", "late", "new"} {
		s, g := twoQueues("", tag, int64(5*i), int64(5*i+5))
		sent, got = append(sent, s...), append(got, g...)
	}
	run := func(first, timestamp, last []Event) []Event {
		return slices.Concat(sent, relabel("FIRST", first), relabel("TIMESTAMP", timestamp), relabel("LAST", last), []Event{{E: "done"}})
	}
	accepts(t, "right", trimmedGroups(run(got[10:], got[20:], got[30:])))
	rejects(t, "undeleted", "FIRST: FIRST got", trimmedGroups(run(got, got[20:], got[30:])))
	rejects(t, "everything to everybody", "LAST", trimmedGroups(run(got[10:], got[20:], got[10:])))
	rejects(t, "the last one lost", "LAST: of 10 sent: 2 lost", trimmedGroups(run(got[10:], got[20:], got[32:])))
	rejects(t, "not from that time", "TIMESTAMP", trimmedGroups(run(got[10:], got[10:], got[30:])))
	rejects(t, "nothing", "did not end well", trimmedGroups(nil))
}
