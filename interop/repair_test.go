package interop

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/wire"
)

const (
	repairSegment  = 1 << 18
	repairMessages = 400
	repairQueues   = 4
	// repairDelayMax is how long delayed messages are waited for; they are due while the broker is stopped, or a little later.
	repairDelayMax = 2 * time.Minute
)

var repairSettings = map[string]string{"mappedFileSizeCommitLog": fmt.Sprint(repairSegment), "mappedFileSizeConsumeQueue": "2000", "maxHashSlotNum": "200",
	"maxIndexNum": "1000", "fileReservedTime": "720", "cleanFileForciblyEnable": "false", "timerWheelEnable": "false"}

// stored is a record as it lies in the log of a directory at rest.
type stored struct {
	message.View
	body string
}

// storedRecords reads the log, from file to file.
func storedRecords(t *testing.T, dir string) (all []stored) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "store", "commitlog", "0*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files of the log: %v", len(files), err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for {
			var v message.View
			if message.ParseView(b, &v) != nil {
				break
			}
			all = append(all, stored{v, string(v.Body)})
			b = b[v.Size:]
		}
	}
	return all
}

// overwrite changes bytes of the log.
func overwrite(t *testing.T, dir string, phy message.PhyOffset, b []byte) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "store", "commitlog", fmt.Sprintf("%020d", phy-phy%repairSegment)), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, int64(phy%repairSegment)); err != nil {
		t.Fatal(err)
	}
}

