package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Case K10: exempting your own networks.
func TestExemptNetworksAreNotCounted(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	file := func(trusted string) string {
		return ports + "upstream: " + up.URL + "\n" + trusted + "exempt: { ip: [10.0.0.0/8, 127.0.0.1/32] }\nrules:\n  - { name: a, key: ip, limit: 5/365d }\n"
	}
	g := serve(t, file("trusted_proxies: [127.0.0.1]\n"))
	for range 50 {
		if a := g.get("/", "X-Forwarded-For: 10.1.2.3"); a.status != 200 || len(a.policies()) > 0 {
			t.Fatalf("exempt: %d %v, want 200 without limit headers", a.status, a.policies())
		}
	}
	if n, _ := g.passes("/", 10, "X-Forwarded-For: 198.51.100.7"); n != 5 {
		t.Errorf("%d of an outside client pass, want 5", n)
	}
	// A forged entry stands to the left of the one the proxy wrote.
	if n, _ := g.passes("/", 10, "X-Forwarded-For: 10.1.2.3, 198.51.100.7"); n != 0 {
		t.Errorf("%d pass with a forged address, want 0", n)
	}
	if n, _ := g.passes("/", 10, "X-Forwarded-For: 198.51.100.8"); n != 5 {
		t.Errorf("%d of another outside client pass, want 5", n)
	}
	// Straight from a peer that is not trusted the header says nothing.
	g.reload(strings.Replace(file(""), "127.0.0.1/32", "192.0.2.0/24", 1))
	if n, _ := g.passes("/", 10, "X-Forwarded-For: 10.1.2.3"); n != 5 {
		t.Errorf("%d pass from an untrusted peer that says it is exempt, want 5", n)
	}
}

// Case C15: headers when several rules match. Windows are 4 s and a day here.
func TestTightestRuleComesFirstInTheHeaders(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	hours, period := farFromEdge()
	g := serve(t, ports+"upstream: "+up.URL+"\ntrusted_proxies: [127.0.0.1]\nrules:\n"+
		"  - { name: short, key: ip, limit: 10/4s, algorithm: fixed_window }\n"+
		"  - { name: long, key: ip, limit: 12/"+hours+", algorithm: fixed_window }\n")
	const window = 4 * time.Second
	edge := func() int64 { return time.Now().UnixNano() / int64(window) }
	text := func(a answer) string {
		var b strings.Builder
		fmt.Fprint(&b, a.status)
		for _, p := range a.policies() {
			fmt.Fprintf(&b, " %s=%d", p.name, p.remaining)
		}
		return b.String()
	}
	want := []string{"200 short=9 long=11", "200 short=8 long=10", "200 short=7 long=9", "200 short=6 long=8", "200 short=5 long=7",
		"200 short=4 long=6", "200 short=3 long=5", "200 short=2 long=4", "200 short=1 long=3", "200 short=0 long=2", "429 short=0 long=2"}
	wantNext := []string{"200 long=1 short=9", "200 long=0 short=8", "429 long=0 short=8"}
	for attempt := range 10 {
		client := fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", attempt)
		begun := edge()
		eventually(t, "a window begins", func() bool { return edge() > begun })
		begun = edge()
		var got, next []string
		var first, last answer
		for range 11 {
			first = g.get("/", client)
			got = append(got, text(first))
		}
		if edge() != begun {
			continue // the machine was too slow for one window; again with another client
		}
		eventually(t, "the next window begins", func() bool { return edge() > begun })
		for range 3 {
			last = g.get("/", client)
			next = append(next, text(last))
		}
		if edge() != begun+1 {
			continue
		}
		if !slices.Equal(got, want) || !slices.Equal(next, wantNext) {
			t.Errorf("answers %q, then %q\nwant %q, then %q", got, next, want, wantNext)
		}
		if wait := first.retryAfter(t); wait > window {
			t.Errorf("Retry-After %v for the short window", wait)
		}
		if wait := last.retryAfter(t); wait < 5*time.Minute || wait > period {
			t.Errorf("Retry-After %v for the long window", wait)
		}
		if !strings.Contains(last.body, `"violated-policies":["long"]`) {
			t.Errorf("the body does not name the rule that refused: %s", last.body)
		}
		return
	}
	t.Error("ten times eleven requests took over four seconds")
}

