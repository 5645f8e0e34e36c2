package broker

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

// quickChecks makes rounds that a test can wait for.
var quickChecks = []string{"transactionTimeOut=300", "transactionCheckInterval=200", "transactionOpBatchInterval=100"}

// transactional is a client that sends half messages and answers checks.
type transactional struct{ *client }

// begin sends a half message and returns the end that belongs to it.
func (c transactional) begin(topic string, queueID int32, body string, more string) *wire.EndTransactionRequestHeader {
	c.t.Helper()
	h := sendHeader(topic, queueID, "UNIQ_KEY\x01KEY"+body+"\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02"+more)
	h.SysFlag = message.SysFlagTransactionPrepared
	cmd := c.mustSend(h, []byte(body))
	var answer wire.SendMessageResponseHeader
	if err := wire.DecodeHeader(cmd, &answer); err != nil {
		c.t.Fatal(err)
	}
	_, at, err := message.ParseOffsetMsgID([]byte(answer.MsgID))
	if err != nil || answer.QueueID != queueID || answer.TransactionID == nil || *answer.TransactionID != "KEY"+body {
		c.t.Fatalf("answer to a half message: %+v, %v", answer, err)
	}
	return &wire.EndTransactionRequestHeader{ProducerGroup: "PG", TranStateTableOffset: answer.QueueOffset, CommitLogOffset: int64(at), MsgID: "KEY" + body}
}

// end ends a transaction one-way, as the Java client does.
func (c transactional) end(h *wire.EndTransactionRequestHeader, state int32) {
	c.t.Helper()
	h.CommitOrRollback = state
	c.write(wire.AppendRequest(nil, c.enc, wire.RequestEndTransaction, c.next(), wire.FlagOneway, wire.LanguageJava, wire.Version, h, nil))
}

func (c transactional) join() {
	c.t.Helper()
	if cmd := c.call(wire.RequestHeartBeat, nil, []byte(`{"clientID":"tx","producerDataSet":[{"groupName":"PG"}],"consumerDataSet":[]}`)); cmd.Code != 0 {
		c.t.Fatalf("heartbeat: %d %s", cmd.Code, cmd.Remark)
	}
}

// answerChecks answers n checks with what decide says.
func (c transactional) answerChecks(n int, decide func(body string) int32) {
	c.t.Helper()
	for range n {
		cmd := c.receive()
		var h wire.CheckTransactionStateRequestHeader
		var v message.View
		if err := wire.DecodeHeader(cmd, &h); err != nil || wire.RequestCode(cmd.Code) != wire.RequestCheckTransactionState {
			c.t.Fatalf("no check: %d, %v", cmd.Code, err)
		}
		if err := message.ParseView(cmd.Body, &v); err != nil {
			c.t.Fatal(err)
		}
		yes := true
		c.end(&wire.EndTransactionRequestHeader{ProducerGroup: "PG", TranStateTableOffset: h.TranStateTableOffset, CommitLogOffset: h.CommitLogOffset, MsgID: *h.MsgID,
			FromTransactionCheck: &yes}, decide(string(v.Body)))
	}
}

