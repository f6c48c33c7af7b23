package proxy

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func newTestLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

const fiveAtOnce = "upstream: UPSTREAM\nrules: [{ name: slots, concurrency: 5 }]\n"

// slowUpstream holds requests for /slow until release is closed, breaks off for
// /break and speaks a trivial protocol after a WebSocket handshake.
func slowUpstream(release <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			w.(http.Flusher).Flush()
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/break":
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		case "/ws":
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Connection", "Upgrade")
			w.WriteHeader(http.StatusSwitchingProtocols)
			c, brw, err := http.NewResponseController(w).Hijack()
			if err == nil {
				io.Copy(c, brw)
				c.Close()
			}
		}
	}
}

// hold starts n requests for path and returns when their answers have begun.
func hold(t *testing.T, s *site, path string, n int) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var begun, ended sync.WaitGroup
	tr := &http.Transport{}
	for range n {
		begun.Add(1)
		ended.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+s.addr+path, nil)
			res, err := tr.RoundTrip(req)
			begun.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if res.StatusCode != 200 {
				t.Errorf("held request: %d", res.StatusCode)
			}
			io.Copy(io.Discard, res.Body)
		})
	}
	begun.Wait()
	return func() {
		cancel()
		ended.Wait()
		tr.CloseIdleConnections()
	}
}

func (s *site) idle() {
	s.t.Helper()
	eventually(s.t, "no request is in progress", func() bool { return s.gateway.InFlight() == 0 })
}

func TestSlotsAreHeldToTheEndOfTheBodyAndNoLonger(t *testing.T) {
	release := make(chan struct{})
	s := newSite(t, fiveAtOnce, slowUpstream(release))
	for range 120 { // one after another: a cap in flight is no cap in total
		if r := s.get("/"); r.StatusCode != 200 {
			t.Fatalf("%d", r.StatusCode)
		}
		s.idle()
	}
	end := hold(t, s, "/slow", 5)
	r := s.get("/")
	if r.StatusCode != 429 || r.Header.Get("Retry-After") != "1" {
		t.Errorf("sixth: %d, Retry-After %q, want 429 and 1", r.StatusCode, r.Header.Get("Retry-After"))
	}
	if got, want := r.Header.Get("RateLimit-Policy"), `"slots";q=5;qu="concurrent-requests"`; got != want {
		t.Errorf("RateLimit-Policy %q, want %q", got, want)
	}
	if got, want := r.Header.Get("RateLimit"), `"slots";r=0`; got != want {
		t.Errorf("RateLimit %q, want %q", got, want)
	}
	end() // all five hang up in the middle of the answer
	s.idle()
	s.raw("GET /break HTTP/1.1\nHost: a\nConnection: close\n\n")
	s.idle()
	release2 := hold(t, s, "/slow", 5)
	release2()
	s.idle()
}

func TestAWebSocketHoldsItsSlotWhileItIsOpen(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: slots, concurrency: 1 }]\n", slowUpstream(nil))
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\nhello")
	br := bufio.NewReader(c)
	res, err := http.ReadResponse(br, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("handshake: %v %v", res, err)
	}
	if got := res.Header.Get("RateLimit"); got != `"slots";r=0` {
		t.Errorf("RateLimit on the 101: %q", got)
	}
	echo := make([]byte, 5)
	if _, err := io.ReadFull(br, echo); err != nil || string(echo) != "hello" {
		t.Fatalf("echo %q: %v", echo, err)
	}
	if r := s.get("/"); r.StatusCode != 429 {
		t.Errorf("while it is open: %d, want 429", r.StatusCode)
	}
	c.Close()
	s.idle()
	if r := s.get("/"); r.StatusCode != 200 {
		t.Errorf("after it closed: %d, want 200", r.StatusCode)
	}
}

// A global cap of 5 and a route's cap of 2: the third on the route is refused and
// takes nothing of the global one; another path still passes.
func TestTwoCapsReleaseEachOnce(t *testing.T) {
	release := make(chan struct{})
	s := newSite(t, `
upstream: UPSTREAM
rules:
  - { name: all, key: global, concurrency: 5 }
  - { name: route, match: /slow, concurrency: 2 }
`, slowUpstream(release))
	end := hold(t, s, "/slow", 2)
	for range 10 {
		r := s.get("/slow")
		if p := problemOf(t, r); r.StatusCode != 429 || len(p["violated-policies"].([]any)) != 1 || p["violated-policies"].([]any)[0] != "route" {
			t.Errorf("%d %v", r.StatusCode, p)
		}
	}
	if r := s.get("/other"); r.StatusCode != 200 || !strings.Contains(r.Header.Get("RateLimit"), `"all";r=2`) {
		t.Errorf("another path: %d %q, want 2 of 5 left", r.StatusCode, r.Header.Get("RateLimit"))
	}
	end()
	s.idle()
	if r := s.get("/"); !strings.Contains(r.Header.Get("RateLimit"), `"all";r=4`) {
		t.Errorf("RateLimit %q, want 4 of 5 left", r.Header.Get("RateLimit"))
	}
}

// Requests in progress stay counted over a reload, and come back once.
func TestSlotsSurviveAReload(t *testing.T) {
	release := make(chan struct{})
	s := newSite(t, fiveAtOnce, slowUpstream(release))
	up := s.gateway.Current().rules.File.Upstreams[0].Servers[0].URL.String()
	end := hold(t, s, "/slow", 4)
	s.reload("upstream: " + up + "\nrules: [{ name: slots, concurrency: 4 }]\n")
	if r := s.get("/"); r.StatusCode != 429 {
		t.Errorf("lowered to what is in progress: %d, want 429", r.StatusCode)
	}
	s.reload("upstream: " + up + "\nrules: [{ name: slots, concurrency: 6 }]\n")
	if r := s.get("/"); r.StatusCode != 200 || r.Header.Get("RateLimit") != `"slots";r=1` {
		t.Errorf("raised: %d %q, want 200 and 1 left", r.StatusCode, r.Header.Get("RateLimit"))
	}
	end()
	s.idle()
	if r := s.get("/"); r.Header.Get("RateLimit") != `"slots";r=5` {
		t.Errorf("after all: %q, want 5 left of 6", r.Header.Get("RateLimit"))
	}
}
