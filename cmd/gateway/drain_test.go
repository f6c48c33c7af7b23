package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// newH2C returns a client that speaks HTTP/2 from the first byte.
func newH2C() *http.Client {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: &p}, Timeout: patience}
}

// Row J7 and S41.
func TestDrainFinishesWhatIsInProgress(t *testing.T) {
	t.Parallel()
	up := newGate(t, "done")
	g := serve(t, ports+"shutdown_delay: 6s\nshutdown_timeout: 8s\nupstream: "+up.URL+"\nrules: []\n")
	h2 := newH2C()
	defer h2.CloseIdleConnections()
	one := up.hold(t, 50, "done", func() (answer, error) { return g.try("GET", "/") })
	two := up.hold(t, 20, "done", func() (answer, error) { return request(h2, "GET", "http://"+g.addr+"/") })
	var sockets []*webSocket
	for range 10 {
		ws := dialWebSocket(t, g.addr, "/ws")
		ws.exchange(t, "hello")
		sockets = append(sockets, ws)
	}

	start := time.Now()
	g.signal(syscall.SIGTERM)
	eventually(t, "not ready", func() bool { return g.control("GET", "/readyz").status == 503 })
	if a := g.control("GET", "/healthz"); a.status != 200 {
		t.Errorf("/healthz %d while draining, want 200", a.status)
	}
	// Not ready, but serving until the balancer has noticed.
	late := up.hold(t, 5, "done", func() (answer, error) { return request(newClient(), "GET", "http://"+g.addr+"/late") })
	eventually(t, "new connections are refused", func() bool {
		c, err := net.Dial("tcp", g.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if d := time.Since(start); d < 6*time.Second {
		t.Errorf("connections were refused after %v, want shutdown_delay (6 s) first", d)
	}
	for _, ws := range sockets {
		ws.exchange(t, "still here")
	}
	close(up.open)
	a, b, c := one(), two(), late()
	if a != 50 || b != 20 || c != 5 {
		t.Errorf("%d of 50, %d of 20 over HTTP/2, %d of 5 late requests finished", a, b, c)
	}
	select {
	case <-g.exited:
		t.Error("the gateway ended before its websockets did, or shutdown_timeout")
	default:
	}
	sockets[0].Close() // one goes by itself
	for _, ws := range sockets[1:] {
		if _, err := ws.in.ReadByte(); err == nil {
			t.Error("a byte on a websocket that should be cut")
		}
	}
	if d := time.Since(start); d < 14*time.Second {
		t.Errorf("websockets were cut after %v, want shutdown_delay and shutdown_timeout (14 s)", d)
	}
	if code := g.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	score(t, "S41", "%d of 50, %d of 20 over HTTP/2, %d of 5 late requests finish; %d WebSockets end within the grace; exit 0 after %v",
		a, b, c, len(sockets), time.Since(start).Round(100*time.Millisecond))
}

func TestDrainEndsAsSoonAsNothingIsInProgress(t *testing.T) {
	t.Parallel()
	up := newGate(t, "done")
	close(up.open)
	g := serve(t, ports+"upstream: "+up.URL+"\nrules: []\n") // shutdown_timeout is 30 s
	h2 := newH2C()
	if a, err := request(h2, "GET", "http://"+g.addr+"/"); err != nil || a.status != 200 {
		t.Fatalf("HTTP/2: %d %v", a.status, err)
	}
	g.get("/") // both connections stay open, idle
	ws := dialWebSocket(t, g.addr, "/ws")
	go func() { time.Sleep(100 * time.Millisecond); ws.Close() }() // ends by itself a little later
	g.signal(syscall.SIGINT)
	start := time.Now()
	code := g.exit()
	if d := time.Since(start); code != 0 || d > 15*time.Second {
		t.Errorf("exit code %d after %v, want 0 at once", code, d)
	}
	h2.CloseIdleConnections()
}

func TestSecondSignalStopsAtOnce(t *testing.T) {
	for _, delay := range []string{"0s", "1h"} {
		t.Run("shutdown_delay "+delay, func(t *testing.T) {
			t.Parallel()
			up := newGate(t, "done")
			defer close(up.open)
			path := t.TempDir() + "/gateway.yaml"
			write(t, path, ports+"shutdown_timeout: 1h\nshutdown_delay: "+delay+"\nupstream: "+up.URL+"\nrules: []\n")
			g := launch(t, []string{"run", "-c", path})
			g.awaitServing()
			go g.try("GET", "/")
			eventually(t, "the request is at the upstream", func() bool { return up.held.Load() == 1 })
			g.signal(syscall.SIGTERM)
			eventually(t, "it drains", func() bool { return len(g.logged("stopping")) == 1 })
			g.signal(syscall.SIGTERM)
			start := time.Now()
			code := g.exit()
			if d := time.Since(start); code != 1 || d > 15*time.Second {
				t.Errorf("exit code %d after %v, want 1 at once: a request was cut", code, d)
			}
			if !strings.Contains(g.errs.String(), "second signal") {
				t.Errorf("stderr does not say why:\n%s", g.errs)
			}
		})
	}
}

func TestSaveDuringADrainChangesNothing(t *testing.T) {
	t.Parallel()
	up := newGate(t, "done")
	file := func(port int) string {
		return listening(fmt.Sprintf("127.0.0.1:%d", port), up.URL, 50)
	}
	port := freePort(t)
	g := serve(t, file(port))
	wait := up.hold(t, 5, "done", func() (answer, error) { return g.try("GET", "/") })
	g.signal(syscall.SIGTERM)
	eventually(t, "not ready", func() bool { return g.control("GET", "/readyz").status == 503 })
	for i := range 20 {
		g.save(file(freePort(t)))
		if a := g.control("POST", "/reload"); i == 0 && (a.status != 422 || !strings.Contains(a.body, "stopping")) {
			t.Errorf("reload while stopping: %d %q, want 422 and why", a.status, a.body)
		}
	}
	close(up.open)
	if n := wait(); n != 5 {
		t.Errorf("%d of 5 requests finished", n)
	}
	if code := g.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if n := len(g.logged("configuration reloaded")); n > 0 {
		t.Errorf("%d reloads while stopping", n)
	}
}

// Whoever comes while the gateway stops is served or refused, never left hanging
// and never answered with an error of the gateway's.
func TestNewcomersDuringADrainAreServedOrRefused(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+"shutdown_delay: 500ms\nupstream: "+up.URL+"\nrules: []\n")
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	var served, refused, reset atomic.Int64
	flow := flow(200, func() error {
		a, err := request(c, "GET", "http://"+g.addr+"/")
		switch {
		case err == nil && a.status == 200:
			served.Add(1)
		case errors.Is(err, syscall.ECONNREFUSED):
			refused.Add(1)
		case errors.Is(err, syscall.ECONNRESET): // was in the queue of a socket as it closed
			reset.Add(1)
		default:
			return fmt.Errorf("%d %v", a.status, err)
		}
		return nil
	})
	eventually(t, "requests are served", func() bool { return served.Load() > 20 })
	g.stop()
	flow.finish(t)
	t.Logf("%d served, %d refused, %d reset", served.Load(), refused.Load(), reset.Load())
}
