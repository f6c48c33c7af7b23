package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func TestAMissingKeyDoesWhatTheRuleSays(t *testing.T) {
	for _, row := range []struct {
		missing string
		sent    string // without the key
		want    []int  // of four requests
	}{
		{"", "", []int{200, 200, 429, 429}},
		{"missing: ip, ", "", []int{200, 200, 429, 429}},
		{"missing: skip, ", "", []int{200, 200, 200, 200}},
		{"missing: reject, ", "", []int{400, 400, 400, 400}},
		{"missing: header.X-Tenant, ", "X-Tenant: t%d", []int{200, 200, 200, 200}},
		{"missing: header.X-Tenant, ", "X-Tenant: t", []int{200, 200, 429, 429}},
		{"missing: header.X-Tenant, ", "", []int{200, 200, 429, 429}}, // missing too: by address
		{"", "X-Api-Key:", []int{200, 200, 429, 429}},
		{"missing: reject, ", "X-Api-Key:   ", []int{400, 400, 400, 400}},
	} {
		s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: k, key: header.X-Api-Key, "+row.missing+"limit: 2/h }, { name: every, limit: 100/h }]\n", nil)
		passed := 0
		for i, want := range row.want {
			var header []string
			if row.sent != "" {
				header = []string{strings.ReplaceAll(row.sent, "%d", fmt.Sprint(i))}
			}
			r := s.get("/", header...)
			if r.StatusCode != want {
				t.Errorf("%q with %q, request %d: %d, want %d", row.missing, row.sent, i, r.StatusCode, want)
			}
			if want == 200 {
				passed++
			}
			if want == 400 {
				if p := problemOf(t, r); fmt.Sprint(p["violated-policies"]) != "[k]" || !strings.Contains(p["detail"].(string), "header.X-Api-Key") {
					t.Errorf("the 400 says %v", p)
				}
				if r.Header.Get("RateLimit") != "" {
					t.Error("a request that no rule was asked about carries limit headers")
				}
			}
		}
		if n := s.gateway.Current().rules.Rules[1].Live.Units.Load(); n != int64(passed) {
			t.Errorf("%q with %q: the other rule was charged %d for %d requests", row.missing, row.sent, n, passed)
		}
		// Who has a key has a counter of its own, whatever happened to those without;
		// and a key that reads like the address is none.
		for i, want := range []int{200, 200, 429} {
			if got := s.get("/", "X-Api-Key: 127.0.0.1").StatusCode; got != want {
				t.Errorf("%q: request %d with the key: %d, want %d", row.missing, i, got, want)
			}
		}
	}
}

