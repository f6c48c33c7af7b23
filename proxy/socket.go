package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// socket is a listening socket: of a TCP address, of a path, or one that was
// bound before the process began.
type socket interface {
	net.Listener
	SetDeadline(time.Time) error
	SyscallConn() (syscall.RawConn, error)
}

// The addresses that are no host and port.
const (
	unixScheme    = "unix:"
	systemdScheme = "systemd:"
)

// sockets returns one address for each socket that addrs stand for: themselves, but
// for a systemd: address, which may stand for several.
func (d *Doors) sockets(addrs []Address) []Address {
	var all []Address
	for _, a := range addrs {
		name, ok := strings.CutPrefix(a.Addr, systemdScheme)
		if !ok || len(d.Inherited[name]) == 0 {
			all = append(all, a)
			continue
		}
		for i := range d.Inherited[name] {
			one := a
			one.Addr = fmt.Sprintf("%s#%d", a.Addr, i)
			all = append(all, one)
		}
	}
	return all
}

// inherit returns a listener on the socket of that name. It is a copy: the socket
// stays bound when the listener closes, so that who connects meanwhile waits.
func (d *Doors) inherit(name string) (socket, error) {
	name, number, _ := strings.Cut(name, "#")
	i := 0
	fmt.Sscan(number, &i)
	files := d.Inherited[name]
	if i >= len(files) {
		return nil, fmt.Errorf("systemd has passed no socket of that name%s", passed(d.Inherited))
	}
	ln, err := net.FileListener(files[i])
	if err != nil {
		return nil, fmt.Errorf("what systemd has passed under that name is no listening stream socket")
	}
	s, ok := ln.(socket)
	if !ok {
		ln.Close()
		return nil, fmt.Errorf("what systemd has passed under that name is no listening stream socket")
	}
	return s, nil
}

func passed(files map[string][]*os.File) string {
	names := slices.Sorted(maps.Keys(files))
	if len(names) == 0 {
		return "; is there a .socket unit beside the service?"
	}
	return "; it has passed " + strings.Join(names, ", ")
}

// listenUnix listens on a path. A socket that a dead process left there is
// replaced; one that is in use, or a file, is not.
func listenUnix(path string, mode fs.FileMode) (socket, error) {
	addr := &net.UnixAddr{Name: path, Net: "unix"}
	ln, err := net.ListenUnix("unix", addr)
	if errors.Is(err, syscall.EADDRINUSE) && abandoned(path) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		ln, err = net.ListenUnix("unix", addr)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// abandoned reports whether path is a socket on which nobody listens any more.
func abandoned(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// socketMode is who may connect to a unix socket unless the Doors say otherwise:
// everybody who may enter its folder.
const socketMode fs.FileMode = 0o666

func (d *Doors) bindUnix(addr string) (socket, error) {
	return listenUnix(strings.TrimPrefix(addr, unixScheme), cmp.Or(d.SocketMode, socketMode))
}

// thisMachine is the peer of a connection that has no address: the other end of a
// unix socket is on this machine.
var thisMachine = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)

// otherEnd returns the address of the peer of c, and whether that is one of this
// machine without an address of its own.
func otherEnd(c net.Conn) (peer netip.AddrPort, local bool) {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort(), false
	}
	return thisMachine, true
}
