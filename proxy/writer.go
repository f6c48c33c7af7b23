package proxy

import (
	"bufio"
	"net"
	"net/http"
	"time"
)

// writer is the one ResponseWriter of the program. It counts what goes out,
// puts the gateway's own headers on the final answer (a 103 before it makes
// ReverseProxy forget what was set earlier; golang/go#81207) and, on HTTP/2,
// gives each piece of a body its own time to be taken.
type writer struct {
	http.ResponseWriter
	x      *exchange
	status int   // of the final answer; 0 before it
	bytes  int64 // of the body
	failed bool  // the client took not all of it
	slow   bool  // the last piece took over a second: write smaller ones
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if status >= 200 && w.status == 0 {
		w.status = status
		w.x.decorate(w.Header())
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (n int, err error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.x.r.ProtoMajor >= 2 && w.x.limits.Write > 0 {
		n, err = w.writePieces(p)
	} else {
		n, err = w.ResponseWriter.Write(p) // conn.Write sees to the progress
	}
	w.bytes += int64(n)
	w.failed = w.failed || err != nil && n < len(p)
	return n, err
}

const (
	piece     = 4 << 10
	slowPiece = 1 << 10
)

// writePieces writes p to an HTTP/2 stream, whose window is the client's to
// open, so that each piece has the whole span to be taken. On HTTP/1 the
// connection itself does this, see conn.
func (w *writer) writePieces(p []byte) (n int, err error) {
	rc := http.NewResponseController(w.ResponseWriter)
	for len(p) > 0 && err == nil {
		size := piece
		if w.slow {
			size = slowPiece
		}
		before := time.Now()
		if err = rc.SetWriteDeadline(before.Add(w.x.limits.Write)); err != nil {
			return n, err
		}
		var m int
		m, err = w.ResponseWriter.Write(p[:min(size, len(p))])
		n, p = n+m, p[m:]
		w.slow = time.Since(before) > time.Second
	}
	return n, err
}

// Hijack implements http.Hijacker for ReverseProxy, which copies from the
// connection alone: what the client sent right behind its handshake sits in the
// buffered reader and must be read first (golang/go#80875).
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, brw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.status = http.StatusSwitchingProtocols
	if brw.Reader.Buffered() > 0 {
		c = &earlyConn{Conn: c, early: brw.Reader}
	}
	return c, brw, nil
}
