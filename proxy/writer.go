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
	if status < 200 && w.x.r.ProtoMajor >= 2 {
		w.writeInterim(status)
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// writeInterim writes the head of an answer before the answer over HTTP/2. There
// net/http reads the header in another goroutine, for which it waits no longer when the
// client resets the stream; to change the header then, as ReverseProxy does, may end the
// program. Of a header with a length, which an interim answer has not, it takes a copy.
func (w *writer) writeInterim(status int) {
	h := w.Header()
	h["Content-Length"] = noLength
	w.ResponseWriter.WriteHeader(status)
	delete(h, "Content-Length")
}

var noLength = []string{"0"}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (n int, err error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.timed() {
		n, err = w.writePieces(p)
	} else {
		n, err = w.ResponseWriter.Write(p) // conn.Write sees to the progress
	}
	w.bytes += int64(n)
	if c := w.x.conn; c != nil {
		c.traffic.worth.Add(int64(n))
	}
	w.failed = w.failed || err != nil && n < len(p)
	return n, err
}

const (
	piece     = 4 << 10
	slowPiece = 1 << 10
)

// writePieces writes p to an HTTP/2 stream, whose window is the client's to
// open, so that each piece has the whole span to be taken. On HTTP/1 the
// connection itself does this, see conn. Between pieces there is no deadline:
// it would end a stream that has nothing to say.
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
		if err == nil && w.slow {
			err = rc.Flush() // else net/http gathers pieces again
		}
		n, p = n+m, p[m:]
		w.slow = time.Since(before) > min(time.Second, w.x.limits.Write/4)
	}
	if err == nil {
		err = rc.SetWriteDeadline(time.Time{})
	}
	return n, err
}

// FlushError is for http.ResponseController. What it writes has the whole span
// to be taken, as in Write.
func (w *writer) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	rc := http.NewResponseController(w.ResponseWriter)
	if !w.timed() {
		return rc.Flush()
	}
	if err := rc.SetWriteDeadline(time.Now().Add(w.x.limits.Write)); err != nil {
		return err
	}
	if err := rc.Flush(); err != nil {
		return err
	}
	return rc.SetWriteDeadline(time.Time{})
}

// last bounds the time for what net/http still has to write when the handler has
// returned.
func (w *writer) last() {
	if w.timed() {
		http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.x.limits.Write))
	}
}

// timed says that what is written has deadlines of its own.
func (w *writer) timed() bool { return w.x.r.ProtoMajor >= 2 && w.x.limits.Write > 0 }

// Hijack implements http.Hijacker for a tunnel, which package upstream makes of
// the connection, with what the client sent right behind its handshake.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.x.unattend()
	c, brw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.x.leavePlace()
		w.status = http.StatusSwitchingProtocols
	}
	return c, brw, err
}
