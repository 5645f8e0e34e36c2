package config

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

func TestDefaultsNeedNoFile(t *testing.T) {
	c, report := mustLoad(t, "")
	for _, k := range Keys() {
		if got := k.Get(c); got != k.Default && k.Name != "haListenPort" {
			t.Errorf("%s = %q, default %q", k.Name, got, k.Default)
		}
	}
	if len(report.Origins) > 0 || len(report.Lines()) > 0 || report.Print != PrintNothing || report.File != "" {
		t.Errorf("%+v", report)
	}
	equal(t, "broker", c.BrokerAddr(), "0.0.0.0:10911")
	fast, ok := c.FastAddr()
	equal(t, "VIP port", fast, "0.0.0.0:10909")
	equal(t, "has VIP port", ok, true)
	namesrv, _ := c.NamesrvAddrToListen()
	equal(t, "name server", namesrv, "0.0.0.0:9876")
	http, _ := c.HTTPAddr()
	equal(t, "HTTP", http, "127.0.0.1:10920")
	equal(t, "log", c.CommitLogDir(), "peregrine-data/commitlog")
	equal(t, "synchronous", c.SyncFlushed(), false)
	equal(t, "HA port", c.HaListenPort, 10912)
}

func TestListenAddresses(t *testing.T) {
	for _, c := range []struct{ setting, namesrv, http, fast string }{
		{"listenPort=3", "0.0.0.0:9876", "127.0.0.1:10920", "0.0.0.0:1"},
		{"listenPort=2", "0.0.0.0:9876", "127.0.0.1:10920", ""},
		{"listenPort=0", "0.0.0.0:9876", "127.0.0.1:10920", ""},
		{"bindAddress=10.0.0.7", "10.0.0.7:9876", "127.0.0.1:10920", "10.0.0.7:10909"},
		{"bindAddress=::1", "[::1]:9876", "127.0.0.1:10920", "[::1]:10909"},
		{"peregrine.namesrvListen=off", "", "127.0.0.1:10920", "0.0.0.0:10909"},
		{"peregrine.namesrvListen=127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:10920", "0.0.0.0:10909"},
		{"peregrine.namesrvListen=:99", "0.0.0.0:99", "127.0.0.1:10920", "0.0.0.0:10909"},
		{"peregrine.http=off", "0.0.0.0:9876", "", "0.0.0.0:10909"},
		{"peregrine.http=8080", "0.0.0.0:9876", "127.0.0.1:8080", "0.0.0.0:10909"},
		{"peregrine.http=0.0.0.0:0", "0.0.0.0:9876", "0.0.0.0:0", "0.0.0.0:10909"},
		{"peregrine.http=[::]:80", "0.0.0.0:9876", "[::]:80", "0.0.0.0:10909"},
	} {
		cfg, _ := mustLoad(t, "", c.setting)
		namesrv, _ := cfg.NamesrvAddrToListen()
		http, _ := cfg.HTTPAddr()
		fast, _ := cfg.FastAddr()
		equal(t, c.setting+": name server", namesrv, c.namesrv)
		equal(t, c.setting+": HTTP", http, c.http)
		equal(t, c.setting+": VIP port", fast, c.fast)
	}
}

