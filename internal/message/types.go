package message

// PhyOffset is a byte position in the CommitLog, counted from the start of the log's very first file.
type PhyOffset int64

// QueueOffset is a position in one queue, counted in messages.
type QueueOffset int64

// QueueID is the number of a queue within its topic on this broker.
type QueueID int32

// TagsCode is what a ConsumeQueue unit keeps of a message's tags: the Java hash of TAGS, sign-extended to 64 bits, or a
// delivery time for the records of ScheduleTopic.
type TagsCode int64

// IsExtAddress tells an address in consumequeue_ext, which lies below every 32-bit hash (ConsumeQueueExt.isExtAddr).
func (c TagsCode) IsExtAddress() bool { return c < -1<<31 }

// ScheduleTopic holds the delayed records; its tags codes are times of delivery (TopicValidator.RMQ_SYS_SCHEDULE_TOPIC).
const ScheduleTopic = "SCHEDULE_TOPIC_XXXX"

// Millis is a wall-clock time in milliseconds since the epoch.
type Millis int64

// Magic codes of a record (MessageDecoder.MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2, CommitLog.BLANK_MAGIC_CODE).
const (
	MagicV1    int32 = -626843481 // 0xDAA320A7: topic length in one byte
	MagicV2    int32 = -626843477 // 0xDAA320AB: topic length in two bytes
	MagicBlank int32 = -875286124 // 0xCBD43194: the rest of this file is unused
)

// SysFlag bits (org.apache.rocketmq.common.sysflag.MessageSysFlag).
const (
	SysFlagCompressed          int32 = 0x1
	SysFlagMultiTags           int32 = 0x2
	SysFlagTransactionMask     int32 = 0xC
	SysFlagTransactionNotType  int32 = 0x0
	SysFlagTransactionPrepared int32 = 0x4
	SysFlagTransactionCommit   int32 = 0x8
	SysFlagTransactionRollback int32 = 0xC
	SysFlagBornHostV6          int32 = 0x10
	SysFlagStoreHostV6         int32 = 0x20
	SysFlagNeedUnwrap          int32 = 0x40
	SysFlagInnerBatch          int32 = 0x80
	SysFlagCompressionMask     int32 = 0x700
	SysFlagCompressionLZ4      int32 = 0x100
	SysFlagCompressionZSTD     int32 = 0x200
	SysFlagCompressionZLIB     int32 = 0x300
)
