package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// bodyTypes are the bodies we have types for, by request code; the value says in which direction.
var bodyTypes = map[RequestCode]struct{ request, response any }{
	RequestHeartBeat:                            {request: HeartbeatData{}},
	RequestCheckClientConfig:                    {request: CheckClientConfigBody{}},
	RequestRegisterBroker:                       {request: RegisterBrokerBody{}, response: KVTable{}},
	RequestUpdateAndCreateSubscriptionGroup:     {request: SubscriptionGroupConfig{}},
	RequestGetRouteInfoByTopic:                  {response: TopicRouteData{}},
	RequestGetBrokerClusterInfo:                 {response: ClusterInfo{}},
	RequestGetAllTopicListFromNameServer:        {response: TopicList{}},
	RequestGetSystemTopicListFromBroker:         {response: TopicList{}},
	RequestGetBrokerRuntimeInfo:                 {response: KVTable{}},
	RequestGetAllTopicConfig:                    {response: TopicConfigSerializeWrapper{}},
	RequestGetTopicConfig:                       {response: TopicConfig{}},
	RequestGetAllSubscriptionGroupConfig:        {response: SubscriptionGroupWrapper{}},
	RequestGetConsumerListByGroup:               {response: ConsumerListBody{}},
	RequestGetSubscriptionGroupConfig:           {response: SubscriptionGroupConfig{}},
	RequestGetAllConsumerOffset:                 {response: ConsumerOffsetWrapper{}},
	RequestUpdateAndCreateSubscriptionGroupList: {},
}

// contains tells where want is not in got: every member of an object must be there, other values must be the same
// apart from a number being a text.
func contains(got, want any, path string) error {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %v, want an object", path, got)
		}
		for key, value := range want {
			if err := contains(object[key], value, path+"."+key); err != nil {
				return err
			}
		}
		return nil
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Errorf("%s is %v, want %v", path, got, want)
		}
		for i := range want {
			if err := contains(list[i], want[i], fmt.Sprint(path, "[", i, "]")); err != nil {
				return err
			}
		}
		return nil
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("%s is %v, want %v", path, got, want)
	}
	return nil
}

