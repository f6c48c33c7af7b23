package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"gateway/proxy/upstream"
)

// lazyConn is a socket whose deadlines cost next to nothing. net/http sets half a
// dozen of them for each request, most for a read or a write that need not wait, or
// to be taken back before it does; the kernel of the runtime would change a timer for
// each. Here a deadline is noted, and given to the runtime only when somebody has to
// wait, and only when the one it has would come too late. A wait that ends too early
// for that goes on.
type lazyConn struct {
	net.Conn
	raw     syscall.RawConn
	in, out lazySide
}

// lazySide is one direction. Its calls come one after another.
type lazySide struct {
	calls sync.Mutex // held during a call; guards what follows
	p     []byte     // what the call has still to read into, or to write
	n     int        // bytes so far
	err   error      // of the system
	now   bool       // do not wait
	found int        // what await found
	asked bool       // waits may be true
	try   func(fd uintptr) (done bool)
	see   func(fd uintptr) (done bool) // as try, but takes nothing
	set   func(time.Time) error        // the deadline of the runtime

	mu    sync.Mutex // guards what follows
	want  time.Time  // the deadline, or zero
	has   time.Time  // that of the runtime
	waits bool
}

// lazy returns c with deadlines that cost little, or c itself if it is no socket.
func lazy(c net.Conn) net.Conn {
	s, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return c
	}
	l := &lazyConn{Conn: c, raw: raw}
	l.in.set, l.in.try, l.in.see = c.SetReadDeadline, l.in.read, l.in.peek
	l.out.set, l.out.try = c.SetWriteDeadline, l.out.write
	return l
}

// most is the most that is read or written at once.
const most = 1 << 30

func (s *lazySide) read(fd uintptr) bool {
	if s.n, s.err = upstream.ReadSocket(fd, s.p[:min(len(s.p), most)]); s.err == syscall.EAGAIN {
		s.err = nil
		return s.waitsNow()
	}
	return true
}

func (s *lazySide) write(fd uintptr) bool {
	for len(s.p) > 0 {
		n, err := upstream.WriteSocket(fd, s.p[:min(len(s.p), most)])
		switch err {
		case nil:
			s.n, s.p = s.n+n, s.p[n:]
		case syscall.EAGAIN:
			return s.waitsNow()
		default:
			s.err = err
			return true
		}
	}
	return true
}

func (s *lazySide) peek(fd uintptr) bool {
	s.found = peek(fd)
	return s.found != nothingThere || s.waitsNow()
}

// waitsNow is called before a call waits. It returns true if that must not be.
func (s *lazySide) waitsNow() bool {
	if s.now {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.waits = true, true
	if !s.want.IsZero() && (s.has.IsZero() || s.has.After(s.want)) {
		s.give(s.want)
	}
	return false
}

// give sets the deadline of the runtime. A closed connection has none, and needs none.
func (s *lazySide) give(t time.Time) {
	s.has = t
	s.set(t)
}

// late says that the deadline has passed.
func (s *lazySide) late() bool {
	return !s.want.IsZero() && time.Until(s.want) <= 0
}

// goOn says that a wait ended too early, and may go on.
func (s *lazySide) goOn(err error) bool {
	if err == nil && !s.asked {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.waits = false, false
	if !errors.Is(err, os.ErrDeadlineExceeded) || s.late() {
		return false
	}
	s.give(s.want)
	return true
}

// call reads or writes p by try.
func (s *lazySide) call(raw func(func(uintptr) bool) error, try func(uintptr) bool, p []byte) (n int, err error) {
	s.mu.Lock()
	late := s.late()
	s.mu.Unlock()
	if late {
		return 0, os.ErrDeadlineExceeded
	}
	s.p, s.n, s.err = p, 0, nil
	for {
		err = raw(try)
		if !s.goOn(err) {
			break
		}
	}
	s.p = nil
	if err == nil && s.err != nil {
		err = s.err
	}
	return s.n, err
}

// deadline notes a deadline.
func (s *lazySide) deadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want = t
	if s.waits && !t.IsZero() && (s.has.IsZero() || s.has.After(t)) {
		s.give(t)
	}
}

// Read implements net.Conn.
func (c *lazyConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.in.calls.Lock()
	defer c.in.calls.Unlock()
	n, err := c.in.call(c.raw.Read, c.in.try, p)
	if err == nil && n == 0 {
		return 0, io.EOF
	}
	return n, c.failure("read", err)
}

// Write implements net.Conn.
func (c *lazyConn) Write(p []byte) (int, error) {
	c.out.calls.Lock()
	defer c.out.calls.Unlock()
	n, err := c.out.call(c.raw.Write, c.out.try, p)
	return n, c.failure("write", err)
}

// readNow reads what is there without waiting. An end or an error shows when
// somebody reads again.
func (c *lazyConn) readNow(p []byte) int {
	s := &c.in
	s.calls.Lock()
	defer s.calls.Unlock()
	s.p, s.n, s.err, s.now = p, 0, nil, true
	c.raw.Read(s.try)
	s.p, s.now = nil, false
	return s.n
}

// writeNow writes as much of p as goes without waiting, whatever the deadline. What
// keeps it from writing more shows when somebody writes that.
func (c *lazyConn) writeNow(p []byte) int {
	s := &c.out
	s.calls.Lock()
	defer s.calls.Unlock()
	s.p, s.n, s.err, s.now = p, 0, nil, true
	c.raw.Write(s.try)
	s.p, s.now = nil, false
	return s.n
}

// await waits until a read would find something, and returns what. An error is that of
// the deadline, or of a connection that is closed here.
func (c *lazyConn) await() (found int, err error) {
	c.in.calls.Lock()
	defer c.in.calls.Unlock()
	_, err = c.in.call(c.raw.Read, c.in.see, nil)
	return c.in.found, c.failure("read", err)
}

// look returns what a read would find. It does not wait.
func (c *lazyConn) look() (found int) {
	if c.raw.Control(func(fd uintptr) { found = peek(fd) }) != nil {
		return endThere
	}
	return found
}

// What peek finds.
const (
	nothingThere = iota
	bytesThere
	endThere
)

// peek looks what a read would find, and takes nothing.
func peek(fd uintptr) int {
	var b [1]byte
	for {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return nothingThere
		case err == nil && n > 0:
			return bytesThere
		}
		return endThere
	}
}

// failure returns err as one of an operation of package net.
func (c *lazyConn) failure(op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	if errno, ok := err.(syscall.Errno); ok {
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// SetReadDeadline implements net.Conn.
func (c *lazyConn) SetReadDeadline(t time.Time) error {
	c.in.deadline(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *lazyConn) SetWriteDeadline(t time.Time) error {
	c.out.deadline(t)
	return nil
}

// SetDeadline implements net.Conn.
func (c *lazyConn) SetDeadline(t time.Time) error {
	c.in.deadline(t)
	c.out.deadline(t)
	return nil
}

// SyscallConn implements syscall.Conn.
func (c *lazyConn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// SetLinger is that of a TCP connection.
func (c *lazyConn) SetLinger(sec int) error {
	if l, ok := c.Conn.(interface{ SetLinger(sec int) error }); ok {
		return l.SetLinger(sec)
	}
	return errors.ErrUnsupported
}

// CloseWrite is that of a TCP or unix connection.
func (c *lazyConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}
