package interop

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"time"
)

// What the harness asks by itself, by RocketMQ's numbers (RequestCode, 5.5.0).
const (
	requestUpdateAndCreateTopic = 17
	requestGetMinOffset         = 31
	requestRouteInfoByTopic     = 105
	requestBrokerClusterInfo    = 106
	requestResetOffsets         = 222
)

const (
	callTimeout   = 5 * time.Second
	answerMax     = 16 << 20
	readyPoll     = 50 * time.Millisecond
	templateTopic = "TBW102" // its route exists once the broker is registered
)

// answer is what came back: RocketMQ's response code, the remark, the header fields and the body.
type answer struct {
	Code      int               `json:"code"`
	Remark    string            `json:"remark"`
	Version   int               `json:"version"`
	Opaque    int               `json:"opaque"`
	Flag      int               `json:"flag"`
	ExtFields map[string]string `json:"extFields"`
	Body      []byte            `json:"-"`
}

// call sends one request with a JSON header over a connection of its own and waits for the answer.
func call(addr string, code int, fields map[string]string, body []byte) (answer, error) {
	conn, err := net.DialTimeout("tcp", addr, callTimeout)
	if err != nil {
		return answer{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return answer{}, err
	}
	header, err := json.Marshal(map[string]any{"code": code, "language": "JAVA", "version": 513, "opaque": 1, "flag": 0,
		"extFields": fields, "serializeTypeCurrentRPC": "JSON"})
	if err != nil {
		return answer{}, err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(header)))
	frame = append(append(frame, header...), body...)
	if _, err := conn.Write(frame); err != nil {
		return answer{}, err
	}
	var prefix [8]byte
	if _, err := io.ReadFull(conn, prefix[:]); err != nil {
		return answer{}, fmt.Errorf("reading the answer to request %d: %w", code, err)
	}
	length := int(binary.BigEndian.Uint32(prefix[:4]))
	word := binary.BigEndian.Uint32(prefix[4:])
	headerLength := int(word & 0xFFFFFF)
	if word>>24 != 0 || length > answerMax || headerLength > length-4 {
		return answer{}, fmt.Errorf("answer to request %d: a JSON request got frame length %d, header word %#x", code, length, word)
	}
	rest := make([]byte, length-4)
	if _, err := io.ReadFull(conn, rest); err != nil {
		return answer{}, err
	}
	var a answer
	if err := json.Unmarshal(rest[:headerLength], &a); err != nil {
		return answer{}, fmt.Errorf("answer to request %d: %w in %q", code, err, rest[:headerLength])
	}
	if a.Opaque != 1 || a.Flag&1 == 0 {
		return answer{}, fmt.Errorf("answer to request %d: opaque %d, flag %d", code, a.Opaque, a.Flag)
	}
	a.Body = rest[headerLength:]
	return a, nil
}

// awaitRegistration polls the name server until it routes to a broker: from then on clients can work. ended aborts the wait.
func awaitRegistration(nameServer string, within time.Duration, ended <-chan struct{}) error {
	deadline := time.Now().Add(within)
	var last string
	for time.Now().Before(deadline) {
		select {
		case <-ended:
			return fmt.Errorf("ended before it was ready (%s)", last)
		default:
		}
		a, err := call(nameServer, requestRouteInfoByTopic, map[string]string{"topic": templateTopic, "acceptStandardJsonOnly": "true"}, nil)
		if err == nil && a.Code == 0 {
			return nil
		}
		last = fmt.Sprintf("last answer: code %d, %s, error %v", a.Code, a.Remark, err)
		// Nothing announces readiness to a client of the protocol, so this has to poll.
		time.Sleep(readyPoll)
	}
	return fmt.Errorf("no route after %v: %s", within, last)
}

// createTopic makes a topic at the broker the way that mqadmin does.
func createTopic(broker, topic string, queues int) error {
	a, err := call(broker, requestUpdateAndCreateTopic, map[string]string{"topic": topic, "defaultTopic": templateTopic,
		"readQueueNums": strconv.Itoa(queues), "writeQueueNums": strconv.Itoa(queues), "perm": "6", "topicFilterType": "SINGLE_TAG",
		"topicSysFlag": "0", "order": "false", "attributes": "", "force": "false"}, nil)
	if err != nil {
		return err
	}
	if a.Code != 0 {
		return fmt.Errorf("creating topic %s: code %d, %s", topic, a.Code, a.Remark)
	}
	return nil
}

// queueOffset is one entry of an offset table, whose keys are objects (the original's JSON) or text.
var queueOffset = regexp.MustCompile(`queueId\\?":(\d+)[^}]*\}"?:(\d+)`)

// resetOffsets sends a group back in time the way that mqadmin does and returns what the broker answered, as searches by time.
func resetOffsets(broker string, asked Event) (found []Event, err error) {
	a, err := call(broker, requestResetOffsets, map[string]string{"topic": asked.Topic, "group": asked.Group,
		"timestamp": strconv.FormatInt(asked.TimeMs, 10), "isForce": "true"}, nil)
	if err != nil {
		return nil, err
	}
	if a.Code != 0 {
		return nil, fmt.Errorf("resetting offsets of group %s: code %d, %s", asked.Group, a.Code, a.Remark)
	}
	for _, entry := range queueOffset.FindAllSubmatch(a.Body, -1) {
		queue, _ := strconv.Atoi(string(entry[1]))
		offset, _ := strconv.ParseInt(string(entry[2]), 10, 64)
		found = append(found, Event{Scenario: asked.Scenario, E: "search", Queue: &queue, Offset: &offset, TimeMs: asked.TimeMs})
	}
	return found, nil
}
