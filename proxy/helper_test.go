package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gateway/rules"
)

// site is a gateway on a real socket in front of a recording upstream.
type site struct {
	t       testing.TB
	gateway *Gateway
	doors   *Doors
	addr    string
	access  *lines
	url     string // of the upstream

	mu   sync.Mutex
	seen []*http.Request // what reached the upstream
}

// lines collects what the access log writes.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n")
}

// newSite serves text, in which UPSTREAM stands for a recording upstream that
// answers with handler, or with "ok".
func newSite(t testing.TB, text string, handler http.HandlerFunc) *site {
	t.Helper()
	s := &site{t: t, access: &lines{}}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Clone(context.Background()))
		s.mu.Unlock()
		if handler != nil {
			handler(w, r)
			return
		}
		io.WriteString(w, "ok")
	}))
	s.url = up.URL
	text = strings.ReplaceAll(text, "UPSTREAM", s.url)
	log := NewAccessLog(s.access, "json")
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { log.Run(ctx) })
	snap := build(t, text, nil)
	s.gateway = New(Config{Clock: NewClock(), Access: log}, snap)
	s.doors = NewDoors(s.gateway, nil)
	o, err := s.doors.Prepare([]Address{{Addr: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	f := snap.rules.File
	o.Commit(DoorSettings{ReadHeader: f.Timeouts.ReadHeader, Idle: f.Timeouts.Idle, Write: f.Timeouts.Write, HeaderBytes: 80 << 10})
	s.addr = s.doors.Addrs()[0]
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s.doors.Shutdown(ctx, func() bool { return s.gateway.InFlight() == 0 })
		stop()
		wg.Wait()
		up.Close()
		for _, p := range s.gateway.Current().pools {
			p.Close()
		}
	})
	return s
}

func build(t testing.TB, text string, prev *Snapshot) *Snapshot {
	t.Helper()
	file, err := rules.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatalf("parsing:\n%v\n%s", err, text)
	}
	for i := range file.Upstreams {
		file.Upstreams[i].Transport = *transport
	}
	snap, err := Build(file, prev, nil)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// reload puts another file in force.
func (s *site) reload(text string) {
	s.t.Helper()
	s.gateway.Swap(build(s.t, strings.ReplaceAll(text, "UPSTREAM", s.url), s.gateway.Current()))
}

func (s *site) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.seen...)
}

// reply is an answer with its body read.
type reply struct {
	*http.Response
	body string
}

// raw sends text as it is, with \n for CRLF, over a connection of its own and
// returns the answer.
func (s *site) raw(text string) reply {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n"))
	method, _, _ := strings.Cut(text, " ")
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		s.t.Fatalf("no answer to %q: %v", text, err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return reply{res, string(body)}
}

// get asks for path with the given header lines.
func (s *site) get(path string, header ...string) reply {
	s.t.Helper()
	return s.raw("GET " + path + " HTTP/1.1\nHost: api.example.com\nConnection: close\n" + joinLines(header) + "\n")
}

func joinLines(header []string) string {
	var b strings.Builder
	for _, h := range header {
		b.WriteString(h + "\n")
	}
	return b.String()
}

// problemOf decodes a problem+json body.
func problemOf(t testing.TB, r reply) map[string]any {
	t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("Content-Type %q of %d, want application/problem+json; body %q", got, r.StatusCode, r.body)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(r.body), &m); err != nil {
		t.Fatalf("body %q: %v", r.body, err)
	}
	return m
}

// eventually waits until ok, and fails when it takes far too long.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
		time.Sleep(2 * time.Millisecond) // between two looks
	}
}

// tally counts statuses.
type tally struct{ n [600]atomic.Int64 }

func (c *tally) String() string {
	var b strings.Builder
	for code := range c.n {
		if n := c.n[code].Load(); n > 0 {
			fmt.Fprintf(&b, "%d×%d ", n, code)
		}
	}
	return strings.TrimSpace(b.String())
}
