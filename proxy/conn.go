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

// unsentBytes is the most that the kernel takes for a client beyond what is on
// its way to it. Without a bound it takes megabytes for one that does not read,
// and it is these that would count as progress, not what the client takes.
const unsentBytes = 128 << 10

// conn is an accepted connection. A write to it may take as long as it likes
// while in each span the client takes at least minProgress bytes or all that is
// left: a slow honest download of any length lives, a stalled one ends.
type conn struct {
	net.Conn
	span time.Duration // 0 is no bound
	peer netip.AddrPort

	peerName string // of peer; "" in tests

	local bool // peer is no address of its own, but that of all who come by a unix socket

	early []byte // came behind a PROXY header; read first
	doors *Doors
	use   *Address     // what it came for; nil in tests
	home  netip.Prefix // what it counts as for connections_per_ip; zero if it does not
	gone  atomic.Bool
	heard atomic.Bool  // a request came, or never will
	until atomic.Int64 // a write deadline that somebody set, as Unix nanoseconds; 0 is none

	http1    atomic.Bool // a request of HTTP/1 has come to a Gateway, without TLS
	attended atomic.Bool // one without a body is in progress, and who serves it sees to whether the client leaves: see attend

	straight *straight // an answer that the next write carries, or nil
	prompt   bool      // read only what is there: see body.gather

	noted   atomic.Bool // what a TLS handshake has negotiated
	traffic traffic
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

// socket returns the socket of c, or nil where it is none.
func (c *conn) socket() *lazyConn {
	l, _ := c.Conn.(*lazyConn)
	return l
}

// hear notes that the connection is no newcomer any more.
func (c *conn) hear() {
	if !c.heard.Load() && c.heard.CompareAndSwap(false, true) {
		c.doors.newcomers.Add(-1)
	}
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.straight != nil {
		return c.writeStraight(p)
	}
	return c.write(p)
}

// write writes p. A deadline that was set for it holds as well: TLS sets one for its
// last words.
func (c *conn) write(p []byte) (n int, err error) {
	if c.span <= 0 {
		return c.Conn.Write(p)
	}
	if l := c.socket(); l != nil && c.until.Load() == 0 {
		if n = l.writeNow(p); n == len(p) {
			return n, nil
		}
	}
	// The kernel takes more only when half of what it holds is gone. What the
	// client took meanwhile shows in what is left, which is looked at when a write
	// has to wait, and then after each span.
	looked, before := false, 0
	for wait := min(c.span, firstLook); ; wait = c.span {
		deadline, last := time.Now().Add(wait), false
		if until := c.until.Load(); until != 0 && until <= deadline.UnixNano() {
			deadline, last = time.Unix(0, until), true
		}
		if err := c.Conn.SetWriteDeadline(deadline); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(p[n:])
		n += m
		if err == nil || last || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		left := untaken(c.Conn)
		if looked && before+m-left < minProgress {
			c.resetOnClose()
			return n, errStalled
		}
		looked, before = true, left
	}
}

// firstLook is how long a write waits until it is watched.
const firstLook = 50 * time.Millisecond

// errStalled ends a connection whose client has taken too little. It is no
// timeout, after which HTTP/2 would try again.
var errStalled = errors.New("the client takes nothing of the answer")

// resetOnClose makes the end of the connection a reset. Closed in an orderly way
// the kernel would keep what a client has not taken, and offer it, for as long as
// the client says that it lives.
func (c *conn) resetOnClose() {
	if l, ok := c.Conn.(interface{ SetLinger(sec int) error }); ok {
		l.SetLinger(0)
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
