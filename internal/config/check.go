package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// frameBodyMax is what a frame of 16 MiB can carry for one body, with room for its header.
	frameBodyMax = 16<<20 - 64<<10
	// consumeQueueUnit is the size of a ConsumeQueue entry in bytes.
	consumeQueueUnit = 20
	// nameMax bounds cluster and broker names in bytes: they become topic names.
	nameMax = 127
)

// check looks at values that depend on each other or have a form of their own, and completes c.
func (l *loader) check(c *Config) {
	l.checkIdentity(c)
	l.checkAddresses(c)
	l.checkStore(c)
	if c.OutboundHardBytes < c.OutboundSoftBytes {
		l.failKey("peregrine.outboundHardBytes", c, "expected at least peregrine.outboundSoftBytes, which is "+strconv.FormatInt(c.OutboundSoftBytes, 10))
	}
	if hours := strings.Split(c.DeleteWhen, ";"); !validHours(hours) {
		l.failKey("deleteWhen", c, "expected hours from 0 to 23, separated by ;")
	}
	if _, err := ParseDelayLevels(c.MessageDelayLevel); err != nil {
		l.failKey("messageDelayLevel", c, err.Error())
	}
	l.checkNamesrv(c)
}

// failKey reports the effective value of a key, wherever it comes from.
func (l *loader) failKey(key string, c *Config, reason string) { l.fail(l.setting(key, c), reason) }

func (l *loader) setting(key string, c *Config) Setting {
	if s, ok := l.settings[key]; ok {
		return s
	}
	for _, k := range l.keys {
		if k.Name == key {
			return Setting{Key: key, Value: k.Get(c)}
		}
	}
	panic("BUG: no key " + key)
}

func (l *loader) checkIdentity(c *Config) {
	if c.BrokerId != 0 {
		l.warn(l.setting("brokerId", c), "taken as 0: a master is always 0, as in the original")
		c.BrokerId = 0
	}
	for _, key := range []string{"brokerName", "brokerClusterName"} {
		s := l.setting(key, c)
		if !validName(s.Value) && !(s.Value == "" && key == "brokerName") {
			l.fail(s, fmt.Sprintf("expected 1 to %d bytes without blanks and slashes", nameMax))
		}
	}
	if p := c.BrokerPermission; p&1 != 0 {
		l.warn(l.setting("brokerPermission", c), "only 4 (read) and 2 (write) mean something")
	}
}

// validName leaves out what cannot be a directory (the names become topics) or breaks lines of text. The original checks nothing.
func validName(name string) bool {
	return name != "" && len(name) <= nameMax && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' })
}

func (l *loader) checkAddresses(c *Config) {
	if _, err := netip.ParseAddr(c.BindAddress); err != nil {
		l.failKey("bindAddress", c, "expected an IP address, for example 0.0.0.0")
	}
	for _, key := range []string{"peregrine.http", "peregrine.namesrvListen"} {
		if _, _, ok := splitListen(l.setting(key, c).Value); !ok {
			l.failKey(key, c, "expected HOST:PORT, PORT or off")
		}
	}
	for _, key := range []string{"brokerIP1", "brokerIP2"} {
		if value := l.setting(key, c).Value; value != "" && !validHost(value) {
			l.failKey(key, c, "expected an IP address or a host name")
		}
	}
	if host, _, ok := splitAdvertise(c.Advertise); !ok || c.Advertise != "" && !validHost(host) {
		l.failKey("peregrine.advertise", c, "expected HOST or HOST:PORT")
	}
	l.chooseAdvertised(c)
	l.checkPorts(c)
}

// chooseAdvertised leaves one of two answers to the same question: the one from the stronger place.
func (l *loader) chooseAdvertised(c *Config) {
	if c.Advertise == "" || c.BrokerIP1 == "" {
		return
	}
	advertise, ip1 := l.setting("peregrine.advertise", c), l.setting("brokerIP1", c)
	if ip1.Origin.Rank > advertise.Origin.Rank {
		l.warn(advertise, "has no effect beside "+ip1.String())
		c.Advertise = ""
	} else {
		l.warn(ip1, "has no effect beside "+advertise.String())
		c.BrokerIP1 = ""
	}
}

// checkPorts finds two listeners on one port before the second one fails to open.
func (l *loader) checkPorts(c *Config) {
	taken := map[int]string{}
	claim := func(what, key, addr string, ok bool) {
		_, text, err := net.SplitHostPort(addr)
		port, _ := strconv.Atoi(text)
		if !ok || err != nil || port == 0 {
			return
		}
		if other, twice := taken[port]; twice {
			l.failKey(key, c, fmt.Sprintf("port %d of %s is already that of %s", port, what, other))
			return
		}
		taken[port] = what
	}
	claim("the broker", "listenPort", c.BrokerAddr(), true)
	fast, ok := c.FastAddr()
	claim("the VIP port (listenPort-2)", "listenPort", fast, ok)
	namesrv, ok := c.NamesrvAddrToListen()
	claim("the name server", "peregrine.namesrvListen", namesrv, ok)
	http, ok := c.HTTPAddr()
	claim("HTTP", "peregrine.http", http, ok)
}

