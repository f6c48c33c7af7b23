package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gateway/rules"
)

// newDirect returns the direct transport of a pool with one server.
func newDirect(t testing.TB, server string, tune ...func(*rules.Upstream)) *direct {
	t.Helper()
	s := spec(t, server)
	s.Transport = "direct"
	for _, f := range tune {
		f(s)
	}
	return newPool(t, s).servers[0].h1direct
}

// roundTrip sends a request without a body and reads all of the answer.
func roundTrip(t testing.TB, d http.RoundTripper, method, url string, body io.ReadCloser) (status int, text string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := d.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

const noContent = "HTTP/1.1 204 No Content\r\n\r\n"

// TestAKeptConnectionThatBreaksIsTriedOnceMoreAtMost has a server that answers the
// first request of each connection and closes when it has read the next.
func TestAKeptConnectionThatBreaksIsTriedOnceMoreAtMost(t *testing.T) {
	for _, tt := range []struct {
		method string
		body   io.ReadCloser
		sent   int // of the second request
	}{
		{"GET", nil, 2}, {"HEAD", nil, 2}, {"OPTIONS", nil, 2}, {"TRACE", nil, 2},
		{"GET", http.NoBody, 2}, {"GET", nothing{}, 1}, {"HEAD", nothing{}, 1},
		{"POST", nil, 1}, {"DELETE", nil, 1}, {"PUT", http.NoBody, 1},
		{"GET", io.NopCloser(strings.NewReader("x")), 1}, {"POST", io.NopCloser(strings.NewReader("x")), 1},
	} {
		var sent, made atomic.Int32
		addr := raw(t, func(c net.Conn, r *bufio.Reader) {
			made.Add(1)
			for {
				path, err := readRequest(r)
				if err != nil {
					return
				}
				if path == "/second" {
					if sent.Add(1) < 2 {
						return
					}
				}
				io.WriteString(c, noContent)
			}
		})
		d := newDirect(t, "http://"+addr)
		if _, _, err := roundTrip(t, d, "GET", "http://"+addr+"/first", nil); err != nil {
			t.Fatal(err)
		}
		status, _, err := roundTrip(t, d, tt.method, "http://"+addr+"/second", tt.body)
		if good := tt.sent == 2; int(sent.Load()) != tt.sent || good != (err == nil && status == 204) || int(made.Load()) != tt.sent {
			t.Errorf("%s with %T: sent %d times over %d connections, want %d; %d, %v", tt.method, tt.body, sent.Load(), made.Load(), tt.sent, status, err)
		}
		if err != nil && kind(err) != "network" {
			t.Errorf("%s: got %v", tt.method, err)
		}
	}
}

// TestAFreshConnectionThatBreaksIsNotTriedAgain: that is for the pool to decide.
func TestAFreshConnectionThatBreaksIsNotTriedAgain(t *testing.T) {
	var made atomic.Int32
	addr := raw(t, func(c net.Conn, r *bufio.Reader) { made.Add(1); readRequest(r) })
	if _, _, err := roundTrip(t, newDirect(t, "http://"+addr), "GET", "http://"+addr, nil); err == nil || made.Load() != 1 {
		t.Errorf("got %v after %d connections", err, made.Load())
	}
}

// TestClosedIdleConnectionsHurtNobody has a server that closes each connection
// behind its answer without a word, so that the gateway has it for a kept one.
func TestClosedIdleConnectionsHurtNobody(t *testing.T) {
	for _, method := range []string{"GET", "POST", "DELETE"} {
		for _, body := range []string{"", "some body"} {
			gone := make(chan struct{})
			addr := raw(t, func(c net.Conn, r *bufio.Reader) {
				readRequest(r)
				io.WriteString(c, noContent)
				c.Close()
				gone <- struct{}{}
			})
			d := newDirect(t, "http://"+addr)
			for i := range 20 {
				var b io.ReadCloser
				if body != "" {
					b = io.NopCloser(strings.NewReader(body))
				}
				if status, _, err := roundTrip(t, d, method, "http://"+addr, b); err != nil || status != 204 {
					t.Fatalf("%s %q, request %d: %d, %v", method, body, i, status, err)
				}
				<-gone
			}
		}
	}
}

// TestBytesOnAnIdleConnectionReachNobody has a server that writes a whole answer
// that nobody asked for, once the last one has been read.
func TestBytesOnAnIdleConnectionReachNobody(t *testing.T) {
	for _, unasked := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nevil!", "x", "HTTP/1.1 408 Request Timeout\r\n\r\n"} {
		for _, body := range []io.Reader{nil, strings.NewReader("body")} {
			read, written := make(chan struct{}), make(chan struct{})
			var made atomic.Int32
			addr := raw(t, func(c net.Conn, r *bufio.Reader) {
				n := made.Add(1)
				readRequest(r)
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				if n == 1 {
					receive(t, "read", read)
					io.WriteString(c, unasked)
					close(written)
				}
				io.Copy(io.Discard, r)
			})
			d := newDirect(t, "http://"+addr)
			roundTrip(t, d, "GET", "http://"+addr, nil)
			close(read)
			<-written
			var b io.ReadCloser
			if body != nil {
				b = io.NopCloser(body)
			}
			status, text, err := roundTrip(t, d, "POST", "http://"+addr, b)
			if err != nil || status != 200 || text != "ok" || made.Load() != 2 {
				t.Errorf("%q: got %d %q, %v over %d connections", unasked, status, text, err, made.Load())
			}
		}
	}
}

