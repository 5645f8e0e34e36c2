package wire

// EndTransactionRequestHeader is the header of END_TRANSACTION (37), from producer to broker.
type EndTransactionRequestHeader struct {
	Topic                *string `wire:"topic"` // 5.x
	ProducerGroup        string  `wire:"producerGroup,required"`
	TranStateTableOffset int64   `wire:"tranStateTableOffset,required"` // queue offset of the half message
	CommitLogOffset      int64   `wire:"commitLogOffset,required"`      // its position in the log
	CommitOrRollback     int32   `wire:"commitOrRollback,required"`     // the transaction bits of a sysFlag
	FromTransactionCheck *bool   `wire:"fromTransactionCheck"`
	MsgID                string  `wire:"msgId,required"`
	TransactionID        *string `wire:"transactionId"`
}

// CheckTransactionStateRequestHeader is the header of CHECK_TRANSACTION_STATE (39), from broker to producer.
type CheckTransactionStateRequestHeader struct {
	Topic                *string `wire:"topic"` // the half topic
	TranStateTableOffset int64   `wire:"tranStateTableOffset,required"`
	CommitLogOffset      int64   `wire:"commitLogOffset,required"`
	MsgID                *string `wire:"msgId"` // UNIQ_KEY of the message
	TransactionID        *string `wire:"transactionId"`
	OffsetMsgID          *string `wire:"offsetMsgId"`
	BrokerName           *string `wire:"bname"`
}

// ResumeCheckHalfMessageRequestHeader is the header of RESUME_CHECK_HALF_MESSAGE (323).
type ResumeCheckHalfMessageRequestHeader struct {
	Topic *string `wire:"topic"`
	MsgID string  `wire:"msgId,required"` // offset id of a message that was given up
}
