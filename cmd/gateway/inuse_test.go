package main

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gate is an upstream that keeps its requests until it is opened.
type gate struct {
	*upstream
	held atomic.Int64
	open chan struct{}
}

func newGate(t testing.TB, text string) *gate {
	g := &gate{open: make(chan struct{})}
	g.upstream = newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			echo(w, r)
			return
		}
		g.held.Add(1)
		select {
		case <-g.open:
		case <-r.Context().Done():
		case <-time.After(patience):
		}
		io.WriteString(w, text)
	})
	return g
}

// hold sends n requests and waits until all are at the upstream. The returned
// function waits for their answers and counts those that are 200 with text.
func (g *gate) hold(t testing.TB, n int, text string, send func() (answer, error)) (wait func() int) {
	t.Helper()
	var good atomic.Int64
	var wg sync.WaitGroup
	before := g.held.Load()
	for range n {
		wg.Go(func() {
			a, err := send()
			if err != nil || a.status != 200 || a.body != text {
				t.Errorf("a request in progress ended in %d %q (%v)", a.status, a.body, err)
				return
			}
			good.Add(1)
		})
	}
	eventually(t, "the requests are at the upstream", func() bool { return g.held.Load() == before+int64(n) })
	return func() int { wg.Wait(); return int(good.Load()) }
}

// Rows G R7 and S33.
func TestRequestsOfARemovedRuleAndUpstreamFinish(t *testing.T) {
	t.Parallel()
	old, next := newGate(t, "old"), newUpstream(t, nil)
	file := func(upstreams, rules string) string {
		return ports + "upstreams:\n" + upstreams + "rules:\n" + rules
	}
	g := serve(t, file(
		"  old: "+old.URL+"\n",
		"  - { name: going, key: ip, limit: 100/365d }\n"))
	wait := old.hold(t, 50, "old", func() (answer, error) { return g.try("GET", "/") })
	ws := dialWebSocket(t, g.addr, "/ws")
	ws.exchange(t, "before")
	if n := g.metrics()[`gateway_requests_in_flight{route="/**"}`]; n != 51 {
		t.Errorf("%v requests in flight, want 51", n)
	}

	g.reload(file(
		"  new: "+next.URL+"\n",
		"  - { name: coming, key: ip, limit: 3/365d }\n"))
	if n, refusal := g.passes("/", 3); n != 3 || refusal.of("coming").q != 3 || refusal.of("going").q != 0 {
		t.Errorf("%d new requests pass, refused under %v; want 3, under coming alone", n, refusal.policies())
	}
	if next.total() != 3 {
		t.Errorf("%d new requests arrived at the new upstream, want 3", next.total())
	}
	ws.exchange(t, "after")
	close(old.open)
	finished := wait()
	if finished != 50 {
		t.Errorf("%d of 50 requests in progress finished", finished)
	}
	ws.exchange(t, "still")
	ws.Close()
	eventually(t, "nothing is in flight", func() bool { return g.metrics()[`gateway_requests_in_flight{route="/**"}`] == 0 })
	// The connections to the upstream that is gone are not kept.
	old.CloseClientConnections()
	eventually(t, "no files are left open", func() bool {
		g.client.CloseIdleConnections()
		return g.metrics()["process_open_fds"] < 30
	})
	score(t, "S33", "%d of 50 requests and a WebSocket finish", finished)
}
