package broker

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"peregrine/internal/sysio"
	"peregrine/wire"
)

// Case R03: every reason for which sends are refused is named as what it is, with path, used share and threshold where it is about
// the disk, and nowhere stands a share below 0.
func TestRefusalsNameTheirCause(t *testing.T) {
	negative := regexp.MustCompile(`(^|[ =:(])-[0-9.]+ ?%|(?i)(percent|ratio|used)[^ =:,]*[ =:"]+-[0-9]`)
	const total = 64 << 20
	for _, c := range []struct {
		name      string
		settings  []string
		provoke   func(b *testBroker, fsys *sysio.FaultFS)
		code      wire.ResponseCode
		says      []string
		silent    []string // what is not the cause
		log       string   // a part of a line
		unhealthy bool
	}{
		{
			name:    "disk over the ratio",
			provoke: func(b *testBroker, fsys *sysio.FaultFS) { fsys.SetCapacity(total, total*93/100) },
			code:    wire.ResponseServiceNotAvailable, unhealthy: true,
			says: []string{"disk full: store/commitlog is ", " % used, threshold 90 %"}, log: "disk full: sends are refused",
		},
		{
			name: "no space although the ratio allows it",
			provoke: func(b *testBroker, fsys *sysio.FaultFS) {
				fsys.SetCapacity(total, total/5)
				fsys.Inject(sysio.Fault{Op: sysio.OpAllocate, Path: "0*", Err: syscall.ENOSPC})
			},
			code: wire.ResponseServiceNotAvailable, unhealthy: true,
			says: []string{"disk full: no space for store/commitlog/0", " % used, threshold 90 %", syscall.ENOSPC.Error()},
			log:  "nothing can be prepared ahead",
		},
		{
			name:    "the store is shutting down",
			provoke: func(b *testBroker, fsys *sysio.FaultFS) { b.stopping.Store(true) },
			code:    wire.ResponseServiceNotAvailable,
			says:    []string{"the broker is shutting down"}, silent: []string{"disk", "%"},
		},
		{
			name:     "the broker may only be read",
			settings: []string{"brokerPermission=4"},
			provoke: func(b *testBroker, fsys *sysio.FaultFS) {
				c := dial(b.t, b.addr, wire.EncodingJSON)
				c.call(wire.RequestUpdateAndCreateTopic, &wire.CreateTopicRequestHeader{Topic: "Refused", DefaultTopic: "TBW102", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6,
					TopicFilterType: "SINGLE_TAG", Order: true}, nil)
			},
			code: wire.ResponseNoPermission,
			says: []string{"the broker[127.0.0.1] sending message is forbidden", "brokerPermission is 4"}, silent: []string{"disk", "%"},
		},
		{
			name: "a directory that cannot be written",
			provoke: func(b *testBroker, fsys *sysio.FaultFS) {
				fsys.Inject(sysio.Fault{Op: sysio.OpOpen | sysio.OpAllocate, Path: "0*", Err: syscall.EROFS})
			},
			code: wire.ResponseServiceNotAvailable, unhealthy: true,
			says: []string{"write failed", "store/commitlog/0", syscall.EROFS.Error()}, silent: []string{"disk full", "%"},
			log: "nothing can be prepared ahead",
		},
		{
			name: "no space, and the disk does not tell its use",
			provoke: func(b *testBroker, fsys *sysio.FaultFS) {
				fsys.Inject(sysio.Fault{Op: sysio.OpUsage, Err: syscall.EIO})
				fsys.Inject(sysio.Fault{Op: sysio.OpAllocate, Path: "0*", Err: syscall.ENOSPC})
			},
			code: wire.ResponseServiceNotAvailable, unhealthy: true,
			says:   []string{"no space for store/commitlog/0", "the disk does not tell its use, threshold 90 %", syscall.ENOSPC.Error()},
			silent: []string{"% used"}, log: "the disk does not tell its space",
		},
		{
			name: "only statfs fails",
			provoke: func(b *testBroker, fsys *sysio.FaultFS) {
				fsys.Inject(sysio.Fault{Op: sysio.OpUsage, Err: syscall.EIO})
			},
			code: wire.ResponseSuccess, silent: []string{"disk"}, log: "the disk does not tell its space",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := sysio.NewFaultFS()
			b := startBroker(t, fsys, "store", append(c.settings, smallFiles)...)
			client := dial(t, b.addr, wire.EncodingBinary)
			if c.settings == nil {
				client.mustSend(sendHeader("Refused", 0, ""), []byte("x"))
			}
			c.provoke(b, fsys)
			body := make([]byte, 100<<10)
			var remark string
			health := ""
			settled := func() bool {
				r := client.send(sendHeader("Refused", 0, ""), body)
				remark = string(r.Remark)
				if err := b.store.Health(); err != nil {
					health = err.Error()
				}
				return wire.ResponseCode(r.Code) == c.code && (health != "") == c.unhealthy && strings.Contains(b.lines.String(), c.log)
			}
			for deadline := time.Now().Add(waitMax); !settled(); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("last remark %q, health %q, log:\n%s", remark, health, b.lines.String())
				}
			}
			for _, part := range c.says {
				if !strings.Contains(remark, part) {
					t.Errorf("the refusal %q does not say %q", remark, part)
				}
				if c.unhealthy && !strings.Contains(health, part) {
					t.Errorf("the health %q does not say %q", health, part)
				}
			}
			for _, part := range c.silent {
				if strings.Contains(remark, part) {
					t.Errorf("the refusal %q speaks of %q", remark, part)
				}
			}
			for _, text := range []string{remark, health, b.lines.String(), string(client.call(wire.RequestGetBrokerRuntimeInfo, nil, nil).Body)} {
				if found := negative.FindString(text); found != "" {
					t.Errorf("%q in %s", found, text)
				}
			}
			fsys.SetCapacity(0, 0)
		})
	}
	for _, text := range []string{"-1 % used", "usedPercent=-1", `"commitLogDiskRatio":"-1"`, "is -1 %"} {
		if !negative.MatchString(text) {
			t.Errorf("%s would not be noticed", text)
		}
	}
}

// A send to a topic that only the broker writes is refused and leaves no trace, also where that topic is made by its first use: the
// original makes TRANS_CHECK_MAX_TIME_TOPIC with one queue when it gives up a half message, never for a producer.
func TestForbiddenSendsMakeNoTopic(t *testing.T) {
	b := startBroker(t, sysio.NewFaultFS(), "store")
	c := dial(t, b.addr, wire.EncodingJSON)
	before := b.topics.Count()
	for _, topic := range []string{"TRANS_CHECK_MAX_TIME_TOPIC", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"} {
		cmd := c.send(sendHeader(topic, 0, ""), []byte("body"))
		if want := "Sending message to topic[" + topic + "] is forbidden."; wire.ResponseCode(cmd.Code) != wire.ResponseNoPermission || string(cmd.Remark) != want {
			t.Errorf("%s: code %d %q, want 16 %q", topic, cmd.Code, cmd.Remark, want)
		}
	}
	if after := b.topics.Count(); after != before {
		t.Errorf("%d topics before, %d after refused sends", before, after)
	}
}
