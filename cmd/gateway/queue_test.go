package main

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// waitingNow asks how many requests wait.
func (g *instance) waitingNow() float64 { return g.metrics()["gateway_requests_waiting"] }

// On the binary: those that wait and hang up are gone at once, not at their turns,
// over HTTP/1 and HTTP/2; those that stay are all served, in time.
func TestWaitersThatHangUpAreGoneAtOnce(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+"upstream: "+up.URL+`
rules:
  - { name: even, limit: 1/s, algorithm: leaky_bucket, max_wait: 60s }
`)
	g.get("/")
	var gone []net.Conn
	for range 40 {
		c, err := net.Dial("tcp", g.addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		gone = append(gone, c)
	}
	eventually(t, "all wait", func() bool { return g.waitingNow() >= 30 })
	for _, c := range gone {
		c.Close()
	}
	// By their turns the last would be gone after 40 s.
	start := time.Now()
	eventually(t, "all are gone", func() bool { return g.waitingNow() == 0 })
	if d := time.Since(start); d > 25*time.Second {
		t.Errorf("the last was gone after %v", d)
	}
	if a := g.get("/"); a.status != 200 {
		t.Errorf("the next: %d", a.status)
	}
	m := g.metrics()
	if w := m[`gateway_rule_decisions_total{result="waited",rule="even",tier=""}`]; w < 30 {
		t.Errorf("%v waited", w)
	}
}

// A gateway that is to stop serves those that wait, in their turns.
func TestDrainServesThoseThatWait(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+"shutdown_timeout: 50s\nupstream: "+up.URL+`
rules:
  - { name: even, limit: 10/s, algorithm: leaky_bucket, max_wait: 30s }
`)
	var all sync.WaitGroup
	var served atomic.Int64
	for range 30 {
		all.Go(func() {
			if a, err := g.try("GET", "/"); err == nil && a.status == 200 {
				served.Add(1)
			} else {
				t.Errorf("%d, %v", a.status, err)
			}
		})
	}
	eventually(t, "some wait", func() bool { return g.waitingNow() > 0 })
	// What has not come in by now would find the door closed. Who leaves the queue between
	// the two looks is not counted, so that never one too many is.
	eventually(t, "all have come", func() bool { before := served.Load(); return float64(before)+g.waitingNow() == 30 })
	g.signal(syscall.SIGTERM)
	all.Wait()
	if code := g.exit(); code != 0 || served.Load() != 30 {
		t.Errorf("exit %d, %d of 30 served", code, served.Load())
	}
}

// A client that is refused again and again is blocked, and freed by hand.
func TestAPenaltyIsSeenAndLifted(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+"upstream: "+up.URL+`
rules:
  - { name: strict, limit: 1/d, penalty: { after: 2/d, block: 100d } }
`)
	for range 6 {
		g.get("/")
	}
	m := g.metrics()
	for result, want := range map[string]float64{"allowed": 1, "rejected": 2, "blocked": 3} {
		if got := m[`gateway_rule_decisions_total{result="`+result+`",rule="strict",tier=""}`]; got != want {
			t.Errorf("%v %s, want %v", got, result, want)
		}
	}
	if a := g.get("/"); a.status != 429 || a.header.Get("Retry-After") < "8639990" {
		t.Errorf("%d, Retry-After %s", a.status, a.header.Get("Retry-After"))
	}
	out, err := g.command("keys", "show", "strict", "127.0.0.1")
	if err != nil || !strings.Contains(out, "is blocked until") || !strings.Contains(out, "0 of 1 left") {
		t.Errorf("keys show: %v\n%s", err, out)
	}
	if out, err = g.command("keys", "reset", "strict", "127.0.0.1"); err != nil || strings.Contains(out, "blocked") {
		t.Errorf("keys reset: %v\n%s", err, out)
	}
	if a := g.get("/"); a.status != 200 {
		t.Errorf("after a reset: %d", a.status)
	}
}
