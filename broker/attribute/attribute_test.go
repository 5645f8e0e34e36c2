package attribute

import (
	"maps"
	"testing"
)

// Every text was asked of a running 5.5.0 broker.
func TestListsAreReadAsTheOriginalReadsThem(t *testing.T) {
	cases := []struct {
		create  bool
		current map[string]string
		list    string
		want    map[string]string
		wantErr string
	}{
		{true, nil, "", map[string]string{}, ""},
		{true, nil, ",", map[string]string{}, ""},
		{true, nil, "+message.type=FIFO,", map[string]string{"message.type": "FIFO"}, ""},
		{true, nil, "+reserve.time=100", map[string]string{"reserve.time": "100"}, ""},
		{true, nil, "-message.type", nil, "only add attribute is supported while creating topic. key: message.type"},
		{true, nil, "+foo=bar", nil, "unsupported key: foo"},
		{true, nil, "message.type=FIFO", nil, "add/alter attribute format is wrong: message.type"},
		{true, nil, "+message.type=FIFO,+message.type=DELAY", nil, "key duplication: +message.type"},
		{true, nil, "+message.type", nil, "delete attribute format is wrong: +message.type"},
		{true, nil, "+queue.type=bad", nil, "value is not in set: [SimpleCQ, BatchCQ]"},
		{true, nil, "+cleanup.policy=bad", nil, "value is not in set: [DELETE, COMPACTION]"},
		{true, nil, "+message.type=BAD", nil, "value is not in set: [UNSPECIFIED, MIXED, TRANSACTION, PRIORITY, FIFO, DELAY, LITE, NORMAL]"},
		{true, nil, "+reserve.time=abc", nil, `For input string: "abc"`},
		{true, nil, "+reserve.time=-5", nil, "value is not in range(-1, 9223372036854775807)"},
		{true, nil, "+lite.topic.expiration=99999999", nil, "value is not in range(-1, 43200)"},
		{true, nil, "+a+b=1", nil, "kv string format wrong."},
		{true, nil, "+=x", nil, "kv string format wrong."},
		{true, nil, "=x", nil, "add/alter attribute format is wrong: "},
		{true, nil, "-", nil, "kv string format wrong."},
		{true, nil, "-message.type=FIFO", nil, "add/alter attribute format is wrong: -message.type"},
		{true, nil, " +message.type=FIFO , ", nil, "delete attribute format is wrong:  "},
		{true, nil, "x+message.type=FIFO", nil, "kv string format wrong."},
		{false, map[string]string{"message.type": "FIFO"}, "+message.type=DELAY,-message.type", nil, "alter duplication key. key: message.type"},
		{false, map[string]string{"message.type": "FIFO"}, "-message.type", map[string]string{}, ""},
		{false, nil, "-nokey", nil, "attempt to delete a nonexistent key: nokey"},
		{false, nil, "+queue.type=BatchCQ", nil, "attempt to update an unchangeable attribute. key: queue.type"},
		{false, map[string]string{"queue.type": "BatchCQ"}, "-queue.type", nil, "attempt to update an unchangeable attribute. key: queue.type"},
	}
	for _, c := range cases {
		changes, err := ParseList(c.list)
		var got map[string]string
		if err == nil {
			got, err = TopicSet().Alter(c.create, c.current, changes)
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != c.wantErr || !maps.Equal(got, c.want) {
			t.Errorf("%q (create %v, current %v): got %v, error %q; want %v, error %q", c.list, c.create, c.current, got, text, c.want, c.wantErr)
		}
	}
}

func TestKeysWithoutSignAreRefusedForGroups(t *testing.T) {
	if _, err := GroupSet().Alter(false, nil, map[string]string{"priority.factor": "50"}); err == nil || err.Error() != "wrong format key: riority.factor" {
		t.Errorf("got %v", err)
	}
	if _, err := GroupSet().Alter(false, nil, map[string]string{"+priority.factor": "101"}); err == nil || err.Error() != "value is not in range(0, 100)" {
		t.Errorf("got %v", err)
	}
}

func TestAlterLeavesItsArgumentsAlone(t *testing.T) {
	current := map[string]string{"message.type": "FIFO"}
	changes := map[string]string{"+message.type": "DELAY"}
	got, err := TopicSet().Alter(false, current, changes)
	if err != nil || got["message.type"] != "DELAY" || current["message.type"] != "FIFO" {
		t.Errorf("got %v, %v; current is now %v", got, err, current)
	}
}

func FuzzParseList(f *testing.F) {
	f.Add("+message.type=FIFO,-queue.type")
	f.Fuzz(func(t *testing.T, text string) {
		changes, err := ParseList(text)
		if err != nil {
			return
		}
		if got, err := TopicSet().Alter(true, nil, changes); err == nil && len(got) > len(changes) {
			t.Errorf("%q became %v", text, got)
		}
	})
}
