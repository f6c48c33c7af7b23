package main

import (
	"testing"
	"time"
)

// Case C02: what "60 per minute" and "burst" mean.
func TestBurstIsWhatComesAtOnce(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+"upstream: "+up.URL+`
rules:
  - { name: plain, match: /plain, key: ip, limit: 60/m }
  - { name: one, match: /one, key: ip, limit: 60/m, burst: 1 }
  - { name: twenty, match: /twenty, key: ip, limit: 60/m, burst: 20 }
`)
	for _, c := range []struct {
		path  string
		burst int
	}{{"/plain", 60}, {"/one", 1}, {"/twenty", 20}} {
		const n = 21
		start := time.Now()
		counts := map[int]int{}
		for range n {
			a := g.get(c.path)
			counts[a.status]++
			if a.status == 429 && a.retryAfter(t) != time.Second {
				t.Errorf("%s: Retry-After %v, want 1 s", c.path, a.retryAfter(t))
			}
		}
		want, refilled := min(n, c.burst), int(time.Since(start)/time.Second)+1
		if got := counts[200]; got < want || got > min(n, want+refilled) {
			t.Errorf("%s: %d of %d pass, want %d", c.path, got, n, want)
		}
	}
}

// Case F03: a rate that is faster than one a second, with a burst.
func TestBucketRefillsAtItsRate(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+"upstream: "+up.URL+"\nrules:\n  - { name: a, key: header.X-Client, limit: 30/10s, burst: 10 }\n")
	start := time.Now()
	counts := map[int]int{}
	for range 40 {
		a := g.get("/", "X-Client: one")
		counts[a.status]++
		if a.status == 429 && a.retryAfter(t) != time.Second {
			t.Errorf("Retry-After %v, want 1 s", a.retryAfter(t))
		}
	}
	if refilled := int(3 * time.Since(start).Seconds()); counts[200] < 10 || counts[200] > 10+refilled {
		t.Errorf("%v of 40 at once, want 10 pass", counts)
	}
	// One each 100 ms for 3 s: never above what has come back, never a unit lost. A request
	// is decided between its sending and its answer, so what is left is between two bounds
	// however long that takes.
	least, most, passed := 10.0, 10.0, 0
	start = time.Now()
	sent, answered := start, start // of the request before
	for i := range 30 {
		time.Sleep(time.Until(start.Add(time.Duration(i) * 100 * time.Millisecond))) // the pace
		at := time.Now()
		ok := g.get("/", "X-Client: two").status == 200
		now := time.Now()
		least = min(10, least+3*max(0, at.Sub(answered).Seconds()-0.001)) // a clock may be set a little
		most = min(10, most+3*(now.Sub(sent).Seconds()+0.001))
		sent, answered = at, now
		switch {
		case ok && most < 1:
			t.Errorf("request %d passes with at most %.3f left", i, most)
		case !ok && least >= 1:
			t.Errorf("request %d is refused with at least %.3f left", i, least)
		case ok:
			least, most, passed = max(0, least-1), most-1, passed+1
		default:
			most = min(most, 1)
		}
	}
	if passed < 10 {
		t.Errorf("%d of 30 pass, want the burst of 10 and what comes back", passed)
	}
}