func TestEveryLongFormAndShortFormWorks(t *testing.T) {
	conf := "listenPort=1234\n"
	read := func(path string) ([]byte, error) {
		equal(t, "path", path, "my.conf")
		return []byte(conf), nil
	}
	for _, args := range [][]string{{"-c", "my.conf"}, {"--config", "my.conf"}, {"--configFile", "my.conf"}, {"--configFile=my.conf"}, {"-cmy.conf"}} {
		c, report, err := Load(args, noEnv, read)
		if err != nil || c.ListenPort != 1234 || report.File != "my.conf" {
			t.Errorf("%q: %v %v", args, report, err)
		}
	}
	for arg, want := range map[string]Print{"-p": PrintAll, "--print-config": PrintAll, "--printConfigItem": PrintAll,
		"-m": PrintImportant, "--print-important": PrintImportant, "--printImportantConfig": PrintImportant} {
		_, report := mustLoad(t, "", arg)
		equal(t, arg, report.Print, want)
	}
	for _, args := range [][]string{{"-n", "10.1.1.1:9876"}, {"--namesrv", "10.1.1.1:9876"}, {"--namesrvAddr=10.1.1.1:9876"}} {
		_, _, err := load("", args...)
		if err == nil || !strings.Contains(err.Error(), "flag --namesrv: namesrvAddr=10.1.1.1:9876: registration with external name servers is not built yet") {
			t.Errorf("%q: %v", args, err)
		}
	}
	c, _ := mustLoad(t, "", "--store", "/data", "--http", "off", "--advertise", "mq.example.org:20911", "autoCreateTopicEnable=false")
	equal(t, "store", c.StorePathRootDir, "/data")
	equal(t, "http", c.HTTP, Off)
	equal(t, "advertise", c.Advertise, "mq.example.org:20911")
	equal(t, "argument", c.AutoCreateTopicEnable, false)
	if _, _, err := load("", "--help"); !errors.Is(err, ErrHelp) {
		t.Error(err)
	}
	for _, spec := range flagSpecs {
		if !strings.Contains(Usage(), "--"+spec.name) {
			t.Errorf("help does not know --%s:\n%s", spec.name, Usage())
		}
	}
}

