package wire

// Limits on what the network may ask for. Going past one is an error, mostly the end of the connection.
const (
	// MaxFrameSize bounds a whole frame in bytes, its length field included (com.rocketmq.remoting.frameMaxLength).
	MaxFrameSize = 16777216
	// FrameLengthMin and FrameLengthMax bound the length field of a frame.
	FrameLengthMin = 4
	FrameLengthMax = MaxFrameSize - 4
	// ExtEntriesMax bounds the ext fields of one header. Real requests carry up to about 25; the bound keeps the decoder's
	// table small when a hostile header consists of nothing but tiny entries.
	ExtEntriesMax = 1024
	// JSONDepthMax bounds the nesting of JSON in headers and bodies. RocketMQ's deepest body has 8 levels.
	JSONDepthMax = 64
	// scratchKeepBytes is how much scratch a Decoder keeps. More than that is given back when the next frame does not
	// need it.
	scratchKeepBytes = 64 << 10
	// BodyElementsMax bounds the list items and map entries in one JSON body, because `{},` of 3 bytes can cost 100 in
	// memory. A full frame of real topic configurations has about 150,000.
	BodyElementsMax = 1 << 18
	// RefScanBytesMax bounds the work for resolving "$ref" in one body, in bytes looked at. A heartbeat of an old client
	// with a hundred references takes about 2 MiB.
	RefScanBytesMax = 16 << 20
	// StandardJSONBytesMax bounds the text that StandardJSON makes, as references can repeat parts of the input. A text of
	// more than half of that, which only a local file can be, may double.
	StandardJSONBytesMax = 2 * MaxFrameSize
	// RegistrationBytesMax bounds the inflated size of a packed broker registration. A topic takes about 60 bytes.
	RegistrationBytesMax = 64 << 20
	// RegistrationTextBytesMax bounds one text in a packed broker registration: a topic, a queue mapping, a list.
	RegistrationTextBytesMax = 1 << 20
	// RegistrationItemsMax bounds the topics, and the queue mappings, in a packed broker registration.
	RegistrationItemsMax = 1 << 20
)
