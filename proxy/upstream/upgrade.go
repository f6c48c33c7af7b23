package upstream

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"strings"
	"time"
)

// isWebSocket reports whether r asks to become a WebSocket, and nothing else: a
// body behind such a request would be read as the tunnel's first bytes by one
// side and as a request by the other.
func isWebSocket(r *http.Request) bool {
	return r.Method == http.MethodGet && r.ProtoMajor == 1 && r.ProtoMinor == 1 &&
		r.ContentLength == 0 && namesWebSocket(r.Header)
}

func switchesToWebSocket(res *http.Response) bool { return namesWebSocket(res.Header) }

func namesWebSocket(h http.Header) bool {
	upgrade := h["Upgrade"]
	if len(upgrade) != 1 || !strings.EqualFold(upgrade[0], "websocket") {
		return false
	}
	for _, names := range h["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			if strings.EqualFold(strings.Trim(name, " \t"), "upgrade") {
				return true
			}
		}
	}
	return false
}

// withoutUpgrade returns r without its wish for another protocol. The front door
// has seen to it before; nothing behind it may get a tunnel if it has not.
func withoutUpgrade(r *http.Request) *http.Request {
	plain := *r
	plain.Header = r.Header.Clone()
	plain.Header.Del("Upgrade")
	plain.Header.Del("Http2-Settings")
	return &plain
}

// upgrader is the ResponseWriter of a WebSocket handshake. ReverseProxy takes
// the connection over through it and gets a tunnel.
type upgrader struct {
	http.ResponseWriter
	flight *flight
	idle   time.Duration
}

// Unwrap is for http.ResponseController.
func (u *upgrader) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// Hijack hands out the client's connection with what net/http has read of it
// past the handshake, which ReverseProxy leaves in brw (golang/go#80875).
func (u *upgrader) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, brw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, _ := brw.Reader.Peek(brw.Reader.Buffered())
	u.flight.tunnel = newTunnel(conn, bytes.Clone(early), u.idle)
	return u.flight.tunnel, brw, nil
}
