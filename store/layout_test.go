package store

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"peregrine/internal/config"
	"peregrine/internal/sysio"
)

// filled makes a small closed store.
func filled(t testing.TB, root string) settings {
	t.Helper()
	set := testSettings(root)
	s := openTest(t, sysio.OS{}, set)
	for s.Wrote() < 2*testSegment {
		send(t, s, s.Queue("T", 0), strings.Repeat("x", 1000))
	}
	mustDispatch(t, s, 0)
	closeTest(t, s, true)
	return set
}

func put(path string, size int) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, make([]byte, size), 0o644))
}

// What cannot be taken over is refused with one sentence, and not a byte changes.
func TestForeignDirectoriesAreRefusedUntouched(t *testing.T) {
	type change func(root string, set *settings) error
	for name, c := range map[string]struct {
		spoil change
		says  []string
	}{
		"dledger":           {func(r string, _ *settings) error { return put(r+"/dledger-n0/data/00000000000000000000", 10) }, []string{"DLedger"}},
		"rocksdb queues":    {func(r string, _ *settings) error { return put(r+"/consumequeue_rocksdb/CURRENT", 10) }, []string{"RocksDB"}},
		"rocksdb in place":  {func(r string, _ *settings) error { return put(r+"/consumequeue/MANIFEST-000004", 10) }, []string{"RocksDB"}},
		"batch queues":      {func(r string, _ *settings) error { return put(r+"/batchconsumequeue/B/0/00000000000000000000", 46) }, []string{"BatchCQ"}},
		"tiered":            {func(r string, _ *settings) error { return put(r+"/tieredstore/h_c/b/T/0/COMMIT_LOG/0", 10) }, []string{"tiered"}},
		"tiered elsewhere":  {func(r string, _ *settings) error { return put(r+"/config/tieredStoreMetadata.json", 10) }, []string{"tiered", "move this file away"}},
		"topics in rocksdb": {func(r string, _ *settings) error { return put(r+"/config/topics/000012.sst", 10) }, []string{"config/topics", "RocksDB", "rocksDBConfigToJson"}},
		"groups in rocksdb": {func(r string, _ *settings) error { return put(r+"/config/subscriptionGroups/000004.log", 10) }, []string{"config/subscriptionGroups"}},
		"tables in rocksdb": {func(r string, _ *settings) error { return put(r+"/config/metadata/000004.log", 10) }, []string{"config/metadata"}},
		"tables of v2":      {func(r string, _ *settings) error { return put(r+"/config/rdb/000004.log", 10) }, []string{"config/rdb"}},
		"short first file":  {func(r string, s *settings) error { return os.Truncate(s.logDir+"/"+fileName(0), 4096) }, []string{fileName(0), "4096", "65536"}},
		"long last file": {func(r string, s *settings) error {
			return os.Truncate(s.logDir+"/"+fileName(2*testSegment), 2*testSegment)
		}, []string{fileName(2 * testSegment), "131072", "65536"}},
		"other size": {func(r string, s *settings) error { s.segmentBytes *= 2; return nil }, []string{fileName(0), "65536", "131072", "mappedFileSizeCommitLog=65536"}},
		"gap":        {func(r string, s *settings) error { return os.Remove(s.logDir + "/" + fileName(testSegment)) }, []string{fileName(testSegment), "missing"}},
		"swapped": {func(r string, s *settings) error {
			a, b, c := s.logDir+"/"+fileName(0), s.logDir+"/"+fileName(testSegment), r+"/aside"
			return errors.Join(os.Rename(a, c), os.Rename(b, a), os.Rename(c, b))
		}, []string{fileName(0), "position 65536", "the file " + fileName(testSegment), "swapped or renamed"}},
		"copied over": {func(r string, s *settings) error {
			return errors.Join(os.Remove(s.logDir+"/"+fileName(testSegment)), os.Link(s.logDir+"/"+fileName(0), s.logDir+"/"+fileName(testSegment)))
		}, []string{fileName(testSegment), "position 0", "the file " + fileName(0), "from a copy"}},
		"odd start":         {func(r string, s *settings) error { return put(s.logDir+"/"+fileName(3*testSegment+1), testSegment) }, []string{"multiple"}},
		"log is a file":     {func(r string, s *settings) error { return errors.Join(os.RemoveAll(s.logDir), put(s.logDir, 3)) }, []string{"commitlog", "expected is a folder", "move it away"}},
		"queues are a file": {func(r string, s *settings) error { return errors.Join(os.RemoveAll(s.queueDir), put(s.queueDir, 3)) }, []string{"consumequeue", "expected is a folder"}},
		"empty first file":  {func(r string, s *settings) error { return os.Truncate(s.logDir+"/"+fileName(0), 0) }, []string{fileName(0), "0 bytes", "65536", "dump --repair --fill --yes"}},
		"empty middle file": {func(r string, s *settings) error { return os.Truncate(s.logDir+"/"+fileName(testSegment), 0) }, []string{fileName(testSegment), "0 bytes", "65536"}},
		"short middle file": {func(r string, s *settings) error { return os.Truncate(s.logDir+"/"+fileName(testSegment), 500) },
			[]string{fileName(testSegment), "500 bytes", "dump --repair --fill --yes", "move it and all older ones away"}},
		"short middle file after a crash": {func(r string, s *settings) error {
			return errors.Join(put(r+"/abort", 0), os.Truncate(s.logDir+"/"+fileName(testSegment), 500))
		}, []string{fileName(testSegment), "500 bytes"}},
		"queue is a file": {func(r string, s *settings) error {
			return errors.Join(os.RemoveAll(s.queueDir+"/T/0"), put(s.queueDir+"/T/0", 0))
		}, []string{"consumequeue/T/0", "expected is the folder of a queue", "move it away"}},
		"topic is a file": {func(r string, s *settings) error {
			return errors.Join(os.RemoveAll(s.queueDir+"/T"), put(s.queueDir+"/T", 0))
		}, []string{"consumequeue/T", "expected is the folder of a topic", "move it away"}},
		"ext queue is a file": {func(r string, s *settings) error { return put(s.extDir+"/T/0", 0) }, []string{"consumequeue_ext/T/0", "expected is the folder of a queue"}},
		"ext topic is a file": {func(r string, s *settings) error { return put(s.extDir+"/T", 0) }, []string{"consumequeue_ext/T", "expected is the folder of a topic"}},
		"topics folder":       {func(r string, _ *settings) error { return os.MkdirAll(r+"/config/topics.json", 0o755) }, []string{"config/topics.json", "expected is a file", "move it away"}},
		"offsets backup folder": {func(r string, _ *settings) error {
			return os.MkdirAll(r+"/config/consumerOffset.json.bak", 0o755)
		}, []string{"config/consumerOffset.json.bak", "expected is a file"}},
		"config is a file": {func(r string, _ *settings) error { return put(r+"/config", 3) }, []string{"config", "expected is a folder"}},
		"lock folder": {func(r string, _ *settings) error {
			return errors.Join(os.RemoveAll(r+"/lock"), os.Mkdir(r+"/lock", 0o755))
		}, []string{"lock", "expected is a file", "move it away"}},
		"checkpoint folder": {func(r string, s *settings) error {
			return errors.Join(os.Remove(r+"/checkpoint"), os.Mkdir(r+"/checkpoint", 0o755))
		}, []string{"checkpoint", "expected is a file", "move it away", "new checkpoint out of the log"}},
		"state folder": {func(r string, s *settings) error {
			return errors.Join(os.Remove(r+"/peregrine.state"), os.Mkdir(r+"/peregrine.state", 0o755))
		}, []string{"peregrine.state", "expected is a file"}},
		"abort folder": {func(r string, s *settings) error { return os.Mkdir(r+"/abort", 0o755) }, []string{"abort", "expected is a file"}},
		"log file folder": {func(r string, s *settings) error {
			return os.Mkdir(filepath.Join(s.logDir, fileName(3*testSegment)), 0o755)
		}, []string{fileName(3 * testSegment), "expected is a data file"}},
		"smaller queue files": {func(r string, s *settings) error { s.queueFileBytes = 8000; return nil }, []string{"4000", "8000", "mappedFileSizeConsumeQueue=4000"}},
		"smaller ext file": {func(r string, s *settings) error {
			s.extWrite, s.extFileBytes = true, 4096
			return put(r+"/consumequeue_ext/T/0/"+fileName(0), 1024)
		}, []string{"1024", "4096", "mappedFileSizeConsumeQueueExt=1024"}},
		"larger queue file": {func(r string, s *settings) error { s.queueFileBytes = 2000; return nil },
			[]string{"4000", "2000", "made with mappedFileSizeConsumeQueue=4000"}},
		"two smaller queue files": {func(r string, s *settings) error {
			s.queueFileBytes = 6000
			return put(filepath.Join(s.queueDir, "T", "1", fileName(0)), testQueueFile)
		}, []string{"4000", "6000", "made with mappedFileSizeConsumeQueue=4000"}},
		"other queue names": {func(r string, s *settings) error {
			s.queueFileBytes = 6000
			return put(filepath.Join(s.queueDir, "T", "0", fileName(testQueueFile)), testQueueFile)
		}, []string{"4000", "6000", "made with mappedFileSizeConsumeQueue=4000"}},
		"odd queue file": {func(r string, s *settings) error {
			return put(filepath.Join(s.queueDir, "T", "0", fileName(testQueueFile+20)), testQueueFile)
		}, []string{fileName(testQueueFile + 20), "no multiple of mappedFileSizeConsumeQueue=4000", "move the file away"}},
		"long queue file": {func(r string, s *settings) error {
			return errors.Join(put(filepath.Join(s.queueDir, "T", "1", fileName(0)), testQueueFile), os.Truncate(filepath.Join(s.queueDir, "T", "0", fileName(0)), 4020))
		}, []string{"4020", "4000", "dump --repair --yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, locked := range []bool{true, false} {
				root := t.TempDir()
				set := filled(t, root)
				if !locked {
					if err := os.Remove(filepath.Join(root, lockName)); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.spoil(root, &set); err != nil {
					t.Fatal(err)
				}
				before := snapshot(t, root)
				s, err := open(sysio.OS{}, set, quietLogger(), nowMillis, nil)
				if err == nil {
					s.Close(false)
					t.Fatal("it was opened")
				}
				if !errors.Is(err, ErrRefused) {
					t.Errorf("refused with %v", err)
				}
				for _, part := range c.says {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q does not say %q", err, part)
					}
				}
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("more than one line: %q", err)
				}
				if after := snapshot(t, root); !maps.Equal(before, after) {
					t.Errorf("files changed: before %d, after %d: %v", len(before), len(after), slices.Sorted(maps.Keys(after)))
				}
			}
		})
	}
}

