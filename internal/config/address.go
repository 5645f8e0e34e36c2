package config

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// Address is what clients are told, and why.
type Address struct {
	Host    string // IP address or, if somebody said so, a host name
	Port    int    // 0 = listenPort
	Reason  string // how it was chosen, for the log
	Warning string // "" or why clients elsewhere may not reach it
}

// HostPort returns the address as host:port, for a broker that listens on listenPort.
func (a Address) HostPort(listenPort int) string {
	port := a.Port
	if port == 0 {
		port = listenPort
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(port))
}

// Interface is a network interface as the choice needs it.
type Interface struct {
	Name     string
	Up       bool
	Loopback bool
	Addrs    []netip.Addr
}

// Machine is what Resolve asks the computer.
type Machine struct {
	Hostname   func() (string, error)
	Interfaces func() ([]Interface, error)
	// RouteAddr returns the source address that packets to a far target would have; nothing is sent.
	RouteAddr func(target netip.AddrPort) (netip.Addr, error)
}

// ThisMachine asks the operating system.
func ThisMachine() Machine {
	return Machine{Hostname: os.Hostname, Interfaces: interfaces, RouteAddr: routeAddr}
}

func interfaces() ([]Interface, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var found []Interface
	for _, i := range list {
		one := Interface{Name: i.Name, Up: i.Flags&net.FlagUp != 0 && i.Flags&net.FlagRunning != 0, Loopback: i.Flags&net.FlagLoopback != 0}
		addrs, err := i.Addrs()
		if err != nil {
			continue // the interface went away
		}
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				one.Addrs = append(one.Addrs, prefix.Addr().Unmap())
			}
		}
		found = append(found, one)
	}
	return found, nil
}

// routeAddr connects a UDP socket, which makes the kernel choose route and source address and sends nothing.
func routeAddr(target netip.AddrPort) (netip.Addr, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(target))
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

// farTargets are addresses of documentation networks (RFC 5737, RFC 3849): nobody has them, so the default route answers.
var farTargets = [...]netip.AddrPort{
	netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 113, 1}), 9),
	netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}), 9),
}

// virtualPrefixes are the names of interfaces that only containers and virtual machines on this computer reach.
var virtualPrefixes = [...]string{"docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "lxc", "lxdbr", "podman", "kube-"}

func virtual(name string) bool {
	for _, p := range virtualPrefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// Resolve fills in what only the machine knows: brokerName, Advertised, brokerIP1 and brokerIP2.
func (c *Config) Resolve(m Machine) {
	if c.BrokerName == "" {
		c.BrokerName = hostName(m)
	}
	c.Advertised = c.chooseAddress(m)
	c.BrokerIP1 = c.Advertised.Host
	if c.BrokerIP2 == "" {
		c.BrokerIP2 = c.BrokerIP1
	}
}

// hostName is BrokerIdentity.localHostName of the original (5.5.0), which falls back to this text too.
func hostName(m Machine) string {
	name, err := m.Hostname()
	if err != nil || !validName(name) {
		return "DEFAULT_BROKER"
	}
	return name
}

func (c *Config) chooseAddress(m Machine) Address {
	list, err := m.Interfaces()
	if host, port, _ := splitAdvertise(c.Advertise); host != "" {
		return warned(Address{Host: host, Port: port, Reason: "said by peregrine.advertise"}, list)
	}
	if c.BrokerIP1 != "" {
		return warned(Address{Host: c.BrokerIP1, Reason: "said by brokerIP1"}, list)
	}
	// Listening on one address only: clients can reach no other.
	if bind, perr := netip.ParseAddr(c.BindAddress); perr == nil && !bind.IsUnspecified() {
		return warned(Address{Host: bind.String(), Reason: "bindAddress"}, list)
	}
	for _, target := range farTargets {
		addr, rerr := m.RouteAddr(target)
		if rerr != nil || !reachable(addr) {
			continue
		}
		owner := ownerOf(addr, list)
		if owner == nil || owner.Up && !owner.Loopback && !virtual(owner.Name) {
			return Address{Host: addr.String(), Reason: "address of the default route" + onInterface(owner)}
		}
	}
	for _, want4 := range []bool{true, false} {
		for i := range list {
			if one := &list[i]; one.Up && !one.Loopback && !virtual(one.Name) {
				for _, addr := range one.Addrs {
					if addr.Is4() == want4 && reachable(addr) {
						return Address{Host: addr.String(), Reason: "no default route; first address" + onInterface(one)}
					}
				}
			}
		}
	}
	reason := "no address but loopback and bridges found"
	if err != nil {
		reason = fmt.Sprintf("network interfaces are not readable (%v)", err)
	}
	return warned(Address{Host: "127.0.0.1", Reason: reason}, list)
}

func onInterface(i *Interface) string {
	if i == nil {
		return ""
	}
	return " on " + i.Name
}

// reachable leaves out addresses that other machines cannot use.
func reachable(addr netip.Addr) bool {
	return addr.IsValid() && !addr.IsLoopback() && !addr.IsUnspecified() && !addr.IsLinkLocalUnicast() && !addr.IsMulticast()
}

func ownerOf(addr netip.Addr, list []Interface) *Interface {
	for i := range list {
		for _, a := range list[i].Addrs {
			if a == addr {
				return &list[i]
			}
		}
	}
	return nil
}

// warned adds a warning where clients on other machines cannot reach the address.
func warned(a Address, list []Interface) Address {
	addr, err := netip.ParseAddr(a.Host)
	owner := ownerOf(addr, list)
	switch {
	case a.Host == "localhost" || err == nil && addr.IsLoopback():
		a.Warning = "clients on other machines cannot reach a loopback address; set --advertise HOST if there are any"
	case err == nil && (addr.IsUnspecified() || addr.IsMulticast()):
		a.Warning = "no client can connect to this address; set --advertise HOST"
	case owner != nil && virtual(owner.Name):
		a.Warning = "clients on other machines cannot reach the bridge " + owner.Name + "; set --advertise HOST if there are any"
	}
	return a
}
