package groups

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func options(fsys sysio.FS) Options {
	return Options{FS: fsys, Path: "subscriptionGroup.json", Logger: slog.New(slog.DiscardHandler), AutoCreate: true, AutoCreateSystem: true,
		Now: func() message.Millis { return 1_700_000_000_000 }}
}

func open(t *testing.T, o Options) *Table {
	t.Helper()
	table, err := Open(o)
	must(t, err)
	return table
}

func TestAFreshBrokerHasTheSystemGroups(t *testing.T) {
	table := open(t, options(sysio.NewFaultFS()))
	for _, name := range systemGroups() {
		if g := table.Find(name); g == nil || !g.Config().ConsumeBroadcastEnable || !g.Config().ConsumeEnable || g.Config().RetryMaxTimes != 16 {
			t.Errorf("%s: %v", name, g)
		}
	}
	if table.Count() != 8 {
		t.Errorf("%d groups", table.Count())
	}
}

func TestGroupsAreMadeWhenTheyMayBe(t *testing.T) {
	o := options(sysio.NewFaultFS())
	table := open(t, o)
	before := table.DataVersion().Counter
	g := table.LookupOrCreate("g")
	if g == nil || table.LookupOrCreate("g") != g || table.Lookup([]byte("g")) != g || table.DataVersion().Counter != before+1 {
		t.Fatalf("%v, counter %d", g, table.DataVersion().Counter)
	}
	for _, bad := range []string{"", " ", "a b", "a.b", strings.Repeat("x", 121)} {
		if table.LookupOrCreate(bad) != nil {
			t.Errorf("%.20q was made", bad)
		}
	}
	if table.LookupOrCreate(strings.Repeat("x", 120)) == nil {
		t.Error("120 characters are too many")
	}
	o = options(sysio.NewFaultFS())
	o.AutoCreate = false
	table = open(t, o)
	if table.LookupOrCreate("g") != nil || table.LookupOrCreate("CID_RMQ_SYS_X") == nil {
		t.Error("auto-creation is off, except for the system's groups")
	}
}

// The texts were asked of a running 5.5.0 broker.
func TestUpdatesAreRefusedWithTheOriginalsTexts(t *testing.T) {
	table := open(t, options(sysio.NewFaultFS()))
	long := strings.Repeat("x", 121)
	cases := []struct {
		name       string
		attributes map[string]string
		code       wire.ResponseCode
		remark     string
	}{
		{"g", nil, 0, ""},
		{"G 5", nil, 29, "The specified group: G 5, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"},
		{long, nil, 29, "The specified group: " + long + ", is longer than group max length: 120"},
		{"", nil, 29, "The specified group is blank."},
		{"g", map[string]string{"+priority.factor": "50"}, 0, ""},
		{"g", map[string]string{"+bad": "50"}, 1, "unsupported key: bad"},
		{"g", map[string]string{"priority.factor": "50"}, 1, "wrong format key: riority.factor"},
		{"g", map[string]string{"-priority.factor": ""}, 0, ""},
		{"TOOLS_CONSUMER", nil, 0, ""},
	}
	for i, c := range cases {
		config := wire.NewSubscriptionGroupConfig(c.name)
		config.Attributes = c.attributes
		refusal := table.Update(config)
		if c.remark == "" && refusal != nil || c.remark != "" && (refusal == nil || refusal.Code != c.code || refusal.Remark != c.remark) {
			t.Errorf("case %d: %v", i, refusal)
		}
	}
}

func TestAnEqualUpdateChangesNothing(t *testing.T) {
	table := open(t, options(sysio.NewFaultFS()))
	config := wire.NewSubscriptionGroupConfig("g")
	config.RetryQueueNums = 3
	table.Update(config)
	version := table.DataVersion()
	table.Update(config)
	if table.DataVersion() != version || table.Find("g").Config().RetryQueueNums != 3 {
		t.Errorf("version %v, then %v", version, table.DataVersion())
	}
}

func TestAListIsTakenAsAWholeOrNotAtAll(t *testing.T) {
	table := open(t, options(sysio.NewFaultFS()))
	if refusal := table.UpdateAll([]wire.SubscriptionGroupConfig{wire.NewSubscriptionGroupConfig("a"), wire.NewSubscriptionGroupConfig("b c")}); refusal == nil || table.Find("a") != nil {
		t.Errorf("%v", refusal)
	}
	if refusal := table.UpdateAll([]wire.SubscriptionGroupConfig{wire.NewSubscriptionGroupConfig("a"), wire.NewSubscriptionGroupConfig("b")}); refusal != nil || table.Find("b") == nil {
		t.Errorf("%v", refusal)
	}
}