func TestStrongerPlacesWin(t *testing.T) {
	env := map[string]string{}
	args := []string{"-c", "broker.conf"}
	get := func() string {
		c, report, err := Load(args, func(name string) string { return env[name] }, func(string) ([]byte, error) {
			return []byte("storePathRootDir=/file\n"), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return c.StorePathRootDir + " " + report.Origins["storePathRootDir"].String()
	}
	equal(t, "file over default", get(), "/file broker.conf:1")
	env["PEREGRINE_STORE"] = " /env "
	equal(t, "environment over file", get(), "/env environment PEREGRINE_STORE")
	args = append(args, "--store", "/flag")
	equal(t, "flag over environment", get(), "/flag flag --store")
	args = append(args, "storePathRootDir=/argument")
	equal(t, "argument over flag", get(), "/argument argument")
	args = append(args, "storePathRootDir=/later")
	equal(t, "later argument over earlier", get(), "/later argument")
}

func TestEveryFlagHasAVariable(t *testing.T) {
	env := map[string]string{
		"PEREGRINE_CONFIG": "c.conf", "PEREGRINE_PRINT_CONFIG": "true", "PEREGRINE_HTTP": "off", "PEREGRINE_ADVERTISE": "10.0.0.1",
		"PEREGRINE_NAMESRV": "localhost:9876", "NAMESRV_ADDR": "10.9.9.9:9876",
	}
	c, report, err := Load(nil, func(name string) string { return env[name] }, func(path string) ([]byte, error) {
		return []byte("listenPort=77"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "file", report.File, "c.conf")
	equal(t, "listenPort", c.ListenPort, 77)
	equal(t, "print", report.Print, PrintAll)
	equal(t, "http", c.HTTP, Off)
	equal(t, "advertise", c.Advertise, "10.0.0.1")
	equal(t, "namesrv", c.NamesrvAddr, "localhost:9876")
	equal(t, "variable", flagSpecs[3].variable(), "PEREGRINE_PRINT_IMPORTANT")
}

func TestNamesrvAddrOfTheEnvironmentIsTheWeakest(t *testing.T) {
	env := func(name string) string {
		if name == "NAMESRV_ADDR" {
			return "10.9.9.9:9876"
		}
		return ""
	}
	read := func(string) ([]byte, error) { return []byte("namesrvAddr=127.0.0.1:9876"), nil }
	c, _, err := Load([]string{"-c", "f"}, env, read)
	if err != nil || c.NamesrvAddr != "127.0.0.1:9876" {
		t.Error(err)
	}
	if _, _, err := Load(nil, env, read); err == nil || !strings.Contains(err.Error(), "environment NAMESRV_ADDR: namesrvAddr=10.9.9.9:9876") {
		t.Error(err)
	}
}

func TestOurOwnNameServerIsNoForeignOne(t *testing.T) {
	for _, args := range [][]string{
		{"namesrvAddr=127.0.0.1:9876"}, {"namesrvAddr=localhost:9876"}, {"namesrvAddr=[::1]:9876;127.0.0.1:9876; "},
		{"namesrvAddr=192.168.1.5:9876", "brokerIP1=192.168.1.5"}, {"namesrvAddr=mq:9876", "peregrine.advertise=mq:20911"},
		{"namesrvAddr=127.0.0.1:19876", "peregrine.namesrvListen=19876"},
	} {
		if _, report := mustLoad(t, "", args...); len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0].Text, "embedded name server") {
			t.Errorf("%q: %q", args, report.Lines())
		}
	}
	for _, args := range [][]string{
		{"namesrvAddr=127.0.0.1:9877"}, {"namesrvAddr=10.0.0.1:9876"}, {"namesrvAddr=127.0.0.1:9876;10.0.0.1:9876"},
		{"namesrvAddr=127.0.0.1:9876", "peregrine.namesrvListen=off"}, {"namesrvAddr=rmqnamesrv:9876"},
	} {
		if _, _, err := load("", args...); err == nil || !strings.Contains(err.Error(), "not built yet") || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%q: %v", args, err)
		}
	}
	for _, addr := range []string{"localhost", "localhost:", "localhost:0", ":9876", "a b:9876", "1.2.3.4.5:9876", "host:99999"} {
		if _, _, err := load("", "namesrvAddr="+addr); err == nil || !strings.Contains(err.Error(), "expected addresses") {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

func TestWrongValuesNameFileLineKeyAndExpectation(t *testing.T) {
	for line, expect := range map[string]string{
		"listenPort=abc":                        "expected a whole number from 0 to 65535",
		"listenPort=65536":                      "expected a whole number from 0 to 65535",
		"listenPort=-1":                         "expected a whole number from 0 to 65535",
		"listenPort=":                           "expected a whole number from 0 to 65535",
		"listenPort=1 0911":                     "expected a whole number from 0 to 65535",
		"fileReservedTime=3 days":               "expected a whole number from 1 to 8760000 (h)",
		"fileReservedTime=99999999999999999999": "expected a whole number from 1 to 8760000 (h)",
		"mappedFileSizeCommitLog=1G":            "expected a whole number from 4096 to 2147483647 (bytes)",
		"mapedFileSizeCommitLog=1G":             "expected a whole number from 4096 to 2147483647 (bytes)",
		"flushDiskType=sync_flush":              "expected one of ASYNC_FLUSH, SYNC_FLUSH",
		"flushDiskType=":                        "expected one of ASYNC_FLUSH, SYNC_FLUSH",
		"brokerRole=MASTER":                     "expected one of ASYNC_MASTER, SYNC_MASTER, SLAVE",
		"diskMaxUsedSpaceRatio=0.75":            "expected a whole number from 10 to 95 (%)",
		"transactionCheckMax=2147483648":        "expected a whole number from 0 to 2147483647",
		"brokerName=a/b":                        "expected 1 to 127 bytes without blanks and slashes",
		"brokerName=a b":                        "expected 1 to 127 bytes without blanks and slashes",
		"brokerClusterName=":                    "expected 1 to 127 bytes without blanks and slashes",
		"bindAddress=eth0":                      "expected an IP address",
		"brokerIP1=10.0.0":                      "expected an IP address or a host name",
		"brokerIP1=10.0.0.1:10911":              "expected an IP address or a host name",
		"brokerIP2=a b":                         "expected an IP address or a host name",
		"peregrine.http=http://x":               "expected HOST:PORT, PORT or off",
		"peregrine.http=":                       "expected HOST:PORT, PORT or off",
		"peregrine.namesrvListen=OFF":           "expected HOST:PORT, PORT or off",
		"peregrine.namesrvListen=1:2:3":         "expected HOST:PORT, PORT or off",
		"peregrine.advertise=host:x":            "expected HOST or HOST:PORT",
		"peregrine.advertise=host:0":            "expected HOST or HOST:PORT",
		"peregrine.advertise=:10911":            "expected HOST or HOST:PORT",
		"peregrine.eventLoops=257":              "expected a whole number from 0 to 256",
		"reputMessageServiceThreadNum=65":       "expected a whole number from 0 to 64",
		"peregrine.outboundHardBytes=4096":      "expected at least peregrine.outboundSoftBytes, which is 1048576",
		"storePathRootDir=":                     "expected a directory",
		"deleteWhen=24":                         "expected hours from 0 to 23",
		"deleteWhen=":                           "expected hours from 0 to 23",
		"messageDelayLevel=1s 5x":               `"5x" is none`,
		"messageDelayLevel=s":                   `"s" is none`,
		"messageDelayLevel=0s":                  `"0s" is none`,
		"peregrine.htp=1":                       "no such key; did you mean peregrine.http?",
		"Peregrine.whatever=1":                  "no such key",
	} {
		_, report, err := load("# first\nautoCreateTopicEnable=true\n" + line + "\n")
		key, _, _ := strings.Cut(line, "=")
		if err == nil || !strings.HasPrefix(err.Error(), "broker.conf:3: "+key+"=") || !strings.Contains(err.Error(), expect) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", line, err, expect)
		}
		var setting *Error
		if !errors.As(err, &setting) || setting.Key != key || setting.Origin.Line != 3 {
			t.Errorf("%s: %#v", line, err)
		}
		if report.File != "broker.conf" {
			t.Errorf("%s: no report beside the error", line)
		}
	}
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	_, _, err := load("listenPort=a\nflushDiskType=b\n\naclEnable=true\n", "fileReservedTime=c")
	if got := errorLines(err); len(got) != 4 {
		t.Errorf("%d lines:\n%v", len(got), err)
	}
}

func TestPortsThatCollideAreFound(t *testing.T) {
	for args, key := range map[string]string{
		"listenPort=9876":                       "peregrine.namesrvListen",
		"listenPort=9878":                       "peregrine.namesrvListen", // its VIP port
		"peregrine.http=10911":                  "peregrine.http",
		"peregrine.http=0.0.0.0:9876":           "peregrine.http",
		"peregrine.namesrvListen=10909":         "peregrine.namesrvListen",
		"peregrine.namesrvListen=0.0.0.0:10920": "peregrine.http",
	} {
		_, _, err := load("", args)
		var setting *Error
		if !errors.As(err, &setting) || setting.Key != key || !strings.Contains(setting.Reason, "is already that of") {
			t.Errorf("%s: %v", args, err)
		}
	}
	mustLoad(t, "", "listenPort=0", "peregrine.http=0", "peregrine.namesrvListen=0")
}

func TestArgumentMistakes(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"--nosuch", "unknown flag: --nosuch; see peregrine help"},
		{"-x", "unknown shorthand flag: 'x' in -x; see peregrine help"},
		{"-c", "flag needs an argument: 'c' in -c; see peregrine help"},
		{"start", `argument "start": expected key=value, for example listenPort=10911`},
		{"=5", `argument "=5": expected key=value, for example listenPort=10911`},
		{"-cnone.conf", "configuration file none.conf: file does not exist"},
	} {
		_, _, err := load("", c.arg)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v", c.arg, err)
		}
	}
	_, _, err := Load([]string{"-c", "d"}, noEnv, func(string) ([]byte, error) { return nil, errors.New("is a directory") })
	if err == nil || err.Error() != "configuration file d: is a directory" {
		t.Error(err)
	}
	_, _, err = load("", "-c", "missing")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	_, _, err = load("a=1\nb=\\u00\n")
	if err == nil || !strings.HasPrefix(err.Error(), "broker.conf:2: not a line of a properties file") {
		t.Error(err)
	}
}

