package upstream

import (
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"time"
)

// How settle waits: a few turns of the scheduler do nearly always, and half a
// second is for a machine that is far behind.
const (
	settleSpins = 100
	settleTries = settleSpins + 5000
	settlePause = 100 * time.Microsecond
)

// conn is a connection to a server that knows whether its reader waits for bytes,
// and whose upload it carries.
//
// The one because net/http takes an idle connection for clean before its reader
// has looked behind the last answer: a body sent with a 304 would be read as the
// answer to the next client's request. The other because net/http notices only at
// the client's next bytes that the server of a stalled upload is gone.
type conn struct {
	net.Conn
	direct  bool // a direct's, which looks for itself before it sends
	reading atomic.Bool
	closed  atomic.Bool
	upload  atomic.Pointer[clientBody] // the body on its way, until it is answered
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	c.reading.Store(true)
	n, err := c.Conn.Read(p)
	c.reading.Store(false)
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.closed.Store(true)
	err := c.Conn.Close()
	c.drop()
	return err
}

// CloseWrite is for tunnels, whose halves end one by one.
func (c *conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// http1 returns the conn below c, or nil if c speaks HTTP/2, where requests share
// a connection.
func http1(c net.Conn) *conn {
	if secure, ok := c.(*tls.Conn); ok {
		if secure.ConnectionState().NegotiatedProtocol == "h2" {
			return nil
		}
		c = secure.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

// settle waits until the reader of a reused connection waits for bytes, so that
// nothing is left of the last answer, or has closed it because something is.
// Nearly always it waits already. A direct has no such reader.
func (c *conn) settle() {
	if c.direct {
		return
	}
	for i := 0; i < settleTries && !c.reading.Load() && !c.closed.Load(); i++ {
		if i < settleSpins {
			runtime.Gosched()
		} else {
			time.Sleep(settlePause)
		}
	}
}

// carry tells c whose body it carries; nil for a request without one.
func (c *conn) carry(b *clientBody) {
	c.upload.Store(b)
	if c.closed.Load() { // meanwhile
		c.drop()
	}
}

// drop tells the body that c carries of c's end, once.
func (c *conn) drop() {
	if b := c.upload.Swap(nil); b != nil {
		b.lose()
	}
}
