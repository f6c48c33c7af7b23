//go:build unix

package upstream

import (
	"io"
	"os"
	"syscall"
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
	n, err := readSocket(fd, l.into)
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

// quiet reports whether an idle connection is open and holds nothing to read. It
// does not wait.
func (l *link) quiet() bool {
	quiet := false
	err := l.raw.Control(func(fd uintptr) { // whatever deadline has passed
		var b [1]byte
		_, err := readSocket(fd, b[:])
		quiet = err == syscall.EAGAIN
	})
	return quiet && err == nil
}

// readSocket is read(2) of a socket that does not block.
func readSocket(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		if err != syscall.EINTR {
			return n, err
		}
	}
}
