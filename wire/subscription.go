package wire

import (
	"errors"
	"slices"
	"strings"

	"peregrine/internal/message"
)

// Errors of BuildSubscription; the first has RocketMQ's text.
var (
	ErrSubscriptionSplit = errors.New("subString split error")
	ErrSubscriptionEmpty = errors.New("expression can't be null")
)

// BuildSubscription makes the subscription for an expression (FilterAPI.build of 5.x): tags separated by `||` for
// ExpressionTag or an empty expressionType, the text as it is for any other type. An empty expression is SubscribeAll.
// SubVersion stays 0.
func BuildSubscription(topic, expression, expressionType string) (SubscriptionData, error) {
	s := SubscriptionData{Topic: topic, SubString: expression, ExpressionType: expressionType, CodeSet: []int32{}, TagsSet: []string{}}
	if expressionType != "" && expressionType != ExpressionTag {
		if expression == "" {
			return SubscriptionData{}, ErrSubscriptionEmpty
		}
		return s, nil
	}
	s.ExpressionType = ExpressionTag
	if expression == "" || expression == SubscribeAll {
		s.SubString = SubscribeAll
		return s, nil
	}
	onlySeparators := true
	for tag := range strings.SplitSeq(expression, "||") {
		onlySeparators = onlySeparators && tag == ""
		// String.trim takes away everything up to the blank.
		tag = strings.TrimFunc(tag, func(r rune) bool { return r <= ' ' })
		if tag == "" {
			continue
		}
		code := message.JavaHash([]byte(tag))
		if !slices.Contains(s.CodeSet, code) {
			s.CodeSet = append(s.CodeSet, code)
		} else if slices.Contains(s.TagsSet, tag) {
			continue
		}
		s.TagsSet = append(s.TagsSet, tag)
	}
	if onlySeparators {
		return SubscriptionData{}, ErrSubscriptionSplit
	}
	return s, nil
}