// Each of these changes what users are promised; none may be ignored.
func TestPromisesThatCannotBeKeptStopTheStart(t *testing.T) {
	stops := []string{
		"aclEnable=true", "authenticationEnabled=TRUE", "authorizationEnabled=true", "tlsServerMode=enforcing", "tls.server.mode=enforcing",
		"useTLS=true", "brokerRole=SYNC_MASTER", "brokerRole=SLAVE", "enableControllerMode=true", "enableDLegerCommitLog=true",
		"storeType=defaultRocksDB", "transientStorePoolEnable=true", "enabledAppendPropCRC=true", "forceVerifyPropCRC=true",
		"enableSlaveActingMaster=true", "duplicationEnable=true", "enableLmq=true", "enableMultiDispatch=true", "enableRemoteEscape=true",
		"configManagerVersion=v2", "fetchNamesrvAddrByAddressServer=true", "fetchNameSrvAddrByDnsLookup=true", "messageStorePlugIn=a.B",
		"readOnlyCommitLogStorePaths=/x", "storePathCommitLog=/a,/b", "indexRocksDBEnable=true", "timerRocksDBEnable=true",
		"transRocksDBEnable=true", "rocksdbCQDoubleWriteEnable=true",
	}
	tested := map[string]bool{}
	for _, line := range stops {
		_, _, err := load("\n" + line + "\n")
		if err == nil || !strings.HasPrefix(err.Error(), "broker.conf:2: "+line+": ") || !strings.Contains(err.Error(), "not ") {
			t.Errorf("%s: %v", line, err)
		}
		name, _ := properName(strings.Split(line, "=")[0])
		tested[name] = true
	}
	for _, k := range Keys() {
		if k.Only != nil && !tested[k.Name] {
			t.Errorf("%s is not in this test", k.Name)
		}
	}
	for _, line := range []string{"aclEnable=false", "aclEnable=yes", "tlsServerMode=permissive", "storeType=default", "brokerRole=ASYNC_MASTER", "enablePropertyFilter=true"} {
		mustLoad(t, line)
	}
}

