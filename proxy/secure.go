package proxy

import (
	"crypto/tls"
	"net"
	"net/http"
)

// challengeProtocol is what a CA negotiates to see a certificate made for it
// (RFC 8737). Such a handshake asks for no client certificate, so nothing but the
// handshake must come of it.
const challengeProtocol = "acme-tls/1"

func closeChallenge(_ *http.Server, c *tls.Conn, _ http.Handler) { c.Close() }

// secure returns the connection as net/http is to see it. The handshake is net/http's,
// within the time for a request's head.
func (s *serving) secure(c *conn) net.Conn {
	if c.use == nil || !c.use.Secure || s.settings.TLS == nil {
		return c
	}
	return tls.Server(c, s.settings.TLS)
}

// noteProtocol tells the judge of a connection's traffic what its handshake has
// negotiated: the bytes it sees do not show it.
func noteProtocol(c net.Conn) {
	secure, ok := c.(*tls.Conn)
	if !ok {
		return
	}
	if n := connOf(c); n != nil && !n.noted.Swap(true) && secure.ConnectionState().NegotiatedProtocol == "h2" {
		n.traffic.http2.Store(true)
	}
}

// serveHTTP serves a request with the handler of the address it came in at.
func (d *Doors) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if c, _ := r.Context().Value(connKey{}).(*conn); c != nil && c.use != nil && c.use.Handler != nil {
		c.hear()
		c.use.Handler.ServeHTTP(w, r)
		return
	}
	d.handler.ServeHTTP(w, r)
}