// TestAnAnswerToALargeUploadIsReadThoughTheServerHangsUp has servers that refuse
// an upload and reset the connection with most of it unread.
func TestAnAnswerToALargeUploadIsReadThoughTheServerHangsUp(t *testing.T) {
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		header(r)
		io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
	})
	d := newDirect(t, "http://"+addr)
	for range 20 {
		status, text, err := roundTrip(t, d, "POST", "http://"+addr, io.NopCloser(io.LimitReader(zeros{}, 64<<20)))
		if err != nil || status != 413 || text != "big" {
			t.Fatalf("got %d %q, %v", status, text, err)
		}
	}
}

// TestABodyThatIsNotWantedIsNotSent: net/http's transport would send it behind the
// answer, and wait for the client to give it.
func TestABodyThatIsNotWantedIsNotSent(t *testing.T) {
	got := make(chan string, 1)
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		header(r)
		io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
		rest, _ := io.ReadAll(r)
		got <- string(rest)
	})
	d := newDirect(t, "http://"+addr)
	for _, length := range []int64{4, -1} {
		body := &spied{Reader: strings.NewReader("body")}
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+addr, body)
		req.ContentLength = length
		req.Header.Set("Expect", "100-continue")
		res, err := d.RoundTrip(req)
		if err != nil || res.StatusCode != 403 || read(t, res) != "no" {
			t.Fatalf("got %v, %v", res, err)
		}
		if rest := receive(t, "the end", got); rest != "" || body.reads.Load() != 0 {
			t.Errorf("length %d: the server got %q behind the header; the body was read %d times", length, rest, body.reads.Load())
		}
		eventually(t, "the body is closed", func() bool { return body.closed.Load() })
	}
}

// spied is a body that counts.
type spied struct {
	io.Reader
	reads  atomic.Int32
	closed atomic.Bool
}

func (s *spied) Read(p []byte) (int, error) { s.reads.Add(1); return s.Reader.Read(p) }
func (s *spied) Close() error               { s.closed.Store(true); return nil }

func TestAServerThatDoesNotKnowExpectGetsTheBody(t *testing.T) {
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		b, _ := io.ReadAll(req.Body)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
	})
	req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+addr, io.NopCloser(strings.NewReader("body")))
	req.Header.Set("Expect", "100-Continue")
	res, err := newDirect(t, "http://"+addr).RoundTrip(req)
	if err != nil || res.StatusCode != 200 || read(t, res) != "body" {
		t.Errorf("got %v, %v", res, err)
	}
}

