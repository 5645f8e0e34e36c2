package interop

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The range lies below the ephemeral ports of common systems, so that an outgoing connection cannot take a port between our
// look and the child's bind, not even while a broker is restarted on the ports it had.
const (
	portFrom  = 12000
	portTo    = 31000
	portTries = 200
)

// loopback is the only address that anything here listens on.
const loopback = "127.0.0.1"

// givenPorts are the ports that this process has given away: a broker that is stopped, or not yet started, holds none of its own.
var givenPorts = struct {
	mu  sync.Mutex
	set map[int]bool
}{set: map[int]bool{}}

// freePorts finds a port whose neighbours at the given distances are free as well, and gives none of them away again. A RocketMQ
// broker on port p also takes p-2 (VIP) and p+1 (HA).
func freePorts(distances ...int) (int, error) {
	distances = append(distances, 0)
	givenPorts.mu.Lock()
	defer givenPorts.mu.Unlock()
	for range portTries {
		port := portFrom + rand.IntN(portTo-portFrom)
		if portsFree(port, distances) {
			for _, distance := range distances {
				givenPorts.set[port+distance] = true
			}
			return port, nil
		}
	}
	return 0, errors.New("no free ports found")
}

func portsFree(port int, distances []int) bool {
	for _, distance := range distances {
		if givenPorts.set[port+distance] {
			return false
		}
		listener, err := net.Listen("tcp", address(port+distance))
		if err != nil {
			return false
		}
		listener.Close()
	}
	return true
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

// brokerPorts are the ports of one broker and its name server.
type brokerPorts struct{ broker, nameServer int }

// FreePort returns a loopback port that nobody uses and no other caller in this process was given.
func FreePort() (int, error) { return freePorts() }

func newBrokerPorts() (ports brokerPorts, err error) {
	if ports.broker, err = freePorts(-2, 1); err != nil {
		return ports, err
	}
	ports.nameServer, err = freePorts()
	return ports, err
}
