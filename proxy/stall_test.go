package proxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// narrow connects with a small receive buffer, so that what the test does not
// read stays with the gateway.
func (s *site) narrow() *wire {
	s.t.Helper()
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 8<<10) })
		return err
	}}
	c, err := d.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &wire{s.t, c.(*net.TCPConn), bufio.NewReaderSize(c, 16)}
}

// What a client does not take must not pile up in the kernel, and not stay there
// when the client has been cut.
func TestWhatAStalledReaderLeavesIsLittleAndForgotten(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, "timeouts: { write: 500ms }\n"+openRules, flood(32<<20))
	w := s.narrow()
	w.send(get + "\r\n")
	eventually(t, "a line of the access log", func() bool { return strings.Contains(s.access.all()[0], "status") })
	eventually(t, "no connection", func() bool { return s.doors.Connections().Open == 0 })
	var line struct{ Bytes int }
	if err := json.Unmarshal([]byte(s.access.all()[0]), &line); err != nil || line.Bytes == 0 || line.Bytes > 512<<10 {
		t.Errorf("%d bytes were taken for a client that takes nothing (%v)", line.Bytes, err)
	}
	n, err := io.Copy(io.Discard, w.TCPConn)
	if !errors.Is(err, syscall.ECONNRESET) || n > 64<<10 {
		t.Errorf("%d bytes were still delivered, and then came %v", n, err)
	}
}

// A KiB in each span is enough, however much more the kernel holds.
func TestAReaderWhoTakesLittleInEachSpanLives(t *testing.T) {
	t.Parallel() // it mostly waits
	const size = 1 << 20
	s := newSite(t, "timeouts: { write: 3s }\n"+openRules, flood(size))
	w := s.narrow()
	w.send(get + "Connection: close\r\n\r\n")
	res, err := http.ReadResponse(w.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	began, total := time.Now(), int64(0)
	for err == nil && time.Since(began) < 8*time.Second { // more than two spans
		var n int64
		n, err = io.CopyN(io.Discard, res.Body, 3<<10)
		total += n
		time.Sleep(100 * time.Millisecond) // some 30 KB/s
	}
	if total > 320<<10 {
		t.Errorf("the reader was not slow: %d bytes in %v", total, time.Since(began))
	}
	n, err := io.Copy(io.Discard, res.Body)
	if total += n; err != nil || total != size {
		t.Errorf("%d of %d bytes, then %v", total, size, err)
	}
}
