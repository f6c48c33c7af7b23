package proxy

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// bind listens on addr: a host and port, unix: and a path, or systemd: and the
// name of one inherited socket.
func (d *Doors) bind(addr string) (socket, error) {
	name, systemd := strings.CutPrefix(addr, systemdScheme)
	switch {
	case systemd:
		return d.inherit(name)
	case strings.HasPrefix(addr, unixScheme):
		return d.bindUnix(addr)
	}
	ln, err := d.bindTCP(addr)
	if err != nil {
		return nil, err
	}
	return ln, nil
}

// bindTCP listens on a host and port. When the port is taken by a door of our own
// with another address (0.0.0.0:8080 becomes 127.0.0.1:8080), both are allowed to
// share it for the moment, so that the new one stands before the old one goes.
// Sockets are never left sharing: a second gateway on the port must fail.
func (d *Doors) bindTCP(addr string) (*net.TCPListener, error) {
	ln, err := listen(addr, nil)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return ln, err
	}
	port := portOf(addr)
	var shared []socket
	for _, n := range d.open {
		if n.port() == port {
			shared = append(shared, n.ln)
		}
	}
	if len(shared) == 0 {
		return nil, err
	}
	share(shared, 1)
	defer share(shared, 0)
	ln, err = listen(addr, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	if err == nil {
		share([]socket{ln}, 0)
	}
	return ln, err
}

func listen(addr string, control func(fd int) error) (*net.TCPListener, error) {
	var c net.ListenConfig
	if control != nil {
		c.Control = func(_, _ string, raw syscall.RawConn) error {
			var err error
			if e := raw.Control(func(fd uintptr) { err = control(int(fd)) }); e != nil {
				return e
			}
			return err
		}
	}
	ln, err := c.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	return ln.(*net.TCPListener), nil
}

func share(listeners []socket, on int) {
	for _, ln := range listeners {
		if raw, err := ln.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, on) })
		}
	}
}

func portOf(addr string) int {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return -1
	}
	return n
}

// cause returns the words of the system without the address, which the caller
// has already.
func cause(err error) error {
	if e, ok := errors.AsType[*os.SyscallError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Err
	}
	return err
}
