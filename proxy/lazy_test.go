package proxy

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

func TestALazyConnIsANetConn(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			nettest.TestConn(t, func() (a, b net.Conn, stop func(), err error) {
				l, err := nettest.NewLocalListener(network)
				if err != nil {
					return nil, nil, nil, err
				}
				defer l.Close()
				if a, err = net.Dial(network, l.Addr().String()); err != nil {
					return nil, nil, nil, err
				}
				if b, err = l.Accept(); err != nil {
					return nil, nil, nil, err
				}
				a, b = lazy(a), lazy(b)
				return a, b, func() { a.Close(); b.Close() }, nil
			})
		})
	}
}
