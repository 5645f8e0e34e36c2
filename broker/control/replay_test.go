package control

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"peregrine/netio"
	"peregrine/wire"
	"peregrine/wire/wiretest"
)

// replay asks everything that an original 5.5.0 with its default settings was asked, in that order and beginning with as
// little, and compares the answers: code, remark, ext fields and body. The client of an exchange is its connection.
func replay(t *testing.T, path string) map[wire.RequestCode]int {
	t.Helper()
	exchanges, err := wiretest.Load(path)
	must(t, err)
	b := newBench(t)
	compared := map[wire.RequestCode]int{}
	for _, e := range exchanges {
		code := wire.RequestCode(e.Code)
		request, err := wiretest.Decode(e.Request)
		must(t, err)
		if code == wire.RequestSendMessageV2 {
			b.send(fieldOf(request)("b"), 0, string(request.Body))
			continue
		}
		reply := wire.Reply{Code: wire.ResponseRequestCodeNotSupported, Remark: " request type " + strconv.Itoa(int(e.Code)) + " not supported"} // what the broker says
		if process := b.processors[code]; process != nil {
			reply = b.run(process, &Request{Cmd: request, Ref: netio.ConnRef{Slot: uint32(e.Client[len(e.Client)-1]), Gen: 1}, Remote: netip.MustParseAddrPort("127.0.0.1:40000")})
		}
		answer, err := wiretest.Decode(wire.AppendReply(nil, request.Encoding, request.Opaque, &reply))
		must(t, err)
		want, err := wiretest.Decode(e.Response)
		must(t, err)
		if code == wire.RequestHeartBeat {
			continue // made the members, compared elsewhere
		}
		compared[code]++
		if got, want := said(answer), said(want); got != want {
			t.Errorf("code %d %s%s\n got %s\nwant %s", e.Code, extOf(request), request.Body, got, want)
		}
	}
	return compared
}

// said describes an answer in full. Left out are the time, where records lie, the number of topics that an idle broker has queues of, and the remarks that
// say nothing or are a Java exception.
func said(c *wire.Command) string {
	remark := string(c.Remark)
	if c.Code == int32(wire.ResponseSystemError) && !strings.HasSuffix(remark, "is not exist!") || remark == "not set any response code" {
		remark = ""
	}
	body := string(c.Body)
	if standard, err := wire.StandardJSON(c.Body); err == nil && len(c.Body) > 0 {
		var v any
		if json.Unmarshal(standard, &v) == nil {
			if object, ok := v.(map[string]any); ok {
				delete(object, "cqTableSize")
				units, _ := object["queueData"].([]any)
				for _, u := range units {
					delete(u.(map[string]any), "physicOffset")
					delete(u.(map[string]any), "physicSize")
				}
				if set, ok := object["messageQueueAssignments"].([]any); ok { // of a hash set
					slices.SortFunc(set, func(a, b any) int { return strings.Compare(asJSON(a), asJSON(b)) })
				}
			}
			body = asJSON(v)
		}
	}
	return strconv.Itoa(int(c.Code)) + " " + remark + " " + extOf(c) + body
}

func extOf(c *wire.Command) string {
	fields := map[string]string{}
	for it := c.Ext(); ; {
		key, value, ok := it.Next()
		if !ok {
			break
		}
		if fields[string(key)] = string(value); string(key) == "popTime" && len(value) > 1 {
			fields["popTime"] = "now"
		}
	}
	return asJSON(fields)
}

func asJSON(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}
