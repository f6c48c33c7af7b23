package upstream

import (
	"bytes"
	"io"
	"net"
	"syscall"
	"testing"
)

// TestCallsOfASocketWaitForNobody has each of the two at a socket that is empty, that
// has something, that is full, and whose other end is gone.
func TestCallsOfASocketWaitForNobody(t *testing.T) {
	for _, size := range []int{64 << 10, 256 << 10} { // the scheduler is told of the latter
		callsWaitForNobody(t, make([]byte, size))
	}
}

func callsWaitForNobody(t *testing.T, p []byte) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	there, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	here, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	raw, err := here.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	call := func(do func(uintptr, []byte) (int, error), p []byte) (n int, err error) {
		raw.Control(func(fd uintptr) { n, err = do(fd, p) })
		return n, err
	}
	if n, err := call(ReadSocket, p); n != 0 || err != syscall.EAGAIN {
		t.Errorf("read of an empty socket: %d, %v; want 0, EAGAIN", n, err)
	}
	if _, err := there.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	raw.Read(func(fd uintptr) bool { // waits for it
		n, err := ReadSocket(fd, p)
		if err == nil && string(p[:n]) != "hello" {
			t.Errorf("read %q", p[:n])
		}
		return err != syscall.EAGAIN
	})
	want := []byte("there")
	if n, err := call(WriteSocket, want); n != len(want) || err != nil {
		t.Errorf("write: %d, %v", n, err)
	}
	if _, err := io.ReadFull(there, p[:len(want)]); err != nil || !bytes.Equal(p[:len(want)], want) {
		t.Errorf("it wrote %q, %v", p[:len(want)], err)
	}
	for err == nil {
		_, err = call(WriteSocket, p)
	}
	if err != syscall.EAGAIN {
		t.Errorf("write to a full socket: %v, want EAGAIN", err)
	}
	there.(*net.TCPConn).SetLinger(0)
	there.Close()
	raw.Read(func(fd uintptr) bool {
		_, err = ReadSocket(fd, p)
		return err != syscall.EAGAIN
	})
	if err != syscall.ECONNRESET {
		t.Errorf("read after a reset: %v, want ECONNRESET", err)
	}
	if _, err := call(WriteSocket, want); err != syscall.EPIPE {
		t.Errorf("write after a reset: %v, want EPIPE", err)
	}
	if n, err := call(ReadSocket, p); n != 0 || err != nil {
		t.Errorf("read at the end: %d, %v; want 0 and no error", n, err)
	}
}