func TestForeignNamesAreIgnoredWithAWarning(t *testing.T) {
	root := t.TempDir()
	set := filled(t, root)
	for _, name := range []string{"core.123", "x", ".lock.swp"} {
		if err := put(filepath.Join(set.logDir, name), 5); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(set.logDir, "lost+found"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(set.logDir, fileName(2*testSegment)), testSegment/2); err != nil {
		t.Fatal(err) // half a segment at the end is a torn end
	}
	s := openTest(t, sysio.OS{}, set)
	defer s.Close(false)
	w := strings.Join(s.Recovery().Warnings, "\n")
	for _, part := range []string{"core.123", ".lock.swp", "lost+found is a folder", fileName(2 * testSegment)} {
		if !strings.Contains(w, part) {
			t.Errorf("%q is not in the warnings: %s", part, w)
		}
	}
	send(t, s, s.Queue("T", 0), "goes on")
}

func TestSeveralLogDirectoriesAreRefused(t *testing.T) {
	root := t.TempDir()
	_, err := Open(Options{Config: &config.Config{StoreConfig: config.StoreConfig{StorePathRootDir: root, StorePathCommitLog: root + "/a," + root + "/b"}}})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "storePathCommitLog") {
		t.Errorf("%v", err)
	}
	if entries, _ := os.ReadDir(root); len(entries) != 0 {
		t.Errorf("left %v behind", entries)
	}
}

