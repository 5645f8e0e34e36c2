package config

import (
	"net"
	"path/filepath"
	"strconv"
)

// Config is the effective configuration.
type Config struct {
	BrokerConfig
	ServerConfig
	StoreConfig
	PeregrineConfig

	// Advertised is the address that clients are told, set by Resolve.
	Advertised Address
}

// Texts of enumerated keys.
const (
	AsyncFlush  = "ASYNC_FLUSH"
	SyncFlush   = "SYNC_FLUSH"
	AsyncMaster = "ASYNC_MASTER"
	SyncMaster  = "SYNC_MASTER"
	Slave       = "SLAVE"

	// Off is the value of an address key that switches the listener off.
	Off = "off"
)

// SyncFlushed reports whether a send is acknowledged only after its bytes are on the device.
func (c *Config) SyncFlushed() bool { return c.FlushDiskType == SyncFlush }

// BrokerAddr returns the address to listen on for everything.
func (c *Config) BrokerAddr() string {
	return net.JoinHostPort(c.BindAddress, strconv.Itoa(c.ListenPort))
}

// FastAddr returns the address of the "VIP" port, listenPort-2. ok is false where there is no such port: listenPort is 0, so
// that no client could compute it, or below 3.
func (c *Config) FastAddr() (addr string, ok bool) {
	if c.ListenPort < 3 {
		return "", false
	}
	return net.JoinHostPort(c.BindAddress, strconv.Itoa(c.ListenPort-2)), true
}

// NamesrvAddrToListen returns the address of the embedded name server; ok is false when it is switched off. A value without a
// host listens on bindAddress.
func (c *Config) NamesrvAddrToListen() (addr string, ok bool) {
	return listenAddr(c.NamesrvListen, c.BindAddress)
}

// HTTPAddr returns the address of metrics, health and profiles; ok is false when they are switched off. A value without a
// host listens on loopback: profiles are not for everybody.
func (c *Config) HTTPAddr() (addr string, ok bool) { return listenAddr(c.HTTP, "127.0.0.1") }

// listenAddr understands "off", "PORT", ":PORT" and "HOST:PORT", which the loader has checked.
func listenAddr(value, host string) (string, bool) {
	named, port, ok := splitListen(value)
	if !ok || value == Off {
		return "", false
	}
	if named != "" {
		host = named
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), true
}

// CommitLogDir returns the directory of the log: storePathCommitLog, else commitlog below the root.
func (c *Config) CommitLogDir() string {
	if c.StorePathCommitLog != "" {
		return c.StorePathCommitLog
	}
	return filepath.Join(c.StorePathRootDir, "commitlog")
}
