// Package message owns the bytes of one stored message: the CommitLog record, its properties text, its ids and the
// Java string hash that turns tags into tags codes. It mirrors what RocketMQ keeps in MessageDecoder, MessageExtEncoder,
// MessageSysFlag, MessageConst and MessageClientIDSetter, for records of 4.9.x and 5.x.
//
// It does no I/O, keeps no state and starts no goroutine. Every function may be called from any goroutine; the only
// stateful types are [UniqIDGen], [PropertyIter] and [BatchIter], which belong to one goroutine each.
//
// # Record layout
//
// The same bytes lie in the CommitLog and travel in the body of a pull answer. All integers are big-endian.
// Offsets marked * grow by 12 for each IPv6 host that precedes them.
//
//	offset  size     type    name                      meaning (value when absent)
//	0       4        int32   TOTALSIZE                 bytes of the whole record, this field included
//	4       4        int32   MAGICCODE                 MagicV1 or MagicV2 (MagicBlank: end-of-file filler, 8 bytes only)
//	8       4        int32   BODYCRC                   CRC-32 (IEEE) of the body & 0x7FFFFFFF (0 for an empty body)
//	12      4        int32   QUEUEID
//	16      4        int32   FLAG                      the client's own flag
//	20      8        int64   QUEUEOFFSET               position in the queue (0 for prepared and rolled-back records)
//	28      8        int64   PHYSICALOFFSET            position of this record in the log
//	36      4        int32   SYSFLAG                   SysFlag… bits
//	40      8        int64   BORNTIMESTAMP             client clock, epoch ms
//	48      8 or 20  bytes   BORNHOST                  address (4 or 16 bytes), then the port as int32
//	56*     8        int64   STORETIMESTAMP            broker clock, epoch ms
//	64*     8 or 20  bytes   STOREHOST                 as BORNHOST
//	72*     4        int32   RECONSUMETIMES
//	76*     8        int64   PREPAREDTRANSACTIONOFFSET position of the half message of a committed one (0)
//	84*     4        int32   body length n
//	88*     n        bytes   BODY                      as sent, possibly compressed
//	        1 or 2   int     topic length t            int8 in V1, int16 in V2
//	        t        UTF-8   TOPIC
//	        2        int16   properties length p
//	        p        UTF-8   PROPERTIES                see PropertyIter
//
// Layout source: org.apache.rocketmq.store.MessageExtEncoder (5.x), CommitLog.MessageExtEncoder (4.9.4) and
// org.apache.rocketmq.common.message.MessageDecoder; golden records of 5.5.0 prove it in the tests.
package message