// splitListen understands "off", "PORT", ":PORT" and "HOST:PORT".
func splitListen(value string) (host string, port int, ok bool) {
	if value == Off {
		return "", 0, true
	}
	text := value
	if strings.Contains(value, ":") {
		var err error
		if host, text, err = net.SplitHostPort(value); err != nil || host != "" && !validHost(host) {
			return "", 0, false
		}
	}
	port, ok = parsePort(text)
	return host, port, ok
}

// splitAdvertise understands "", "HOST" and "HOST:PORT"; an IPv6 address with a port needs brackets. Port 0 = none given.
func splitAdvertise(value string) (host string, port int, ok bool) {
	if value == "" {
		return "", 0, true
	}
	if addr, err := netip.ParseAddr(strings.Trim(value, "[]")); err == nil {
		return addr.String(), 0, true
	}
	if !strings.Contains(value, ":") {
		return value, 0, true
	}
	host, text, err := net.SplitHostPort(value)
	if err != nil {
		return "", 0, false
	}
	port, ok = parsePort(text)
	return host, port, ok && port > 0
}

func parsePort(text string) (int, bool) {
	port, err := strconv.ParseUint(text, 10, 16)
	return int(port), err == nil
}

// validHost accepts IP addresses and names as DNS and the hosts file have them.
func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return strings.Trim(host, "0123456789.") != "" && len(host) <= 253 && !strings.ContainsFunc(host, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r))
	})
}

func (l *loader) checkStore(c *Config) {
	if c.StorePathRootDir == "" {
		l.failKey("storePathRootDir", c, "expected a directory")
	}
	if strings.Contains(c.StorePathCommitLog, ",") {
		l.failKey("storePathCommitLog", c, whyNot("directories"))
	}
	if rest := c.MappedFileSizeConsumeQueue % consumeQueueUnit; rest != 0 {
		c.MappedFileSizeConsumeQueue += consumeQueueUnit - rest // as the original, without a word
	}
	if c.MaxMessageSize > frameBodyMax {
		l.warn(l.setting("maxMessageSize", c), fmt.Sprintf("a frame holds at most 16 MiB, so bodies above about %d bytes do not arrive", frameBodyMax))
	}
	if c.WarmMapedFileEnable && c.WriteWithoutMmap {
		l.warn(l.setting("warmMapedFileEnable", c), "has no effect beside writeWithoutMmap=true: there is no mapping to warm")
	}
	if c.HaListenPort == 0 {
		c.HaListenPort = c.ListenPort + 1
	}
}

func validHours(hours []string) bool {
	for _, h := range hours {
		if n, err := strconv.ParseUint(trim(h), 10, 8); err != nil || n > 23 {
			return false
		}
	}
	return true
}

// checkNamesrv stops a start that promises to register somewhere. A list that names only the embedded name server is no such
// promise: every broker.conf for one machine has it.
func (l *loader) checkNamesrv(c *Config) {
	if c.NamesrvAddr == "" {
		return
	}
	s := l.setting("namesrvAddr", c)
	_, ownPort, _ := splitListen(c.NamesrvListen)
	if c.NamesrvListen == Off {
		ownPort = -1
	}
	for addr := range strings.SplitSeq(c.NamesrvAddr, ";") {
		addr = trim(addr)
		if addr == "" {
			continue
		}
		host, text, err := net.SplitHostPort(addr)
		port, ok := parsePort(text)
		if err != nil || !ok || port == 0 || !validHost(host) {
			l.fail(s, "expected addresses like 127.0.0.1:9876, separated by ;")
			return
		}
		if port != ownPort || !c.isSelf(host) {
			l.fail(s, fmt.Sprintf("%s; leave namesrvAddr out, then the embedded name server serves clients (peregrine.namesrvListen, port 9876)", whyNot("namesrv")))
			return
		}
	}
	l.warn(s, "this is the embedded name server: nothing else is registered with")
}

// isSelf reports whether a host surely means this process: loopback, or what clients are told.
func (c *Config) isSelf(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil && addr.IsLoopback() {
		return true
	}
	advertised, _, _ := splitAdvertise(c.Advertise)
	return host == "localhost" || host == c.BrokerIP1 || host == advertised
}