// TestCancellingEndsAnExchangeAtEachStage and has the server's connection closed.
func TestCancellingEndsAnExchangeAtEachStage(t *testing.T) {
	why := errors.New("the reason")
	for _, stage := range []string{"before", "dial", "answer", "kept answer", "interim", "body", "upload", "expect"} {
		reached, gone := make(chan struct{}, 1), make(chan struct{}, 8)
		addr := raw(t, func(c net.Conn, r *bufio.Reader) {
			defer func() { gone <- struct{}{} }()
			head, err := header(r)
			if err != nil {
				return
			}
			if strings.HasPrefix(head, "GET /warm") {
				io.WriteString(c, noContent)
				if _, err := header(r); err != nil {
					return
				}
			}
			switch stage {
			case "interim":
				io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
			case "body":
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
			}
			reached <- struct{}{}
			if stage == "upload" {
				<-gone // closed by the cancel, not read
			}
			io.Copy(io.Discard, r)
		})
		d := newDirect(t, "http://"+addr)
		if stage == "kept answer" {
			roundTrip(t, d, "GET", "http://"+addr+"/warm", nil)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		if stage == "dial" {
			d.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				reached <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		var body io.Reader
		switch stage {
		case "upload":
			body = io.LimitReader(zeros{}, 1<<30)
		case "expect":
			body = strings.NewReader("body")
		}
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+addr, body)
		if stage == "expect" {
			req.Header.Set("Expect", "100-continue")
		}
		if stage == "before" {
			cancel(why)
			reached <- struct{}{}
			gone <- struct{}{}
		}
		done := make(chan error, 1)
		go func() {
			res, err := d.RoundTrip(req)
			if err == nil {
				_, err = io.ReadAll(res.Body)
				res.Body.Close()
			}
			done <- err
		}()
		receive(t, stage+" reached", reached)
		cancel(why)
		if stage == "upload" {
			gone <- struct{}{}
		}
		if err := receive(t, stage+" ended", done); !errors.Is(err, why) {
			t.Errorf("%s: got %v, want the cause", stage, err)
		}
		if stage != "dial" {
			receive(t, stage+": the server's connection closed", gone)
		}
		d.links.mu.Lock()
		for host, s := range d.links.idle {
			if len(s.links)+len(s.seekers) > 0 {
				t.Errorf("%s: something is left for %s", stage, host)
			}
		}
		d.links.mu.Unlock()
	}
}

// TestACancelledExchangeThatIsOverCancelsNoOther cancels contexts at the time
// their answers are read to the end, with other requests on the same connections.
func TestACancelledExchangeThatIsOverCancelsNoOther(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "0123456789") }))
	d := newDirect(t, up.URL)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				req, _ := http.NewRequestWithContext(ctx, "POST", up.URL, nil)
				res, err := d.RoundTrip(req)
				if err != nil {
					t.Error(err)
					cancel()
					return
				}
				if i%2 == 0 {
					go cancel()
				}
				if b, err := io.ReadAll(res.Body); i%2 == 1 && (err != nil || len(b) != 10) {
					t.Errorf("got %q, %v", b, err)
				}
				res.Body.Close()
				cancel()
			}
		})
	}
	wg.Wait()
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	gone := make(chan struct{}, 1)
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		for {
			if _, err := readRequest(r); err != nil {
				gone <- struct{}{}
				return
			}
			io.WriteString(c, noContent)
		}
	})
	d := newDirect(t, "http://"+addr, func(u *rules.Upstream) { u.IdleTimeout = 30 * time.Millisecond })
	roundTrip(t, d, "GET", "http://"+addr, nil)
	receive(t, "the idle connection closed", gone)
	eventually(t, "nothing is kept of the host", func() bool {
		d.links.mu.Lock()
		defer d.links.mu.Unlock()
		return len(d.links.idle) == 0 && !d.links.armed
	})
}

// TestTheSweeperClosesWhatServersHaveClosed although idle connections are kept for
// ever.
func TestTheSweeperClosesWhatServersHaveClosed(t *testing.T) {
	var waiting, ended sync.WaitGroup
	waiting.Add(2)
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		for {
			path, err := readRequest(r)
			if err != nil {
				return
			}
			if path != "/" {
				waiting.Done()
				waiting.Wait() // both have a connection of their own
			}
			io.WriteString(c, noContent)
			if path == "/ends" {
				return
			}
		}
	})
	d := newDirect(t, "http://"+addr, func(u *rules.Upstream) { u.IdleTimeout = 0 })
	for _, path := range []string{"/ends", "/stays"} {
		ended.Go(func() { roundTrip(t, d, "POST", "http://"+addr+path, nil) })
	}
	ended.Wait()
	eventually(t, "the one that stays is left", func() bool {
		d.links.mu.Lock()
		for _, l := range d.links.idle[addr].links {
			l.since -= int64(sweepEvery)
		}
		d.links.mu.Unlock()
		d.sweep()
		d.links.mu.Lock()
		defer d.links.mu.Unlock()
		return len(d.links.idle[addr].links) == 1
	})
	if status, _, err := roundTrip(t, d, "POST", "http://"+addr+"/", nil); status != 204 {
		t.Errorf("got %d, %v", status, err)
	}
}

