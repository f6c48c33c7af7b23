package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Faulty is a listener that passes on to a server what it gets, and does to it what
// it is told. It ends with its test.
type Faulty struct {
	// Addr is where it listens.
	Addr string

	t  testing.TB
	to string
	l  net.Listener

	mu     sync.Mutex
	delay  time.Duration // before each answer
	silent bool          // answers are not passed on
	closed bool          // connections are closed as they come
	conns  map[net.Conn]bool
}

// StartFaulty starts a listener in front of a server.
func StartFaulty(t testing.TB, server *Server) *Faulty {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Faulty{Addr: l.Addr().String(), t: t, to: server.Addr, l: l, conns: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() { f.serve(&wg) })
	t.Cleanup(func() {
		l.Close()
		f.Cut()
		wg.Wait()
	})
	return f
}

// Delay holds each answer back for so long.
func (f *Faulty) Delay(d time.Duration) { f.set(func() { f.delay = d }) }

// Swallow drops all answers from now on, or no longer.
func (f *Faulty) Swallow(on bool) { f.set(func() { f.silent = on }) }

// Refuse closes what comes and what is there, or lets connections in again.
func (f *Faulty) Refuse(on bool) {
	f.set(func() { f.closed = on })
	if on {
		f.Cut()
	}
}

// Cut breaks all connections off.
func (f *Faulty) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			tcp.SetLinger(0) // a reset
		}
		c.Close()
	}
}

func (f *Faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *Faulty) serve(wg *sync.WaitGroup) {
	for {
		c, err := f.l.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		closed := f.closed
		f.mu.Unlock()
		if closed {
			c.Close()
			continue
		}
		up, err := net.Dial("tcp", f.to)
		if err != nil {
			c.Close()
			continue
		}
		f.set(func() { f.conns[c], f.conns[up] = true, true })
		end := func() {
			c.Close()
			up.Close()
			f.set(func() { delete(f.conns, c); delete(f.conns, up) })
		}
		wg.Go(func() { defer end(); io.Copy(up, c) })
		wg.Go(func() { defer end(); f.answer(c, up) })
	}
}

// answer passes answers on.
func (f *Faulty) answer(c, up net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := up.Read(b)
		if err != nil {
			return
		}
		f.mu.Lock()
		delay, silent := f.delay, f.silent
		f.mu.Unlock()
		if delay > 0 {
			time.Sleep(delay)
		}
		if silent {
			continue
		}
		if _, err := c.Write(b[:n]); err != nil {
			return
		}
	}
}
