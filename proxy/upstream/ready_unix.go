//go:build unix

package upstream

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// canBeDirect says whether sockets can be asked here what they hold.
const canBeDirect = true

// askFirst looks whether the connection is quiet, sends the request and reads into
// p when there is something to read. The look is at the same time the first try to
// read, which net would make behind the write, in vain: what comes later wakes the
// goroutine that waits.
func (l *link) askFirst(p []byte) (int, error) {
	l.into, l.n, l.err = p, 0, nil
	err := l.raw.Read(l.wait)
	l.into = nil
	if l.err != nil {
		err = l.err
	}
	return l.n, err
}

// ready is called by askFirst's RawConn, at first and whenever there is perhaps
// something to read; true is the end.
func (l *link) ready(fd uintptr) bool {
	n, err := ReadSocket(fd, l.into)
	if x := l.asks; x != nil {
		l.asks = nil
		if err != syscall.EAGAIN {
			l.err = errNotQuiet
			return true
		}
		l.err = x.ask()
		return l.err != nil
	}
	switch {
	case err == syscall.EAGAIN:
		return false
	case err != nil:
		l.err = os.NewSyscallError("read", err)
	case n == 0:
		l.err = io.EOF
	default:
		l.n = n
	}
	return true
}

// write writes p, and waits where it has to.
func (l *link) write(p []byte) (int, error) {
	l.out, l.outErr = p, nil
	err := l.raw.Write(l.put)
	n := len(p) - len(l.out)
	l.out = nil
	if l.outErr != nil {
		err = os.NewSyscallError("write", l.outErr)
	}
	if l.bounded {
		if l.bounded = false; errors.Is(err, os.ErrDeadlineExceeded) {
			return n, &LateError{}
		}
		l.net.SetWriteDeadline(time.Time{})
	}
	return n, err
}

// takeOut is called by write's RawConn, at first and whenever the socket takes more;
// true is the end.
func (l *link) takeOut(fd uintptr) bool {
	for len(l.out) > 0 {
		n, err := WriteSocket(fd, l.out)
		if err == syscall.EAGAIN {
			l.beginWait()
			return false
		}
		if err != nil {
			l.outErr = err
			return true
		}
		l.out = l.out[n:]
	}
	return true
}

// beginWait is called before a write waits, for a server that takes no more of a
// request for now. One that never will is too late with its answer.
func (l *link) beginWait() {
	x := l.x
	if x == nil || l.bounded {
		return
	}
	if x.stop == nil {
		x.attend()
	}
	if x.until != 0 {
		l.bounded = true
		l.net.SetWriteDeadline(epoch.Add(time.Duration(x.until)))
	}
}

// quiet reports whether an idle connection is open and holds nothing to read. It
// does not wait.
func (l *link) quiet() bool {
	quiet := false
	err := l.raw.Control(func(fd uintptr) { // whatever deadline has passed
		var b [1]byte
		_, err := ReadSocket(fd, b[:])
		quiet = err == syscall.EAGAIN
	})
	return quiet && err == nil
}