// One record that names another file's position is a damaged one, and stepped over as any.
func TestADamagedPositionIsNoSwappedFile(t *testing.T) {
	root := t.TempDir()
	set := filled(t, root)
	path := filepath.Join(set.logDir, fileName(testSegment))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[30] ^= 0x10 // 2^44 more
	if err := errors.Join(os.WriteFile(path, b, 0o644), os.Remove(filepath.Join(root, stateName))); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, sysio.OS{}, set)
	defer s.Close(false)
	if r := s.Recovery(); r.DamagedCount != 1 || r.Damaged[0].Phy != testSegment || r.End <= 2*testSegment {
		t.Errorf("damaged %v, the log ends at %d", r.Damaged, r.End)
	}
}

// A second store on the directory fails at once, names the holder, and does not disturb it; a file left by a dead process does
// not matter (case S13).
func TestSecondProcessIsRefused(t *testing.T) {
	if root := os.Getenv("PEREGRINE_TEST_HOLD_STORE"); root != "" {
		s := openTest(t, sysio.OS{}, testSettings(root))
		fmt.Println("held")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		send(t, s, s.Queue("T", 0), "still fine")
		s.Close(false)
		return
	}
	root := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self, "-test.run=^TestSecondProcessIsRefused$")
	child.Env = append(os.Environ(), "PEREGRINE_TEST_HOLD_STORE="+root)
	in, _ := child.StdinPipe()
	out, _ := child.StdoutPipe()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("child: %q, %v", line, err)
	}
	began := time.Now()
	_, err = open(sysio.OS{}, testSettings(root), quietLogger(), nowMillis, nil)
	var locked *LockedError
	if !errors.As(err, &locked) || !errors.Is(err, ErrLocked) || locked.PID != child.Process.Pid || !strings.Contains(err.Error(), root) {
		t.Errorf("second open: %v (holder %d)", err, child.Process.Pid)
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("it took %v", d)
	}
	_, _ = in.Write([]byte("\n"))
	if rest, _ := lines.ReadString(0); !strings.Contains(rest, "PASS") {
		t.Errorf("child: %s", rest)
	}
	if err := child.Wait(); err != nil {
		t.Errorf("child: %v", err)
	}
	s := openTest(t, sysio.OS{}, testSettings(root)) // abort and lock are left over
	if s.Recovery().Clean {
		t.Error("taken for a clean stop")
	}
	closeTest(t, s, true)
}