func TestKeysWithoutEffectAreListedOnce(t *testing.T) {
	_, report := mustLoad(t, "sendMessageThreadPoolNums=8\nfoo.bar=1\nsendMessageThreadPoolNums=16\nlistenport=5\nfileReservedTimes=3\nenablePropertyFilter=true\n")
	want := []string{
		"broker.conf:3: sendMessageThreadPoolNums is given twice, this line wins over line 1",
		"unknown keys, ignored: foo.bar (broker.conf:2)",
		"unknown keys, ignored (did you mean listenPort?): listenport (broker.conf:4)",
		"unknown keys, ignored (did you mean fileReservedTime?): fileReservedTimes (broker.conf:5)",
		"keys without effect (there are no thread pools and no pool queues; work is bounded by other limits): sendMessageThreadPoolNums (broker.conf:3)",
		"keys whose subject is not built yet (SQL92 filters): enablePropertyFilter (broker.conf:6)",
	}
	if got := report.Lines(); !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", lines(got), lines(want))
	}
	equal(t, "origin of a warning", report.NotApplicable[0].Origin.String(), "broker.conf:3")
}

func TestWarmingNeedsAMapping(t *testing.T) {
	_, report := mustLoad(t, "warmMapedFileEnable=true\nwriteWithoutMmap=true\n")
	if got := report.Lines(); len(got) != 1 || !strings.HasPrefix(got[0], "broker.conf:1: warmMapedFileEnable=true: has no effect beside writeWithoutMmap=true") {
		t.Errorf("%q", got)
	}
	_, report = mustLoad(t, "warmMapedFileEnable=true\n")
	equal(t, "lines without it", len(report.Lines()), 0)
}

