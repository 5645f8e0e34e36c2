package config

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func iface(name string, flags string, addrs ...string) Interface {
	i := Interface{Name: name, Up: !strings.Contains(flags, "down"), Loopback: strings.Contains(flags, "lo")}
	for _, a := range addrs {
		i.Addrs = append(i.Addrs, netip.MustParseAddr(a))
	}
	return i
}

// machine answers with these interfaces and, for a route, with the address given for the family ("" = no route).
func machine(route4, route6 string, list ...Interface) Machine {
	return Machine{
		Hostname:   func() (string, error) { return "host-1.example.org", nil },
		Interfaces: func() ([]Interface, error) { return list, nil },
		RouteAddr: func(target netip.AddrPort) (netip.Addr, error) {
			text := route4
			if target.Addr().Is6() {
				text = route6
			}
			if text == "" {
				return netip.Addr{}, errors.New("network is unreachable")
			}
			return netip.MustParseAddr(text), nil
		},
	}
}

func TestAdvertisedAddress(t *testing.T) {
	lo := iface("lo", "lo", "127.0.0.1", "::1")
	eth := iface("eth0", "", "fe80::1", "2001:db8:1::5", "10.1.2.3")
	eth1 := iface("eth1", "", "192.168.7.7")
	docker := iface("docker0", "", "172.17.0.1")
	bridge := iface("br-12ab", "", "172.18.0.1")
	down := iface("eth9", "down", "10.9.9.9")
	vpn := iface("tun0", "", "10.8.0.2")
	for _, c := range []struct {
		name    string
		m       Machine
		args    []string
		want    string
		reason  string
		warning string
	}{
		{"default route", machine("10.1.2.3", "", lo, docker, vpn, eth, eth1), nil, "10.1.2.3", "default route on eth0", ""},
		{"second card has the route", machine("192.168.7.7", "", lo, docker, eth, eth1), nil, "192.168.7.7", "default route on eth1", ""},
		{"IPv4 before IPv6", machine("10.1.2.3", "2001:db8:1::5", lo, eth), nil, "10.1.2.3", "default route", ""},
		{"IPv6 only", machine("", "2001:db8:1::5", lo, iface("eth0", "", "fe80::1", "2001:db8:1::5")), nil, "2001:db8:1::5", "default route", ""},
		{"route over a bridge", machine("172.17.0.1", "", lo, docker, eth), nil, "10.1.2.3", "first address on eth0", ""},
		{"route over a link that is down", machine("10.9.9.9", "", lo, down, eth), nil, "10.1.2.3", "first address on eth0", ""},
		{"no route", machine("", "", lo, docker, bridge, down, eth1, eth), nil, "192.168.7.7", "no default route; first address on eth1", ""},
		{"no route, IPv4 preferred", machine("", "", lo, iface("eth0", "", "2001:db8:1::5"), eth1), nil, "192.168.7.7", "eth1", ""},
		{"no route, IPv6 only", machine("", "", lo, iface("eth0", "", "fe80::1", "2001:db8:1::5")), nil, "2001:db8:1::5", "eth0", ""},
		{"nothing", machine("", "", lo, docker, down), nil, "127.0.0.1", "no address but loopback and bridges", "loopback"},
		{"route says loopback", machine("127.0.0.1", "", lo), nil, "127.0.0.1", "no address but loopback", "loopback"},
		{"address of nobody in the list", machine("10.5.5.5", "", lo, eth), nil, "10.5.5.5", "default route", ""},
		{"brokerIP1", machine("10.1.2.3", "", lo, eth), []string{"brokerIP1=192.168.7.7"}, "192.168.7.7", "said by brokerIP1", ""},
		{"brokerIP1 is a bridge", machine("10.1.2.3", "", lo, eth, docker), []string{"brokerIP1=172.17.0.1"}, "172.17.0.1", "said", "bridge docker0"},
		{"brokerIP1 is loopback", machine("10.1.2.3", "", lo, eth), []string{"brokerIP1=127.0.0.1"}, "127.0.0.1", "said", "loopback"},
		{"localhost", machine("10.1.2.3", "", lo, eth), []string{"brokerIP1=localhost"}, "localhost", "said", "loopback"},
		{"nowhere", machine("10.1.2.3", "", lo, eth), []string{"brokerIP1=0.0.0.0"}, "0.0.0.0", "said", "no client can connect"},
		{"advertise", machine("10.1.2.3", "", lo, eth), []string{"--advertise", "mq.example.org:20911"}, "mq.example.org", "said by peregrine.advertise", ""},
		{"advertise IPv6", machine("10.1.2.3", "", lo, eth), []string{"--advertise", "2001:db8::9"}, "2001:db8::9", "said", ""},
		{"bindAddress", machine("10.1.2.3", "", lo, eth, eth1), []string{"bindAddress=192.168.7.7"}, "192.168.7.7", "bindAddress", ""},
		{"bound to loopback", machine("10.1.2.3", "", lo, eth), []string{"bindAddress=127.0.0.1"}, "127.0.0.1", "bindAddress", "loopback"},
	} {
		for range 20 {
			cfg, _ := mustLoad(t, "", c.args...)
			cfg.Resolve(c.m)
			a := cfg.Advertised
			if a.Host != c.want || !strings.Contains(a.Reason, c.reason) || (a.Warning == "") != (c.warning == "") || !strings.Contains(a.Warning, c.warning) {
				t.Fatalf("%s: %+v", c.name, a)
			}
			if cfg.BrokerIP1 != c.want || cfg.BrokerIP2 != c.want {
				t.Fatalf("%s: brokerIP1 %s, brokerIP2 %s", c.name, cfg.BrokerIP1, cfg.BrokerIP2)
			}
		}
	}
}

