package interop

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"peregrine/internal/message"
)

func TestJavaClient494(t *testing.T) { javaSuite(t, "4.9.4") }
func TestJavaClient550(t *testing.T) { javaSuite(t, "5.5.0") }

// javaSuite runs everything with JSON headers and again with binary ones. The compressions differ so that all three travel. Of the two versions, two
// encodings and two shapes of the broker any two meet in `make test`, which has minutes; `make interop` runs all eight.
func javaSuite(t *testing.T, version string) {
	t.Parallel()
	suite := "java-" + version
	classPath := need(t, suite, func() (string, error) { return bed.tools.ClientClassPath(version) })
	encodings := []struct {
		name    string
		options []string
	}{
		{"json", []string{"-Drocketmq.message.compressType=ZLIB"}},
		{"binary", []string{"-Drocketmq.serialize.type=ROCKETMQ", "-Drocketmq.message.compressType=" + map[string]string{"4.9.4": "LZ4", "5.5.0": "ZSTD"}[version]}},
	}
	for i, s := range matrix() {
		for k, encoding := range encodings {
			if pairs := os.Getenv("INTEROP_ALL") == "" && !bed.apache; pairs && (i+k)%2 != map[string]int{"4.9.4": 0, "5.5.0": 1}[version] {
				continue
			}
			t.Run(s.name+"/"+encoding.name, func(t *testing.T) {
				t.Parallel()
				broker := startBroker(t, s, false)
				c := javaClient(version, classPath, encoding.options...)
				runScenarios(t, c, broker, nil, scenariosOf(c.name)...)
			})
		}
	}
}

func TestGoClient(t *testing.T) {
	t.Parallel()
	binary := need(t, "go", func() (string, error) { return bed.tools.GoClient(bed.dir) })
	for _, s := range matrix() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			runScenarios(t, goClient(binary), startBroker(t, s, false), nil, scenariosOf("go")...)
		})
	}
}

func TestNodeClient(t *testing.T) {
	t.Parallel()
	scriptSuite(t, nodeClient(need(t, "node", bed.tools.NodeProgram)))
}

func TestPythonClient(t *testing.T) {
	t.Parallel()
	scriptSuite(t, pythonClient(need(t, "python", bed.tools.PythonProgram)))
}

// scriptSuite makes the topics first: the Node client fails on the first send into a topic without a route, the Python client on some
// of them when several producers of a process send at once; on the original too.
func scriptSuite(t *testing.T, c client) {
	for _, s := range matrix() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			broker := startBroker(t, s, false)
			run := newRun()
			scenarios := scenariosOf(c.name)
			for _, scenario := range scenarios {
				if err := createTopic(broker.Addr(), fmt.Sprintf("%s-t-%s", scenario, run), 4); err != nil {
					t.Fatal(err)
				}
			}
			r := c.start(t, broker, run, scenarios...)
			r.finish()
			for _, scenario := range scenarios {
				t.Run(scenario, func(t *testing.T) { judge(t, c.name, scenario, r.Of(scenario)) })
			}
			r.explain()
		})
	}
}

// All clients and both header encodings on one topic (case W04): everybody gets everything, byte for byte.
func TestClientsReadEachOther(t *testing.T) {
	t.Parallel()
	const suite = "exchange"
	old := need(t, suite, func() (string, error) { return bed.tools.ClientClassPath("4.9.4") })
	current := need(t, suite, func() (string, error) { return bed.tools.ClientClassPath("5.5.0") })
	binary := need(t, suite, func() (string, error) { return bed.tools.GoClient(bed.dir) })
	script := need(t, suite, bed.tools.NodeProgram)
	clients := map[string]client{
		"old-json":       javaClient("4.9.4", old),
		"old-binary":     javaClient("4.9.4", old, "-Drocketmq.serialize.type=ROCKETMQ"),
		"current-json":   javaClient("5.5.0", current),
		"current-binary": javaClient("5.5.0", current, "-Drocketmq.serialize.type=ROCKETMQ"),
		"go":             goClient(binary),
		"node":           nodeClient(script),
	}
	for _, s := range matrix() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			broker := startBroker(t, s, false)
			run := newRun()
			if err := createTopic(broker.Addr(), "exchange-"+run, 6); err != nil {
				t.Fatal(err)
			}
			processes := map[string]*running{}
			for name, c := range clients {
				processes[name] = c.start(t, broker, run, "self="+name, fmt.Sprintf("peers=%d", len(clients)), "exchange")
			}
			transcripts := map[string][]Event{}
			for name, r := range processes {
				r.finish()
				transcripts[name] = r.Of("exchange")
			}
			complain(t, exchanged(transcripts))
			for _, r := range processes {
				r.explain()
			}
		})
	}
}

// maxMessageSize is the operator's: the refusal must quote the configured limit, not the usual one (case W05).
func TestConfiguredBodyLimit(t *testing.T) {
	t.Parallel()
	const suite = "body-limit"
	current := need(t, suite, func() (string, error) { return bed.tools.ClientClassPath("5.5.0") })
	binary := need(t, suite, func() (string, error) { return bed.tools.GoClient(bed.dir) })
	s := matrix()[0]
	values := map[string]string{"maxMessageSize": "65536"}
	maps.Copy(values, s.values)
	broker := startBroker(t, settings{s.name, values}, true)
	for _, c := range []client{javaClient("5.5.0", current), goClient(binary)} {
		t.Run(c.name, func(t *testing.T) { runScenarios(t, c, broker, []string{"limit=65536"}, "bodies") })
	}
}

