// Package redistest starts real servers for tests: redis-server alone, with a
// replica and a sentinel, or as a cluster; and a listener in between that misbehaves.
package redistest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long to wait for what takes no time: far more than a busy
// machine needs.
const patience = 60 * time.Second

// Server is a redis-server on a port of its own. It ends with its test.
type Server struct {
	// Addr is its host:port, Port the port.
	Addr string
	Port int
	// Password, unless "", is what Do logs in with.
	Password string
	// TLS, unless nil, is how Do speaks to it.
	TLS *tls.Config

	t    testing.TB
	dir  string
	args []string
	cmd  *exec.Cmd
}

// Start starts a server that keeps nothing on disk, with more arguments if need be,
// like "--maxmemory", "2mb".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, func(port int) []string {
		return append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"}, args...)
	})
}

// start starts a server on a free port. Between the time it is found and the time it
// is bound another may take it, so it tries more than once.
func start(t testing.TB, args func(port int) []string, change ...func(*Server)) *Server {
	t.Helper()
	for range 20 {
		port := FreePort(t)
		s := &Server{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Port: port, t: t, dir: t.TempDir(), args: args(port)}
		for _, c := range change {
			c(s)
		}
		if s.launch() {
			t.Cleanup(s.Kill)
			return s
		}
	}
	t.Fatal("redis-server does not start")
	return nil
}

// FreePort returns a port that nobody listens on, nor on the one 10,000 above, which
// a node of a cluster takes as well.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port+10_000 > 65_535 {
			if port -= 15_000; !free(port) {
				continue
			}
		}
		if free(port + 10_000) {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		l.Close()
	}
	return err == nil
}

// launch starts the process and waits until it answers; it reports whether it does.
func (s *Server) launch() bool {
	s.t.Helper()
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("redis-server", s.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("%v: install redis-server", err)
	}
	exited := make(chan struct{})
	go func() { cmd.Wait(); close(exited) }()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		select {
		case <-exited:
			return false
		default:
		}
		if _, err := s.Try("PING"); err == nil || strings.HasPrefix(err.Error(), "NOAUTH") {
			s.cmd = cmd
			return true
		}
	}
	cmd.Process.Kill()
	return false
}

// Kill ends the server as kill -9 does. A server that has ended stays so.
func (s *Server) Kill() {
	if s.cmd != nil {
		s.cmd.Process.Signal(syscall.SIGCONT)
		s.cmd.Process.Kill()
		for s.cmd.Process.Signal(syscall.Signal(0)) == nil { // until it has been waited for
			time.Sleep(time.Millisecond)
		}
		s.cmd = nil
	}
}

// Restart starts a server that has been killed, with nothing in it.
func (s *Server) Restart() {
	s.t.Helper()
	for range 20 {
		if s.launch() {
			return
		}
		time.Sleep(50 * time.Millisecond) // its port is still held
	}
	s.t.Fatal("redis-server does not start again")
}

// Hang stops the server: it takes what it is sent and says nothing.
func (s *Server) Hang() { s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a server that hangs go on.
func (s *Server) Resume() { s.cmd.Process.Signal(syscall.SIGCONT) }

// Do runs a command on a connection of its own and returns the answer: lists one
// value a line.
func (s *Server) Do(args ...string) string {
	s.t.Helper()
	text, err := s.Try(args...)
	if err != nil {
		s.t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return text
}

func (s *Server) dial() (net.Conn, error) {
	d := &net.Dialer{Timeout: time.Second}
	if s.TLS != nil {
		return tls.DialWithDialer(d, "tcp", s.Addr, s.TLS)
	}
	return d.Dial("tcp", s.Addr)
}

// Try is Do that returns the error.
func (s *Server) Try(args ...string) (string, error) {
	c, err := s.dial()
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	r := bufio.NewReader(c)
	if s.Password != "" {
		fmt.Fprint(c, command("AUTH", s.Password))
		if _, err := reply(r); err != nil {
			return "", err
		}
	}
	fmt.Fprint(c, command(args...))
	return reply(r)
}

func command(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// reply reads an answer of RESP2.
func reply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil || len(line) < 3 {
		return "", fmt.Errorf("no answer: %w", err)
	}
	line = strings.TrimSuffix(line, "\r\n")
	n, _ := strconv.Atoi(line[1:])
	switch line[0] {
	case '-':
		return "", fmt.Errorf("%s", line[1:])
	case '$':
		if n < 0 {
			return "", nil
		}
		b := make([]byte, n+2)
		for read := 0; read < len(b); {
			m, err := r.Read(b[read:])
			if err != nil {
				return "", err
			}
			read += m
		}
		return string(b[:n]), nil
	case '*':
		var parts []string
		for range max(n, 0) {
			part, err := reply(r)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, "\n"), nil
	}
	return line[1:], nil
}

// Keys returns the names of all keys.
func (s *Server) Keys() []string {
	s.t.Helper()
	text := s.Do("KEYS", "*")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// Figure returns a number of INFO, like "cmdstat_evalsha:calls" or
// "used_cpu_user".
func (s *Server) Figure(section, name string) float64 {
	s.t.Helper()
	name, part, _ := strings.Cut(name, ":")
	for line := range strings.Lines(s.Do("INFO", section)) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":")
		if !ok {
			continue
		}
		for field := range strings.SplitSeq(value, ",") {
			if k, v, is := strings.Cut(field, "="); is && k == part {
				value = v
			}
		}
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			s.t.Fatalf("%s %s: %v", section, name, err)
		}
		return f
	}
	return 0
}

// Eventually looks until ok; it fails when that takes far too long.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
