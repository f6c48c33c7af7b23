package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// lazyConn is a socket whose deadlines cost next to nothing. net/http sets half a
// dozen of them for each request, most for a read or a write that need not wait, or
// to be taken back before it does; the runtime would change a timer for each. Here a deadline is noted, and given to the runtime only when somebody has to
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
	asked bool       // waits may be true
	over  error      // of a deadline, once there was one
	try   func(fd uintptr) (done bool)
	set   func(time.Time) error // the deadline of the runtime

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
	l.in.set, l.in.try = c.SetReadDeadline, l.in.read
	l.out.set, l.out.try = c.SetWriteDeadline, l.out.write
	return l
}

// most is the most that is read or written at once.
const most = 1 << 30

func (s *lazySide) read(fd uintptr) bool {
	for {
		n, err := syscall.Read(int(fd), s.p[:min(len(s.p), most)])
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return s.await()
		}
		s.n, s.err = max(n, 0), err
		return true
	}
}

func (s *lazySide) write(fd uintptr) bool {
	for len(s.p) > 0 {
		n, err := syscall.Write(int(fd), s.p[:min(len(s.p), most)])
		switch err {
		case nil:
			s.n, s.p = s.n+n, s.p[n:]
		case syscall.EINTR:
		case syscall.EAGAIN:
			return s.await()
		default:
			s.err = err
			return true
		}
	}
	return true
}

// await is called before a call waits. It returns true if that must not be.
func (s *lazySide) await() bool {
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

// call reads or writes p.
func (s *lazySide) call(raw func(func(uintptr) bool) error, p []byte) (n int, err error) {
	s.mu.Lock()
	late := s.late()
	s.mu.Unlock()
	if late {
		return 0, os.ErrDeadlineExceeded // and no timer is asked
	}
	s.p, s.n, s.err = p, 0, nil
	for {
		err = raw(s.try)
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
	s := &c.in
	s.calls.Lock()
	defer s.calls.Unlock()
	n, err := s.call(c.raw.Read, p)
	if err == nil && n == 0 {
		return 0, io.EOF
	}
	return n, c.failure("read", s, err)
}

// Write implements net.Conn.
func (c *lazyConn) Write(p []byte) (int, error) {
	s := &c.out
	s.calls.Lock()
	defer s.calls.Unlock()
	n, err := s.call(c.raw.Write, p)
	return n, c.failure("write", s, err)
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

// failure returns err as one of an operation of package net. That of a deadline, by
// which net/http calls back a read in each request, is made once.
func (c *lazyConn) failure(op string, s *lazySide, err error) error {
	if err == nil {
		return nil
	}
	late := errors.Is(err, os.ErrDeadlineExceeded)
	if late && s.over != nil {
		return s.over
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	if errno, ok := err.(syscall.Errno); ok {
		err = os.NewSyscallError(op, errno)
	}
	err = &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
	if late {
		s.over = err
	}
	return err
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
