package control

import (
	"errors"
	"fmt"
	"strconv"

	"peregrine/broker/names"
	"peregrine/internal/message"
	"peregrine/store"
	"peregrine/wire"
)

// Limits of queries.
const (
	// queryBytesMax bounds the records of one answer: with its header it has to fit into a frame.
	queryBytesMax = wire.MaxFrameSize - 64<<10
	// indexBehindTold is how far the index may be behind before an answer says that it is incomplete: some milliseconds of sends
	// always are.
	indexBehindTold = 16 << 20
)

// queryMessage is code 12 (QueryMessageProcessor.queryMessage): the newest messages with a key, oldest of them first. The
// original answers with whatever has the same hash and leaves it to clients to look at topic and key; here both are right.
func (s *service) queryMessage(r *Request) wire.Reply {
	var h wire.QueryMessageRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	q := store.IndexQuery{Topic: h.Topic, Key: h.Key, Begin: message.Millis(h.BeginTimestamp), End: message.Millis(h.EndTimestamp),
		Max: min(int(h.MaxNum), s.Config.Get().MaxMsgsNumBatch), BytesMax: queryBytesMax}
	switch {
	case h.IndexType != nil && *h.IndexType == "T":
		q.Kind = store.IndexTag
	case h.UniqueKeyQuery:
		q.Kind, q.Max = store.IndexUnique, s.Config.Get().DefaultQueryMaxNum
	case h.IndexType != nil && *h.IndexType == "U":
		q.Kind = store.IndexUnique
	}
	switch {
	case h.MaxNum < 0 && !h.UniqueKeyQuery: // the original fails to make a list of that size
		return failure(wire.ResponseSystemError, "maxNum is negative: "+strconv.Itoa(int(h.MaxNum)))
	case h.Topic == "":
		return queryNotFound("topic is empty or missing")
	case h.Key == "":
		return queryNotFound("key is empty or missing")
	case q.Max <= 0:
		return queryNotFound("maxNum is " + strconv.Itoa(int(h.MaxNum)))
	case q.Begin > q.End:
		return queryNotFound(fmt.Sprintf("beginTimestamp %d lies behind endTimestamp %d", h.BeginTimestamp, h.EndTimestamp))
	}
	behind, mending := s.IndexBehind() // before the search: what comes in meanwhile may be found or not
	index := s.Store.Index()
	var found *store.IndexResult
	if index != nil {
		var err error
		if found, err = index.Query(q); err != nil {
			s.Logger.Error("a query by key failed", "topic", names.Quote(h.Topic), "error", err)
			return failure(wire.ResponseSystemError, "the index cannot be read: "+err.Error())
		}
	}
	if found == nil {
		return failure(wire.ResponseSystemError, "queries by key are switched off: indexFileReadEnable is false")
	}
	why := ""
	if found.Recovering || mending || behind >= indexBehindTold {
		why = fmt.Sprintf("the index is incomplete, %d bytes of the log are not in it yet", behind)
	} else if found.Broken {
		why = "a file of the index is damaged, there may be more messages; the next start makes it again"
	} else if found.Cut {
		why = "the search ended at a limit, there may be older messages"
	}
	if found.Records == 0 && (found.Cut || found.Broken) {
		return failure(wire.ResponseSystemError, "no message found: "+why)
	}
	if found.Records == 0 {
		return queryNotFound(why)
	}
	reply := success(wire.QueryMessageResponseHeader{IndexLastUpdateTimestamp: int64(found.LastTime), IndexLastUpdatePhyoffset: int64(found.LastPhy)}, found.Body)
	reply.Remark = why
	return reply
}

// queryNotFound is the original's answer, with the reason where it is known.
func queryNotFound(why string) wire.Reply {
	remark := "can not find message, maybe time range not correct"
	if why != "" {
		remark += ": " + why
	}
	return wire.Reply{Code: wire.ResponseQueryNotFound, Remark: remark, Header: wire.QueryMessageResponseHeader{}}
}

// viewMessage is code 33 (QueryMessageProcessor.viewMessageById): the message that begins at a position of the log. What is
// damaged or not visible yet is not there.
func (s *service) viewMessage(r *Request) wire.Reply {
	var h wire.ViewMessageRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	var v message.View
	record, err := s.Store.ReadRecord(nil, message.PhyOffset(h.Offset), &v)
	if err == nil {
		return success(nil, record)
	}
	remark := "can not find message by the offset, " + strconv.FormatInt(h.Offset, 10)
	if !errors.Is(err, store.ErrNoRecord) && !errors.Is(err, store.ErrOutOfRange) {
		s.Logger.Error("a message cannot be read", "position", h.Offset, "error", err)
		remark += ": " + err.Error()
	}
	return failure(wire.ResponseSystemError, remark)
}
