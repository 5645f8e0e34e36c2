package interop

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
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

// freePorts finds a port whose neighbours at the given distances are free as well. A RocketMQ broker on port p also takes p-2
// (VIP) and p+1 (HA).
func freePorts(distances ...int) (int, error) {
	for range portTries {
		port := portFrom + rand.IntN(portTo-portFrom)
		if portsFree(port, distances) {
			return port, nil
		}
	}
	return 0, errors.New("no free ports found")
}

func portsFree(port int, distances []int) bool {
	for _, distance := range append([]int{0}, distances...) {
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

func newBrokerPorts() (brokerPorts, error) {
	broker, err := freePorts(-2, 1)
	if err != nil {
		return brokerPorts{}, err
	}
	for range portTries {
		nameServer, err := freePorts()
		if err != nil {
			return brokerPorts{}, err
		}
		if nameServer < broker-2 || nameServer > broker+1 {
			return brokerPorts{broker, nameServer}, nil
		}
	}
	return brokerPorts{}, fmt.Errorf("no free port beside %d", broker)
}
