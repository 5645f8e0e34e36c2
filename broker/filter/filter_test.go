package filter

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"peregrine/internal/message"
	"peregrine/wire"
)

func code(tag string) message.TagsCode { return message.TagsCodeOf([]byte(tag)) }

func TestTagsAreComparedByHash(t *testing.T) {
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprint("tag", i)
	}
	cases := []struct {
		data  wire.SubscriptionData
		match []message.TagsCode
		miss  []message.TagsCode
	}{
		{wire.SubscriptionData{SubString: "*"}, []message.TagsCode{0, 1, -1}, nil},
		{wire.SubscriptionData{SubString: "A || B", TagsSet: []string{"A", "B"}, CodeSet: []int32{65, 66}, ExpressionType: "TAG"},
			[]message.TagsCode{code("A"), code("B")}, []message.TagsCode{0, code("C")}},
		// The codes of a Go client that did not parse, or wrong ones: the tags decide.
		{wire.SubscriptionData{SubString: "A", TagsSet: []string{"A"}, CodeSet: []int32{7}}, []message.TagsCode{65}, []message.TagsCode{7}},
		{wire.SubscriptionData{SubString: "A", CodeSet: []int32{65}}, []message.TagsCode{65}, []message.TagsCode{7}},
		// Twins of a hash pass: the client compares the text.
		{wire.SubscriptionData{SubString: "Aa", TagsSet: []string{"Aa"}}, []message.TagsCode{code("BB"), code("Aa")}, []message.TagsCode{code("Ab")}},
		{wire.SubscriptionData{SubString: "polygenelubricants", TagsSet: []string{"polygenelubricants"}}, []message.TagsCode{-2147483648}, []message.TagsCode{0}},
		{wire.SubscriptionData{SubString: strings.Join(many, "||"), TagsSet: many}, []message.TagsCode{code("tag0"), code("tag57"), code("tag99")}, []message.TagsCode{code("tag100"), 0}},
		{wire.SubscriptionData{SubString: "a > 1", ExpressionType: "SQL92"}, []message.TagsCode{0, 5}, nil},
		{wire.SubscriptionData{SubString: "x", ClassFilterMode: true}, []message.TagsCode{0, 5}, nil},
		{wire.SubscriptionData{SubString: "A"}, nil, []message.TagsCode{0, 65}},
	}
	for i, c := range cases {
		s := NewSubscription(c.data)
		for _, m := range c.match {
			if !s.Match(m) {
				t.Errorf("case %d: %d does not pass", i, m)
			}
		}
		for _, m := range c.miss {
			if s.Match(m) {
				t.Errorf("case %d: %d passes", i, m)
			}
		}
	}
}

func TestInlineExpressions(t *testing.T) {
	cache := NewCache()
	for _, everything := range []string{"", "*"} {
		if m, err := cache.Tags([]byte(everything)); err != nil || !m.All() {
			t.Errorf("%q: %v, %v", everything, m, err)
		}
	}
	m, err := cache.Tags([]byte("A || B"))
	if err != nil || !m.Match(65) || !m.Match(66) || m.Match(67) || m.All() {
		t.Errorf("%v, %v", m, err)
	}
	if again, _ := cache.Tags([]byte("A || B")); again != m {
		t.Error("parsed twice")
	}
	if _, err := cache.Tags([]byte("||")); err == nil {
		t.Error("separators alone parse")
	}
	long := []byte(strings.Repeat("a||", CachedExpressionBytesMax))
	if m, err := cache.Tags(long); err != nil || !m.Match(code("a")) {
		t.Errorf("%v, %v", m, err)
	}
	if len(cache.matchers) != 1 {
		t.Errorf("%d expressions are kept", len(cache.matchers))
	}
	for i := range 3 * CachedExpressionsMax {
		if _, err := cache.Tags(fmt.Append(nil, "t", i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(cache.matchers) > CachedExpressionsMax {
		t.Errorf("%d expressions are kept", len(cache.matchers))
	}
}

func TestMatchingAllocatesNothing(t *testing.T) {
	cache := NewCache()
	expression := []byte("A || B || C")
	if _, err := cache.Tags(expression); err != nil {
		t.Fatal(err)
	}
	s := NewSubscription(wire.SubscriptionData{SubString: "A", TagsSet: []string{"A"}})
	if n := testing.AllocsPerRun(1000, func() {
		m, err := cache.Tags(expression)
		if err != nil || !m.Match(66) || !s.Match(65) {
			t.Fatal("wrong answer")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTheCacheIsShared(t *testing.T) {
	cache := NewCache()
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 2 * CachedExpressionsMax {
				tag := fmt.Sprint("t", i)
				if m, err := cache.Tags([]byte(tag)); err != nil || !m.Match(code(tag)) {
					t.Errorf("%s: %v, %v", tag, m, err)
				}
			}
		}()
	}
	wg.Wait()
}