func TestMqadmin494(t *testing.T) { mqadminSuite(t, "4.9.4") }
func TestMqadmin550(t *testing.T) { mqadminSuite(t, "5.5.0") }

// mqadminSuite runs the tool as an operator would: exit code 0 and data that is right. The tool exits with 0 after most
// failures as well, so the data is what counts.
func mqadminSuite(t *testing.T, version string) {
	t.Parallel()
	classPath := need(t, "mqadmin-"+version, func() (string, error) { return bed.tools.ClientClassPath(version) })
	row := matrix()[0]
	named := settings{row.name, map[string]string{"brokerName": "broker-a"}} // what the original's broker.conf says
	maps.Copy(named.values, row.values)
	broker := startBroker(t, named, false)
	home := t.TempDir()
	if err := writeToolsLogging(home); err != nil {
		t.Fatal(err)
	}
	admin := func(arguments ...string) string {
		t.Helper()
		var out strings.Builder
		line := append(append(toolsLine(home, classPath, "org.apache.rocketmq.tools.command.MQAdminStartup"), arguments...), "-n", broker.NameServer())
		p, err := StartProcess("mqadmin", filepath.Join(home, "mqadmin.log"), command(home, "java", line...), func(l []byte) {
			out.Write(l)
			out.WriteByte('\n')
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(clientMax); err != nil {
			t.Errorf("mqadmin %v: %v\n%s", arguments, err, LogTail(p.LogFile))
		}
		return out.String()
	}
	expect := func(out string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("mqadmin's output lacks %q:\n%s", part, out)
			}
		}
	}
	topic, other := "admin-"+newRun(), "admin-"+newRun()
	expect(admin("updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", "7", "-w", "5"), "create topic to "+broker.Addr()+" success",
		"readQueueNums=7", "writeQueueNums=5")
	expect(admin("updateTopic", "-b", broker.Addr(), "-t", other), "create topic to "+broker.Addr()+" success", "readQueueNums=8")
	route := strings.NewReplacer(" ", "", "\t", "", "\n", "").Replace(admin("topicRoute", "-t", topic))
	expect(route, broker.Addr(), `"readQueueNums":7`, `"writeQueueNums":5`, `"perm":6`, `"cluster":"DefaultCluster"`)
	expect(admin("topicList"), topic+"\n", other+"\n", templateTopic+"\n")
	expect(admin("topicList", "-c"), "DefaultCluster", topic)
	expect(admin("clusterList"), "DefaultCluster", broker.Addr(), "broker-a")

	// A message is found by each of its names. The index follows within milliseconds; the tool takes longer to start.
	// Its sends give up after 3 s, which a machine full of Java starting up can take: what was given up may be stored, so each try has
	// keys of its own.
	var own, shared string
	for try, sent := 1, false; !sent; try++ {
		own, shared = fmt.Sprintf("order-1-%d", try), fmt.Sprintf("order-2-%d", try)
		first := admin("sendMessage", "-t", topic, "-p", "found me", "-k", own+" "+shared, "-c", "blue")
		second := admin("sendMessage", "-t", topic, "-p", "not me", "-k", shared)
		if sent = strings.Contains(first, "SEND_OK") && strings.Contains(second, "SEND_OK"); !sent && try == 3 {
			t.Fatalf("mqadmin cannot send:\n%s\n%s", first, second)
		}
	}
	rows := regexp.MustCompile(`(?m)^([0-9A-F]{32,}) `).FindAllStringSubmatch(admin("queryMsgByKey", "-t", topic, "-k", own), -1)
	if len(rows) != 1 {
		t.Fatalf("queryMsgByKey finds %d messages, want 1", len(rows))
	}
	if both := regexp.MustCompile(`(?m)^([0-9A-F]{32,}) `).FindAllString(admin("queryMsgByKey", "-t", topic, "-k", shared), -1); len(both) != 2 {
		t.Errorf("queryMsgByKey finds %d messages, want 2", len(both))
	}
	unique := admin("queryMsgByUniqueKey", "-t", topic, "-i", rows[0][1])
	expect(unique, own+" "+shared, "blue", topic)
	position := regexp.MustCompile(`CommitLog Offset: *([0-9]+)`).FindStringSubmatch(unique)
	if position == nil {
		t.Fatalf("no position in:\n%s", unique)
	}
	phy, err := strconv.ParseInt(position[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	offsetID := message.AppendOffsetMsgID(nil, message.HostOf(netip.MustParseAddrPort(broker.Addr())), message.PhyOffset(phy))
	byID := []string{"queryMsgById", "-i", string(offsetID)}
	if version != "4.9.4" {
		byID = append(byID, "-t", topic)
	}
	expect(admin(byID...), own+" "+shared, "blue", topic)
}
