package message

// Limits of the record layout. They follow from the width of the length fields, not from configuration.
const (
	// TopicBytesMaxV1 is the longest topic whose length fits the signed byte of a V1 record.
	TopicBytesMaxV1 = 127
	// TopicBytesMaxV2 is the longest topic whose length fits the signed 16 bits of a V2 record.
	TopicBytesMaxV2 = 32767
	// PropertiesBytesMax is the longest properties text, its length being a signed 16-bit number.
	PropertiesBytesMax = 32767
	// RecordBytesMin is the size of a V1 record with IPv4 hosts and empty body, topic and properties.
	RecordBytesMin = 91
	// BlankBytes is what must stay free behind a record in its file, and the size of the written end-of-file mark.
	BlankBytes = 8
	// OffsetMsgIDBytesMax is the length of an offset message id with an IPv6 host; with IPv4 it is 32.
	OffsetMsgIDBytesMax = 56
	// UniqIDBytesMax is the length of a unique id with an IPv6 address; with IPv4 it is 32.
	UniqIDBytesMax = 56
	// batchElementBytesMin is the size of a batch element with empty body and properties.
	batchElementBytesMin = 22
	// smallPropertyCount is up to how many properties duplicates are found by comparing all pairs; texts with more
	// entries use a map, so that a hostile text of thousands of entries costs linear time.
	smallPropertyCount = 48
)
