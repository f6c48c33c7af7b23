package proxy

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"
)

// minProgress is how many bytes a span of `timeouts.read` or `timeouts.write`
// must see for the other side not to count as stalled.
const minProgress = 1 << 10

// conn is an accepted connection. A write to it may take as long as it likes
// while in each span the client takes at least minProgress bytes or all that is
// left: a slow honest download of any length lives, a stalled one ends.
type conn struct {
	net.Conn
	span time.Duration // 0 is no bound
	peer netip.AddrPort

	local bool // peer is no address of its own, but that of all who come by a unix socket

	early []byte // came behind a PROXY header; read first
	doors *Doors
	home  netip.Prefix // what it counts as for connections_per_ip; zero if it does not
	gone  atomic.Bool
	heard atomic.Bool // a request came, or never will

	traffic traffic
}

// hear notes that the connection is no newcomer any more.
func (c *conn) hear() {
	if !c.heard.Load() && c.heard.CompareAndSwap(false, true) {
		c.doors.newcomers.Add(-1)
	}
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (n int, err error) {
	if c.span <= 0 {
		return c.Conn.Write(p)
	}
	for {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.span)); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(p[n:])
		n += m
		if err == nil || m < minProgress || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	err := c.Conn.Close()
	if c.gone.CompareAndSwap(false, true) {
		c.doors.leave(c)
	}
	return err
}

// CloseWrite half-closes the connection where it can be, for tunnels.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}
