package upstream

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	handshake = "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AA==\r\n\r\n"
	switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
)

// echo is an upstream that takes every handshake and sends back what it gets.
// When the client's half ends, it says bye.
func echo(t testing.TB) (addr string) {
	return raw(t, func(c net.Conn, r *bufio.Reader) {
		if _, err := header(r); err != nil {
			return
		}
		io.WriteString(c, switching)
		if _, err := io.Copy(c, r); err == nil {
			io.WriteString(c, "bye")
		}
	})
}

// open makes a handshake with the gateway, with what is sent along.
func open(t testing.TB, gw *httptest.Server, early string) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	c, r := dial(t, gw)
	send(t, c, handshake+early)
	head, err := header(r)
	if err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatalf("got %q, %v, want 101", head, err)
	}
	return c, r
}

// expect reads exactly want.
func expect(t testing.TB, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Fatalf("got %.100q, %v, want %.100q", got[:n], err, want)
	}
}

func TestWebSocketCarriesWhatCameWithTheHandshake(t *testing.T) {
	gw, d, p := front(t, "http://"+echo(t))
	d.change = func(res *http.Response) error {
		res.Header.Set("RateLimit", "seen")
		return nil
	}
	early := strings.Repeat("early ", 2000) // more than net/http's buffer
	c, r := dial(t, gw)
	send(t, c, strings.Replace(strings.Replace(handshake,
		"Connection: Upgrade", "connection: keep-alive, upgrade", 1), "Upgrade: websocket", "UPGRADE: WebSocket", 1)+early)
	if head, err := header(r); err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") || !strings.Contains(head, "Ratelimit: seen\r\n") {
		t.Fatalf("got %q, %v", head, err)
	}
	expect(t, r, early)
	for _, frame := range []string{"one", "two", "three"} {
		send(t, c, frame)
		expect(t, r, frame)
	}
	if got := p.Stats()[0]; got.InFlight != 1 || got.Answers[1] != 1 {
		t.Errorf("while it is open: got %+v", got)
	}
	c.CloseWrite()
	expect(t, r, "bye")
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("got %v, want the end", err)
	}
	eventually(t, "the tunnel's end", func() bool { _, ok := d.last(); return ok })
	q, _ := d.last()
	if sent := int64(len(early) + len("onetwothree")); !q.Upgraded || q.Received != sent || q.Sent != sent+3 {
		t.Errorf("got upgraded %v, %d bytes received and %d sent, want %d and %d", q.Upgraded, q.Received, q.Sent, sent, sent+3)
	}
	if got := p.Stats()[0]; got.InFlight != 0 {
		t.Errorf("afterwards: got %+v", got)
	}
}

func TestUpstreamEndsItsHalfOfATunnelFirst(t *testing.T) {
	heard := make(chan string, 1)
	gw, _, _ := front(t, "http://"+raw(t, func(c net.Conn, r *bufio.Reader) {
		header(r)
		io.WriteString(c, switching+"last words")
		c.(*net.TCPConn).CloseWrite()
		b, _ := io.ReadAll(r)
		heard <- string(b)
	}))
	c, r := open(t, gw, "")
	if b, err := io.ReadAll(r); err != nil || string(b) != "last words" {
		t.Fatalf("got %q, %v", b, err)
	}
	send(t, c, "still here")
	c.CloseWrite()
	if got := receive(t, "the client's half", heard); got != "still here" {
		t.Errorf("the upstream got %q", got)
	}
}

func TestRefusedHandshakePassesWithItsBody(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "not you", http.StatusForbidden)
	}))
	gw, d, p := front(t, up.URL)
	c, r := dial(t, gw)
	for range 3 { // on one connection, which is kept
		send(t, c, handshake)
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != 403 {
			t.Fatalf("got %v, %v, want 403", res, err)
		}
		if got := read(t, res); got != "not you\n" {
			t.Errorf("got %q", got)
		}
	}
	eventually(t, "three requests over", func() bool { return p.Stats()[0].Answers[4] == 3 && p.Stats()[0].InFlight == 0 })
	if q, _ := d.last(); q.Upgraded {
		t.Error("a refused handshake counts as a tunnel")
	}
}

