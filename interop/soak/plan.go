package main

import (
	"encoding/binary"
	"errors"
	"time"
)

// The fixed shape of a soak.
const (
	topic         = "Soak"
	producerCount = 8
	queueCount    = 8
	retryQueue    = queueCount // the place of a group's retry topic in the judge's tables; it has one queue
	bodyBytes     = 64
)

// delays are the broker's default levels, as far as a soak uses them: sends take 1 to 3, messages sent back any.
var delays = [...]time.Duration{0, time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}

const sentLevelMax = 3

// kind is what a producer does with a message.
type kind uint8

const (
	plain           kind = iota
	delayed              // carries a delay level
	committed            // a half, committed at once
	rolledBack           // a half, rolled back at once
	openCommitted        // a half, ended as unknown, committed when the broker asks
	openRolledBack       // a half, ended as unknown, rolled back when the broker asks
	kindsEnd             // no kind
	firstHalf       = committed
	delayedPercent  = 5
	halfPercent     = 2
	failingPercent  = 1
	halvesKeptApart = int(kindsEnd - firstHalf)
)

func (k kind) half() bool    { return k >= firstHalf }
func (k kind) visible() bool { return k != rolledBack && k != openRolledBack }

// identity names a message: the sequence counts what this producer sent to this queue.
type identity struct {
	producer, queue uint8
	seq             uint32
}

// content is what the body of a message says about it.
type content struct {
	identity
	kind  kind
	level uint8
	born  int64 // epoch ms, before the send
}

// errBody: not a body that appendTo made.
var errBody = errors.New("a body that no producer made")

const bodyMark = 0x50534f41

// appendTo appends the body: the facts, and padding that follows from them.
func (c content) appendTo(dst []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, bodyMark)
	dst = append(dst, c.producer, c.queue, byte(c.kind), c.level)
	dst = binary.BigEndian.AppendUint32(dst, c.seq)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.born))
	for i := len(dst) - start; i < bodyBytes; i++ {
		dst = append(dst, byte(uint32(i)*31+c.seq))
	}
	return dst
}

// parseContent reads a body, every byte of it.
func parseContent(body []byte) (content, error) {
	if len(body) != bodyBytes || binary.BigEndian.Uint32(body) != bodyMark {
		return content{}, errBody
	}
	c := content{identity: identity{body[4], body[5], binary.BigEndian.Uint32(body[8:])}, kind: kind(body[6]), level: body[7],
		born: int64(binary.BigEndian.Uint64(body[12:]))}
	if c.producer >= producerCount || c.queue >= queueCount || c.kind >= kindsEnd || int(c.level) >= len(delays) ||
		string(c.appendTo(nil)) != string(body) {
		return content{}, errBody
	}
	return c, nil
}
