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

func control(c net.Conn, do func(fd int)) {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { do(int(fd)) })
		}
	}
}