func TestClosedIdleIsClosedAndSoIsWhatIsInUseWhenItEnds(t *testing.T) {
	gone, hold, holds := make(chan string, 2), make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		var path string
		for {
			p, err := readRequest(r)
			if err != nil {
				gone <- path
				return
			}
			if path = p; p == "/held" {
				close(holds)
				<-hold
			}
			io.WriteString(c, noContent)
		}
	})
	t.Cleanup(release)
	d := newDirect(t, "http://"+addr)
	held := make(chan error, 1)
	go func() { _, _, err := roundTrip(t, d, "POST", "http://"+addr+"/held", nil); held <- err }()
	receive(t, "one in use", holds)
	roundTrip(t, d, "GET", "http://"+addr+"/idle", nil)
	eventually(t, "one idle", func() bool {
		d.links.mu.Lock()
		defer d.links.mu.Unlock()
		s := d.links.idle[addr]
		return s != nil && len(s.links) == 1
	})
	d.CloseIdleConnections()
	if got := receive(t, "the idle one closed", gone); got != "/idle" {
		t.Fatalf("closed that of %s", got)
	}
	release()
	if err := receive(t, "the answer", held); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, "the other closed", gone); got != "/held" {
		t.Errorf("closed that of %s", got)
	}
}

// TestARequestThatDialsTakesAConnectionThatComesFree: a slow handshake holds up
// nobody for whom there is another connection, and is not in vain.
func TestARequestThatDialsTakesAConnectionThatComesFree(t *testing.T) {
	hold, free := make(chan struct{}), make(chan struct{})
	release, connect := sync.OnceFunc(func() { close(hold) }), sync.OnceFunc(func() { close(free) })
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		for {
			path, err := readRequest(r)
			if err != nil {
				return
			}
			if path == "/held" {
				<-hold
			}
			io.WriteString(c, noContent)
		}
	})
	d := newDirect(t, "http://"+addr)
	plain, dials := d.dial, make(chan struct{}, 2)
	var nth atomic.Int32
	t.Cleanup(connect)
	t.Cleanup(release)
	d.dial = func(ctx context.Context, network, a string) (net.Conn, error) {
		dials <- struct{}{}
		if nth.Add(1) == 2 {
			<-free
		}
		return plain(ctx, network, a)
	}
	first, other := make(chan error, 1), make(chan error, 1)
	go func() { _, _, err := roundTrip(t, d, "POST", "http://"+addr+"/held", nil); first <- err }()
	eventually(t, "one dial", func() bool { return len(dials) == 1 })
	go func() { _, _, err := roundTrip(t, d, "POST", "http://"+addr+"/other", nil); other <- err }()
	eventually(t, "another", func() bool { return len(dials) == 2 })
	release()
	if err := receive(t, "the first answer", first); err != nil {
		t.Error(err)
	}
	if err := receive(t, "the answer over the connection that came free", other); err != nil {
		t.Error(err)
	}
	connect()
	eventually(t, "both are kept", func() bool {
		d.links.mu.Lock()
		defer d.links.mu.Unlock()
		return len(d.links.idle[addr].links) == 2
	})
}

// TestHooksAreCalledAsByNetHTTP compares what a trace sees of two requests.
func TestHooksAreCalledAsByNetHTTP(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(103)
		io.Copy(w, r.Body)
	}))
	var seen [2]string
	for i, w := range bothWays(t, up.URL) {
		var mu sync.Mutex
		var calls []string
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, fmt.Sprintf(format, args...))
		}
		for _, body := range []io.Reader{nil, strings.NewReader("body")} {
			wrote := make(chan struct{})
			req, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GetConn:              func(addr string) { note("get %s", addr) },
				GotConn:              func(i httptrace.GotConnInfo) { note("got %v %v %v", i.Reused, i.WasIdle, http1(i.Conn) != nil) },
				GotFirstResponseByte: func() { note("first byte") },
				PutIdleConn:          func(err error) { note("put %v", err) },
				WroteRequest:         func(i httptrace.WroteRequestInfo) { close(wrote) },
			}), "POST", up.URL, body)
			res, err := w.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			read(t, res)
			receive(t, "written", wrote)
		}
		seen[i] = strings.Join(calls, "\n")
	}
	if seen[0] != seen[1] {
		t.Errorf("net/http:\n%s\ndirect:\n%s", seen[0], seen[1])
	}
}

