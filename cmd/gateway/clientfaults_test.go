package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
)

// clientFault is a way in which a client's side of a request fails once the
// upstream has it. contact waits for that.
type clientFault struct {
	name string
	do   func(t *testing.T, addr, path string, contact func())
}

// thenCloses sends text, and closes when the upstream has heard of it: with a FIN,
// or with a reset.
func thenCloses(text string, reset bool) func(t *testing.T, addr, path string, contact func()) {
	return func(t *testing.T, addr, path string, contact func()) {
		c := dialRaw(t, addr)
		io.WriteString(c, strings.Replace(text, "PATH", path, 1))
		contact()
		if reset {
			c.SetLinger(0)
		}
		c.Close()
	}
}

var clientFaults = []clientFault{
	{"a bad chunk", func(t *testing.T, addr, path string, contact func()) {
		c := dialRaw(t, addr)
		io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		contact()
		if got := c.ask(t, "zz\r\n").StatusCode; got != 400 {
			t.Errorf("a bad chunk: status %d, want 400", got)
		}
		c.Close()
	}},
	{"a cancelled stream", func(t *testing.T, addr, path string, contact func()) {
		a, err := attack(addr, path)
		do(t, err)
		stream := a.request()
		a.send(1)
		contact()
		a.WriteRSTStream(stream, http2.ErrCodeCancel)
		a.answered() // the reset was read
		a.conn.Close()
	}},
	{"a reset", thenCloses("GET PATH HTTP/1.1\r\nHost: a\r\n\r\n", true)},
	{"a hang-up", thenCloses("GET PATH HTTP/1.1\r\nHost: a\r\n\r\n", false)},
	{"a reset inside the body", thenCloses("POST PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 8<<10), true)},
	{"a hang-up inside the body", thenCloses("POST PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 8<<10), false)},
	{"a hang-up inside the answer", func(t *testing.T, addr, path string, contact func()) {
		c := dialRaw(t, addr)
		io.WriteString(c, "GET "+path+"?answer HTTP/1.1\r\nHost: a\r\n\r\n")
		contact()
		if _, err := http.ReadResponse(c.in, nil); err != nil {
			t.Error(err)
		}
		c.Close()
	}},
}

// Row S27. The upstream answers what would be given back, if it answers at all.
func TestClientFaultsGiveNothingBackAndAreNoServerErrors(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/whole" {
			w.WriteHeader(404)
			return
		}
		if r.URL.RawQuery != "" {
			w.WriteHeader(404)
			for r.Context().Err() == nil {
				io.WriteString(w, strings.Repeat("x", 64<<10))
			}
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(503)
			return
		}
		<-r.Context().Done()
	})
	g := serveShipped(t, ports+"upstream: "+up.URL+`
rules:
  - { name: counted, limit: 1000000/365d, count: { status: 2xx } }
  - { name: refunded, limit: 1000000/365d, refund: { status: [4xx, 5xx], upstream_error: true } }
`)
	before := g.metrics()
	each := often(150, 1000)
	var wg sync.WaitGroup
	var next atomic.Int64
	total := each * len(clientFaults)
	for range 32 {
		wg.Go(func() {
			for i := int(next.Add(1) - 1); i < total; i = int(next.Add(1) - 1) {
				path := fmt.Sprintf("/%d", i)
				clientFaults[i%len(clientFaults)].do(t, g.addr, path, func() {
					eventually(t, "the upstream has the request", func() bool { return up.count(path) == 1 })
				})
			}
		})
	}
	wg.Wait()
	do(t, g.get("/whole").want(404)) // gives back: its client did not fail
	eventually(t, "nothing is in flight", func() bool { return g.metrics()[`gateway_requests_in_flight{route="/**"}`] == 0 })
	m := g.metrics()
	for _, rule := range []string{"counted", "refunded"} {
		if got := m[`gateway_rule_units_total{rule="`+rule+`"}`]; got != float64(total) {
			t.Errorf("rule %s kept %v of %d units", rule, got, total)
		}
	}
	answers := map[string]float64{}
	for series, n := range m {
		if rest, ok := strings.CutPrefix(series, `gateway_requests_total{code="`); ok {
			answers[rest[:3]] += n
		}
		if strings.HasPrefix(series, "gateway_upstream_requests_total{") && strings.Contains(series, `code="error"`) && n > 0 {
			t.Errorf("%v requests count as the upstream's fault: %s", n, series)
		}
	}
	for code := range answers {
		if !slices.Contains([]string{"400", "404", "499"}, code) {
			t.Errorf("%v requests count as %s", answers[code], code)
		}
	}
	settled := 0
	eventually(t, "every request has its line", func() bool {
		settled = 0
		lines := strings.Split(g.out.String(), "\n")
		for _, line := range lines[:len(lines)-1] {
			var e struct{ Settled int }
			if json.Unmarshal([]byte(line), &e) == nil && e.Settled == 1 {
				settled++
			}
		}
		return len(lines)-1 >= total
	})
	if settled != total {
		t.Errorf("%d of %d access lines say that the unit was kept", settled, total)
	}
	score(t, "S27", "%d faults of %d kinds: 0 units given back, 0 of them 5xx %v", total, len(clientFaults), slices.Sorted(maps.Keys(answers)))
	flat(t, g, before)
}