// Case C17: browser calls.
func TestPreflightsAndReadableRefusals(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	file := func(match string) string {
		return ports + "upstream: " + up.URL + "\nreject: { headers: { Access-Control-Allow-Origin: '*', Access-Control-Expose-Headers: 'Retry-After, RateLimit, RateLimit-Policy' } }\n" +
			"rules:\n  - { name: a, key: header.X-Client, " + match + "limit: 2/365d }\n"
	}
	calls := func(g *instance, client string) (options, get []int, last answer) {
		for range 3 {
			o, err := g.try("OPTIONS", "/", "X-Client: "+client, "Origin: http://app.example.com", "Access-Control-Request-Method: GET")
			do(t, err)
			options = append(options, o.status)
			last = g.get("/", "X-Client: "+client, "Origin: http://app.example.com")
			get = append(get, last.status)
		}
		return options, get, last
	}
	g := serve(t, file("match: GET /**, "))
	options, get, last := calls(g, "one")
	if !slices.Equal(options, []int{200, 200, 200}) || !slices.Equal(get, []int{200, 200, 429}) {
		t.Errorf("with GET: OPTIONS %v, GET %v; want 200 200 200 and 200 200 429", options, get)
	}
	if h := last.header; h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Expose-Headers") == "" || h.Get("Retry-After") == "" {
		t.Errorf("the refusal cannot be read by a browser: %v", h)
	}
	if a, err := g.try("HEAD", "/", "X-Client: one"); err != nil || a.status != 429 || a.body != "" {
		t.Errorf("HEAD: %d %q %v, want 429 without a body: a GET rule covers HEAD", a.status, a.body, err)
	}
	g.reload(file(""))
	if options, get, _ := calls(g, "two"); !slices.Equal(options, []int{200, 429, 429}) || !slices.Equal(get, []int{200, 429, 429}) {
		t.Errorf("without: OPTIONS %v, GET %v; want 2 of 6", options, get)
	}
}

// Case C18: one rule on two paths, two rules of equal numbers.
func TestRuleIsOneCounterWhateverItsPaths(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+"upstream: "+up.URL+`
rules:
  - { name: both, match: [/a, /b], key: ip, limit: 10/365d }
  - { name: c, match: /c, key: ip, limit: 10/365d }
  - { name: d, match: /d, key: ip, limit: 10/365d }
  - { name: each, match: /each/*, key: [ip, path], limit: 10/365d }
`)
	for _, c := range []struct {
		path string
		want int
	}{{"/a", 10}, {"/b", 0}, {"/c", 10}, {"/d", 10}, {"/each/1", 10}, {"/each/2", 10}, {"/each/1", 0}} {
		if n, _ := g.passes(c.path, 12); n != c.want {
			t.Errorf("%s: %d pass, want %d", c.path, n, c.want)
		}
	}
}

// Case O03: trying a rule without enforcing it.
func TestDryRunRuleRefusesNothingAndIsCounted(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	file := func(dry string) string {
		return ports + "upstream: " + up.URL + "\nrules:\n  - { name: a, key: ip, limit: 10/365d }\n  - { name: b, key: ip, limit: 2/365d" + dry + " }\n"
	}
	g := serve(t, file(", dry_run: true"))
	var a answer
	for range 5 {
		if a = g.get("/"); a.status != 200 || a.header.Get("Retry-After") != "" || len(a.policies()) != 1 {
			t.Errorf("%d %v, want 200 with the headers of a alone", a.status, a.policies())
		}
	}
	if left := a.of("a").remaining; left != 5 {
		t.Errorf("%d left of a, want 5", left)
	}
	const would = `gateway_rule_decisions_total{result="dry_run_rejected",rule="b",tier=""}`
	if n := g.metrics()[would]; n != 3 {
		t.Errorf("%s %v, want 3", would, n)
	}
	if n, refusal := g.passes("/", 10); n != 5 || refusal.of("a").remaining != 0 || refusal.of("b").q != 0 {
		t.Errorf("%d more pass, refused under %v; want 5, under a alone", n, refusal.policies())
	}
	if n := g.metrics()[would]; n != 8 {
		t.Errorf("%s %v, want 8: what a refuses is none of b's", would, n)
	}
	g.reload(file(""))
	if a := g.get("/"); a.status != 429 || !strings.Contains(a.body, `"violated-policies":["a","b"]`) {
		t.Errorf("enforced: %d %s, want 429 by a and b: its count was kept", a.status, a.body)
	}
}
