package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ports makes a gateway listen on free ports; its log says which.
const ports = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"

// patience is how long the tests wait for what should take no time: far more
// than a busy machine needs.
const patience = 60 * time.Second

// instance is a gateway that runs: the built binary in a process of its own.
type instance struct {
	t           testing.TB
	cmd         *exec.Cmd
	path        string // its file
	addr, admin string // host:port
	out, errs   *output
	client      *http.Client
	exited      chan struct{} // closed when the process has ended
}

// serve runs a gateway on a file with this text until the test ends, when it
// must stop with exit code 0.
func serve(t testing.TB, text string) *instance {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, text)
	return serveFileAt(t, path)
}

// serveFileAt is serve for a file that is there already.
func serveFileAt(t testing.TB, path string, change ...func(*exec.Cmd)) *instance {
	t.Helper()
	g := launch(t, []string{"run", "-c", path}, change...)
	g.path = path
	t.Cleanup(g.stop)
	g.awaitServing()
	return g
}

// launch starts the binary and does not wait for anything.
func launch(t testing.TB, args []string, change ...func(*exec.Cmd)) *instance {
	t.Helper()
	g := &instance{t: t, out: &output{}, errs: &output{}, exited: make(chan struct{})}
	g.cmd = exec.Command(binary, args...)
	g.cmd.Stdout, g.cmd.Stderr = g.out, g.errs
	g.cmd.Env = append(os.Environ(), "GATEWAY_CONFIG=")
	for _, c := range change {
		c(g.cmd)
	}
	do(t, g.cmd.Start())
	go func() { g.cmd.Wait(); close(g.exited) }()
	g.client = newClient()
	t.Cleanup(func() {
		g.client.CloseIdleConnections()
		select {
		case <-g.exited:
		default:
			g.cmd.Process.Kill()
			<-g.exited
		}
		if t.Failed() {
			t.Logf("stderr of the gateway:\n%s", lastLines(g.errs.String(), 40))
		}
	})
	return g
}

// awaitServing waits for the line that says which addresses it serves on.
func (g *instance) awaitServing() {
	g.t.Helper()
	var line map[string]any
	eventually(g.t, "the gateway serves", func() bool {
		select {
		case <-g.exited:
			g.t.Fatalf("the gateway ended with %v:\n%s", g.cmd.ProcessState, g.errs)
		default:
		}
		lines := g.logged("serving")
		if len(lines) > 0 {
			line = lines[0]
		}
		return line != nil
	})
	g.addr = line["listen"].([]any)[0].(string)
	if admin, _ := line["admin"].([]any); len(admin) > 0 {
		g.admin = admin[0].(string)
	}
}

// stop ends the gateway with SIGTERM, unless it has ended, and asserts that it
// was in good health.
func (g *instance) stop() {
	g.t.Helper()
	g.client.CloseIdleConnections()
	g.signal(syscall.SIGTERM)
	if code := g.exit(); code != 0 {
		g.t.Errorf("exit code %d, want 0", code)
	}
}

func (g *instance) signal(s os.Signal) {
	g.t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		g.t.Error(err)
	}
}

// exit waits for the end of the process and returns its exit code.
func (g *instance) exit() int {
	g.t.Helper()
	select {
	case <-g.exited:
	case <-time.After(patience):
		g.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines are in stderr then
		<-g.exited
		g.t.Error("the gateway did not end")
	}
	for _, word := range []string{"DATA RACE", "panic: ", "fatal error: "} {
		if text := g.errs.String(); strings.Contains(text, word) {
			g.t.Errorf("%q on stderr:\n%s", word, text[strings.Index(text, word):])
		}
	}
	return g.cmd.ProcessState.ExitCode()
}

// logged returns the lines on stderr with one of these messages.
func (g *instance) logged(messages ...string) []map[string]any {
	var found []map[string]any
	for _, line := range g.errs.lines() {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) != nil {
			continue
		}
		if msg, ok := m["msg"].(string); ok && slices.Contains(messages, msg) {
			found = append(found, m)
		}
	}
	return found
}

// save replaces the file in one step.
func (g *instance) save(text string) {
	g.t.Helper()
	write(g.t, g.path+".new", text)
	do(g.t, os.Rename(g.path+".new", g.path))
}

// output keeps what a process writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// String returns all that was written.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// lines returns the lines that are complete.
func (o *output) lines() []string {
	text := o.String()
	return strings.Split(text[:strings.LastIndexByte(text, '\n')+1], "\n")
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	do(t, os.WriteFile(path, []byte(text), 0o644))
}

// eventually looks until ok; it fails when that takes far too long.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}
