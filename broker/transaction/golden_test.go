package transaction

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/store/storetest"
	"peregrine/wire"
)

// originals reads the records of a log of the original, by position.
func originals(t *testing.T, name string) map[message.PhyOffset]message.View {
	t.Helper()
	views := map[message.PhyOffset]message.View{}
	storetest.Walk(t, filepath.Join("..", "..", "store", "testdata", name+".tar.gz"), func(path string, content []byte) error {
		if !strings.Contains(path, "commitlog/") {
			return nil
		}
		for len(content) > 0 {
			var v message.View
			if message.ParseView(content, &v) != nil {
				return nil
			}
			views[v.PhyOffset] = v
			content = content[v.Size:]
		}
		return nil
	})
	return views
}

// Every half, committed and op message of the original's directory comes out of ours byte for byte, place and time apart.
func TestRecordsAreTheOriginals(t *testing.T) {
	views := originals(t, "clean-5.5.0")
	halves, commits, ops := 0, 0, 0
	for _, v := range views {
		switch {
		case string(v.Topic) == string(halfTopic):
			halves++
			var p message.PropertyMap
			p.Parse(v.Properties)
			topic := append([]byte(nil), p.Get("REAL_TOPIC")...)
			id, _ := parseNumber(p.Get("REAL_QID"))
			for _, added := range []string{"REAL_TOPIC", "REAL_QID", "__transactionId__"} {
				p.Delete(added)
			}
			if _, text := AppendHalfProperties(nil, &p, topic, message.QueueID(id)); !bytes.Equal(text, v.Properties) || v.SysFlag&message.SysFlagTransactionMask != 0 || v.QueueID != 0 {
				t.Errorf("half at %d: %q instead of %q", v.PhyOffset, text, v.Properties)
			}
		case v.SysFlag&message.SysFlagTransactionMask == commit:
			commits++
			var h half
			h.View = views[v.PreparedTransactionOffset]
			h.props.Parse(h.Properties)
			r, ok := h.committed()
			r.PhyOffset, r.QueueOffset, r.StoreTimestamp, r.StoreHost = v.PhyOffset, v.QueueOffset, v.StoreTimestamp, v.StoreHost
			if got, want := encoded(&r), reencoded(&v); !ok || !bytes.Equal(got, want) {
				t.Errorf("committed at %d:\n%q instead of\n%q", v.PhyOffset, got, want)
			}
		case string(v.Topic) == string(opTopic):
			ops++
			var offsets []message.QueueOffset
			eachOp(v.Body, func(half message.QueueOffset) { offsets = append(offsets, half) })
			var body []byte
			for _, o := range offsets {
				body = appendOp(body, o)
			}
			if !bytes.Equal(body, v.Body) || len(offsets) != 6 || !bytes.Equal(opProperties, v.Properties) || v.Flag != 0 || v.SysFlag != 0 {
				t.Errorf("op message: %q, properties %q", v.Body, v.Properties)
			}
		}
	}
	if halves != 9 || commits != 3 || ops != 1 {
		t.Errorf("%d halves, %d commits, %d ops", halves, commits, ops)
	}
	old := 0
	for _, v := range originals(t, "clean-4.9.4") {
		if string(v.Topic) == string(opTopic) {
			eachOp(v.Body, func(message.QueueOffset) { old++ })
		}
	}
	if old != 6 {
		t.Errorf("4.9.4: %d ops were read", old)
	}
}

func encoded(r *message.Record) []byte {
	b := make([]byte, r.Size())
	r.EncodeTo(b)
	return b
}

func reencoded(v *message.View) []byte {
	r := v.Record()
	r.PhyOffset, r.QueueOffset, r.StoreTimestamp, r.StoreHost, r.PreparedTransactionOffset = v.PhyOffset, v.QueueOffset, v.StoreTimestamp, v.StoreHost, v.PreparedTransactionOffset
	return encoded(&r)
}

// The check that the original sent for the half of a Java client: from the half of the same message ours is the same, body byte for byte.
func TestChecksAreTheOriginals(t *testing.T) {
	for _, name := range []string{"frames-java-5.5.0.jsonl", "frames-java-4.9.4.jsonl", "frames-go-2.1.2.jsonl"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "wire", "testdata", "frames", name))
		must(t, err)
		found := 0
		for line := range bytes.Lines(data) {
			var f struct {
				Code int
				Kind string
				Hex  string
			}
			must(t, json.Unmarshal(line, &f))
			if f.Code != 39 {
				continue
			}
			found++
			frame, err := hex.DecodeString(f.Hex)
			must(t, err)
			var d wire.Decoder
			var cmd wire.Command
			must(t, d.Decode(frame[4:], &cmd))
			var want wire.CheckTransactionStateRequestHeader
			must(t, wire.DecodeHeader(&cmd, &want))
			var asked half
			must(t, message.ParseView(cmd.Body, &asked.View))
			copied := asked.View.Record()
			copied.Topic, copied.QueueID = halfTopic, 0
			copied.QueueOffset, copied.PhyOffset, copied.StoreHost = asked.QueueOffset, asked.PhyOffset, asked.StoreHost
			asked.props.Parse(asked.Properties)
			copied.Properties = asked.props.AppendTo(nil)
			b := newBench(t, defaults())
			topic, id, _ := asked.realPlace()
			got := b.checkFrame(&asked, &copied, topic, id)
			var ours wire.Command
			must(t, d.Decode(got[4:], &ours))
			var header wire.CheckTransactionStateRequestHeader
			must(t, wire.DecodeHeader(&ours, &header))
			gotJSON, _ := json.Marshal(header)
			wantJSON, _ := json.Marshal(want)
			if !bytes.Equal(gotJSON, wantJSON) || !bytes.Equal(ours.Body, cmd.Body) || ours.Flag != cmd.Flag {
				t.Errorf("%s:\n%s\n%q instead of\n%s\n%q", name, gotJSON, ours.Body, wantJSON, cmd.Body)
			}
		}
		if found == 0 {
			t.Errorf("%s has no check", name)
		}
	}
}
