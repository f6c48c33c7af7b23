//go:build unix

package proxy

import (
	"io"
	"net"
	"os"
	"syscall"
)

// rawIO reads and writes a socket itself, where it knows more than package net
// about what there is to do.
type rawIO struct {
	raw syscall.RawConn // nil where there is no socket below

	reading func(fd uintptr) bool // made once, as is writing
	writing func(fd uintptr) bool

	skip    bool // the first look
	in      []byte
	n       int
	readErr error

	out      []byte
	wrote    int
	writeErr error
}

// open prepares for the socket of c.
func (r *rawIO) open(c net.Conn) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return
	}
	r.raw, r.reading, r.writing = raw, r.readReady, r.writeReady
}

// read is a read that first waits, and looks only when something has come since.
func (r *rawIO) read(p []byte) (int, error) {
	r.skip, r.in, r.n, r.readErr = true, p, 0, nil
	err := r.raw.Read(r.reading)
	r.in = nil
	if r.readErr != nil {
		err = r.readErr
	}
	return r.n, err
}

func (r *rawIO) readReady(fd uintptr) bool {
	if r.skip {
		r.skip = false
		return false
	}
	for {
		n, err := syscall.Read(int(fd), r.in)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return false
		case err != nil:
			r.readErr = os.NewSyscallError("read", err)
		case n == 0:
			r.readErr = io.EOF
		default:
			r.n = n
		}
		return true
	}
}

// write writes as much of p as the system takes at once.
func (r *rawIO) write(p []byte) (int, error) {
	r.out, r.wrote, r.writeErr = p, 0, nil
	err := r.raw.Write(r.writing)
	r.out = nil
	if r.writeErr != nil {
		err = r.writeErr
	}
	return r.wrote, err
}

func (r *rawIO) writeReady(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), r.out)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
		case err != nil:
			r.writeErr = os.NewSyscallError("write", err)
		default:
			r.wrote = n
		}
		return true
	}
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

// look returns what a read would find. It does not wait.
func (r *rawIO) look() (found int) {
	if r.raw == nil || r.raw.Control(func(fd uintptr) { found = peek(fd) }) != nil {
		return endThere
	}
	return found
}

// wait waits until there is something to read, and returns what. The error is that
// of the deadline, or of a connection that is closed here.
func (r *rawIO) wait() (found int, err error) {
	err = r.raw.Read(func(fd uintptr) bool {
		found = peek(fd)
		return found != nothingThere
	})
	return found, err
}
