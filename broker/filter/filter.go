// Package filter decides by tags code whether a message interests a subscription: the first of RocketMQ's two stages. The
// second, comparing the tags' text, is the client's: twins of a hash pass here on purpose (ExpressionMessageFilter, 5.5.0).
//
// Tag codes are computed here from the tags' text. What clients send as codeSet is not used when there is a tagsSet: the Go
// client sends its items as text, and a wrong code would lose messages silently.
package filter

import (
	"slices"

	"peregrine/internal/message"
	"peregrine/wire"
)

// ExpressionTag is the type of tag expressions; an absent type means the same.
const ExpressionTag = "TAG"

// IsTag says whether an expression type is that of tag expressions.
func IsTag(expressionType string) bool {
	return expressionType == "" || expressionType == ExpressionTag
}

// scanMax is up to how many codes a linear scan is used.
const scanMax = 12

// Matcher is the compiled form of a tag expression. The zero Matcher passes nothing. It is immutable.
type Matcher struct {
	all   bool
	codes []int32 // sorted, without duplicates
}

// everything is the matcher of `*`; nobody writes to it.
var everything = Matcher{all: true}

// Match says whether a message of this tags code may interest the subscriber.
//
// hot: 0 allocs.
func (m *Matcher) Match(code message.TagsCode) bool {
	if m.all || code.IsExtAddress() {
		return true // an ext unit that cannot be read: nobody knows the tags
	}
	hash := int32(code) // the original compares the low half, too
	if len(m.codes) > scanMax {
		_, found := slices.BinarySearch(m.codes, hash)
		return found
	}
	for _, c := range m.codes {
		if c == hash {
			return true
		}
	}
	return false
}

// All says that nothing is filtered out.
func (m *Matcher) All() bool { return m.all }

// Compile makes the matcher of a subscription. Anything but a tag expression passes here: it is decided from the message.
func Compile(s *wire.SubscriptionData) Matcher {
	if !IsTag(s.ExpressionType) || s.ClassFilterMode || s.SubString == "*" {
		return everything
	}
	var codes []int32
	for _, tag := range s.TagsSet {
		codes = append(codes, message.JavaHash([]byte(tag)))
	}
	if len(s.TagsSet) == 0 {
		codes = append(codes, s.CodeSet...)
	}
	slices.Sort(codes)
	return Matcher{codes: slices.Compact(codes)}
}

// Subscription is what a consumer group wants of one topic, with its matcher. It is immutable.
type Subscription struct {
	wire.SubscriptionData
	Matcher
}

// NewSubscription compiles data.
func NewSubscription(data wire.SubscriptionData) *Subscription {
	return &Subscription{SubscriptionData: data, Matcher: Compile(&data)}
}
