// Package wire owns the bytes of the RocketMQ remoting protocol: frames, both header encodings, request and response
// codes, typed headers and the JSON of bodies. It speaks to 4.9.x and 5.x clients and brokers.
//
// It opens no connection, keeps no state besides the scratch memory of a [Decoder], and starts no goroutine. Functions may
// be called from any goroutine; a Decoder, the [Command] it filled and the iterators over that belong to one.
//
// # Frame layout
//
//	offset  size  type    content
//	0       4     int32   L = bytes that follow this field = 4 + H + B, 4 … FrameLengthMax
//	4       1     uint8   Encoding of the header: 0 JSON, 1 binary
//	5       3     uint24  H = header length in bytes
//	8       H     bytes   header
//	8+H     B     bytes   body, B = L - 4 - H
//
// Decoder.Decode takes a frame without its length field, so from offset 4 on. Mirrors NettyDecoder, NettyEncoder and
// RemotingCommand.
//
// # Binary header (RocketMQSerializable)
//
//	size  type    content
//	2     int16   code
//	1     uint8   Language
//	2     int16   version
//	4     int32   opaque
//	4     int32   flag: bit 0 response, bit 1 one-way
//	4     int32   remark length n, 0 = no remark
//	n     UTF-8   remark
//	4     int32   bytes of all ext entries m, 0 = no ext fields
//	m             entries: int16 key length, key, int32 value length, value
//
// # JSON header (RemotingSerializable)
//
// An object with the keys code, extFields (object of texts), flag, language, opaque, remark, serializeTypeCurrentRPC,
// version; written in this order without white space, null values left out.
//
// # Ownership
//
// Every slice in a Command, in a hot typed header and from an iterator aliases the frame or the Decoder's scratch. It is
// valid until the frame's bytes change or the same Decoder decodes again, whichever comes first. Cold headers and bodies
// hold copies.
package wire
