package control

import "peregrine/wire"

// endTransaction is code 37 (EndTransactionProcessor).
func (s *service) endTransaction(r *Request) wire.Reply {
	var h wire.EndTransactionRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	return s.Transactions.End(&h)
}

// resumeCheckHalfMessage is code 323 (AdminBrokerProcessor.resumeCheckHalfMessage).
func (s *service) resumeCheckHalfMessage(r *Request) wire.Reply {
	var h wire.ResumeCheckHalfMessageRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	return refused(s.Transactions.Resume(h.MsgID))
}
