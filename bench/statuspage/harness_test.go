package statuspage

import (
	"bytes"
	"context"
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

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long the tests wait for what should take no time.
const patience = 60 * time.Second

// binary is the gateway that TestMain has built.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gateway-statuspage-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "gateway")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "./cmd/gateway")
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the gateway:", err)
		return 1
	}
	return m.Run()
}

// gateway is one that runs until the test ends.
type gateway struct {
	t                 *testing.T
	path, addr, admin string
}

var serving = regexp.MustCompile(`"msg":"serving","listen":\["([^"]+)"\],"admin":\["([^"]+)"\]`)

func serve(t *testing.T, text string) *gateway {
	t.Helper()
	g := &gateway{t: t, path: filepath.Join(t.TempDir(), "gateway.yaml")}
	g.save(text)
	errs := &output{}
	cmd := exec.Command(binary, "run", "-c", g.path)
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("the gateway: %v\n%s", err, errs)
		}
	})
	eventually(t, "the gateway serves", func() bool {
		m := serving.FindStringSubmatch(errs.String())
		if m != nil {
			g.addr, g.admin = m[1], m[2]
		}
		return m != nil
	})
	return g
}

// save puts text in the place of the file, at once.
func (g *gateway) save(text string) {
	g.t.Helper()
	err := os.WriteFile(g.path+".new", []byte("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ntrusted_proxies: [127.0.0.1]\n"+text), 0o644)
	if err == nil {
		err = os.Rename(g.path+".new", g.path)
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// get sends n requests of a client and returns the status of the last.
func (g *gateway) get(n int, client, path string, header ...string) (status int) {
	g.t.Helper()
	for range n {
		req, err := http.NewRequest("GET", "http://"+g.addr+path, nil)
		if err != nil {
			g.t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", client)
		for _, h := range header {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			g.t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		status = res.StatusCode
	}
	return status
}

// api is an upstream that answers at once.
func api(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	t.Cleanup(s.Close)
	return s.URL
}

// browser is a tab. What the page does that its policy forbids, what it throws and
// what it complains of is noted.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	wrongs []string
}

// open starts a browser. Chromium sometimes ends as it starts on a machine without
// a screen and a message bus; that says nothing of the page, so it gets more tries.
func open(t *testing.T) *browser {
	t.Helper()
	b := &browser{t: t}
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, wrong := range b.wrongs {
			t.Error("the page:", wrong)
		}
	})
	const tries = 5
	for try := 1; ; try++ {
		err := b.start()
		if err == nil {
			break
		}
		if try == tries {
			t.Fatalf("opening a browser, try %d: %v", try, err)
		}
		t.Logf("opening a browser, try %d: %v", try, err)
	}
	limited, late := context.WithTimeout(b.ctx, 4*patience)
	t.Cleanup(late)
	b.ctx = limited
	send(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `addEventListener("securitypolicyviolation", e => console.error(e.violatedDirective))`,
	})
	return b
}

// start starts the browser once and listens to what goes wrong in its pages.
func (b *browser) start() error {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(patience))
	alloc, cancel := chromedp.NewExecAllocator(b.t.Context(), options...)
	ctx, close := chromedp.NewContext(alloc)
	wrong := func(format string, args ...any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrongs = append(b.wrongs, fmt.Sprintf(format, args...))
	}
	err := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			wrong("throws %s", ev.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			wrong("writes to the console: %v", ev.Type)
		case *log.EventEntryAdded:
			if !strings.HasSuffix(ev.Entry.URL, "/favicon.ico") { // which the browser asks for by itself
				wrong("%s: %s %s", ev.Entry.Source, ev.Entry.Text, ev.Entry.URL)
			}
		}
	})
	if err != nil {
		close()
		cancel()
		return err
	}
	b.ctx = ctx
	b.t.Cleanup(func() {
		close()
		cancel()
	})
	return nil
}

// run does something in the browser and fails the test if it cannot.
func (b *browser) run(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// send sends a command of the debugging protocol.
func send[P, R any](b *browser, c cdp.Command[P, R], params P) R {
	b.t.Helper()
	r, err := chromedp.Call(b.ctx, c, params)
	if err != nil {
		b.t.Fatalf("%s: %v", c.Method, err)
	}
	return r
}

// eval returns what an expression is in the page.
func eval[T any](b *browser, expression string) (v T) {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// text returns what the page shows.
func (b *browser) text() string {
	b.t.Helper()
	return eval[string](b, `document.getElementById("page")?.innerText ?? ""`)
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

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}