func parseAny(t testing.TB, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// TestCapturedBodiesKeepEveryMember reads each recorded body we have a type for, writes it, and looks for every member.
// Every other JSON body must at least become standard JSON.
func TestCapturedBodiesKeepEveryMember(t *testing.T) {
	var d Decoder
	var c Command
	seen := map[RequestCode]bool{}
	for _, f := range capturedFrames(t) {
		decodeWhole(t, &d, f.raw, &c)
		if len(c.Body) == 0 || c.Body[0] != '{' {
			continue
		}
		standard, err := StandardJSON(c.Body)
		if err != nil {
			t.Fatalf("%s: code %d: %v in %s", f.where, f.RequestCode, err, c.Body)
		}
		want := parseAny(t, standard)
		prototype := bodyTypes[f.RequestCode].request
		if f.Kind == "response" {
			prototype = bodyTypes[f.RequestCode].response
		}
		if prototype == nil {
			continue
		}
		seen[f.RequestCode] = true
		body := reflect.New(reflect.TypeOf(prototype)).Interface()
		if err := DecodeBody(c.Body, body); err != nil {
			t.Fatalf("%s: code %d: %v in %s", f.where, f.RequestCode, err, c.Body)
		}
		written := EncodeBody(body)
		if err := contains(parseAny(t, written), want, "body"); err != nil {
			t.Errorf("%s: code %d: %v", f.where, f.RequestCode, err)
		}
		switch body := body.(type) {
		case *TopicRouteData:
			// The two forms that name servers send, byte for byte.
			if standard := bytes.Contains(c.Body, []byte(`{"0":`)); !bytes.Equal(body.Append(nil, standard), c.Body) {
				t.Errorf("%s: route %s became %s", f.where, c.Body, body.Append(nil, standard))
			}
		case *RegisterBrokerBody:
			var h RegisterBrokerRequestHeader
			if err := DecodeHeader(&c, &h); err != nil {
				t.Fatal(err)
			}
			if got := RegistrationCRC(c.Body); got != h.BodyCRC32 {
				t.Errorf("%s: CRC %d, want %d", f.where, got, h.BodyCRC32)
			}
		case *ClusterInfo:
			if got := AppendBareIntKeys(nil, written); !bytes.Equal(got, c.Body) {
				t.Errorf("%s: cluster %s became %s", f.where, c.Body, got)
			}
		case *TopicConfig, *SubscriptionGroupConfig:
			if !bytes.Equal(written, c.Body) {
				t.Errorf("%s: %s became %s", f.where, c.Body, written)
			}
		}
	}
	if len(seen) < 11 {
		t.Errorf("only %d bodies were seen: %v", len(seen), slices.Collect(maps.Keys(seen)))
	}
}

// TestConfigFilesKeepEveryMember reads what brokers left on disk.
func TestConfigFilesKeepEveryMember(t *testing.T) {
	for name, prototype := range map[string]any{
		"topics": TopicConfigSerializeWrapper{}, "subscriptionGroup": SubscriptionGroupWrapper{}, "consumerOffset": ConsumerOffsetWrapper{},
	} {
		for _, version := range []string{"4.9.4", "5.5.0"} {
			data, err := os.ReadFile(filepath.Join("testdata", "config", name+"-"+version+".json"))
			if err != nil {
				t.Fatal(err)
			}
			body := reflect.New(reflect.TypeOf(prototype)).Interface()
			if err := DecodeBody(data, body); err != nil {
				t.Fatalf("%s %s: %v", name, version, err)
			}
			standard, err := StandardJSON(data)
			if err != nil {
				t.Fatal(err)
			}
			want := parseAny(t, standard).(map[string]any)
			delete(want, "groupTopicMap")   // derived by 5.x from the offsets, and rebuilt there when absent
			delete(want, "pullOffsetTable") // empty in all of them
			if err := contains(parseAny(t, EncodeBody(body)), want, name); err != nil {
				t.Errorf("%s: %v", version, err)
			}
		}
	}
}

func TestSubscriptionVectors(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "vectors", "subscription.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Entries []struct {
			Expression                       string
			SubString, ExpressionType, Error string
			TagsSet                          []string
			CodeSet                          []int32
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, e := range file.Entries {
		got, err := BuildSubscription("T", e.Expression, "")
		if e.Error != "" {
			if err == nil || !strings.Contains(e.Error, err.Error()) {
				t.Errorf("%q: %v, want %s", e.Expression, err, e.Error)
			}
			continue
		}
		slices.Sort(got.TagsSet)
		slices.Sort(got.CodeSet)
		slices.Sort(e.TagsSet)
		slices.Sort(e.CodeSet)
		if err != nil || got.SubString != e.SubString || got.ExpressionType != e.ExpressionType || got.Topic != "T" ||
			!slices.Equal(got.TagsSet, e.TagsSet) || !slices.Equal(got.CodeSet, e.CodeSet) {
			t.Errorf("%q: %+v, %v", e.Expression, got, err)
		}
	}
	if s, err := BuildSubscription("T", "a > 1", ExpressionSQL92); err != nil || s.SubString != "a > 1" || len(s.TagsSet) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := BuildSubscription("T", "", ExpressionSQL92); err != ErrSubscriptionEmpty {
		t.Error(err)
	}
}

func TestDialectBecomesStandardJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{0:"a",-1:{12:[]}}`: `{"0":"a","-1":{"12":[]}}`,
		` { "a" : [ 1 , -2.5e3 , true , null , "x\u0041\n" ] } `:                  `{"a":[1,-2.5e3,true,null,"x\u0041\n"]}`,
		`{"t":{{"brokerName":"b","queueId":0,"topic":"T"}:{"maxOffset":42}}}`:     `{"t":{"{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"T\"}":{"maxOffset":42}}}`,
		`{"a":{"b":[{"c":1},2]},"d":{"$ref":"$.a.b[0]"},"e":{"$ref":"$.a.b[1]"}}`: `{"a":{"b":[{"c":1},2]},"d":{"c":1},"e":2}`,
		`{"x.y":{"c":1},"d":{"$ref":"$.x\\.y.c"},"f":{"$ref":"$[\"x.y\"]['c']"}}`: `{"x.y":{"c":1},"d":1,"f":1}`,
		`{"t":{0:{"v":7}},"r":{"$ref":"$.t.0"}}`:                                  `{"t":{"0":{"v":7}},"r":{"v":7}}`,
		`{"a":[],"b":{"$ref":"$.a"},"c":{"$ref":"$.b"}}`:                          `{"a":[],"b":[],"c":[]}`,
		`{"@type":"java.lang.Runtime","a":1}`:                                     `{"a":1}`,
		`{"a":1,"@type":"x"}`:                                                     `{"a":1}`,
		`{"@type":"x"}`:                                                           `{}`,
		`{"@type":"x","$ref":"$.a","a":1}`:                                        ``,
		`{"a":1,"$ref":"text"}`:                                                   `{"a":1,"$ref":"text"}`,
		`{"$ref":5}`:                                                              `{"$ref":5}`,
		"\"a\tb\"":                                                                `"a\u0009b"`,
		`5`:                                                                       `5`,
		// Errors.
		``: ``, `{`: ``, `{"a"}`: ``, `{"a":1,}`: ``, `[1,]`: ``, `[1 2]`: ``, `{a:1}`: ``, `{'a':1}`: ``, `{-:1}`: ``, `01`: ``, `1L`: ``, `nul`: ``,
		`"\x"`: ``, `"\u00g0"`: ``, `"a`: ``, `{} {}`: ``, `{{{"a":1}:2}:3}`: ``, `{"a":{"$ref":"$"}}`: ``, `{"a":{"$ref":".."}}`: ``, `{"a":{"$ref":"@"}}`: ``,
		`{"$ref":"$"}`: ``, `{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}`: ``, `{"a":{"$ref":"$.nothing"}}`: ``, `{"a":{"$ref":"$[99999999999999999999]"}}`: ``,
		`{"a":{"$ref":"$.b[0"}}`: ``, `{"a":{"$ref":"$."}}`: ``, `{"a":{"$ref":"$.b","c":1},"b":1}`: ``, "{\x00}": ``,
		strings.Repeat("[", JSONDepthMax+2) + strings.Repeat("]", JSONDepthMax+2): ``,
	} {
		got, err := StandardJSON([]byte(in))
		if want == "" {
			if !errors.Is(err, ErrBody) {
				t.Errorf("%s: %s, %v; want an error", in, got, err)
			}
			continue
		}
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
}

// TestReferencesCannotBlowUp nests references so that each doubles the text, and points thousands at a far member.
func TestReferencesCannotBlowUp(t *testing.T) {
	var doubling strings.Builder
	doubling.WriteString(`{"a0":["xxxxxxxxxxxxxxxx"]`)
	for i := range 40 {
		fmt.Fprintf(&doubling, `,"a%d":[{"$ref":"$.a%d"},{"$ref":"$.a%d"}]`, i+1, i, i)
	}
	doubling.WriteByte('}')
	far := `{"pad":[` + strings.Repeat("0,", 100_000) + `0],"target":1,"refs":[` + strings.Repeat(`{"$ref":"$.target"},`, 100_000) + `0]}`
	for _, body := range []string{doubling.String(), far} {
		if got, err := StandardJSON([]byte(body)); !errors.Is(err, ErrBody) {
			t.Errorf("%d bytes came out, %v", len(got), err)
		}
	}
}

func TestBareIntKeys(t *testing.T) {
	for in, want := range map[string]string{
		`{"0":"a","10":{"-1":"1"},"01x":2,"s":"7"}`: `{0:"a",10:{-1:"1"},"01x":2,"s":"7"}`,
		`{"a\"0":"0","+1":1,"":2}`:                  `{"a\"0":"0","+1":1,"":2}`,
	} {
		if got := AppendBareIntKeys(nil, []byte(in)); string(got) != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

func TestBodyDefaultsAreJavas(t *testing.T) {
	var g SubscriptionGroupConfig
	if err := DecodeBody([]byte(`{"groupName":"g","retryMaxTimes":"3","consumeEnable":"false","brokerId":null}`), &g); err != nil {
		t.Fatal(err)
	}
	want := NewSubscriptionGroupConfig("g")
	want.RetryMaxTimes, want.ConsumeEnable = 3, false
	if !reflect.DeepEqual(g, want) {
		t.Errorf("%+v", g)
	}
	text := `{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"g1",` +
		`"groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}`
	if got := EncodeBody(NewSubscriptionGroupConfig("g1")); string(got) != text {
		t.Errorf("%s", got)
	}
	var topic TopicConfig
	if err := DecodeBody([]byte(`{"topicName":"T","future":[{}]}`), &topic); err != nil || topic.ReadQueueNums != 16 || topic.Perm != 6 || topic.TopicFilterType != TopicFilterSingleTag {
		t.Errorf("%+v, %v", topic, err)
	}
	var heartbeat HeartbeatData
	goBody := `{"clientID":"c","producerDataSet":[],"consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"codeSet":["65",66],"topic":"T"}]}]}`
	if err := DecodeBody([]byte(goBody), &heartbeat); err != nil {
		t.Fatal(err)
	}
	s := heartbeat.ConsumerDataSet[0].SubscriptionDataSet[0]
	if !slices.Equal(s.CodeSet, []int32{65, 66}) || s.ExpressionType != ExpressionTag {
		t.Errorf("%+v", s)
	}
}

// TestBodyMembersAreAlphabetical is the order in which Java writes them.
func TestBodyMembersAreAlphabetical(t *testing.T) {
	for _, v := range []any{HeartbeatData{}, ConsumerData{}, SubscriptionData{}, CheckClientConfigBody{}, TopicRouteData{}, BrokerData{},
		QueueData{}, TopicConfig{}, DataVersion{}, TopicConfigSerializeWrapper{}, ClusterInfo{}, TopicList{}, BrokerMemberGroup{},
		SubscriptionGroupConfig{}, GroupRetryPolicy{}, SimpleSubscriptionData{}, SubscriptionGroupWrapper{}, ConsumerOffsetWrapper{}, RegisterBrokerBody{}} {
		if !slices.IsSortedFunc(bodyFields(reflect.TypeOf(v)), func(a, b bodyField) int { return strings.Compare(a.name, b.name) }) {
			t.Errorf("%T", v)
		}
	}
}

func TestWrongBodiesAreErrors(t *testing.T) {
	many := `{"producerDataSet":[` + strings.Repeat("{},", BodyElementsMax) + `{}]}`
	for _, body := range []string{``, `[]`, `"x"`, `{"clientID":{}}`, `{"consumerDataSet":{}}`, `{"consumerDataSet":[1]}`, `{"heartbeatFingerprint":2147483648}`,
		`{"heartbeatFingerprint":"x"}`, `{"heartbeatFingerprint":1.5}`, many} {
		var h HeartbeatData
		if err := DecodeBody([]byte(body), &h); !errors.Is(err, ErrBody) {
			t.Errorf("%.60s: %v", body, err)
		}
	}
	var offsets ConsumerOffsetWrapper
	for _, body := range []string{`{"offsetTable":{"t@g":{"x":1}}}`, `{"offsetTable":{"t@g":{2147483648:1}}}`, `{"offsetTable":[]}`} {
		if err := DecodeBody([]byte(body), &offsets); !errors.Is(err, ErrBody) {
			t.Errorf("%s: %v", body, err)
		}
	}
}
