package topics

import "time"

const (
	// NameBytesMax bounds the name of an ordinary topic (Validators/TopicValidator.TOPIC_MAX_LENGTH, 5.5.0).
	NameBytesMax = 127
	// RetryNameBytesMax bounds `%RETRY%…` and `%DLQ%…` names, which hold a group name (RETRY_OR_DLQ_TOPIC_MAX_LENGTH, 5.5.0).
	RetryNameBytesMax = 255
	// CountMax bounds the topics of a broker: names come from the network, each costs about 1 KiB of memory and a line in
	// every route table. A creation beyond it is refused as if the topic could not be created.
	CountMax = 200_000
	// QueueNumsMax bounds the queues of a topic, as offsets.QueueIDMax does: each queue that a client names costs memory. Code 17 is
	// refused beyond it; a topics.json that says more is read as saying this, or as many as have messages.
	QueueNumsMax = 65_536
	// permMax is all bits of PermName (priority, read, write, inherit).
	permMax = 15
	// namesShownMax bounds the names in one line of the log.
	namesShownMax = 20
	// createWaitMax is how long a creation waits for another change of the table (TopicConfigManager.LOCK_TIMEOUT_MILLIS).
	createWaitMax = 3 * time.Second
	// cachedQueuesMax bounds the queue handles that a topic keeps for itself; higher queue ids are looked up in the store.
	cachedQueuesMax = 4096
	// listMax bounds the topics of one UPDATE_AND_CREATE_TOPIC_LIST.
	listMax = 100_000
	// pageMax bounds one answer of GET_ALL_TOPIC_CONFIG (AdminBrokerProcessor, 5.5.0).
	pageMax = 2000
)
