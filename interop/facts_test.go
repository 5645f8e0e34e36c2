package interop

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"peregrine/internal/message"
	"peregrine/wire"
)

// facts is what a broker answers about its directory, an entry for each question: two brokers that answer alike have equal facts.
type facts map[string]string

// observer asks one broker everything.
type observer struct {
	c     *RawClient
	facts facts
	asked map[string]bool // topic and key of the questions 12 so far
}

// testTopics tells which topics count: those of the test, and those of the brokers that hold its messages.
func testTopic(name string) bool {
	switch name {
	case message.ScheduleTopic, "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer":
		return true
	}
	return strings.HasPrefix(strings.TrimPrefix(name, "%RETRY%"), "Cross")
}

// observe asks a broker for topics, groups, consumer offsets, the ends of all queues, every message by queue, by key and by
// position, and searches by time. Messages are compared as stored bytes: bodies, properties, hosts, times, positions.
func observe(addr string) (facts, error) {
	c, err := DialRaw(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	o := &observer{c: c, facts: facts{}, asked: map[string]bool{}}
	topics, err := o.topics()
	if err != nil {
		return nil, err
	}
	if err := o.table("group", wire.RequestGetAllSubscriptionGroupConfig, "subscriptionGroupTable", nil); err != nil {
		return nil, err
	}
	if err := o.table("consumer offsets", wire.RequestGetAllConsumerOffset, "offsetTable", nil); err != nil {
		return nil, err
	}
	for topic, queues := range topics {
		for id := range queues {
			if err := o.queue(topic, id); err != nil {
				return nil, fmt.Errorf("%s-%d: %w", topic, id, err)
			}
		}
	}
	return o.facts, nil
}

// table notes the members of one object of a JSON answer, each as it is apart from the order of its members.
func (o *observer) table(what string, code wire.RequestCode, member string, each func(name string, value map[string]any)) error {
	cmd, err := o.c.Call(code, nil, nil)
	if err != nil {
		return err
	}
	var body map[string]json.RawMessage
	var table map[string]map[string]any
	if err := json.Unmarshal(quoteBareKeys(cmd.Body), &body); err != nil {
		return fmt.Errorf("code %d: %w", code, err)
	}
	if err := json.Unmarshal(body[member], &table); err != nil {
		return fmt.Errorf("code %d: %w", code, err)
	}
	for name, value := range table {
		if each != nil {
			each(name, value)
		}
		if !testTopic(name) || name == message.ScheduleTopic {
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		o.facts[what+" "+name] = string(text)
	}
	return nil
}

// topics returns how many queues each topic has.
func (o *observer) topics() (map[string]int32, error) {
	queues := map[string]int32{}
	err := o.table("topic", wire.RequestGetAllTopicConfig, "topicConfigTable", func(name string, value map[string]any) {
		if testTopic(name) {
			read, _ := value["readQueueNums"].(float64)
			write, _ := value["writeQueueNums"].(float64)
			queues[name] = int32(max(read, write))
		}
	})
	return queues, err
}

// offset asks one of the questions whose answer is an offset.
func (o *observer) offset(code wire.RequestCode, header any) (int64, error) {
	cmd, err := o.c.Call(code, header, nil)
	if err != nil {
		return 0, err
	}
	var h wire.OffsetResponseHeader
	if cmd.Code != 0 {
		return 0, fmt.Errorf("code %d: answer %d %s", code, cmd.Code, cmd.Remark)
	}
	return h.Offset, decodeOffset(cmd, &h)
}

func decodeOffset(cmd *wire.Command, h *wire.OffsetResponseHeader) error {
	return wire.DecodeHeader(cmd, h)
}

func (o *observer) queue(topic string, id int32) error {
	least, err := o.offset(wire.RequestGetMinOffset, &wire.TopicQueueRequestHeader{Topic: topic, QueueID: id})
	if err != nil {
		return err
	}
	most, err := o.offset(wire.RequestGetMaxOffset, &wire.GetMaxOffsetRequestHeader{Topic: topic, QueueID: id})
	if err != nil {
		return err
	}
	o.facts[fmt.Sprintf("queue %s-%d", topic, id)] = fmt.Sprintf("from %d to %d", least, most)
	if least == most {
		return nil
	}
	type question struct {
		view message.View // its slices are not valid
		keys []string
		uniq string
		sum  string
	}
	var found []question
	next, err := o.c.ReadQueue(topic, id, least, func(v *message.View) error {
		q := question{view: *v, sum: recordSum(v)}
		keys, _ := message.GetProperty(v.Properties, message.PropertyKeys)
		uniq, _ := message.GetProperty(v.Properties, message.PropertyUniqKey)
		q.keys, q.uniq = strings.Fields(string(keys)), string(uniq)
		found = append(found, q)
		return nil
	})
	if err != nil {
		return err
	}
	if next != most {
		return fmt.Errorf("messages end at %d, the queue at %d", next, most)
	}
	times := map[message.Millis]bool{}
	for i := range found {
		q := &found[i]
		o.facts[fmt.Sprintf("message %s-%d at %d", topic, id, q.view.QueueOffset)] = q.sum
		if i%7 == 0 || i == len(found)-1 {
			for d := message.Millis(-1); d <= 1; d++ {
				times[q.view.StoreTimestamp+d] = true
			}
		}
		cmd, err := o.c.Call(wire.RequestViewMessageByID, &wire.ViewMessageRequestHeader{Topic: &topic, Offset: int64(q.view.PhyOffset)}, nil)
		if err != nil {
			return err
		}
		var v message.View
		if cmd.Code != 0 || message.ParseView(cmd.Body, &v) != nil || recordSum(&v) != q.sum {
			return fmt.Errorf("by its position %d the message at %d is not the same: answer %d %s", q.view.PhyOffset, q.view.QueueOffset, cmd.Code, cmd.Remark)
		}
		for _, key := range q.keys {
			if err := o.byKey(topic, key, false); err != nil {
				return err
			}
		}
		if q.uniq != "" {
			if err := o.byKey(topic, q.uniq, true); err != nil {
				return err
			}
		}
	}
	for t := range times {
		for _, boundary := range []string{"LOWER", "UPPER"} {
			at, err := o.offset(wire.RequestSearchOffsetByTimestamp, &wire.SearchOffsetRequestHeader{Topic: topic, QueueID: id, Timestamp: int64(t), BoundaryType: &boundary})
			if err != nil {
				return err
			}
			o.facts[fmt.Sprintf("search %s %s-%d at time %d", boundary, topic, id, t)] = fmt.Sprint(at)
		}
	}
	return nil
}

// recordSum names a stored record: the same text means the same bytes.
func recordSum(v *message.View) string {
	// The three slices and the fixed fields are all there is in a record.
	fixed := *v
	fixed.Topic, fixed.Body, fixed.Properties = nil, nil, nil
	sum := sha256.New()
	sum.Write(v.Body)
	return fmt.Sprintf("%+v topic %q properties %q body of %d bytes %x", fixed, v.Topic, v.Properties, len(v.Body), sum.Sum(nil)[:8])
}

// indexMax is how long an index may need after a start.
const indexMax = time.Minute

// byKey notes the positions of a topic's messages with that key.
func (o *observer) byKey(topic, key string, unique bool) error {
	question := fmt.Sprintf("key %s %q unique %v", topic, key, unique)
	if o.asked[question] {
		return nil
	}
	o.asked[question] = true
	cmd, err := o.c.Call(wire.RequestQueryMessage, &wire.QueryMessageRequestHeader{Topic: topic, Key: key, MaxNum: 64, EndTimestamp: math.MaxInt64,
		UniqueKeyQuery: unique}, nil)
	// peregrine checks its index behind the ready line, and says so until it is through.
	for until := time.Now().Add(indexMax); err == nil && bytes.Contains(cmd.Remark, []byte("the index is incomplete")) && time.Now().Before(until); {
		time.Sleep(50 * time.Millisecond)
		cmd, err = o.c.Call(wire.RequestQueryMessage, &wire.QueryMessageRequestHeader{Topic: topic, Key: key, MaxNum: 64, EndTimestamp: math.MaxInt64,
			UniqueKeyQuery: unique}, nil)
	}
	if err != nil {
		return err
	}
	// The original answers with what has the same hash, as often as its index names it; its clients filter, and so does this.
	at := map[message.PhyOffset]bool{}
	for body := cmd.Body; len(body) > 0; {
		var v message.View
		if err := message.ParseView(body, &v); err != nil {
			return err
		}
		body = body[v.Size:]
		name := message.PropertyKeys
		if unique {
			name = message.PropertyUniqKey
		}
		value, _ := message.GetProperty(v.Properties, name)
		if string(v.Topic) == topic && (string(value) == key || !unique && slices.Contains(strings.Fields(string(value)), key)) {
			at[v.PhyOffset] = true
		}
	}
	o.facts[question] = fmt.Sprintf("answer %d: %v", cmd.Code, slices.Sorted(maps.Keys(at)))
	return nil
}

// count says how many facts begin with a word.
func (f facts) count(what string) (n int) {
	for name := range f {
		if strings.HasPrefix(name, what+" ") {
			n++
		}
	}
	return n
}

// factsDiffer lists what is not the same in both.
func factsDiffer(before, after facts) (list []string) {
	for name, was := range before {
		if is, there := after[name]; !there {
			list = append(list, name+": gone; it was "+was)
		} else if is != was {
			list = append(list, name+": "+is+"; it was "+was)
		}
	}
	for name, is := range after {
		if _, there := before[name]; !there {
			list = append(list, name+": new: "+is)
		}
	}
	slices.Sort(list)
	return list
}
