package main

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// five is the beginner's file.
const five = `upstream: %s
rules:
  - name: per-ip
    key: ip
    limit: 100/m
`

func TestFiveLineFilePassesExactlyTheLimit(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+fmt.Sprintf(five, up.URL))

	start := time.Now()
	counts := g.statuses(150, 150, "/", nil)
	took := time.Since(start)
	refilled := int(took / (600 * time.Millisecond)) // 100/m is one each 600 ms
	if got := up.total(); got < 100 || got > 100+refilled {
		t.Errorf("%d of 150 requests arrived in %v, want 100 to %d", got, took, 100+refilled)
	}
	if counts[200] != up.total() || counts[200]+counts[429] != 150 {
		t.Errorf("answers %v, want 200 for the %d that arrived and 429 for the rest", counts, up.total())
	}
	t.Logf("150 requests in %v: %v", took, counts)
}

func TestClientThatWaitsAsToldPasses(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+fmt.Sprintf(five, up.URL))
	var refused answer
	for refused.status != 429 {
		if refused = g.get("/"); up.total() > 200 {
			t.Fatal("200 requests passed a limit of 100")
		}
	}
	for range 3 {
		wait := refused.retryAfter(t)
		if wait > 2*time.Second {
			t.Errorf("Retry-After %v, want at most 2 s: one each 600 ms comes back", wait)
		}
		time.Sleep(wait) // what the client was told, no more
		if a := g.get("/"); a.status != 200 {
			t.Fatalf("status %d after waiting for Retry-After (%v), want 200", a.status, wait)
		}
		for range 100 { // drain what a slow machine has let refill
			if refused = g.get("/"); refused.status == 429 {
				break
			}
		}
	}
}

func TestRequestRefusedByOneRuleNeverUsesUpAnother(t *testing.T) {
	const byIP = "  - { name: per-ip, key: ip, limit: 20/365d }\n"
	const byKey = "  - { name: per-key, key: header.X-Key, limit: 5/365d }\n"
	for name, list := range map[string]string{"address first": byIP + byKey, "header first": byKey + byIP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, nil)
			g := serve(t, ports+"upstream: "+up.URL+"\ntrusted_proxies: [127.0.0.1]\nrules:\n"+list)
			const n = 64
			send := func(what string, want, requests int, header func(i int) []string) {
				t.Helper()
				before := up.total()
				counts := g.statuses(requests, n, "/", header)
				if counts[200] != want || counts[429] != requests-want || up.total()-before != want {
					t.Errorf("%s: %v, %d arrived; want %d × 200, %d × 429", what, counts, up.total()-before, want, requests-want)
				}
			}
			// The header's 5 bite; the address must keep 15 of its 20.
			send("one key", 5, n, func(int) []string {
				return []string{"X-Forwarded-For: 192.0.2.1", "X-Key: shared"}
			})
			// The address's 20 bite; 49 keys must stay untouched, 15 have 4 left.
			send("a key each", 15, n, func(i int) []string {
				return []string{"X-Forwarded-For: 192.0.2.1", fmt.Sprintf("X-Key: k%d", i)}
			})
			send("the keys again, from other addresses", 5*n-15, 6*n, func(i int) []string {
				return []string{fmt.Sprintf("X-Forwarded-For: 198.51.100.%d", i%n), fmt.Sprintf("X-Key: k%d", i%n)}
			})
		})
	}
}

func TestRefusalNamesTheRulesThatLackedRoom(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+"upstream: "+up.URL+`
rules:
  - { name: wide, key: ip, limit: 50/365d }
  - { name: tight, key: ip, limit: 1/365d }
`)
	if a := g.get("/"); a.status != 200 || a.of("tight").remaining != 0 || a.of("wide").remaining != 49 {
		t.Errorf("first answer: %d, %v; want 200 with 0 and 49 left", a.status, a.policies())
	}
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			a, err := g.try("GET", "/")
			if err != nil || a.status != 429 || a.policies()[0].name != "tight" || a.of("wide").remaining != 49 {
				t.Errorf("%v %d %v; want 429, tight first, 49 left of wide", err, a.status, a.policies())
			}
		})
	}
	wg.Wait()
}