func TestQuietTunnelIsClosedOnBothSides(t *testing.T) {
	over := make(chan struct{}, 1)
	p := newPool(t, spec(t, "http://"+raw(t, func(c net.Conn, r *bufio.Reader) {
		header(r)
		io.WriteString(c, switching)
		io.Copy(c, r)
		over <- struct{}{}
	})))
	gw := start(t, (&door{}).serve(p, 100*time.Millisecond))
	c, r := open(t, gw, "")
	began := time.Now()
	for range 5 { // longer in all than it may be quiet
		time.Sleep(30 * time.Millisecond) // the pause is what is tested
		send(t, c, "x")
		expect(t, r, "x")
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("got a byte, want the end")
	}
	if open := time.Since(began); open < 200*time.Millisecond {
		t.Errorf("closed after %v", open)
	}
	receive(t, "the upstream's end", over)
	eventually(t, "nothing in flight", func() bool { return p.Stats()[0].InFlight == 0 })
}

func TestTunnelEndsWithEitherSideAndWithItsContext(t *testing.T) {
	die := make(chan struct{})
	gw, _, p := front(t, "http://"+raw(t, func(c net.Conn, r *bufio.Reader) {
		header(r)
		io.WriteString(c, switching)
		<-die
		c.(*net.TCPConn).SetLinger(0) // vanishes with a reset
	}))
	_, r := open(t, gw, "")
	close(die)
	if _, err := r.ReadByte(); err == nil {
		t.Error("the upstream died: got a byte, want the end")
	}

	over := make(chan struct{}, 1)
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		header(r)
		io.WriteString(c, switching)
		io.Copy(io.Discard, r)
		over <- struct{}{}
	})
	gw, _, p2 := front(t, "http://"+addr)
	c, _ := open(t, gw, "")
	c.SetLinger(0)
	c.Close()
	receive(t, "the upstream's end when the client died", over)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := (&door{}).serve(p2, 0)
	gw = start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r.WithContext(ctx)) }))
	_, r = open(t, gw, "")
	cancel()
	if _, err := r.ReadByte(); err == nil {
		t.Error("its context ended: got a byte, want the end")
	}
	receive(t, "the upstream's end when the context ended", over)
	for _, p := range []*Pool{p, p2} {
		eventually(t, "nothing in flight", func() bool { return p.Stats()[0].InFlight == 0 })
	}
}

func TestThousandWebSocketsLeaveNothingBehind(t *testing.T) {
	gw, _, p := front(t, "http://"+echo(t))
	ping := func() {
		c, r := open(t, gw, "early")
		expect(t, r, "early")
		send(t, c, "frame")
		expect(t, r, "frame")
		c.CloseWrite()
		expect(t, r, "bye")
		c.Close()
	}
	ping()
	idle := func() bool { return p.Stats()[0].InFlight == 0 }
	eventually(t, "nothing in flight", idle)
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 50 {
				ping()
			}
		})
	}
	wg.Wait()
	eventually(t, "nothing in flight", idle)
	eventually(t, "goroutines at the baseline", func() bool { return runtime.NumGoroutine() <= before+5 })
	if got := p.Stats()[0]; got.Answers[1] != 1001 || got.Failures != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestWebSocketToAServerOfHTTP2GoesOverHTTP1(t *testing.T) {
	echoes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 {
			http.Error(w, "not over HTTP/2", http.StatusTeapot)
			return
		}
		c, brw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, switching)
		io.Copy(c, brw)
	})
	plain := start(t, echoes)
	secure := httptest.NewUnstartedServer(echoes)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for _, server := range []string{strings.Replace(plain.URL, "http:", "h2c:", 1), secure.URL} {
		p := newPool(t, spec(t, server))
		p.servers[0].h1.TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		gw := gateway(t, p, &door{})
		if res, _ := get(t, client(t), gw.URL); res.StatusCode != http.StatusTeapot {
			t.Fatalf("%s: got %d, want HTTP/2 for what is no WebSocket", server, res.StatusCode)
		}
		c, r := open(t, gw, "early")
		expect(t, r, "early")
		c.CloseWrite()
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("%s: got %v, want the end", server, err)
		}
	}
}