func TestAdvertisedPort(t *testing.T) {
	for arg, want := range map[string]string{
		"mq:20911": "mq:20911", "mq": "mq:10911", "10.0.0.1:5": "10.0.0.1:5", "[2001:db8::9]:5": "[2001:db8::9]:5", "[2001:db8::9]": "[2001:db8::9]:10911",
	} {
		c, _ := mustLoad(t, "", "--advertise", arg)
		c.Resolve(machine("10.1.2.3", ""))
		equal(t, arg, c.Advertised.HostPort(c.ListenPort), want)
	}
}

func TestBrokerNameIsTheHostName(t *testing.T) {
	m := machine("", "")
	for _, c := range []struct {
		args []string
		host string
		err  error
		want string
	}{
		{nil, "host-1", nil, "host-1"}, {nil, "", nil, "DEFAULT_BROKER"}, {nil, "a/b", nil, "DEFAULT_BROKER"},
		{nil, "x", errors.New("no name"), "DEFAULT_BROKER"}, {[]string{"brokerName=broker-a"}, "host-1", nil, "broker-a"},
	} {
		cfg, _ := mustLoad(t, "", c.args...)
		m.Hostname = func() (string, error) { return c.host, c.err }
		cfg.Resolve(m)
		equal(t, c.host, cfg.BrokerName, c.want)
	}
}

func TestUnreadableInterfaces(t *testing.T) {
	m := machine("", "")
	m.Interfaces = func() ([]Interface, error) { return nil, errors.New("netlink: denied") }
	c, _ := mustLoad(t, "")
	c.Resolve(m)
	if a := c.Advertised; a.Host != "127.0.0.1" || !strings.Contains(a.Reason, "netlink: denied") || a.Warning == "" {
		t.Errorf("%+v", a)
	}
}

func TestThisMachineAnswers(t *testing.T) {
	c, _ := mustLoad(t, "")
	c.Resolve(ThisMachine())
	if c.BrokerName == "" || c.Advertised.Host == "" || c.Advertised.Reason == "" {
		t.Errorf("%q %+v", c.BrokerName, c.Advertised)
	}
	if _, err := netip.ParseAddr(c.Advertised.Host); err != nil {
		t.Error(err)
	}
}