func TestWhatNoRuleIsAskedAboutCostsNothing(t *testing.T) {
	s := newSite(t, `
upstreams: { app: UPSTREAM }
routes: [{ match: [/, /api/**, "/%2A"], upstream: app }]
block: { path: /api/secret }
rules:
  - { name: all, key: global, limit: 3/h }
  - { name: keyed, match: /api/keyed, key: query.k, missing: reject, limit: 3/h }
`, nil)
	for _, row := range []struct {
		text string
		want int
	}{
		{"GET /api/%00 HTTP/1.1\nHost: a\n", 400},
		{"GET / HTTP/1.1\nHost: a b\n", 400},
		{"GET /api/keyed HTTP/1.1\nHost: a\n", 400},
		{"GET /api/keyed?k=%zz HTTP/1.1\nHost: a\n", 400},
		{"OPTIONS * HTTP/1.1\nHost: a\n", 400},
		{"GET / HTTP/1.1\nHost: a\nConnection: upgrade\nUpgrade: websocket\nContent-Length: 1\n", 400},
		{"GET /api/secret HTTP/1.1\nHost: a\n", 403},
		{"GET /nowhere HTTP/1.1\nHost: a\n", 404},
		{"CONNECT a:1 HTTP/1.1\nHost: a:1\n", 405},
		{"GET /" + strings.Repeat("u", 16<<10) + " HTTP/1.1\nHost: a\n", 414},
		{"POST / HTTP/1.1\nHost: a\nExpect: wonders\nContent-Length: 0\n", 417},
		{"GET / HTTP/1.1\nHost: a\n" + strings.Repeat("A: b\n", 101), 431},
	} {
		for range 4 {
			w := s.dial()
			w.send(strings.ReplaceAll(row.text+"\n", "\n", "\r\n"))
			r := w.mustAnswer("ANY")
			w.Close()
			if r.StatusCode != row.want {
				t.Errorf("%.60q: %d, want %d", row.text, r.StatusCode, row.want)
			}
			if r.Header.Get("RateLimit") != "" || r.Header.Get("RateLimit-Policy") != "" {
				t.Errorf("%.60q: limit headers on %d", row.text, r.StatusCode)
			}
			// What net/http refuses by itself is a plain answer.
			if ct := r.Header.Get("Content-Type"); ct == "application/problem+json" {
				if p := problemOf(t, r); p["status"] != float64(row.want) || p["detail"] == nil || p["instance"] != "urn:request:"+r.Header.Get("X-Request-Id") {
					t.Errorf("%.60q: problem %v", row.text, p)
				}
			} else if row.want != 400 && row.want != 417 {
				t.Errorf("%.60q: Content-Type %q", row.text, ct)
			}
		}
	}
	for i, want := range []int{200, 200, 200, 429} {
		r := s.get("/")
		if r.StatusCode != want {
			t.Errorf("after all that, request %d: %d, want %d", i, r.StatusCode, want)
		}
	}
	if n := len(s.requests()); n != 3 {
		t.Errorf("%d requests reached the upstream, want 3", n)
	}
}

func TestSixtyFourClientsAtOnceGetExactlyTheLimit(t *testing.T) {
	for _, algorithm := range []string{"token_bucket", "fixed_window"} {
		s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: wide, limit: 10000/h }, { name: a, limit: 100/d, algorithm: "+algorithm+" }]\n", nil)
		var c tally
		var wg sync.WaitGroup
		client := h1(t)
		for range 64 {
			wg.Go(func() {
				for range 5 {
					res, err := client.Get("http://" + s.addr)
					if err != nil {
						t.Error(err)
						return
					}
					res.Body.Close()
					c.n[res.StatusCode].Add(1)
				}
			})
		}
		wg.Wait()
		if got := c.String(); got != "100×200 220×429" || len(s.requests()) != 100 {
			t.Errorf("%s: %s and %d at the upstream; want 100 of 320", algorithm, got, len(s.requests()))
		}
		if n := s.gateway.Current().rules.Rules[0].Live.Units.Load(); n != 100 {
			t.Errorf("%s: the wide rule was charged %d for what the other refused", algorithm, n)
		}
	}
}

func TestKeysAreTheBytesThatWereSent(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: k, key: header.Authorization, limit: 1/h }]\n", nil)
	long := strings.Repeat("k", 8000)
	for _, value := range []string{
		"caf\xc3\xa9", "cafe\xcc\x81", "\xff", "\xfe", "a b", "a  b", "a,b", "a, b", "{a}", "{b}", long + "1", long + "2", "A", "a", "127.0.0.1",
	} {
		for i, want := range []int{200, 429} {
			if got := s.get("/", "Authorization: "+value).StatusCode; got != want {
				t.Errorf("%.20q, time %d: %d, want %d", value, i+1, got, want)
			}
		}
	}
	// Two lines are the two values joined, in order.
	for i, want := range []int{200, 429} {
		if got := s.get("/", "Authorization: x", "Authorization: y").StatusCode; got != want {
			t.Errorf("two lines, time %d: %d, want %d", i+1, got, want)
		}
	}
	if got := s.get("/", "Authorization: x, y").StatusCode; got != 429 {
		t.Errorf("the same joined: %d, want 429", got)
	}
	if got := s.get("/", "Authorization: y", "Authorization: x").StatusCode; got != 200 {
		t.Errorf("another order: %d, want 200", got)
	}
	r := s.get("/", "Authorization: "+strings.Repeat("k", 500<<10))
	if r.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a key of 500 KiB: %d, want 431", r.StatusCode)
	}
}