// TestUnsendableRequestsAreRefusedAsByNetHTTP and no connection is made for them.
func TestUnsendableRequestsAreRefusedAsByNetHTTP(t *testing.T) {
	refuses := func(change func(*http.Request)) {
		t.Helper()
		for _, w := range bothWays(t, "http://"+refused(t)) {
			body := &spied{Reader: strings.NewReader("x")}
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://h/", body)
			change(req)
			if _, err := w.RoundTrip(req); err == nil || isNetwork(err) || !body.closed.Load() {
				t.Errorf("%s: got %v, body closed: %v", w.name, err, body.closed.Load())
			}
		}
	}
	refuses(func(r *http.Request) { r.URL = nil })
	refuses(func(r *http.Request) { r.URL.Host = "" })
	refuses(func(r *http.Request) { r.Header = nil })
	refuses(func(r *http.Request) { r.Method = "GE T" })
	refuses(func(r *http.Request) { r.Header["X Y"] = []string{"a"} })
	refuses(func(r *http.Request) { r.Header["X:"] = []string{"a"} })
	refuses(func(r *http.Request) { r.Header[""] = []string{"a"} })
	refuses(func(r *http.Request) { r.Header["X"] = []string{"a", "b\r\nc: d"} })
	refuses(func(r *http.Request) { r.Header["X"] = []string{"a\x00"} })
	refuses(func(r *http.Request) { r.Trailer = http.Header{"X": {"a\n"}} })
}

func TestDirectSpeaksOverUnixSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	s := spec(t, "unix:"+path)
	s.Servers[0].Socket = path
	s.Transport = "direct"
	d := newPool(t, s).servers[0].h1direct
	for range 3 {
		if status, text, err := roundTrip(t, d, "POST", "http://localhost/", io.NopCloser(strings.NewReader("body"))); status != 200 || text != "body" {
			t.Errorf("got %d %q, %v", status, text, err)
		}
	}
}

func TestAddressOfAHost(t *testing.T) {
	d := &direct{port: "80"}
	for host, want := range map[string]string{
		"a": "a:80", "a:81": "a:81", "a:": "a:80", "10.0.0.1": "10.0.0.1:80", "10.0.0.1:8080": "10.0.0.1:8080",
		"[::1]": "[::1]:80", "[::1]:81": "[::1]:81", "localhost": "localhost:80", "a1": "a1:80",
	} {
		if got := d.address(host); got != want {
			t.Errorf("%s: got %s, want %s", host, got, want)
		}
	}
}

// TestNothingIsLeftOfManyExchanges runs a mix of good and bad ones at once, each
// of which must get its own answer, and counts descriptors.
func TestNothingIsLeftOfManyExchanges(t *testing.T) {
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			b, _ := io.ReadAll(req.Body)
			id := req.Header.Get("X-Id")
			switch req.URL.Path {
			case "/length":
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(id)+len(b), id, b)
			case "/chunks":
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(id)+len(b), id+string(b))
			case "/close":
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n\r\n%s%s", id, b)
				return
			case "/silent-close":
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(id)+len(b), id, b)
				return
			case "/half":
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n%s", id)
				return
			case "/leftover":
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%sHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", len(id)+len(b), id, b)
			case "/reset":
				c.(*net.TCPConn).SetLinger(0)
				return
			}
		}
	})
	paths := []string{"/length", "/chunks", "/close", "/silent-close", "/half", "/leftover", "/reset", "/length", "/chunks"}
	before := descriptors(t)
	d := newDirect(t, "http://"+addr)
	var wg sync.WaitGroup
	var good atomic.Int32
	for g := range 16 {
		wg.Go(func() {
			for i := range 100 {
				path, id := paths[(g+i)%len(paths)], fmt.Sprintf("%d-%d,", g, i)
				var body io.Reader
				method, want := "GET", id
				if i%3 == 0 {
					body, method, want = strings.NewReader("body"), "POST", id+"body"
				}
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				req, _ := http.NewRequestWithContext(ctx, method, "http://"+addr+path, body)
				req.Header.Set("X-Id", id)
				res, err := d.RoundTrip(req)
				if err == nil {
					var b []byte
					if i%7 == 6 {
						res.Body.Close() // early
						cancel()
						continue
					}
					b, err = io.ReadAll(res.Body)
					res.Body.Close()
					if err == nil && string(b) != want || err != nil && !strings.HasPrefix(want, string(b)) && path != "/half" {
						t.Errorf("%s %s: got %q, %v, want %q", method, path, b, err, want)
					}
				}
				cancel()
				switch path {
				case "/half", "/reset":
					if err == nil {
						t.Errorf("%s %s: no error", method, path)
					}
				case "/length", "/chunks", "/close", "/leftover":
					if err != nil && (method == "GET" || !isNetwork(err)) {
						t.Errorf("%s %s: %v", method, path, err)
					}
				}
				if err == nil {
					good.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if good.Load() < 800 {
		t.Errorf("%d of 1600 went well", good.Load())
	}
	d.CloseIdleConnections()
	eventually(t, "descriptors at the baseline", func() bool { return descriptors(t) <= before })
}

// descriptors counts the open files of the process.
func descriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
