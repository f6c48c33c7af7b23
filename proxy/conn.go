package proxy

import (
	"crypto/tls"
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
	span  time.Duration // 0 is no bound
	peer  netip.AddrPort
	early []byte // came behind a PROXY header; read first
	doors *Doors
	use   *Address     // what it came for; nil in tests
	home  netip.Prefix // what it counts as for connections_per_ip; zero if it does not
	gone  atomic.Bool
	heard atomic.Bool  // a request came, or never will
	until atomic.Int64 // a write deadline that somebody set, as Unix nanoseconds; 0 is none
}

// connOf returns the connection below c, which net/http may have wrapped in TLS,
// or nil.
func connOf(c net.Conn) *conn {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	n, _ := c.(*conn)
	return n
}

// hear notes that the connection is no newcomer any more.
func (c *conn) hear() {
	if !c.heard.Load() && c.heard.CompareAndSwap(false, true) {
		c.doors.newcomers.Add(-1)
	}
}

// Write implements net.Conn. A deadline that was set for it holds as well: TLS
// sets one for its last words.
func (c *conn) Write(p []byte) (n int, err error) {
	if c.span <= 0 {
		return c.Conn.Write(p)
	}
	for {
		deadline := time.Now().Add(c.span)
		if until := c.until.Load(); until != 0 && until < deadline.UnixNano() {
			deadline = time.Unix(0, until)
		}
		if err := c.Conn.SetWriteDeadline(deadline); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(p[n:])
		n += m
		if err == nil || m < minProgress || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.note(t)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.note(t)
	return c.Conn.SetDeadline(t)
}

func (c *conn) note(t time.Time) {
	if t.IsZero() {
		c.until.Store(0)
		return
	}
	c.until.Store(t.UnixNano())
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