func TestUnknownHolderIsSaidToBeUnknown(t *testing.T) {
	root := t.TempDir()
	s := openTest(t, sysio.OS{}, testSettings(root))
	defer s.Close(false)
	if err := os.WriteFile(filepath.Join(root, abortName), []byte("999999999"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := open(sysio.OS{}, testSettings(root), quietLogger(), nowMillis, nil)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "not known") {
		t.Errorf("%v", err)
	}
}

// An empty directory with files of the original's size opens quickly, and so does the first message.
func TestEmptyStoreOpensQuickly(t *testing.T) {
	best, bestSend := time.Hour, time.Hour
	for range 3 {
		root := filepath.Join(t.TempDir(), "new")
		began := time.Now()
		s := openTest(t, sysio.OS{}, testSettings(root, func(s *settings) { s.segmentBytes, s.queueFileBytes = 1<<30, 6_000_000 }))
		best = min(best, time.Since(began))
		began = time.Now()
		send(t, s, s.Queue("T", 0), "x")
		bestSend = min(bestSend, time.Since(began))
		s.abandon()
	}
	t.Logf("open %v, first append %v", best, bestSend)
	if best > 250*time.Millisecond {
		t.Errorf("opening an empty store took %v", best)
	}
}

// What the original makes with every start, without data in it, is left alone; what it does not need for its messages is named.
func TestRocksFoldersWithoutData(t *testing.T) {
	root := t.TempDir()
	set := filled(t, root)
	for _, name := range []string{"rocksdbstore", "kvStore", "config/topics"} {
		for file, size := range map[string]int{"000004.log": 0, "CURRENT": 16, "IDENTITY": 36, "LOG": 20_000, "MANIFEST-000005": 170, "OPTIONS-000009": 16_014} {
			if err := put(filepath.Join(root, name, file), size); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := openTest(t, sysio.OS{}, set)
	if len(s.Recovery().Warnings) > 0 {
		t.Errorf("%v", s.Recovery().Warnings)
	}
	closeTest(t, s, true)
	for _, name := range []string{"rocksdbstore", "kvStore"} {
		if err := put(filepath.Join(root, name, "000004.log"), 100); err != nil {
			t.Fatal(err)
		}
	}
	s = openTest(t, sysio.OS{}, set)
	defer s.Close(false)
	if w := strings.Join(s.Recovery().Warnings, "\n"); !strings.Contains(w, "rocksdbstore") || !strings.Contains(w, "kvStore") {
		t.Errorf("warnings: %s", w)
	}
}

// A checkpoint that is missing or cut short is named, and made again.
func TestLostCheckpointsAreNamed(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"is missing":          os.Remove,
		"has 0 bytes of 4096": func(path string) error { return os.Truncate(path, 0) },
	} {
		set := filled(t, t.TempDir())
		path := filepath.Join(set.root, checkpointName)
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		s := openTest(t, sysio.OS{}, set)
		if w := strings.Join(s.Recovery().Warnings, "\n"); !strings.Contains(w, path+" "+name) {
			t.Errorf("%s is not said: %q", name, w)
		}
		closeTest(t, s, true)
		s = openTest(t, sysio.OS{}, set)
		if w := s.Recovery().Warnings; len(w) > 0 {
			t.Errorf("the start after that says %q", w)
		}
		closeTest(t, s, true)
	}
}
