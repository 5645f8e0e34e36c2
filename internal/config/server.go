package config

// ServerConfig holds the keys of the original's NettyServerConfig and of its TLS settings (5.5.0) that apply here.
type ServerConfig struct {
	ListenPort  int    `key:"listenPort" default:"10911" range:"0..65535" important:"yes" doc:"port for everything; listenPort-2 is the VIP port; 0 = any free one, no VIP port"`
	BindAddress string `key:"bindAddress" default:"0.0.0.0" doc:"address to listen on"`

	ServerChannelMaxIdleTimeSeconds int `key:"serverChannelMaxIdleTimeSeconds" default:"120" unit:"s" range:"1..86400" doc:"a silent connection is closed after it"`

	UseTLS        bool   `key:"useTLS" default:"false" only:"false" why:"tls" doc:"TLS of outgoing connections"`
	TlsServerMode string `key:"tlsServerMode" default:"disabled" values:"disabled|permissive|enforcing" only:"disabled|permissive" why:"tls" doc:"TLS connections are refused; original: permissive"`
}
