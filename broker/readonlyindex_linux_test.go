package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"peregrine/internal/sysio"
	"peregrine/store"
	"peregrine/wire"
)

// Case R09 on a real directory that cannot be written: a read-only mount for root, permissions for others. Messages flow, there is
// one alarm and one attempt, nothing is left on the disk but log and queues, and the next start with a writable directory completes
// the index.
func TestReadOnlyIndexDirectory(t *testing.T) {
	dir := t.TempDir()
	index := filepath.Join(dir, "index")
	if err := os.Mkdir(index, 0o555); err != nil {
		t.Fatal(err)
	}
	lift := func() error { return os.Chmod(index, 0o755) }
	if os.Getuid() == 0 {
		if err := syscall.Mount("peregrine-test", index, "tmpfs", syscall.MS_RDONLY, "size=4m"); err != nil { // a container's root: the kernel's answer is put in
			x := sysio.NewFaultFS()
			t.Logf("no mounts here (%v): EROFS by the simulated disk", err)
			heal := x.Inject(sysio.Fault{Op: sysio.OpMkdir | sysio.OpOpen, Path: "2*", Err: syscall.EROFS})
			readOnlyIndex(t, x, "store", func() error { heal(); return nil })
			return
		}
		unmount := func() error { return syscall.Unmount(index, syscall.MNT_DETACH) }
		t.Cleanup(func() { _ = unmount() }) // where the test ended early
		lift = func() error { return errors.Join(unmount(), os.Chmod(index, 0o755)) }
	}
	readOnlyIndex(t, sysio.OS{}, dir, lift)
}

func readOnlyIndex(t *testing.T, fsys sysio.FS, dir string, lift func() error) {
	const messages = 5000
	b := startBroker(t, fsys, dir, smallFiles)
	c := dial(t, b.addr, wire.EncodingBinary)
	for i := range messages {
		c.mustSend(sendHeader("T", 0, keyProperties(fmt.Sprint("k", i))), []byte("x"))
	}
	c.drain("T", 0, 0, messages)
	for deadline := time.Now().Add(waitMax); !b.Stats().Indexer.Paused; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("no alarm")
		}
	}
	s := b.Stats()
	if s.Indexer.BehindBytes == 0 || s.Indexer.NewFiles != 0 || s.Index.Files != 0 {
		t.Errorf("%+v %+v", s.Indexer, s.Index)
	}
	if took := time.Since(b.began); s.Indexer.Pauses > 1+int64(took/store.IndexRetryInterval) {
		t.Errorf("%d attempts in %v", s.Indexer.Pauses, took)
	}
	if n := strings.Count(b.lines.String(), "keys are not indexed"); n != 1 {
		t.Errorf("%d alarms:\n%s", n, b.lines.String())
	}
	if _, onDisk := fsys.(sysio.OS); onDisk {
		used := int64(0)
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if filepath.Base(filepath.Dir(path)) == "index" {
				t.Errorf("%s is there", path)
			}
			if info, err := e.Info(); err == nil && !e.IsDir() {
				used += info.Sys().(*syscall.Stat_t).Blocks * 512
			}
			return nil
		})
		// 1 MB of messages, 64 MiB ahead of them at most, a queue file.
		if err != nil || used > 80<<20 {
			t.Errorf("%d bytes on the disk, %v", used, err)
		}
	}
	b.stop()
	if err := lift(); err != nil {
		t.Fatal(err)
	}
	b = startBroker(t, fsys, dir, smallFiles)
	b.awaitIndex()
	c = dial(t, b.addr, wire.EncodingBinary)
	for _, key := range []string{"k0", fmt.Sprint("k", messages-1)} {
		if code, got := c.query("T", key, false); code != wire.ResponseSuccess || len(got) != 1 {
			t.Errorf("%s: %d %v", key, code, got)
		}
	}
}