// The original starts on a directory that dump --repair --fill mended: its recovery does not cut the log at the fillers, after a clean
// stop and after a crash, every message keeps its queue offset, also when the original makes the queues again from the log, and its
// delay service gets past a filler.
func TestTheOriginalTakesRepairedDirectories(t *testing.T) {
	if bed.apache {
		t.Skip("both brokers take part")
	}
	t.Parallel()
	need(t, "repair", func() (string, error) { return bed.tools.ServerClassPath(apacheVersion) })
	made := filepath.Join(t.TempDir(), "made")
	makeDirectory(t, made)
	records := storedRecords(t, made)
	plain := slices.DeleteFunc(slices.Clone(records), func(r stored) bool { return string(r.Topic) != "Repair" })
	delayed := slices.DeleteFunc(slices.Clone(records), func(r stored) bool { return string(r.Topic) != message.ScheduleTopic })
	if len(plain) != repairMessages || len(delayed) != 3 {
		t.Fatalf("%d and %d records", len(plain), len(delayed))
	}
	// A body, a page and the records that it cuts, the end of a file, and one of the delayed messages.
	damage := func(t *testing.T, dir string) {
		overwrite(t, dir, plain[50].PhyOffset+100, []byte{^plain[50].body[12], ^plain[50].body[13]})
		overwrite(t, dir, plain[70].PhyOffset+300, make([]byte, 4096))
		overwrite(t, dir, repairSegment-3000, make([]byte, 3000))
		overwrite(t, dir, delayed[1].PhyOffset+100, []byte{0, 0, 0, 0})
		if err := os.RemoveAll(filepath.Join(dir, "store", "peregrine.state")); err != nil {
			t.Fatal(err)
		}
	}
	nothing := func(*testing.T, string) {}
	crash := func(t *testing.T, dir string) {
		if err := os.WriteFile(filepath.Join(dir, "store", "abort"), []byte("1"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bare := func(t *testing.T, dir string) {
		crash(t, dir)
		for _, name := range []string{"consumequeue", "index", "checkpoint"} {
			if err := os.RemoveAll(filepath.Join(dir, "store", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name  string // no comma: the original takes a path with one for several
		after func(*testing.T, string)
	}{
		{"clean", nothing}, {"crashed", crash}, {"the original makes the queues", bare},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(filepath.Join(dir, "store"), os.DirFS(filepath.Join(made, "store"))); err != nil {
				t.Fatal(err)
			}
			damage(t, dir)
			repairWithBinary(t, dir)
			c.after(t, dir)
			takesRepaired(t, dir, records)
		})
	}
}

// makeDirectory lets the original write messages, delayed ones too, and stops it.
func makeDirectory(t *testing.T, dir string) {
	t.Helper()
	a, c := startRepairOriginal(t, dir)
	defer a.Stop(syscall.SIGKILL)
	defer c.Close()
	send := func(topic string, queue int32, properties, body string) {
		cmd, err := c.Send(SendHeader(topic, queue, properties), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if wire.ResponseCode(cmd.Code) != wire.ResponseSuccess {
			t.Fatalf("code %d %s\n%s", cmd.Code, cmd.Remark, a.Logs())
		}
	}
	for i := range repairMessages {
		send("Repair", int32(i%repairQueues), fmt.Sprintf("KEYS\x01k%d\x02TAGS\x01t%d\x02", i, i%3), fmt.Sprintf("message %d %s", i, strings.Repeat("x", 200+i*7%900)))
		if i == 100 || i == 150 || i == 200 {
			send("RepairDelayed", 0, "DELAY\x015\x02", fmt.Sprint("delayed ", i, strings.Repeat("y", 30))) // a minute
		}
	}
	if err := a.Stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// startRepairOriginal starts the original on a directory, with a connection to it. The caller ends both.
func startRepairOriginal(t *testing.T, dir string) (*Apache, *RawClient) {
	t.Helper()
	a, err := startApache(dir, repairSettings)
	if err != nil {
		t.Fatal(err)
	}
	c, err := DialRaw(a.Addr())
	if err != nil {
		_ = a.Stop(syscall.SIGKILL)
		t.Fatal(err)
	}
	return a, c
}

// repairWithBinary runs peregrine dump --repair --fill --yes.
func repairWithBinary(t *testing.T, dir string) {
	t.Helper()
	binary, err := bed.tools.PeregrineBinary(bed.dir)
	if err != nil {
		t.Fatal(err)
	}
	out, err := command(dir, binary, "dump", "--repair", "--fill", "--yes", "--store", filepath.Join(dir, "store")).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("plan done: ")) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// takesRepaired starts the original and expects every record of before at its place, or a filler there, and that offsets go on.
func takesRepaired(t *testing.T, dir string, before []stored) {
	t.Helper()
	a, c := startRepairOriginal(t, dir)
	defer a.Stop(syscall.SIGKILL)
	defer c.Close()
	fillers := 0
	for queue := range int32(repairQueues) {
		want := slices.DeleteFunc(slices.Clone(before), func(r stored) bool { return string(r.Topic) != "Repair" || r.QueueID != message.QueueID(queue) })
		i := 0
		next, err := c.ReadQueue("Repair", queue, 0, func(v *message.View) error {
			w := &want[i]
			i++
			if v.IsFiller() {
				fillers++
				if bytes.Contains(v.Body, []byte("message ")) && !bytes.HasPrefix(v.Body, []byte("This is no message.")) {
					return fmt.Errorf("the filler at %d holds %q", v.PhyOffset, v.Body)
				}
				return nil
			}
			if v.QueueOffset != w.QueueOffset || v.PhyOffset != w.PhyOffset || string(v.Body) != w.body {
				return fmt.Errorf("offset %d is served from %d, it was at %d", v.QueueOffset, v.PhyOffset, w.PhyOffset)
			}
			return nil
		})
		if err != nil || int(next) != len(want) {
			t.Fatalf("queue %d ends at %d of %d: %v\n%s", queue, next, len(want), err, a.Logs())
		}
		cmd, err := c.Send(SendHeader("Repair", queue, ""), []byte("one more"))
		if err != nil || wire.ResponseCode(cmd.Code) != wire.ResponseSuccess {
			t.Fatalf("send: %v", err)
		}
		var answer wire.SendMessageResponseHeader
		if err := wire.DecodeHeader(cmd, &answer); err != nil || answer.QueueOffset != next {
			t.Errorf("queue %d: the next message got offset %d of %d: %v", queue, answer.QueueOffset, next, err)
		}
	}
	t.Logf("%d fillers served", fillers)
	awaitDelayed(t, c, a, before)
}

// awaitDelayed expects that the delayed messages that were not damaged are delivered, those behind a filler too.
func awaitDelayed(t *testing.T, c *RawClient, a *Apache, before []stored) {
	t.Helper()
	due := map[string]bool{}
	for _, r := range before {
		if string(r.Topic) == message.ScheduleTopic {
			due[r.body] = true
		}
	}
	all := len(due)
	var from int64
	for deadline := time.Now().Add(repairDelayMax); len(due) > 0; {
		var err error
		from, err = c.ReadQueue("RepairDelayed", 0, from, func(v *message.View) error {
			delete(due, string(v.Body))
			return nil
		})
		if len(due) == 1 && all == 3 && from == 2 {
			t.Logf("two of three delayed messages, and none that is damaged")
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("delayed messages are missing: %d of %d: %v\n%s", len(due), all, err, a.Logs())
		}
		time.Sleep(100 * time.Millisecond)
	}
}
