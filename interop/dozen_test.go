package interop

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"peregrine/wire"
)

// dozen are the commands of an operator's day. TRAFFIC stands for what clients do meanwhile, SAMPLES for the wait until the broker's
// statistics have seen it. {t} is a topic with traffic; On and Off are groups of it, the latter offline by now.
const dozen = `
updateTopic -b {broker} -t {t} -r 4 -w 4
updateTopic -c DefaultCluster -t Empty{run} -r 2 -w 3 -p 4
updateSubGroup -b {broker} -g On{run}
updateSubGroup -c DefaultCluster -g Off{run} -r 3
TRAFFIC
clusterList
clusterList -m
brokerStatus -b {broker}
topicList
topicList -c
topicRoute -t {t}
topicRoute -t NoSuch
topicStatus -t {t}
topicStatus -t NoSuch
consumerProgress -g On{run}
consumerProgress -g Off{run}
consumerProgress -g Never{run}
consumerProgress
consumerConnection -g On{run}
consumerConnection -g Off{run}
consumerConnection -g Never{run}
producerConnection -g P{run} -t {t}
producerConnection -g Never{run} -t {t}
queryMsgByKey -t {t} -k order-3
queryMsgByKey -t {t} -k shared
queryMsgByKey -t {t} -k nobody
queryMsgById -i {id}
queryMsgByUniqueKey -i {unique} -t {t}
queryMsgByUniqueKey -i nobody -t {t}
queryMsgByOffset -t {t} -b broker-a -i 1 -o 2
queryMsgByOffset -t {t} -b broker-a -i 1 -o 9
printMsg -t {t} -d true
printMsg -t {t} -s red
consumeMessage -t {t}
consumeMessage -t {t} -b broker-a -i 1 -o 1 -c 1
sendMessage -t {t} -p hello -k k -c green -b broker-a -i 3
sendMessage -t Made{run} -p hello -b broker-a -i 0
getBrokerConfig -b {broker}
updateBrokerConfig -b {broker} -k fileReservedTime -v 50
updateBrokerConfig -b {broker} -k brokerConfigPath -v elsewhere
cleanExpiredCQ -b {broker}
cleanExpiredCQ -c DefaultCluster
brokerConsumeStats -b {broker}
brokerConsumeStats -b {broker} -l 3
SAMPLES
statsAll
statsAll -t {t}
statsAll -a
resetOffsetByTime -g On{run} -t {t} -s 0
resetOffsetByTime -g Off{run} -t {t} -s now
resetOffsetByTime -g Never{run} -t {t} -s now
consumerProgress -g Off{run}
skipAccumulatedMessage -g On{run} -t {t}
skipAccumulatedMessage -g Never{run} -t {t}
consumerProgress -g On{run}
deleteSubGroup -b {broker} -g Off{run}
consumerProgress -g Off{run}
deleteSubGroup -c DefaultCluster -g Off{run}
deleteSubGroup -c DefaultCluster -g Never{run}
deleteTopic -t Empty{run} -c DefaultCluster
deleteTopic -t {t} -c DefaultCluster
deleteTopic -t NoSuch -c DefaultCluster
topicList
topicRoute -t {t}
`

// Rows of these come in the order of hash tables.
var unorderedCommands = []string{"topicList", "consumerProgress", "brokerConsumeStats", "statsAll", "resetOffsetByTime", "skipAccumulatedMessage"}

// differentStatus are the lines of brokerStatus that COMPATIBILITY.md says something about: the original's thread pools and the
// times of single puts and gets have no counterpart.
var differentStatus = regexp.MustCompile(`ThreadPoolQueueCapacity$|^(getMessageEntireTimeMax|putLatency99|putLatency999|putMessageDistributeTime|putMessageEntireTimeMax)$`)

// differentSettings are keys that need not have equal values: places, addresses, what the harness sets, keys that the original does
// not print without a value, and one that it computes for filters.
var differentSettings = regexp.MustCompile(`^(|listenPort|haListenPort|namesrvAddr|bindAddress|brokerIP2|storePath.*|readOnlyCommitLogStorePaths|waitTimeMillsIn(Send|Pull)Queue|` +
	`osPageCacheBusyTimeOutMills|authenticationEnabled|authorizationEnabled|tlsServerMode|bitMapLengthConsumeQueueExt)$`)

const (
	dozenQueues   = 4
	dozenMessages = 12
	// samplesWait is how long the statistics may need to see the traffic; both brokers sample every 10 s.
	samplesWait = 60 * time.Second
)

// operator is one mqadmin at one broker.
type operator struct {
	broker  Broker
	tools   *Mqadmin
	version string
	run     string // distinguishes topics and groups of the two versions of mqadmin
	online  *RawClient
	id      string            // offset id of a message
	counted map[string]string // by statistics and key: what code 315 says after the traffic
}