// A broker.conf that a crash took is read from its backup, with a line that names both; what is wrong without one is an error.
func TestBrokenFileIsReadFromItsBackup(t *testing.T) {
	const good = "listenPort=20911\n"
	for _, c := range []struct{ main, backup, note, fails string }{
		{good, "listenPort=1\n", "", ""},
		{"-", good, "is missing", ""},
		{"", good, "is empty", ""},
		{strings.Repeat("\x00", 17), good, "zero byte at position 0", ""},
		{good + "\x00\x00", good, "zero byte at position 17", ""},
		{"", "-", "", ""},
		{"", "", "", ""},
		{"-", "-", "", "broker.conf: file does not exist"},
		{"-", "\x00", "", "broker.conf: file does not exist"},
		{"\x00", "-", "", "broker.conf: damaged: a zero byte at position 0"},
	} {
		files := map[string]string{"broker.conf": c.main, "broker.conf.bak": c.backup}
		cfg, report, err := Load([]string{"-c", "broker.conf"}, noEnv, func(path string) ([]byte, error) {
			if files[path] == "-" {
				return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
			}
			return []byte(files[path]), nil
		})
		what := fmt.Sprintf("%q and %q: ", c.main, c.backup)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s%v", what, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s%v", what, err)
			continue
		}
		if want := map[bool]int{true: 10911, false: 20911}[c.main == "" && c.note == ""]; cfg.ListenPort != want {
			t.Errorf("%sport %d", what, cfg.ListenPort)
		}
		notes := strings.Join(report.Lines(), "\n")
		if (notes == "") != (c.note == "") || !strings.Contains(notes, c.note) || c.note != "" && !strings.Contains(notes, "broker.conf.bak") {
			t.Errorf("%sit says %q", what, notes)
		}
	}
}

func TestSpellingsOfOneKey(t *testing.T) {
	c, report := mustLoad(t, "mappedFileSizeCommitLog=8192\nmapedFileSizeCommitLog=4096\nreputMessageServiceThreadNum=3\n")
	equal(t, "the proper spelling wins", c.MappedFileSizeCommitLog, 8192)
	equal(t, "shards", c.ReputShards, 3)
	equal(t, "warnings", len(report.Warnings), 1)
	c, _ = mustLoad(t, "reputMessageServiceThreadNum=3\n", "peregrine.reputShards=5")
	equal(t, "shards", c.ReputShards, 5)
	c, _ = mustLoad(t, "peregrine.reputShards=5\n", "reputMessageServiceThreadNum=3")
	equal(t, "a stronger place wins over the proper spelling", c.ReputShards, 3)
}

func TestValuesThatAreCompleted(t *testing.T) {
	c, _ := mustLoad(t, "mappedFileSizeConsumeQueue=5999\nlistenPort=20911\n")
	equal(t, "rounded up to whole units", c.MappedFileSizeConsumeQueue, 6000)
	equal(t, "HA port", c.HaListenPort, 20912)
	c, report := mustLoad(t, "maxMessageSize=33554432\nbrokerPermission=7\n")
	equal(t, "warnings", len(report.Warnings), 2)
	equal(t, "maxMessageSize", c.MaxMessageSize, 32<<20)
}

func TestTwoAnswersToWhatClientsAreTold(t *testing.T) {
	c, report := mustLoad(t, "brokerIP1=10.0.0.1\n", "--advertise", "mq:1234")
	equal(t, "the flag wins", c.Advertise+c.BrokerIP1, "mq:1234")
	equal(t, "warnings", len(report.Warnings), 1)
	c, _ = mustLoad(t, "peregrine.advertise=mq:1234\n", "brokerIP1=10.0.0.1")
	equal(t, "the argument wins", c.Advertise+c.BrokerIP1, "10.0.0.1")
	c, _ = mustLoad(t, "peregrine.advertise=mq:1234\nbrokerIP1=10.0.0.1\n")
	equal(t, "our own key wins", c.Advertise+c.BrokerIP1, "mq:1234")
}

func FuzzLoad(f *testing.F) {
	for _, path := range confFiles(f) {
		if data, err := readAll(path); err == nil {
			f.Add(data, "listenPort=1")
		}
	}
	f.Add([]byte("a=\\u12"), "-m")
	f.Fuzz(func(t *testing.T, file []byte, arg string) {
		c, report, err := Load([]string{"-c", "f", arg}, noEnv, func(string) ([]byte, error) { return file, nil })
		if (c == nil) == (err == nil) {
			t.Fatalf("%v beside %v", c, err)
		}
		report.Lines()
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Fatal("an error without words")
			}
			return
		}
		var printed strings.Builder
		if err := c.Write(&printed, false); err != nil {
			t.Fatal(err)
		}
		again, _, err := load(printed.String())
		if err != nil || *again != *c {
			t.Fatalf("printed and read back: %v\n%s\n%+v\n%+v", err, printed.String(), again, c)
		}
	})
}
