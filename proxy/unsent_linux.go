package proxy

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundUnsent bounds what the kernel buffers of a connection by unsentBytes. A
// connection that cannot be bounded works all the same. (Of a listener that speaks
// MPTCP, as Go's do, connections do not inherit the option.)
func boundUnsent(c net.Conn) {
	control(c, func(fd int) { unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes) })
}

// untaken returns how much of what was written the other side has not
// acknowledged; 0 if that is not known.
func untaken(c net.Conn) (bytes int) {
	control(c, func(fd int) { bytes, _ = unix.IoctlGetInt(fd, unix.SIOCOUTQ) })
	return bytes
}

// hungUp reports whether the other side will send no more, whatever of it has not
// been read; false if that is not known.
func hungUp(c net.Conn) (is bool) {
	control(c, func(fd int) {
		look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(look, 0)
		is = n == 1 && err == nil
	})
	return is
}

func control(c net.Conn, do func(fd int)) {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { do(int(fd)) })
		}
	}
}
