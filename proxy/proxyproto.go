package proxy

import (
	"bufio"
	"context"
	"net"
	"time"

	"github.com/pires/go-proxyproto"
)

// introduce reads who is behind a balancer that begins each connection with a
// PROXY header (versions 1 and 2), and lets the connection in as that client's.
// Whoever is not trusted to say so is not heard at all; a header that is missing,
// broken or late ends the connection before any request of it.
func (d *Doors) introduce(c *conn, e *Entry) {
	if !e.Proxies.Contains(c.peer.Addr().Unmap().WithZone("")) {
		d.refuse(c, untrustedProxy)
		return
	}
	d.wg.Go(func() {
		// A stop does not wait for those who have not said a word.
		stop := context.AfterFunc(d.base, func() { c.Conn.Close() })
		defer stop()
		if !c.readProxyHeader(d.current.Load().settings.ReadHeader) {
			d.refuse(c, badProxyHeader)
			return
		}
		d.welcome(c, e)
	})
}

// readProxyHeader makes c the connection of the client that its header names,
// and reports whether there is a good one.
func (c *conn) readProxyHeader(within time.Duration) bool {
	if within > 0 && c.Conn.SetReadDeadline(time.Now().Add(within)) != nil {
		return false
	}
	in := bufio.NewReader(c.Conn)
	h, err := proxyproto.Read(in)
	if err != nil || c.Conn.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	// A balancer's own connections, its health checks, come from itself: LOCAL in
	// version 2, UNKNOWN in version 1.
	if !h.Command.IsLocal() {
		source, _, ok := h.TCPAddrs()
		if !ok {
			return false
		}
		c.peer, c.local = source.AddrPort(), false
	}
	c.early, _ = in.Peek(in.Buffered())
	return true
}

// RemoteAddr implements net.Conn: the client of a PROXY header, if there was one.
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.peer) }
