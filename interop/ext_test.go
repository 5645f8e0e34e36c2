package interop

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"peregrine/internal/message"
	"peregrine/wire"
)

// extSettings make many small files out of few messages.
var extSettings = map[string]string{
	"enableConsumeQueueExt": "true", "mappedFileSizeConsumeQueueExt": "1024", "mappedFileSizeConsumeQueue": "4000",
	"mappedFileSizeCommitLog": "1048576", "messageIndexEnable": "false",
}

const extTopic, extRound = "ExtTopic", 130

// A directory with ext files goes from the original to peregrine and back, twice each: both filter by its tags, both go on writing it, and
// neither finds anything wrong with what the other has left, after stops and after kill -9.
func TestExtFilesChangeHands(t *testing.T) {
	t.Parallel()
	need(t, "ext files", func() (string, error) { return bed.tools.ServerClassPath(apacheVersion) })
	binary, err := bed.tools.PeregrineBinary(bed.dir)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sent := 0
	original := func(signal syscall.Signal) {
		a, err := startApache(dir, extSettings)
		if err != nil {
			t.Fatal(err)
		}
		if sent == 0 {
			if err := createTopic(a.Addr(), extTopic, 1); err != nil {
				t.Error(err)
			}
		}
		sent = extTurn(t, a.Addr(), sent)
		if err := a.Stop(signal); err != nil {
			t.Error(err)
		}
		// The lines in which the original says that an ext unit is not where it should be, or that it had to do without.
		_ = filepath.WalkDir(filepath.Join(dir, "logs"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".log") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, line := range strings.Split(string(text), "\n") {
				if strings.Contains(line, "[BUG]") || strings.Contains(line, "Save consume queue extend fail") || strings.Contains(line, "data is damaged") {
					t.Errorf("the original says: %s", line)
				}
			}
			return err
		})
		extKeep(t, dir, sent)
	}
	peregrine := func(signal syscall.Signal) {
		p, err := StartPeregrine(PeregrineOptions{Binary: binary, Dir: dir, Settings: extSettings})
		if err != nil {
			t.Fatal(err)
		}
		sent = extTurn(t, p.Addr(), sent)
		if err := p.Stop(signal); err != nil {
			t.Error(err)
		}
		verifyDirectory(t, binary, filepath.Join(dir, "store"))
	}
	original(syscall.SIGTERM)
	peregrine(syscall.SIGTERM)
	original(syscall.SIGKILL)
	peregrine(syscall.SIGKILL)
	original(syscall.SIGTERM)
}

// extKeep leaves the directory of the original's first turn where EXT_FIXTURE names a folder: so the fixture of the store's
// tests was made.
func extKeep(t *testing.T, dir string, sent int) {
	to := os.Getenv("EXT_FIXTURE")
	if to == "" || sent != extRound {
		return
	}
	if err := os.CopyFS(to, os.DirFS(filepath.Join(dir, "store"))); err != nil {
		t.Error(err)
	}
}

func verifyDirectory(t *testing.T, binary, store string) {
	t.Helper()
	var out bytes.Buffer
	cmd := command(store, binary, "dump", "--verify", "--store", store, "messageIndexEnable=false")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("dump --verify: %v\n%s", err, out.String())
	}
}

// extTurn sends extRound messages of three tags behind those that are there, and reads all by each of the tags.
func extTurn(t *testing.T, addr string, there int) int {
	t.Helper()
	c, err := DialRaw(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := there; i < there+extRound; i++ {
		answer, err := c.Send(SendHeader(extTopic, 0, "TAGS\x01"+extTag(i)+"\x02UNIQ_KEY\x01"+fmt.Sprintf("%032X", i)+"\x02"), []byte(fmt.Sprint("body ", i)))
		if err != nil || answer.Code != 0 {
			t.Fatalf("send %d: %v, %+v", i, err, answer)
		}
	}
	there += extRound
	for tag := range 3 {
		var got []int64
		for next := int64(0); next < int64(there); {
			h := PullHeader(extTopic, 0, next)
			h.Subscription = []byte(extTag(tag))
			answer, err := c.Pull(h)
			if err != nil {
				t.Fatal(err)
			}
			var ph wire.PullMessageResponse
			if err := ph.Decode(answer); err != nil {
				t.Fatal(err)
			}
			code := wire.ResponseCode(answer.Code)
			if code == wire.ResponsePullNotFound {
				continue // not dispatched yet
			}
			if code != wire.ResponseSuccess && code != wire.ResponsePullRetryImmediately {
				t.Fatalf("pull at %d: code %d %s", next, answer.Code, answer.Remark)
			}
			for body := answer.Body; code == wire.ResponseSuccess && len(body) > 0; {
				var v message.View
				if err := message.ParseView(body, &v); err != nil {
					t.Fatal(err)
				}
				got = append(got, int64(v.QueueOffset))
				body = body[v.Size:]
			}
			next = ph.NextBeginOffset
		}
		want := 0
		for i := tag; i < there; i += 3 {
			if want >= len(got) || got[want] != int64(i) {
				t.Fatalf("by tag %s the broker gives %v, the %dth should be %d", extTag(tag), got, want, i)
			}
			want++
		}
		if want != len(got) {
			t.Fatalf("by tag %s the broker gives %d messages, %d have it", extTag(tag), len(got), want)
		}
	}
	return there
}

func extTag(i int) string { return fmt.Sprint("Tag", i%3) }