func TestForbiddenTopics(t *testing.T) {
	x := sysio.NewFaultFS()
	table := open(t, options(x))
	group := []byte("g")
	if table.ReadForbidden(group, "t") {
		t.Error("forbidden from the start")
	}
	table.SetReadForbidden("g", "t", true)
	if !table.ReadForbidden(group, "t") || table.ReadForbidden(group, "u") || table.ReadForbidden([]byte("h"), "t") {
		t.Error("the wrong pairs are forbidden")
	}
	if after := open(t, options(x.PowerCut(nil))); !after.ReadForbidden(group, "t") {
		t.Error("forgotten by a restart")
	}
	data, err := sysio.ReadFile(x, "subscriptionGroup.json")
	must(t, err)
	var file struct {
		ForbiddenTable map[string]map[string]int
	}
	must(t, json.Unmarshal(data, &file))
	if file.ForbiddenTable["g"]["t"] != 4 {
		t.Errorf("the file has %v", file.ForbiddenTable)
	}
	if n := testing.AllocsPerRun(100, func() {
		if !table.ReadForbidden(group, "t") || table.Lookup(group) != nil {
			t.Fatal("wrong answer")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	table.SetReadForbidden("g", "t", false)
	if table.ReadForbidden(group, "t") || len(*table.forbidden.Load()) != 0 {
		t.Error("still forbidden")
	}
}

func TestDeletingAGroupForgetsWhatIsForbiddenToIt(t *testing.T) {
	x := sysio.NewFaultFS()
	table := open(t, options(x))
	table.LookupOrCreate("g")
	table.SetReadForbidden("g", "t", true)
	table.Delete("g")
	table.Delete("unknown")
	if table.Find("g") != nil || table.ReadForbidden([]byte("g"), "t") {
		t.Error("g is still there")
	}
	if after := open(t, options(x.PowerCut(nil))); after.Find("g") != nil {
		t.Error("g is back after a restart")
	}
}

func TestBothBrokersFilesLoad(t *testing.T) {
	for _, version := range []string{"5.5.0", "4.9.4"} {
		data, err := os.ReadFile(filepath.Join("testdata", "subscriptionGroup-"+version+".json"))
		must(t, err)
		x := sysio.NewFaultFS()
		must(t, sysio.AtomicWriteFile(x, "subscriptionGroup.json", data, false))
		table := open(t, options(x))
		var file struct {
			DataVersion            wire.DataVersion
			SubscriptionGroupTable map[string]json.RawMessage
		}
		must(t, json.Unmarshal(data, &file))
		if table.DataVersion() != file.DataVersion {
			t.Errorf("%s: version %v, want %v", version, table.DataVersion(), file.DataVersion)
		}
		longest := 0
		for name, raw := range file.SubscriptionGroupTable {
			want := wire.NewSubscriptionGroupConfig(name)
			want.Attributes = map[string]string{}
			must(t, json.Unmarshal(raw, &want))
			g := table.Find(name)
			if g == nil || !reflect.DeepEqual(*g.Config(), want) {
				t.Errorf("%s: %s is %+v, want %+v", version, name, g, want)
			}
			longest = max(longest, len(name))
		}
		if longest <= NameBytesMax {
			t.Errorf("%s: the file has no group with a name that is too long for a new one", version)
		}
		table.LookupOrCreate("another")
		must(t, table.Save())
		second := open(t, options(x))
		if second.Count() != table.Count() || second.DataVersion() != table.DataVersion() {
			t.Errorf("%s: saved and loaded again it is another table", version)
		}
	}
}

func TestALongNameThatIsThereMayBeChanged(t *testing.T) {
	x := sysio.NewFaultFS()
	long := strings.Repeat("g", 160)
	must(t, sysio.AtomicWriteFile(x, "subscriptionGroup.json", []byte(`{"subscriptionGroupTable":{"`+long+`":{"groupName":"`+long+`","newer":1}}}`), false))
	table := open(t, options(x))
	config := wire.NewSubscriptionGroupConfig(long)
	config.RetryMaxTimes = 3
	if refusal := table.Update(config); refusal != nil {
		t.Fatal(refusal)
	}
	data, err := sysio.ReadFile(x, "subscriptionGroup.json")
	must(t, err)
	if !strings.Contains(string(data), `"newer":1`) || !strings.Contains(string(data), `"retryMaxTimes":3`) {
		t.Errorf("%s", data)
	}
}

func TestSavedGroupsSurvivePowerCut(t *testing.T) {
	for seed := range uint64(5) {
		x := sysio.NewFaultFS()
		r := rand.New(rand.NewPCG(seed, 4))
		table := open(t, options(x))
		for i := range 3 {
			if refusal := table.Update(wire.NewSubscriptionGroupConfig(fmt.Sprint("g", i))); refusal != nil {
				t.Fatal(refusal)
			}
			after := open(t, options(x.PowerCut(r)))
			for j := range i + 1 {
				if after.Find(fmt.Sprint("g", j)) == nil {
					t.Fatalf("seed %d: g%d was answered and is lost", seed, j)
				}
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	table := open(t, options(sysio.NewFaultFS()))
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 40 {
				name := fmt.Sprint("g", i)
				if g := table.LookupOrCreate(name); g == nil {
					t.Errorf("%s is not made", name)
				}
				table.SetReadForbidden(name, "t", w%2 == 0)
				table.ReadForbidden([]byte(name), "t")
				if err := table.Save(); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if table.Count() != 48 {
		t.Errorf("%d groups", table.Count())
	}
}

func TestPagesCoverTheTable(t *testing.T) {
	table := open(t, options(sysio.NewFaultFS()))
	table.LookupOrCreate("zz")
	table.SetReadForbidden("zz", "t", true)
	all, forbidden, total, _ := table.Page(0, 0)
	if len(all) != total || total != 9 || len(forbidden) != 1 {
		t.Errorf("%d of %d, forbidden %v", len(all), total, forbidden)
	}
	var names []string
	for from := 0; from < total; from += 2 {
		page, forbidden, _, _ := table.Page(from, 2)
		for _, g := range page {
			names = append(names, g.GroupName)
		}
		if (len(forbidden) > 0) != (page[len(page)-1].GroupName == "zz") {
			t.Errorf("page at %d has %v", from, forbidden)
		}
	}
	if len(names) != total || !slices.IsSorted(names) {
		t.Errorf("%v", names)
	}
}
