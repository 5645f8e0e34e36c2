package message

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// What Java 17 prints for the keys of a HashMap<>(128) after the puts of TestPropertyMapWalksLikeJava.
const javaOrderOf124 = "name196 name193 name595 name112 name352 name115 name358 name355 name872 name598 name757 name514 name517 name34 name919 name31 name221 name464 name981 " +
	"name461 name467 name224 name900 name109 name626 name28 name623 name866 name6 name629 name869 name3 name9 name0 name190 name492 name651 name252 name495 " +
	"name137 name654 name897 name894 name411 name813 name414 name657 name59 name816 name56 name819 name361 name760 name489 name523 name520 name246 name763 " +
	"name922 name249 name766 name408 name925 name928 name271 name277 name274 name791 name676 name710 name433 name950 name439 name436 name953 name679 " +
	"name838 AaAa BBBB AaBB name140 name383 name380 name386 name143 name302 name545 name542 name785 name548 name788 name305 name707 name704 name947 name62 " +
	"name570 name171 name573 name299 name330 name732 name333 name576 name218 name735 name978 name975 name738 name90 订单 name442 name165 name682 name841 " +
	"name168 name685 name604 name601 name327 name844 name847 name87 name84"
const javaOrderOf63 = "name193 name271 name595 name112 name274 name352 name676 name355 name433 name598 name950 name757 name436 name514 name679 name838 name517 name919 name31 " +
	"BBBB AaAa AaBB name383 name380 name221 name464 name461 name302 name545 name542 name785 name109 name626 name28 name623 name788 name866 name707 name704 " +
	"name869 name947 name3 name0 name190 name570 name299 name651 name137 name732 name894 name218 name813 name975 name56 name760 name165 name489 name841 " +
	"name246 name922 name327 name408 name84"

func TestPropertyMapWalksLikeJava(t *testing.T) {
	for _, c := range []struct {
		numbered int
		more     []string
		want     string
	}{
		{120, []string{"订单", "AaAa", "BBBB", "AaBB"}, javaOrderOf124}, // the buckets were doubled
		{60, []string{"BBBB", "AaAa", "AaBB"}, javaOrderOf63},
	} {
		var names []string
		for i := range c.numbered {
			names = append(names, fmt.Sprint("name", i*7919%1000))
		}
		var m PropertyMap
		for _, name := range append(names, c.more...) {
			m.Set([]byte(name), []byte("1"))
		}
		var got []string
		for it := Properties(m.AppendTo(nil)); ; {
			name, _, ok := it.Next()
			if !ok {
				break
			}
			got = append(got, string(name))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%d names:\ngot  %s\nwant %s", len(got), strings.Join(got, " "), c.want)
		}
	}
}

// Texts of records of a 5.5.0 broker: an ordinary one, a delayed, a half message, one that was sent back.
func TestPropertyMapKeepsTheOriginalsTexts(t *testing.T) {
	for _, text := range []string{
		"MSG_REGION=DefaultRegion|UNIQ_KEY=FD0298|CLUSTER=DefaultCluster|TAGS=R|KEYS=retry0|WAIT=true|TRACE_ON=true|",
		"MSG_REGION=DefaultRegion|UNIQ_KEY=FD0289|CLUSTER=DefaultCluster|DELAY=1|TAGS=D0|KEYS=delay0|WAIT=true|TRACE_ON=true|REAL_TOPIC=FixDelay|REAL_QID=0|",
		"MSG_REGION=DefaultRegion|UNIQ_KEY=FD028F|CLUSTER=DefaultCluster|PGROUP=PFixTx|__transactionId__=FD028F|TAGS=Tx0|TRAN_MSG=true|KEYS=tx0|WAIT=true|" +
			"TRACE_ON=true|REAL_TOPIC=FixTx|REAL_QID=0|",
		"ORIGIN_MESSAGE_ID=7F0325|RETRY_TOPIC=FixRetry|MSG_REGION=DefaultRegion|UNIQ_KEY=FD0298|CLUSTER=DefaultCluster|DELAY=1|TAGS=R|KEYS=retry0|WAIT=false|" +
			"TRACE_ON=true|REAL_TOPIC=%RETRY%GRetry|REAL_QID=0|",
	} {
		want := []byte(strings.NewReplacer("=", "\x01", "|", "\x02").Replace(text))
		var m PropertyMap
		m.Parse(want)
		if got := m.AppendTo(nil); !bytes.Equal(got, want) {
			t.Errorf("%q became %q", want, got)
		}
	}
}

func TestPropertyMapSetsGetsAndDeletes(t *testing.T) {
	var m PropertyMap
	if m.Get("TAGS") != nil || len(m.AppendTo(nil)) != 0 {
		t.Error("a new map is not empty")
	}
	m.Delete("TAGS")
	m.Parse([]byte("TAGS\x01a\x02DELAY\x013\x02TAGS\x01b\x02empty\x01\x02"))
	m.Add([]byte("WAIT\x01true\x02"))
	m.Delete("DELAY")
	m.Set([]byte("DELAY"), []byte("4"))
	m.Delete("WAIT")
	if got := string(m.AppendTo(nil)); got != "DELAY\x014\x02TAGS\x01b\x02" {
		t.Errorf("%q", got)
	}
	if string(m.Get("DELAY")) != "4" || m.Get("WAIT") != nil {
		t.Errorf("DELAY is %q, WAIT %q", m.Get("DELAY"), m.Get("WAIT"))
	}
}

func FuzzPropertyMap(f *testing.F) {
	addPropertySeeds(f)
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		want := javaProperties(string(text))
		var m PropertyMap
		m.Parse(text)
		out := m.AppendTo(nil)
		if !maps.Equal(javaProperties(string(out)), want) || bytes.Count(out, []byte{PropertySeparator}) != len(want) {
			t.Fatalf("%q became %q", text, out)
		}
		if string(m.Get(name)) != want[name] {
			t.Fatalf("%q in %q is %q", name, text, m.Get(name))
		}
		m.Delete(name)
		delete(want, name)
		if out = m.AppendTo(nil); !maps.Equal(javaProperties(string(out)), want) {
			t.Fatalf("%q without %q became %q", text, name, out)
		}
	})
}
