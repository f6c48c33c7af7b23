package upstream

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// tunnelBuffer is small because an open tunnel holds two, and most are quiet.
const tunnelBuffer = 8 << 10

// tunnel is the client's end of a WebSocket. All bytes of both directions pass
// it, so it counts them and closes the connection when none have for a while;
// ReverseProxy then closes the server's end.
type tunnel struct {
	net.Conn
	early []byte // sent along with the handshake; read first

	idle     time.Duration // 0: no limit
	born     time.Time
	moved    atomic.Int64 // time since born of the last byte
	timer    *time.Timer
	closed   atomic.Bool
	received atomic.Int64 // from the client
	sent     atomic.Int64 // to the client
}

func newTunnel(conn net.Conn, early []byte, idle time.Duration) *tunnel {
	t := &tunnel{Conn: conn, early: early, idle: idle, born: time.Now()}
	if idle > 0 {
		armed := make(chan struct{})
		t.timer = time.AfterFunc(idle, func() { <-armed; t.check() })
		close(armed)
	}
	return t
}

// check closes a tunnel that has been idle too long, or comes back when it may be.
func (t *tunnel) check() {
	quiet := time.Since(t.born) - time.Duration(t.moved.Load())
	if quiet >= t.idle {
		t.Conn.Close()
		return
	}
	t.timer.Reset(t.idle - quiet)
	if t.closed.Load() { // meanwhile; a timer left would hold t
		t.timer.Stop()
	}
}

// Read reads what the client sends.
func (t *tunnel) Read(p []byte) (n int, err error) {
	if len(t.early) > 0 {
		n = copy(p, t.early)
		t.early = t.early[n:]
	} else {
		n, err = t.Conn.Read(p)
	}
	t.count(&t.received, n)
	return n, err
}

// Write sends to the client.
func (t *tunnel) Write(p []byte) (int, error) {
	n, err := t.Conn.Write(p)
	t.count(&t.sent, n)
	return n, err
}

func (t *tunnel) count(way *atomic.Int64, n int) {
	if n > 0 {
		way.Add(int64(n))
		t.moved.Store(int64(time.Since(t.born)))
	}
}

// Close ends the tunnel both ways.
func (t *tunnel) Close() error {
	t.closed.Store(true)
	if t.timer != nil {
		t.timer.Stop()
	}
	return t.Conn.Close()
}

// CloseWrite tells the client that the server has said all it will.
func (t *tunnel) CloseWrite() error {
	half, ok := t.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// WriteTo copies from the client to w. It is here, as ReadFrom is, for the size
// of its buffer.
func (t *tunnel) WriteTo(w io.Writer) (int64, error) {
	return pump(w, t)
}

// ReadFrom copies from r to the client.
func (t *tunnel) ReadFrom(r io.Reader) (int64, error) {
	return pump(t, r)
}

func pump(w io.Writer, r io.Reader) (int64, error) {
	// Bare, so that io.CopyBuffer finds no way around the buffer.
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, tunnelBuffer))
}
