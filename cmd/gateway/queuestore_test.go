package main

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"gateway/limit/redis/redistest"
)

// Two gateways of one store let requests out of one queue: none before its turn,
// whichever it came to, whoever hangs up; when the store is gone each lets its share wait.
func TestTwoGatewaysLetRequestsOutOfOneQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var mu sync.Mutex
	var came []time.Time
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		came = append(came, time.Now())
	})
	const each, half = 50 * time.Millisecond, 20
	rules := "  - { name: even, key: global, limit: 20/s, algorithm: leaky_bucket, max_wait: 60s }\n"
	both := []*instance{serveStored(t, up, storeOf(server, ""), rules), serveStored(t, up, storeOf(server, ""), rules)}
	waiting := func() float64 { return both[0].waitingNow() + both[1].waitingNow() }

	begun := time.Now()
	var all sync.WaitGroup
	for i := range 2 * half {
		all.Go(func() {
			if a, err := both[i%2].try("GET", "/"); err != nil || a.status != 200 {
				t.Errorf("%d, %v", a.status, err)
			}
		})
	}
	var gone []net.Conn
	for i := range half {
		c, err := net.Dial("tcp", both[i%2].addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		gone = append(gone, c)
	}
	for _, c := range gone {
		c.Close()
	}
	all.Wait()
	eventually(t, "nobody waits", func() bool { return waiting() == 0 })
	slices.SortFunc(came, time.Time.Compare)
	for i, at := range came {
		if least := time.Duration(i) * each; at.Sub(begun) < least {
			t.Errorf("departure %d comes after %v, before its turn at %v", i, at.Sub(begun), least)
		}
	}
	series := `gateway_rule_decisions_total{result="waited",rule="even",tier=""}`
	// On a machine that stands still for a moment some come when the queue is empty.
	if n := both[0].metrics()[series] + both[1].metrics()[series]; n < half {
		t.Errorf("%v waited, want %d or more", n, half)
	}
	server.Kill()
	eventually(t, "both know that the store is away", func() bool {
		for _, g := range both {
			if a := g.get("/"); a.status != 200 {
				t.Fatalf("without the store: %d", a.status)
			}
		}
		return both[0].metrics()["gateway_store_up"]+both[1].metrics()["gateway_store_up"] == 0
	})
	begun = time.Now()
	for range 6 { // a half of 20 a second
		if a := both[0].get("/"); a.status != 200 {
			t.Errorf("without the store: %d", a.status)
		}
	}
	if d := time.Since(begun); d < 500*time.Millisecond {
		t.Errorf("6 of 10 a second took %v", d)
	}
}

// A request that waits in a queue of the store takes its slot there when its turn comes,
// and none is left when all are served.
func TestWhoWaitsInAStoreTakesItsSlotWhenItLeaves(t *testing.T) {
	t.Parallel()
	server, up := redistest.Start(t), newUpstream(t, nil)
	g := serveStored(t, up, storeOf(server, ""), `  - { name: even, limit: 50/s, algorithm: leaky_bucket, max_wait: 60s }
  - { name: burst, limit: 1000/s, burst: 1, max_wait: 30s }
  - { name: few, concurrency: 50 }
`)
	if counts := g.statuses(40, 20, "/", nil); counts[200] != 40 {
		t.Errorf("answers %v, want 40 times 200", counts)
	}
	eventually(t, "no slot is held", func() bool { return g.metrics()["gateway_store_leases"] == 0 })
	if n := len(counters(server)); n > 3 {
		t.Errorf("%d counters", n)
	}
}
