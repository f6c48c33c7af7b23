package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gateway/rules"
)

// transport is what carries HTTP/1.1 in tests that do not choose it.
var transport = flag.String("transport", "direct", "direct or net_http")

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // net/http's transport writes to it
	goleak.VerifyTestMain(m)
}

// discard is for servers whose complaints are expected.
var discard = log.New(io.Discard, "", 0)

// deadline is how long a test waits for what must happen.
const deadline = 20 * time.Second

// door is a front door that does nothing but what a test tells it to.
type door struct {
	rewrite func(out, in *http.Request)
	change  func(*http.Response) error

	mu     sync.Mutex
	failed []error // what Fail got
	asked  []Request
}

func (d *door) Rewrite(out, in *http.Request) {
	if d.rewrite != nil {
		d.rewrite(out, in)
	}
}

func (d *door) Answer(res *http.Response) error {
	if d.change != nil {
		return d.change(res)
	}
	return nil
}

func (d *door) Fail(w http.ResponseWriter, r *http.Request, err error) {
	d.mu.Lock()
	d.failed = append(d.failed, err)
	d.mu.Unlock()
	http.Error(w, "no answer", Status(err, r.Context().Err()))
}

// failures returns what Fail has got so far.
func (d *door) failures() []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]error(nil), d.failed...)
}

// last returns the most recent Request that Forward is done with.
func (d *door) last() (Request, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.asked) == 0 {
		return Request{}, false
	}
	return d.asked[len(d.asked)-1], true
}

// serve is a gateway without rules in front of p.
func (d *door) serve(p *Pool, tunnel time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server, ok := p.Pick(0)
		if !ok {
			http.Error(w, "no server", http.StatusServiceUnavailable)
			return
		}
		q := Request{Front: d, Server: server, Path: SentPath(r), Tunnel: tunnel}
		defer func() {
			d.mu.Lock()
			d.asked = append(d.asked, q)
			d.mu.Unlock()
		}()
		p.Forward(w, r, &q)
	})
}

// spec is an upstream with the defaults of the file.
func spec(t testing.TB, servers ...string) *rules.Upstream {
	t.Helper()
	u := &rules.Upstream{
		Name:           "default",
		Timeout:        60 * time.Second,
		ConnectTimeout: deadline, // a machine that stands still for a moment is no server that cannot be reached
		IdleTimeout:    4 * time.Second,
		Retries:        1,
		Host:           "preserve",
		Transport:      *transport,
	}
	for _, s := range servers {
		parsed, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		u.Servers = append(u.Servers, rules.Server{URL: parsed})
	}
	return u
}

func newPool(t testing.TB, s *rules.Upstream) *Pool {
	t.Helper()
	p, err := New(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// gateway starts a gateway before p.
func gateway(t testing.TB, p *Pool, d *door) *httptest.Server {
	t.Helper()
	return start(t, d.serve(p, 0))
}

// start starts an HTTP/1.1 and h2c server.
func start(t testing.TB, h http.Handler, tune ...func(*http.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	for _, f := range tune {
		f(s.Config)
	}
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.ErrorLog = discard
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// front starts a gateway with defaults before one server.
func front(t testing.TB, server string) (*httptest.Server, *door, *Pool) {
	t.Helper()
	d, p := &door{}, newPool(t, spec(t, server))
	return gateway(t, p, d), d, p
}

// raw is a TCP server that answers as it likes. Its connections are closed and
// its goroutines waited for when the test ends.
func raw(t testing.TB, handle func(net.Conn, *bufio.Reader)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				handle(c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// answering is a raw server that reads a request's header and writes answer,
// then closes; it repeats on each connection.
func answering(t testing.TB, answer string) (addr string) {
	return raw(t, func(c net.Conn, r *bufio.Reader) {
		if _, err := header(r); err != nil {
			return
		}
		io.WriteString(c, answer)
	})
}

// header reads the header of a request or an answer as it is.
func header(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\r\n" {
			return b.String(), err
		}
	}
}

// refused is an address nobody listens on.
func refused(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// dial connects to a test server by hand.
func dial(t testing.TB, s *httptest.Server) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(deadline))
	return c.(*net.TCPConn), bufio.NewReader(c)
}

// send writes to a connection of the test.
func send(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// client is a client with connections of its own, closed with the test.
func client(t testing.TB) *http.Client {
	tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: deadline}
}

// h2cClient is a client that speaks HTTP/2 from the first byte.
func h2cClient(t testing.TB) *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: deadline}
}

// get fetches a URL and returns status and body.
func get(t testing.TB, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	return res, read(t, res)
}

func read(t testing.TB, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// eventually waits for what must become true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			var stacks bytes.Buffer
			if os.Getenv("STACKS") != "" {
				buf := make([]byte, 1<<20)
				stacks.Write(buf[:runtime.Stack(buf, true)])
			}
			t.Fatalf("not within %v: %s\n%s", deadline, what, &stacks)
		}
	}
}

// receive waits for a value of a channel.
func receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(deadline):
		t.Fatalf("not within %v: %s", deadline, what)
		panic("unreachable")
	}
}

// withCancel returns a context that ends with the test at the latest.
func withCancel(t testing.TB) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx, cancel
}

// is reports whether err is of the type E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
