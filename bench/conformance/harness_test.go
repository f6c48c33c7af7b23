package conformance

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long the tests wait for what should take no time.
const patience = 60 * time.Second

// bin is the folder of the binaries that TestMain has built.
var bin string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gateway-conformance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = dir
	for name, from := range map[string][2]string{
		"gateway":     {"../..", "./cmd/gateway"},
		"h2spec":      {".", "github.com/summerwind/h2spec/cmd/h2spec"},
		"grpc-client": {".", "google.golang.org/grpc/interop/client"},
		"grpc-server": {".", "google.golang.org/grpc/interop/server"},
	} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name), from[1])
		cmd.Dir, cmd.Stdout, cmd.Stderr = from[0], os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "building %s: %v\n", name, err)
			return 1
		}
	}
	return m.Run()
}

// process is a server that runs until the test ends.
type process struct {
	cmd    *exec.Cmd
	errs   *output
	exited chan struct{}
}

// start runs a binary of bin until the test ends, and returns what the first group
// of ready matches in what it writes to stderr.
func start(t *testing.T, ready *regexp.Regexp, name string, args ...string) (*process, string) {
	t.Helper()
	p := &process{cmd: exec.Command(filepath.Join(bin, name), args...), errs: &output{}, exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "GRPC_GO_LOG_SEVERITY_LEVEL=info")
	p.cmd.Stderr = p.errs
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.cmd.Wait(); close(p.exited) }()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			text := p.errs.String()
			t.Logf("stderr of %s, its end:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	deadline := time.Now().Add(patience)
	for {
		if m := ready.FindStringSubmatch(p.errs.String()); m != nil {
			return p, m[1]
		}
		select {
		case <-p.exited:
			t.Fatalf("%s ended with %v:\n%s", name, p.cmd.ProcessState, p.errs)
		case <-time.After(5 * time.Millisecond): // between two looks
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not ready after %v:\n%s", name, patience, p.errs)
		}
	}
}

// gateway is one that runs.
type gateway struct{ addr, admin string }

var (
	serving  = regexp.MustCompile(`"msg":"serving","listen":\["([^"]+)"\],"admin":\["[^"]+"\]`)
	adminsAt = regexp.MustCompile(`"admin":\["([^"]+)"\]`)
)

// serve runs the gateway on a file with this text. At the end it must stop with
// exit code 0 and must have panicked nowhere.
func serve(t *testing.T, text string) gateway {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(path, []byte("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"+text), 0o644); err != nil {
		t.Fatal(err)
	}
	g, addr := start(t, serving, "gateway", "run", "-c", path)
	t.Cleanup(func() {
		g.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-g.exited:
		case <-time.After(patience):
			t.Error("the gateway does not stop")
			return
		}
		if code := g.cmd.ProcessState.ExitCode(); code != 0 || strings.Contains(g.errs.String(), "panic") {
			t.Errorf("exit code %d, or a panic:\n%s", code, g.errs)
		}
	})
	return gateway{addr, adminsAt.FindStringSubmatch(g.errs.String())[1]}
}

// hello is an upstream that reads what it gets, answers and says so.
func hello(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "hello")
	}))
	t.Cleanup(s.Close)
	return s.URL
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
