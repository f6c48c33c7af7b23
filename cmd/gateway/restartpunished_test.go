package main

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Who is blocked is blocked after a restart, for the rest of that time and without a
// doubling more; who is not, is not. A candidate goes on counting.
func TestABlockAndACandidateGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	path := dir + "/gateway.yaml"
	write(t, path, ports+"upstream: "+up.URL+"\nstate: levels\nrules:\n"+
		"  - { name: strict, match: /strict, key: header.X-Key, limit: 1/d, penalty: { after: 2/d, block: 10d, max: 100d } }\n"+
		"  - { name: trial, match: /trial, key: header.X-Key, limit: 10/365d, candidate: { limit: 4/365d } }\n")
	g := serveFileAt(t, path)
	for range 4 {
		g.get("/strict", "X-Key: bad")
	}
	g.get("/strict", "X-Key: good")
	for range 3 {
		g.get("/trial", "X-Key: a")
	}
	before := g.get("/strict", "X-Key: bad").retryAfter(t)
	for restart := range 3 {
		began := time.Now()
		g.stop()
		g = serveFileAt(t, path)
		a := g.get("/strict", "X-Key: bad")
		after := a.retryAfter(t)
		if passed := time.Since(began) + 2*time.Second; a.status != 429 || after > before || after < before-passed || after > 10*24*time.Hour {
			t.Errorf("restart %d: %d, Retry-After %v, was %v", restart, a.status, after, before)
		}
		before = after
		// Of who is not blocked one unit is used, and two refusals go unpunished: the
		// third, each under another process, blocks.
		a = g.get("/strict", "X-Key: good")
		if blocked := a.retryAfter(t) > 24*time.Hour; a.status != 429 || blocked != (restart == 2) {
			t.Errorf("refusal %d of who is not blocked: %d, Retry-After %v", restart+1, a.status, a.retryAfter(t))
		}
	}
	for range 3 {
		g.get("/trial", "X-Key: a")
	}
	if c := g.status().Rules[1].Candidate; c == nil || c.WouldAllow != 1 || c.WouldRefuse != 2 {
		t.Errorf("the candidate of 4, of which 3 were used before: %+v", c)
	}
}

// A queue that is restarted over and over under load lets one leave each half second,
// and not one more.
func TestAQueueUnderRestartsKeepsItsPace(t *testing.T) {
	t.Parallel()
	const each, restarts = 500 * time.Millisecond, 4
	var mu sync.Mutex
	var left []time.Time
	up := newUpstream(t, func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		left = append(left, time.Now())
		mu.Unlock()
	})
	dir := t.TempDir()
	path := dir + "/gateway.yaml"
	write(t, path, ports+"shutdown_timeout: 60s\nupstream: "+up.URL+"\nstate: levels\nrules:\n  - { name: even, key: global, limit: 2/s, algorithm: leaky_bucket, max_wait: 2s }\n")
	start := time.Now() // before the first could leave
	for range restarts {
		g := serveFileAt(t, path)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					g.try("GET", "/") // fails once the gateway is gone
				}
			})
		}
		eventually(t, "some wait", func() bool { return g.waitingNow() >= 2 })
		g.signal(syscall.SIGTERM)
		if code := g.exit(); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		close(stop)
		wg.Wait()
	}
	mu.Lock()
	defer mu.Unlock()
	for i, at := range left {
		if most := 1 + int(at.Sub(start)/each); i+1 > most {
			t.Errorf("%d had left after %v, at most %d may", i+1, at.Sub(start), most)
		}
	}
	if len(left) < 3*restarts {
		t.Errorf("only %d left", len(left))
	}
	t.Logf("%d left in %v", len(left), time.Since(start))
}

// Those who waited when the gateway was killed keep their turns: nobody gets them.
func TestAKilledGatewayKeepsTheTurnsOfItsQueue(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	path := dir + "/gateway.yaml"
	write(t, path, ports+"upstream: "+up.URL+"\nstate: levels\nrules:\n  - { name: even, key: global, limit: 2/m, algorithm: leaky_bucket, max_wait: 60s }\n")
	g := launch(t, []string{"run", "-c", path})
	g.awaitServing()
	var waiting sync.WaitGroup
	var passed atomic.Int64
	start := time.Now()
	for range 3 { // one leaves at once, two in 30 and 60 s
		waiting.Go(func() {
			if a, err := g.try("GET", "/"); err == nil && a.status == 200 {
				passed.Add(1)
			}
		})
	}
	eventually(t, "two wait", func() bool { return g.waitingNow() == 2 })
	since, err := os.Stat(dir + "/levels")
	eventually(t, "the levels are written with them", func() bool {
		info, e := os.Stat(dir + "/levels")
		return e == nil && (err != nil || info.ModTime().After(since.ModTime()))
	})
	g.signal(syscall.SIGKILL)
	<-g.exited
	waiting.Wait()
	g = serveFileAt(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+g.addr+"/", nil)
	do(t, err)
	res, err := g.client.Do(req)
	took := time.Since(start)
	switch {
	case took > 29*time.Second:
		t.Fatalf("a place is free again after %v: too slow a machine", took)
	case err != nil:
		t.Fatalf("given a turn after %v, with all places taken: %v", took, err)
	}
	res.Body.Close()
	wait, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if want := 30*time.Second - took; err != nil || res.StatusCode != 429 || time.Duration(wait)*time.Second < want || wait > 30 {
		t.Errorf("%d, Retry-After %d s, want about %v, when the first of them was to leave", res.StatusCode, wait, want)
	}
	if n := passed.Load(); n != 1 {
		t.Errorf("%d left, want 1", n)
	}
}