// A transaction by each of its ways, in both flush modes: the half is invisible and keeps what was sent, the commit shows it.
func TestTransactionsEndToEnd(t *testing.T) {
	for _, mode := range []string{"flushDiskType=ASYNC_FLUSH", syncFlush} {
		for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
			t.Run(fmt.Sprintf("%s %v", mode, enc), func(t *testing.T) {
				b := startBroker(t, sysio.NewFaultFS(), "store", append([]string{mode, smallFiles}, quickChecks...)...)
				c := transactional{dial(t, b.addr, enc)}
				c.makeTopic("Tx", 4)
				c.join()
				dial(t, b.addr, enc).mustSend(sendHeader("Tx", 0, ""), []byte("first of the log"))
				c.end(c.begin("Tx", 2, "commit", "TAGS\x01a\x02KEYS\x01k\x02CLUSTER\x01lie\x02REAL_TOPIC\x01lie\x02"), message.SysFlagTransactionCommit)
				c.end(c.begin("Tx", 2, "rollback", ""), message.SysFlagTransactionRollback)
				c.end(c.begin("Tx", 2, "unknown", ""), 0)
				if got := fmt.Sprint(dial(t, b.addr, enc).drain("Tx", 2, 0, 1)); got != "[commit]" {
					t.Errorf("visible: %s", got)
				}
				asked := 0
				c.answerChecks(2, func(body string) int32 {
					if body != "unknown" {
						t.Errorf("%s is checked", body)
					}
					if asked++; asked == 1 {
						return 0
					}
					return message.SysFlagTransactionCommit
				})
				d := dial(t, b.addr, enc)
				if got := fmt.Sprint(d.drain("Tx", 2, 1, 1)); got != "[unknown]" {
					t.Errorf("visible: %s", got)
				}
				v := records(t, d.pull(pullHeader("Tx", 2, 0, "a")).Body)[0]
				want := "MSG_REGION=DefaultRegion|UNIQ_KEY=KEYcommit|CLUSTER=DefaultCluster|PGROUP=PG|__transactionId__=KEYcommit|TAGS=a|TRAN_MSG=true|KEYS=k|TRACE_ON=true|"
				if got := strings.NewReplacer("\x01", "=", "\x02", "|").Replace(string(v.Properties)); got != want || v.SysFlag != message.SysFlagTransactionCommit || v.PreparedTransactionOffset == 0 {
					t.Errorf("committed: sysFlag %d, half at %d\n%s instead of\n%s", v.SysFlag, v.PreparedTransactionOffset, got, want)
				}
				if s := b.Stats().Transactions; s.Commits != 2 || s.Rollbacks != 1 || s.Unknown != 2 || s.Checks != 2 {
					t.Errorf("%+v", s)
				}
				if cmd := d.call(wire.RequestEndTransaction, &wire.EndTransactionRequestHeader{CommitLogOffset: 1, CommitOrRollback: 8, MsgID: "x"}, nil); cmd.Code != 1 || len(cmd.Remark) == 0 {
					t.Errorf("an end of nothing: %d %s", cmd.Code, cmd.Remark)
				}
				cmd := d.call(wire.RequestEndTransaction, &wire.EndTransactionRequestHeader{CommitLogOffset: 1, CommitOrRollback: 5, MsgID: "x"}, nil)
				if cmd.Code != 1 || !strings.Contains(string(cmd.Remark), "commitOrRollback") {
					t.Errorf("an end that is none: %d %s", cmd.Code, cmd.Remark)
				}
			})
		}
	}
}

// What the original would lose or store raw is refused; a delayed retry is no half message, there either.
func TestHalfMessagesThatAreRefused(t *testing.T) {
	b := startBroker(t, sysio.NewFaultFS(), "store", smallFiles)
	c := dial(t, b.addr, wire.EncodingJSON)
	c.makeTopic("Tx", 1)
	for _, more := range []string{"DELAY\x011\x02", "TIMER_DELAY_SEC\x0110\x02"} {
		if cmd := c.send(sendHeader("Tx", 0, "TRAN_MSG\x01TRUE\x02"+more), []byte("x")); wire.ResponseCode(cmd.Code) != wire.ResponseMessageIllegal {
			t.Errorf("%q: code %d", more, cmd.Code)
		}
	}
	b.stop()
	b = startBroker(t, sysio.NewFaultFS(), "store2", smallFiles, "rejectTransactionMessage=true")
	c = dial(t, b.addr, wire.EncodingJSON)
	c.makeTopic("Tx", 1)
	if cmd := c.send(sendHeader("Tx", 0, "TRAN_MSG\x01true\x02"), []byte("x")); wire.ResponseCode(cmd.Code) != wire.ResponseNoPermission {
		t.Errorf("forbidden: code %d", cmd.Code)
	}
}

