package message

import (
	"encoding/binary"
	"net/netip"
)

// Host is an address as records hold it: 4 or 16 address bytes and a port of 32 bits. It is comparable.
// The zero Host encodes as 0.0.0.0:0.
type Host struct {
	IP    [16]byte // the first IPLen bytes are used, the rest is zero
	IPLen uint8    // 4 or 16; anything but 16 counts as 4
	Port  int32
}

// HostOf converts ap. An IPv4-mapped IPv6 address becomes IPv4, because clients up to 4.9 cannot read IPv6 hosts; a zone
// is dropped. An invalid ap gives the zero address with ap's port.
func HostOf(ap netip.AddrPort) Host {
	h := Host{IPLen: 4, Port: int32(ap.Port())}
	addr := ap.Addr().Unmap()
	switch {
	case addr.Is4():
		ip := addr.As4()
		copy(h.IP[:], ip[:])
	case addr.Is6():
		h.IP, h.IPLen = addr.As16(), 16
	}
	return h
}

// AddrPort is the inverse of HostOf. A port outside 0…65535, which only a damaged record can hold, is cut to 16 bits.
func (h Host) AddrPort() netip.AddrPort {
	if h.IPLen == 16 {
		return netip.AddrPortFrom(netip.AddrFrom16(h.IP), uint16(h.Port))
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(h.IP[:4])), uint16(h.Port))
}

// String gives "address:port", with brackets around IPv6 addresses.
func (h Host) String() string { return h.AddrPort().String() }

// Size is the number of bytes the host takes in a record: 8 or 20.
func (h *Host) Size() int {
	if h.IPLen == 16 {
		return 20
	}
	return 8
}

// addressBytes is how many bytes of IP are in use.
func (h *Host) addressBytes() int {
	if h.IPLen == 16 {
		return 16
	}
	return 4
}

// put writes address and port at dst[at:] and returns the position behind them.
func (h *Host) put(dst []byte, at int) int {
	n := h.addressBytes()
	copy(dst[at:at+n], h.IP[:n])
	binary.BigEndian.PutUint32(dst[at+n:], uint32(h.Port))
	return at + n + 4
}

// get reads a host of n address bytes at src[at:] and returns the position behind it.
func (h *Host) get(src []byte, at, n int) int {
	h.IP = [16]byte{}
	copy(h.IP[:n], src[at:at+n])
	h.IPLen = uint8(n)
	h.Port = int32(binary.BigEndian.Uint32(src[at+n:]))
	return at + n + 4
}
