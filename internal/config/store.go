package config

// StoreConfig holds the keys of the original's MessageStoreConfig (5.5.0) that apply here.
type StoreConfig struct {
	StorePathRootDir            string `key:"storePathRootDir" default:"peregrine-data" important:"yes" doc:"root of all data; the original's default is ~/store"`
	StorePathCommitLog          string `key:"storePathCommitLog" default:"" important:"yes" doc:"directory of the log; empty = commitlog below the root. One only"`
	ReadOnlyCommitLogStorePaths string `key:"readOnlyCommitLogStorePaths" default:"" only:"" why:"directories" doc:"directories that get no new files"`
	StoreType                   string `key:"storeType" default:"default" only:"default" important:"yes" why:"rocksdb" doc:"default = files"`
	MessageStorePlugIn          string `key:"messageStorePlugIn" default:"" only:"" why:"plugin" doc:"classes around the store"`

	MappedFileSizeCommitLog    int64 `key:"mappedFileSizeCommitLog" default:"1073741824" unit:"bytes" range:"4096..2147483647" doc:"of a log file; fixed per directory"`
	MappedFileSizeConsumeQueue int64 `key:"mappedFileSizeConsumeQueue" default:"6000000" unit:"bytes" range:"20..2147483640" doc:"of a ConsumeQueue file, rounded up to 20; fixed per directory"`

	EnableConsumeQueueExt         bool  `key:"enableConsumeQueueExt" default:"false" doc:"write consumequeue_ext: tags code and store time of every queue entry; it is read either way"`
	MappedFileSizeConsumeQueueExt int64 `key:"mappedFileSizeConsumeQueueExt" default:"50331648" unit:"bytes" range:"1024..2147483647" doc:"of a file there; fixed per directory"`
	BitMapLengthConsumeQueueExt   int   `key:"bitMapLengthConsumeQueueExt" default:"64" unit:"bits" range:"0..262136" pending:"SQL92 filters" doc:"of an entry; the original chooses by itself"`

	MaxMessageSize int `key:"maxMessageSize" default:"4194304" unit:"bytes" range:"1..2147418111" reload:"yes" doc:"longest body; a frame holds at most 16 MiB"`

	FlushDiskType                     string `key:"flushDiskType" default:"ASYNC_FLUSH" values:"ASYNC_FLUSH|SYNC_FLUSH" important:"yes" doc:"SYNC_FLUSH answers a send when it is on the device"`
	FlushIntervalCommitLog            int64  `key:"flushIntervalCommitLog" default:"500" unit:"ms" range:"1..3600000" reload:"yes" important:"yes" doc:"ASYNC_FLUSH: between two looks"`
	FlushCommitLogTimed               bool   `key:"flushCommitLogTimed" default:"true" reload:"yes" important:"yes" pending:"flush wake-ups" doc:"ASYNC_FLUSH: sleep, do not wait for a wake-up"`
	FlushCommitLogLeastPages          int    `key:"flushCommitLogLeastPages" default:"4" unit:"pages of 4096 bytes" range:"0..262144" reload:"yes" doc:"ASYNC_FLUSH: less is left for later"`
	FlushCommitLogThoroughInterval    int64  `key:"flushCommitLogThoroughInterval" default:"10000" unit:"ms" range:"1..3600000" reload:"yes" doc:"ASYNC_FLUSH: but no longer than this"`
	WakeFlushWhenPutMessage           bool   `key:"wakeFlushWhenPutMessage" default:"false" reload:"yes" important:"yes" pending:"flush wake-ups" doc:"ASYNC_FLUSH: a send wakes the flusher"`
	SyncFlushTimeout                  int64  `key:"syncFlushTimeout" default:"5000" unit:"ms" range:"1..3600000" reload:"yes" doc:"SYNC_FLUSH: a send waits so long for its sync"`
	FlushIntervalConsumeQueue         int64  `key:"flushIntervalConsumeQueue" default:"1000" unit:"ms" range:"10..3600000" reload:"yes" doc:"between two looks at the queues"`
	FlushConsumeQueueLeastPages       int    `key:"flushConsumeQueueLeastPages" default:"2" unit:"pages of 4096 bytes" range:"0..262144" reload:"yes" doc:"less of a queue is left for later"`
	FlushConsumeQueueThoroughInterval int64  `key:"flushConsumeQueueThoroughInterval" default:"60000" unit:"ms" range:"10..86400000" reload:"yes" doc:"but no longer than this"`
	WriteWithoutMmap                  bool   `key:"writeWithoutMmap" default:"false" important:"yes" doc:"append with pwrite and fdatasync, not through a mapping"`
	DataReadAheadEnable               bool   `key:"dataReadAheadEnable" default:"true" doc:"false = the kernel reads nothing ahead when old messages are read"`
	WarmMapedFileEnable               bool   `key:"warmMapedFileEnable" default:"false" doc:"touch log files ahead and lock them into memory; not with writeWithoutMmap"`
	FlushLeastPagesWhenWarmMapedFile  int    `key:"flushLeastPagesWhenWarmMapedFile" default:"4096" unit:"pages of 4096 bytes" range:"1..262144" doc:"so many touched pages are written at a time"`
	OsPageCacheBusyTimeOutMills       int64  `key:"osPageCacheBusyTimeOutMills" default:"1000" unit:"ms" range:"1..3600000" reload:"yes" pending:"waiting times" doc:"longest hold of the append lock"`
	CheckCRCOnRecover                 bool   `key:"checkCRCOnRecover" default:"true" doc:"recovery checks the bodies"`

	MaxTransferBytesOnMessageInMemory int `key:"maxTransferBytesOnMessageInMemory" default:"262144" unit:"bytes" range:"1..16777216" reload:"yes" important:"yes" doc:"most of one pull, recent messages"`
	MaxTransferCountOnMessageInMemory int `key:"maxTransferCountOnMessageInMemory" default:"32" range:"1..65536" reload:"yes" important:"yes" doc:"most messages of it, as the client allows"`
	MaxTransferBytesOnMessageInDisk   int `key:"maxTransferBytesOnMessageInDisk" default:"65536" unit:"bytes" range:"1..16777216" reload:"yes" important:"yes" doc:"most of one pull, old messages"`
	MaxTransferCountOnMessageInDisk   int `key:"maxTransferCountOnMessageInDisk" default:"8" range:"1..65536" reload:"yes" important:"yes" doc:"most messages of it"`
	MaxFilterMessageSize              int `key:"maxFilterMessageSize" default:"16000" unit:"bytes" range:"20..16777216" reload:"yes" doc:"of ConsumeQueue looked at by one pull"`
	AccessMessageInMemoryMaxRatio     int `key:"accessMessageInMemoryMaxRatio" default:"40" unit:"%" range:"1..100" reload:"yes" important:"yes" doc:"of the memory counts as recent messages"`
	MaxMsgsNumBatch                   int `key:"maxMsgsNumBatch" default:"64" range:"1..65536" reload:"yes" doc:"most messages of a query by key"`
	DefaultQueryMaxNum                int `key:"defaultQueryMaxNum" default:"32" range:"1..65536" reload:"yes" doc:"most messages of a query by unique key"`

	MessageIndexEnable   bool `key:"messageIndexEnable" default:"true" important:"yes" doc:"write the index of keys"`
	MessageIndexSafe     bool `key:"messageIndexSafe" default:"false" important:"yes" doc:"no effect: after a crash the index is always completed"`
	IndexFileWriteEnable bool `key:"indexFileWriteEnable" default:"true" doc:"the same as messageIndexEnable, for index files"`
	IndexFileReadEnable  bool `key:"indexFileReadEnable" default:"true" doc:"answer queries from index files"`
	MaxHashSlotNum       int  `key:"maxHashSlotNum" default:"5000000" range:"1..100000000" doc:"slots of an index file; fixed per directory"`
	MaxIndexNum          int  `key:"maxIndexNum" default:"20000000" range:"1..100000000" doc:"items of an index file; fixed per directory"`

	FileReservedTime                int64  `key:"fileReservedTime" default:"72" unit:"h" range:"1..8760000" reload:"yes" important:"yes" doc:"files older than this are deleted"`
	DeleteWhen                      string `key:"deleteWhen" default:"04" reload:"yes" important:"yes" doc:"at these hours of the day, separated by ;"`
	CleanResourceInterval           int64  `key:"cleanResourceInterval" default:"10000" unit:"ms" range:"100..3600000" doc:"between two looks at files and disk"`
	DeleteFileBatchMax              int    `key:"deleteFileBatchMax" default:"10" range:"1..10000" reload:"yes" important:"yes" doc:"most files deleted by one look"`
	DeleteCommitLogFilesInterval    int64  `key:"deleteCommitLogFilesInterval" default:"100" unit:"ms" range:"0..60000" reload:"yes" doc:"between two deletions in the log"`
	DeleteConsumeQueueFilesInterval int64  `key:"deleteConsumeQueueFilesInterval" default:"100" unit:"ms" range:"0..60000" reload:"yes" doc:"between two deletions in queues"`
	CleanFileForciblyEnable         bool   `key:"cleanFileForciblyEnable" default:"true" reload:"yes" important:"yes" doc:"a nearly full disk may cost younger files"`
	DiskMaxUsedSpaceRatio           int    `key:"diskMaxUsedSpaceRatio" default:"75" unit:"%" clamp:"10..95" reload:"yes" doc:"above it old files go at any hour"`
	DiskSpaceCleanForciblyRatio     int    `key:"diskSpaceCleanForciblyRatio" default:"85" unit:"%" clamp:"30..85" reload:"yes" doc:"above it younger files are deleted too"`
	DiskSpaceWarningLevelRatio      int    `key:"diskSpaceWarningLevelRatio" default:"90" unit:"%" clamp:"35..90" reload:"yes" doc:"above it sends are refused"`

	MessageDelayLevel            string `key:"messageDelayLevel" default:"1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h" doc:"times of the delay levels"`
	FlushDelayOffsetInterval     int64  `key:"flushDelayOffsetInterval" default:"10000" unit:"ms" range:"10..3600000" doc:"delayOffset.json is written this often"`
	DelayOffsetUpdateVersionStep int64  `key:"delayOffsetUpdateVersionStep" default:"200" range:"1.." doc:"deliveries per step of the data version"`
	TimerWheelEnable             bool   `key:"timerWheelEnable" default:"true" pending:"timer messages" doc:"delays of any length"`
	TimerPrecisionMs             int    `key:"timerPrecisionMs" default:"1000" unit:"ms" range:"100..60000" pending:"timer messages" doc:"to this precision"`
	TimerRollWindowSlot          int    `key:"timerRollWindowSlot" default:"172800" range:"2..1209600" pending:"timer messages" doc:"slots before a message is put in anew"`
	TimerMaxDelaySec             int64  `key:"timerMaxDelaySec" default:"259200" unit:"s" range:"1..315360000" reload:"yes" pending:"timer messages" doc:"longest delay"`

	BrokerRole   string `key:"brokerRole" default:"ASYNC_MASTER" values:"ASYNC_MASTER|SYNC_MASTER|SLAVE" only:"ASYNC_MASTER" important:"yes" why:"replication" doc:"role in a replicated group"`
	HaListenPort int    `key:"haListenPort" default:"0" range:"0..65535" pending:"replication" doc:"port for slaves; 0 = listenPort+1"`

	TransientStorePoolEnable   bool `key:"transientStorePoolEnable" default:"false" only:"false" important:"yes" why:"pool" doc:"append to memory first"`
	EnabledAppendPropCRC       bool `key:"enabledAppendPropCRC" default:"false" only:"false" why:"propcrc" doc:"write a CRC over the properties"`
	ForceVerifyPropCRC         bool `key:"forceVerifyPropCRC" default:"false" only:"false" why:"propcrc" doc:"refuse records without it"`
	DuplicationEnable          bool `key:"duplicationEnable" default:"false" only:"false" why:"duplication" doc:"a foreign program replicates the log"`
	EnableDLegerCommitLog      bool `key:"enableDLegerCommitLog" default:"false" only:"false" why:"dledger" doc:"replicate by Raft"`
	EnableLmq                  bool `key:"enableLmq" default:"false" only:"false" why:"lmq" doc:"light message queues"`
	EnableMultiDispatch        bool `key:"enableMultiDispatch" default:"false" only:"false" why:"lmq" doc:"one message in several queues"`
	IndexRocksDBEnable         bool `key:"indexRocksDBEnable" default:"false" only:"false" why:"rocksdb" doc:"index in RocksDB"`
	TimerRocksDBEnable         bool `key:"timerRocksDBEnable" default:"false" only:"false" why:"rocksdb" doc:"timer messages in RocksDB"`
	TransRocksDBEnable         bool `key:"transRocksDBEnable" default:"false" only:"false" why:"rocksdb" doc:"transactions in RocksDB"`
	RocksdbCQDoubleWriteEnable bool `key:"rocksdbCQDoubleWriteEnable" default:"false" only:"false" why:"rocksdb" doc:"ConsumeQueues in RocksDB too"`
}