// Case D13 without the process: what was acknowledged is checked after a restart, whatever its end was.
func TestTransactionsSurviveRestarts(t *testing.T) {
	fsys := sysio.NewFaultFS()
	b := startBroker(t, fsys, "store", append([]string{smallFiles}, quickChecks...)...)
	c := transactional{dial(t, b.addr, wire.EncodingBinary)}
	c.makeTopic("Tx", 1)
	var last *wire.EndTransactionRequestHeader
	for i := range 100 {
		last = c.begin("Tx", 0, fmt.Sprint(i), "")
	}
	c.end(last, message.SysFlagTransactionCommit)
	waitUntil(t, func() bool { return b.transactions.Stats().Commits > 0 })
	if !b.stop() {
		t.Fatal("the stop was not clean")
	}
	b = startBroker(t, fsys, "store", append([]string{smallFiles}, quickChecks...)...)
	c = transactional{dial(t, b.addr, wire.EncodingBinary)}
	c.join()
	c.answerChecks(99, func(body string) int32 {
		if len(body)%2 == 0 {
			return message.SysFlagTransactionCommit
		}
		return message.SysFlagTransactionRollback
	})
	got := map[string]int{}
	for _, body := range dial(t, b.addr, wire.EncodingBinary).drain("Tx", 0, 0, 1+89) {
		got[body]++
	}
	if len(got) != 90 || got["99"] != 1 {
		t.Errorf("%d different messages", len(got))
	}
}

// Cases D09 and D11 with a broker and its clock: within their immunity halves are not checked, then exactly so often, then they lie where an
// operator finds them with all that is needed; one that is resumed is checked again and can commit.
func TestHalvesThatAreGivenUpAreFoundAndResumed(t *testing.T) {
	const halves, checks = 3, 3
	b := startBroker(t, sysio.OS{}, t.TempDir(), append([]string{smallFiles, "transactionCheckMax=3"}, quickChecks...)...)
	c := transactional{dial(t, b.addr, wire.EncodingBinary)}
	c.makeTopic("Tx", 2)
	c.join()
	began := time.Now()
	for i := range halves {
		c.begin("Tx", 1, fmt.Sprint(i), "CHECK_IMMUNITY_TIME_IN_SECONDS\x011\x02")
	}
	asked := map[string]int{}
	c.answerChecks(halves*checks, func(body string) int32 {
		if age := time.Since(began); age < time.Second {
			t.Errorf("%s is checked after %v", body, age)
		}
		asked[body]++
		return 0
	})
	if want := map[string]int{"0": checks, "1": checks, "2": checks}; !maps.Equal(asked, want) {
		t.Errorf("checks: %v", asked)
	}
	waitUntil(t, func() bool { return b.transactions.Stats().GivenUp == halves })
	d := dial(t, b.addr, wire.EncodingBinary)
	d.drain("TRANS_CHECK_MAX_TIME_TOPIC", 0, 0, halves)
	gone := records(t, d.pull(pullHeader("TRANS_CHECK_MAX_TIME_TOPIC", 0, 0, "*")).Body)
	for i := range gone {
		for key, want := range map[string]string{"REAL_TOPIC": "Tx", "TRANSACTION_CHECK_TIMES": "3"} {
			if got, _ := message.GetProperty(gone[i].Properties, key); string(got) != want {
				t.Errorf("half %d: %s=%q", i, key, got)
			}
		}
	}
	if n := b.transactions.Stats().Checks; len(gone) != halves || n != halves*checks {
		t.Fatalf("%d halves are there, %d checks were sent", len(gone), n)
	}
	id := string(message.AppendOffsetMsgID(nil, gone[1].StoreHost, gone[1].PhyOffset))
	if cmd := d.call(wire.RequestResumeCheckHalfMessage, &wire.ResumeCheckHalfMessageRequestHeader{MsgID: id}, nil); cmd.Code != 0 {
		t.Fatalf("resume: %d %s", cmd.Code, cmd.Remark)
	}
	c.answerChecks(1, func(string) int32 { return message.SysFlagTransactionCommit })
	if got := fmt.Sprint(d.drain("Tx", 1, 0, 1)); got != fmt.Sprintf("[%s]", gone[1].Body) {
		t.Errorf("visible: %s", got)
	}
}