func (o *operator) topic() string { return "Dozen" + o.run }

// uniqueKey of message n: what a client would have made, the same on both brokers.
func (o *operator) uniqueKey(n int) string { return fmt.Sprintf("7F000001AA%s%020X", o.run, n) }

// ask sends one request that has to succeed; the answer is valid until the next one.
func ask(c *RawClient, code wire.RequestCode, header any, body string) (*wire.Command, error) {
	cmd, err := c.Call(code, header, []byte(body))
	if err == nil && cmd.Code != 0 {
		err = fmt.Errorf("code %d: answer %d, %s", code, cmd.Code, cmd.Remark)
	}
	return cmd, err
}

// consumer makes the connection a consumer of the group, and a producer if one is named.
func (o *operator) consumer(c *RawClient, group, producers string) error {
	_, err := ask(c, wire.RequestHeartBeat, nil, `{"clientID":"127.0.0.1@`+group+`","producerDataSet":[`+producers+`],"consumerDataSet":[{"groupName":"`+group+
		`","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[`+
		`{"topic":"`+o.topic()+`","subString":"red || blue","tagsSet":["red","blue"],"codeSet":[112785,3027034],"subVersion":1,"expressionType":"TAG"}]}]}`)
	return err
}

// traffic gives the broker what the commands speak of, and returns when queues and index know it.
func (o *operator) traffic() error {
	var err error
	if o.online, err = DialRaw(o.broker.Addr()); err != nil {
		return err
	}
	c := o.online
	if err := o.consumer(c, "On"+o.run, `{"groupName":"P`+o.run+`"}`); err != nil {
		return err
	}
	offline, err := DialRaw(o.broker.Addr())
	if err != nil {
		return err
	}
	err = o.consumer(offline, "Off"+o.run, "")
	offline.Close()
	if err != nil {
		return err
	}
	for n := range dozenMessages {
		properties := fmt.Sprintf("KEYS\x01order-%d shared\x02UNIQ_KEY\x01%s\x02WAIT\x01true\x02TAGS\x01%s\x02", n, o.uniqueKey(n), []string{"red", "blue"}[n%2])
		cmd, err := c.Send(SendHeader(o.topic(), int32(n%dozenQueues), properties), fmt.Appendf(nil, "body %d", n))
		if err != nil || cmd.Code != 0 {
			return fmt.Errorf("send %d: %v %w", n, cmd, err)
		}
		id, _ := cmd.GetExt("msgId")
		o.id = string(id)
	}
	// Each group has committed on three of four queues.
	for group, offsets := range map[string][]int64{"On": {3, 3, 1}, "Off": {1, 2, 3}} {
		for id, offset := range offsets {
			if _, err := ask(c, wire.RequestUpdateConsumerOffset, wire.UpdateConsumerOffsetRequestHeader{ConsumerGroup: group + o.run, Topic: o.topic(),
				QueueID: int32(id), CommitOffset: offset}, ""); err != nil {
				return err
			}
		}
	}
	last := fmt.Sprintf("order-%d", dozenMessages-1)
	if err := eventually(clientMax, func() error {
		_, err := ask(c, wire.RequestQueryMessage, wire.QueryMessageRequestHeader{Topic: o.topic(), Key: last, MaxNum: 1, EndTimestamp: 1 << 60}, "")
		return err
	}); err != nil {
		return err
	}
	for id := range dozenQueues {
		h := PullHeader(o.topic(), int32(id), 0)
		h.ConsumerGroup = []byte("On" + o.run)
		cmd, err := c.Pull(h)
		if err != nil || cmd.Code != 0 {
			return fmt.Errorf("pull: %v %w", cmd, err)
		}
	}
	return nil
}

// statistics are names that code 315 is asked for. The original measures how far pulls fall behind (FALL), but does not tell it by
// this code.
var statistics = []string{"TOPIC_PUT_NUMS {t}", "TOPIC_PUT_SIZE {t}", "TOPIC_PUT_NUMS Made{run}", "TOPIC_PUT_NUMS NoSuch", "GROUP_GET_NUMS {t}@On{run}",
	"GROUP_GET_SIZE {t}@On{run}", "GROUP_GET_NUMS {t}@Never{run}", "GROUP_GET_FALL_SIZE 1@{t}@On{run}", "GROUP_GET_FALL_SIZE {t}@On{run}",
	"GROUP_GET_FALL_TIME 1@{t}@On{run}", "GROUP_GET_FALL_TIME {t}@On{run}", "SNDBCK_PUT_NUMS {t}@On{run}", "NO_SUCH_NUMS {t}"}

