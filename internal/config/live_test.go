package config

import (
	"strings"
	"sync"
	"testing"
)

func liveOf(t *testing.T, arguments ...string) *Live {
	t.Helper()
	c, report, err := Load(arguments, func(string) string { return "" }, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Resolve(ThisMachine())
	return NewLive(c, report.Origins)
}

func keep([]Change) error { return nil }

// Every key that is said to change at run time takes its own value again, and every other key is refused by name.
func TestEveryKeyIsChangedOrRefused(t *testing.T) {
	l := liveOf(t)
	for _, k := range Keys() {
		_, err := l.Change(map[string]string{k.Name: k.Get(l.Get())}, keep)
		changes := k.Reload && k.Pending == ""
		if changes && err != nil || !changes && (err == nil || !strings.HasPrefix(err.Error(), k.Name+": ")) {
			t.Errorf("%s, at run time %v: %v", k.Name, changes, err)
		}
	}
}

func TestAChangeKnowsWhatIsStronger(t *testing.T) {
	l := liveOf(t, "traceOn=true", "fileReservedTime=7")
	changes, err := l.Change(map[string]string{"traceOn": "false", "deleteWhen": "05"}, keep)
	if err != nil || len(changes) != 2 || changes[0].Key != "deleteWhen" || changes[0].Note != "" || !strings.Contains(changes[1].Note, "argument") {
		t.Errorf("%+v, %v", changes, err)
	}
}

// Readers see the old configuration or the new one, never a part of each.
func TestChangesAreWhole(t *testing.T) {
	l := liveOf(t)
	if _, err := l.Change(map[string]string{"fileReservedTime": "1", "deleteFileBatchMax": "1"}, keep); err != nil {
		t.Fatal(err)
	}
	watched := 0
	l.Watch(func(*Config) { watched++ })
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if c := l.Get(); c.FileReservedTime != int64(c.DeleteFileBatchMax) {
				t.Errorf("%d and %d", c.FileReservedTime, c.DeleteFileBatchMax)
				return
			}
		}
	})
	for i := range 200 {
		n := []string{"1", "2"}[i%2]
		if _, err := l.Change(map[string]string{"fileReservedTime": n, "deleteFileBatchMax": n}, keep); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	readers.Wait()
	if watched != 200 {
		t.Errorf("%d changes were told", watched)
	}
}

func TestEditFileKeepsWhatItDoesNotKnow(t *testing.T) {
	changes := []Change{{Key: "deleteWhen", To: "05"}, {Key: "traceOn", To: "false"}}
	for in, want := range map[string]string{
		"":                                    "deleteWhen=05\ntraceOn=false\n",
		"a=1":                                 "a=1\ndeleteWhen=05\ntraceOn=false\n",
		"# deleteWhen=1\ndeleteWhen 04\n!x\n": "# deleteWhen=1\ndeleteWhen=05\n!x\ntraceOn=false\n",
		"deleteWhen=1\ndeleteWhen=2\r\ntraceOn\\\n  = \\\n true\n\nmine = 1 \n": "deleteWhen=1\ndeleteWhen=05\r\ntraceOn=false\n\nmine = 1 \n",
	} {
		if got, err := EditFile([]byte(in), changes); err != nil || string(got) != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// Whatever the file is: afterwards it is read with the new value, and everything else as before.
func FuzzEditFile(f *testing.F) {
	f.Add([]byte("deleteWhen=04\n# x\nmine=\\\n 1"))
	f.Add([]byte("deleteWhen\\\r\n:04\r\r\\\n\\"))
	f.Add([]byte("\n0\\\r"))
	f.Fuzz(func(t *testing.T, data []byte) {
		before, _, err := readProperties(data)
		if err != nil {
			return
		}
		edited, err := EditFile(data, []Change{{Key: "deleteWhen", To: "05"}})
		if err != nil {
			t.Fatal(err)
		}
		after, _, err := readProperties(edited)
		if err != nil {
			t.Fatal(err)
		}
		values := func(entries []entry) map[string]string {
			m := map[string]string{}
			for _, e := range entries {
				m[e.key] = e.value
			}
			return m
		}
		want, got := values(before), values(after)
		want["deleteWhen"] = "05"
		if len(want) != len(got) {
			t.Fatalf("%v became %v", want, got)
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%q is %q, want %q", key, got[key], value)
			}
		}
	})
}
