package filter

import (
	"sync"

	"peregrine/wire"
)

const (
	// CachedExpressionsMax bounds a Cache.
	CachedExpressionsMax = 1024
	// CachedExpressionBytesMax is the longest expression that is kept: a pull's header can hold one of megabytes.
	CachedExpressionBytesMax = 2048
)

// Cache keeps the matchers of tag expressions that pulls carry inline, by their text. Lite pull and pull consumers send
// the same few expressions with every pull. It may be used from any goroutine.
type Cache struct {
	mu       sync.RWMutex // leaf
	matchers map[string]*Matcher
}

// NewCache makes an empty cache.
func NewCache() *Cache {
	return &Cache{matchers: make(map[string]*Matcher)}
}

// Tags returns the matcher of a tag expression (nil, empty or `*` pass everything). The error says why it does not parse;
// the answer to the pull is then 23.
//
// hot: 0 allocs for an expression that is cached, one read lock.
func (c *Cache) Tags(expression []byte) (*Matcher, error) {
	if len(expression) == 0 || len(expression) == 1 && expression[0] == '*' {
		return &everything, nil
	}
	c.mu.RLock()
	m := c.matchers[string(expression)]
	c.mu.RUnlock()
	if m != nil {
		return m, nil
	}
	return c.compile(string(expression))
}

func (c *Cache) compile(expression string) (*Matcher, error) {
	data, err := wire.BuildSubscription("", expression, ExpressionTag)
	if err != nil {
		return nil, err
	}
	m := Compile(&data)
	if len(expression) > CachedExpressionBytesMax {
		return &m, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.matchers) >= CachedExpressionsMax {
		clear(c.matchers) // what is in use comes back with the next pulls, at the price of one parse
	}
	c.matchers[expression] = &m
	return &m, nil
}