// samples waits until the statistics have what the commands before have sent and the group has got, and keeps them.
func (o *operator) samples() error {
	return eventually(samplesWait, func() error {
		o.counted = map[string]string{}
		for _, line := range statistics {
			name, key, _ := strings.Cut(o.fill(line), " ")
			cmd, err := o.online.Call(wire.RequestViewBrokerStatsData, wire.ViewBrokerStatsDataRequestHeader{StatsName: name, StatsKey: key}, nil)
			if err != nil {
				return err
			}
			o.counted[line] = fmt.Sprintf("code %d %s", cmd.Code, cmd.Remark)
			if cmd.Code != 0 {
				continue
			}
			var data struct {
				StatsMinute struct{ Sum int }
			}
			if err := json.Unmarshal(cmd.Body, &data); err != nil {
				return err
			}
			o.counted[line] = fmt.Sprint(data.StatsMinute.Sum)
		}
		for line, want := range map[string]int{statistics[0]: dozenMessages + 1, statistics[2]: 1, statistics[4]: dozenMessages} {
			if got := o.counted[line]; got != fmt.Sprint(want) {
				return fmt.Errorf("%s: %s, want %d", line, got, want)
			}
		}
		return nil
	})
}

// eventually tries until there is no error any more, or the time is over.
func eventually(within time.Duration, try func() error) error {
	for deadline := time.Now().Add(within); ; time.Sleep(readyPoll) {
		if err := try(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// day runs all commands and returns what each printed.
func (o *operator) day() (pages []string, err error) {
	for _, line := range dozenLines() {
		page := ""
		switch line {
		case "TRAFFIC":
			err = o.traffic()
		case "SAMPLES":
			err = o.samples()
		default:
			var stderr string
			page, stderr, err = o.tools.Run(append(strings.Fields(o.fill(line)), "-n", o.broker.NameServer())...)
			page += stderr
		}
		if err != nil {
			return pages, fmt.Errorf("%s: %w", line, err)
		}
		pages = append(pages, page)
	}
	return pages, nil
}

func dozenLines() []string { return strings.Split(strings.TrimSpace(dozen), "\n") }

func (o *operator) fill(line string) string {
	id := o.id
	if o.version != "4.9.4" {
		id += " -t " + o.topic()
	}
	return strings.NewReplacer("{broker}", o.broker.Addr(), "{t}", o.topic(), "{run}", o.run, "{id}", id, "{unique}", o.uniqueKey(5)).Replace(line)
}

// What has to differ between two brokers that do the same: addresses, times, rates, sizes of the disk, and ids made of them.
var masks = []struct {
	what *regexp.Regexp
	mask string
}{
	{regexp.MustCompile(`(?m)^\s*(at \S+\(.*|\.\.\. \d+ more)\n`), ""},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d([,:.]\d{3})?`), "TIME"},
	{regexp.MustCompile(`\b1\d{12}\b`), "MS"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`7F000001[0-9A-F]{8}([0-9A-F]{16})`), "7F000001PORT$1"},
	{regexp.MustCompile(`(SEND_OK +)[0-9A-F]{32,}`), "${1}ID"}, // made by the tool
	{regexp.MustCompile(`\d+\.\d{2,}`), "RATE"},
	{regexp.MustCompile(`\d+-\d+(\(\d+\.\dw)`), "TIMER$1"}, // of clusterList: how far behind its timers are
	{regexp.MustCompile(`(CLUSTERING +)\d+`), "${1}RATE"},  // of consumerProgress, a whole number
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(`(?m) $`), ""},
}

var propertiesPattern = regexp.MustCompile(`\{[A-Z_]+=[^{}\n]*\}`)

// comparable is a page without what has to differ.
func comparable(command, page string) string {
	for _, m := range masks {
		page = m.what.ReplaceAllString(page, m.mask)
	}
	// The original stores properties in the order of a hash table, which shows where two collide.
	page = propertiesPattern.ReplaceAllStringFunc(page, func(properties string) string {
		list := strings.Split(strings.Trim(properties, "{}"), ", ")
		slices.Sort(list)
		return "{" + strings.Join(list, ", ") + "}"
	})
	if slices.Contains(unorderedCommands, command) {
		lines := strings.Split(page, "\n")
		slices.Sort(lines)
		page = strings.Join(lines, "\n")
	}
	return page
}

// table reads the lines NAME SEPARATOR VALUE of a page.
func table(page, separator string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(page) {
		if name, value, ok := strings.Cut(line, separator); ok {
			values[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return values
}

// sameStatus compares two pages of brokerStatus: the same lines, numbers where numbers are, and equal sums.
func sameStatus(ours, theirs string) (found problems) {
	number := regexp.MustCompile(`\d+(\.\d+)?`)
	o, t := table(ours, ":"), table(theirs, ":")
	for name, want := range t {
		got, ok := o[name]
		if strings.HasPrefix(name, "commitLogDiskRatio_") || differentStatus.MatchString(name) {
			continue
		}
		switch {
		case !ok:
			found.addf("%s is missing", name)
		case strings.HasSuffix(name, "Tps"): // the original prints what it has sampled: none to three numbers
			if fields := strings.Fields(got); len(fields) != 3 && !strings.HasPrefix(name, "timer") {
				found.addf("%s is %q, three numbers expected", name, got)
			}
		case strings.HasSuffix(name, "Ratio"), strings.HasSuffix(name, "Capacity"), strings.HasSuffix(name, "imestamp"), name == "runtime",
			strings.HasPrefix(name, "remain"), name == "earliestMessageTimeStamp", strings.HasSuffix(name, "Behind"):
			got, want = number.ReplaceAllString(got, "N"), number.ReplaceAllString(want, "N")
			if name == "remainHowManyDataToFlush" {
				got, want = strings.Fields(got)[0], strings.Fields(want)[0]
			}
			if got != want {
				found.addf("%s has the form %q, want %q", name, got, want)
			}
		case got != want:
			found.addf("%s is %q, want %q", name, got, want)
		}
	}
	for name := range o {
		if _, ok := t[name]; !ok && !strings.HasPrefix(name, "commitLogDiskRatio_") {
			found.addf("%s is not in the original's page", name)
		}
	}
	return found
}

// sameSettings compares two pages of getBrokerConfig: every key that peregrine has in common with the original has the same value. The
// original has some hundred more, about parts that peregrine does not have.
func sameSettings(ours, theirs string) (found problems) {
	o, t := table(ours, "="), table(theirs, "=")
	common := 0
	for name, got := range o {
		want, ok := t[name]
		switch {
		case strings.HasPrefix(name, "peregrine."), differentSettings.MatchString(name):
		case !ok:
			found.addf("%s is not a key of the original", name)
		case got != want:
			found.addf("%s is %q, want %q", name, got, want)
		default:
			common++
		}
	}
	if common < 80 {
		found.addf("only %d keys in common", common)
	}
	return found
}

// sameDay compares all pages.
func sameDay(ours, theirs []string) (found problems) {
	speaking := 0
	for i, line := range dozenLines() {
		command, _, _ := strings.Cut(line, " ")
		switch command {
		case "TRAFFIC", "SAMPLES":
		case "brokerStatus":
			for _, p := range sameStatus(ours[i], theirs[i]) {
				found.addf("%s: %s", line, p)
			}
		case "getBrokerConfig":
			for _, p := range sameSettings(ours[i], theirs[i]) {
				found.addf("%s: %s", line, p)
			}
		default:
			if got, want := comparable(command, ours[i]), comparable(command, theirs[i]); got != want {
				found.addf("%s prints\n%s\nwant\n%s", line, got, want)
			} else if strings.TrimSpace(got) != "" {
				speaking++
			}
		}
	}
	if speaking < 50 { // queryMsgByOffset beyond the end prints nothing
		found.addf("only %d commands printed anything", speaking)
	}
	return found
}

// Both versions of mqadmin print the same about peregrine and about the original after the same traffic: what an operator does all
// day, mistakes included.
func TestOperatorsDailyDozen(t *testing.T) {
	t.Parallel()
	const suite = "dozen"
	versions := []string{"4.9.4", "5.5.0"}
	paths := map[string]string{}
	for _, version := range versions {
		paths[version] = need(t, suite, func() (string, error) { return bed.tools.ClientClassPath(version) })
	}
	need(t, suite, func() (string, error) { return bed.tools.ServerClassPath(apacheVersion) })
	original, err := startApache(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = original.Stop(syscall.SIGKILL) })
	row := matrix()[0]
	values := shippedBrokerConf()
	maps.Copy(values, row.values)
	ours := startBroker(t, settings{row.name, values}, true)
	for run, version := range versions {
		var pages [2][]string
		var counted [2]map[string]string
		var wg sync.WaitGroup
		for i, broker := range []Broker{ours, original} {
			wg.Go(func() {
				tools, err := StartMqadmin(paths[version], t.TempDir())
				if err != nil {
					t.Error(err)
					return
				}
				defer tools.Close()
				o := &operator{broker: broker, tools: tools, version: version, run: fmt.Sprint(10 + run)}
				if pages[i], err = o.day(); err != nil {
					t.Error(err)
				}
				counted[i] = o.counted
				if o.online != nil {
					o.online.Close()
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		for _, problem := range sameDay(pages[0], pages[1]) {
			t.Errorf("mqadmin %s: %s", version, problem)
		}
		for _, line := range statistics {
			if got, want := counted[0][line], counted[1][line]; got != want {
				t.Errorf("statistics %s: %s, want %s", line, got, want)
			}
		}
	}
}
