package config

// PeregrineConfig holds the keys that the original does not have. 0 is "automatic" where the doc says so: the room that uses
// the value decides from the machine, and logs what it took.
type PeregrineConfig struct {
	HTTP          string `key:"peregrine.http" default:"127.0.0.1:10920" important:"yes" doc:"metrics, health and profiles: HOST:PORT, PORT or off"`
	NamesrvListen string `key:"peregrine.namesrvListen" default:"9876" important:"yes" doc:"embedded name server: HOST:PORT, PORT (on bindAddress) or off"`
	Advertise     string `key:"peregrine.advertise" default:"" important:"yes" doc:"HOST or HOST:PORT that clients are told, where it is not the address here; as --advertise"`

	EventLoops        int   `key:"peregrine.eventLoops" default:"0" range:"0..256" important:"yes" doc:"threads that serve connections; 0 = half the CPUs"`
	ReputShards       int   `key:"peregrine.reputShards" default:"0" range:"0..64" important:"yes" doc:"goroutines that write ConsumeQueues; 0 = automatic"`
	ControlWorkers    int   `key:"peregrine.controlWorkers" default:"0" range:"0..256" doc:"goroutines for routes, tables and admin; 0 = automatic"`
	ColdReaders       int   `key:"peregrine.coldReaders" default:"0" range:"0..256" doc:"goroutines that read old messages; 0 = automatic"`
	MaxConnections    int   `key:"peregrine.maxConnections" default:"0" range:"0..10000000" doc:"open connections; 0 = from the limit of descriptors"`
	OutboundSoftBytes int64 `key:"peregrine.outboundSoftBytes" default:"1048576" unit:"bytes" range:"4096..1073741824" doc:"unsent to one client: above it its pulls wait"`
	OutboundHardBytes int64 `key:"peregrine.outboundHardBytes" default:"8388608" unit:"bytes" range:"4096..1073741824" doc:"above it the connection is closed"`

	LogDebug         bool `key:"peregrine.logDebug" default:"false" doc:"also log why single requests were answered as they were, such as where a new group begins"`
	KeepLocksOnClose bool `key:"peregrine.keepLocksOnClose" default:"false" doc:"queue locks of a closed connection live on until they expire, as in the original; false frees them at once"`

	DispatchLagMaxBytes int64 `key:"peregrine.dispatchLagMaxBytes" default:"1073741824" unit:"bytes" range:"1048576..1099511627776" doc:"stored, not yet visible: above it sends are refused"`
	UnflushedMaxBytes   int64 `key:"peregrine.unflushedMaxBytes" default:"0" unit:"bytes" range:"0..1099511627776" doc:"stored, not yet on the device: above it sends are refused; 0 = automatic"`
	HotUnitsMaxBytes    int64 `key:"peregrine.hotUnitsMaxBytes" default:"16777216" unit:"bytes" range:"1048576..17179869184" doc:"memory for the newest ConsumeQueue units of all queues"`
	HotWindowMaxBytes   int64 `key:"peregrine.hotWindowMaxBytes" default:"0" unit:"bytes" range:"0..1099511627776" doc:"newest part of the log, read from memory; 0 = automatic"`
	DrainMs             int64 `key:"peregrine.drainMs" default:"5000" unit:"ms" range:"0..600000" doc:"at a stop, requests in flight get so long"`
}
