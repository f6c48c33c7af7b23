package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// score records the figure a row of the scorecard came to.
func score(t testing.TB, row, format string, args ...any) {
	t.Helper()
	figure := fmt.Sprintf(format, args...)
	t.Attr(row, figure)
	t.Logf("%s: %s", row, figure)
}

// long says that the tests of rows may take minutes.
func long() bool { return os.Getenv("GATEWAY_LONG") == "1" }

// often returns n in a long run, and the lesser short in one that is not.
func often(short, n int) int {
	if long() {
		return n
	}
	return short
}

// shipped is the binary without the race detector, which multiplies memory and
// time: for rows that measure them.
var shipped = sync.OnceValues(func() (string, error) {
	if !raceEnabled() {
		return binary, nil
	}
	path := filepath.Join(filepath.Dir(binary), "gateway-shipped")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as releases are built
	out, err := build.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("building the gateway: %w\n%s", err, out)
	}
	return path, err
})

// asShipped makes a command that of the binary without the race detector.
func asShipped(t testing.TB) func(*exec.Cmd) {
	t.Helper()
	path, err := shipped()
	do(t, err)
	return func(c *exec.Cmd) { c.Path = path }
}

// serveShipped is serve with the binary without the race detector.
func serveShipped(t testing.TB, text string, change ...func(*exec.Cmd)) *instance {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, text)
	return serveFileAt(t, path, append(change, asShipped(t))...)
}

// memory returns a line of the kernel's account of the process, in bytes: VmRSS
// is what it has now, VmHWM the most it had.
func (g *instance) memory(line string) int64 {
	g.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	do(g.t, err)
	_, rest, ok := strings.Cut(string(text), "\n"+line+":")
	if !ok {
		g.t.Fatalf("no %s in\n%s", line, text)
	}
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	do(g.t, err)
	return kib << 10
}

// growth returns a function that tells how much memory the process had at most
// since, beyond what it has now.
func (g *instance) growth() func() int64 {
	g.t.Helper()
	do(g.t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", g.cmd.Process.Pid), []byte("5"), 0))
	before := g.memory("VmRSS")
	return func() int64 { return g.memory("VmHWM") - before }
}

// rawConn is a client's connection of which a test writes each byte itself.
type rawConn struct {
	*net.TCPConn
	in *bufio.Reader
}

func dialRaw(t testing.TB, addr string) *rawConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	do(t, err)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return newRawConn(c)
}

func newRawConn(c net.Conn) *rawConn { return &rawConn{c.(*net.TCPConn), bufio.NewReader(c)} }

// ask sends text and returns the answer to it, its body read.
func (c *rawConn) ask(t testing.TB, text string) *http.Response {
	t.Helper()
	_, err := io.WriteString(c, text)
	do(t, err)
	method, _, _ := strings.Cut(text, " ")
	res, err := http.ReadResponse(c.in, &http.Request{Method: method})
	do(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	do(t, err)
	return res
}
