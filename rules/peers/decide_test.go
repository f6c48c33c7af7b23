package peers

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gateway/limit"
	"gateway/rules"
)

// decider decides requests by a file, at instants that are given.
type decider struct {
	t       testing.TB
	set     *rules.Set
	limiter limit.Limiter
	start   limit.Instant
	grants  []limit.Grant
}

func newDecider(t testing.TB, text []byte) *decider {
	t.Helper()
	file, err := rules.Parse("gateway.yaml", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	set, err := file.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &decider{t: t, set: set, start: limit.Instant(1_800_000_000 * 1e9)}
	set.Activate(d.start)
	return d
}

// at decides a request "METHOD host/path Name=value" from an address, so long after
// the start; it returns the names of the rules that refuse it.
func (d *decider) at(after time.Duration, client, request string) string {
	d.t.Helper()
	words := strings.Fields(request)
	host, path, _ := strings.Cut(words[1], "/")
	path, query, _ := strings.Cut("/"+path, "?")
	f := &rules.Facts{Method: words[0], Host: host, RawPath: path, RawQuery: query, Client: netip.MustParseAddr(client), Header: http.Header{}}
	for _, w := range words[2:] {
		name, value, _ := strings.Cut(w, "=")
		f.Header.Set(name, value)
	}
	var err error
	if f.Path, err = rules.NormalPath(path); err != nil {
		d.t.Fatal(err)
	}
	hits := d.set.Match(f, nil)
	claims := make([]limit.Claim, len(hits))
	for i := range hits {
		hits[i].Claim(&claims[i])
		claims[i].Tag = int32(i)
	}
	grant, v := d.limiter.Acquire(d.t.Context(), d.start+limit.Instant(after), claims)
	if v.OK {
		d.grants = append(d.grants, grant)
		return ""
	}
	var names []string
	for _, c := range claims {
		if !c.Result.OK {
			names = append(names, hits[c.Tag].Rule.Name)
		}
	}
	return strings.Join(names, ",")
}

// many decides n requests at one instant and returns how many pass.
func (d *decider) many(n int, after time.Duration, client, request string) (passed int) {
	d.t.Helper()
	for range n {
		if d.at(after, client, request) == "" {
			passed++
		}
	}
	return passed
}

func importText(t testing.TB, program, text string) *decider {
	t.Helper()
	r, err := importers[program](Source{Name: "file", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range r.Notes {
		t.Errorf("%v", n)
	}
	return newDecider(t, r.Text)
}

// nginxLimit is limit_req as ngx_http_limit_req_module.c has it: what is over the rate,
// in thousandths of a request, at the last one that passed.
type nginxLimit struct {
	rate, burst int64 // thousandths of a request: a second, in all
	excess      int64
	last        int64 // in ms; 0 is never
}

func (n *nginxLimit) pass(ms int64) bool {
	if n.last == 0 {
		n.last = ms
		return true
	}
	excess := max(0, n.excess-n.rate*(ms-n.last)/1000+1000)
	if excess > n.burst {
		return false
	}
	n.excess, n.last = excess, ms
	return true
}

// The rule that is made of limit_req decides every sequence as nginx's own arithmetic
// does. Rates are those that nginx does not round.
func TestLimitReqDecidesAsTheArithmeticOfNginx(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rate := rapid.SampledFrom([]int64{1, 2, 5, 10, 40}).Draw(rt, "rate")
		burst := rapid.Int64Range(0, 12).Draw(rt, "burst")
		n := &nginxLimit{rate: rate * 1000, burst: burst * 1000}
		d := importText(t, "nginx", fmt.Sprintf("limit_req_zone $remote_addr zone=a:1m rate=%dr/s;\nlimit_req zone=a burst=%d nodelay;\n", rate, burst))
		each := 1000 / rate
		ms := int64(1)
		for i, step := range rapid.SliceOfN(rapid.Int64Range(0, 6), 1, 60).Draw(rt, "steps") {
			ms += step * each / 2 // to half a unit, so that nothing depends on the last ms
			if got, want := d.at(time.Duration(ms)*time.Millisecond, "192.0.2.1", "GET a/") == "", n.pass(ms); got != want {
				rt.Fatalf("request %d at %d ms: passes %v, with nginx %v", i+1, ms, got, want)
			}
		}
	})
}

// A request that one limit refuses is charged to none; an empty key is not limited;
// each location has its own limits.
func TestLocationsAndKeysOfNginx(t *testing.T) {
	r := importFile(t, "nginx", "api.nginx.conf")
	d := newDecider(t, r.Text)
	const a, b = "198.51.100.1", "198.51.100.2"
	for _, step := range []struct {
		sent, want      int
		after           time.Duration
		client, request string
	}{
		{101, 101, 0, a, "GET api.example.com/"}, // burst=100 on top of the first
		{1, 0, 0, a, "GET api.example.com/other"},
		{5, 5, 0, a, "GET api.example.com/healthz"}, // an empty key
		{1, 0, 0, a, "GET api.example.com/searching"},
		{1, 1, 600 * time.Millisecond, a, "GET api.example.com/"}, // 100 a minute
		{1, 0, 600 * time.Millisecond, a, "GET api.example.com/"},

		{21, 21, 0, b, "GET api.example.com/ X-Api-Key=k1"}, // the free plan: burst=20
		{1, 0, 0, b, "GET api.example.com/ X-Api-Key=k1"},
		{21, 20, 0, b, "GET api.example.com/exports/7 X-Api-Key=k2"},    // none of which has ended
		{60, 60, 0, b, "GET api.example.com/ X-Api-Key=sk_live_paid_1"}, // 101 of the address: what k1 was refused did not count
		{1, 0, 0, b, "GET api.example.com/ X-Api-Key=sk_live_paid_1"},

		{3, 3, 0, "198.51.100.3", "GET api.example.com/search X-Api-Key=s"}, // burst=2
		{1, 0, 0, "198.51.100.3", "GET api.example.com/search X-Api-Key=s"},
		{98, 98, 0, "198.51.100.3", "GET api.example.com/search/deep"}, // no key, and the address has 98 left
		{1, 0, 0, "198.51.100.3", "GET api.example.com/search"},

		{6, 6, 0, "198.51.100.4", "POST api.example.com/login"}, // burst=5
		{1, 0, 0, "198.51.100.4", "POST api.example.com/login"},
		{1, 1, time.Minute, "198.51.100.4", "POST api.example.com/login"},

		{1, 1, 0, "192.0.2.200", "GET api.example.com/reports/1"}, // the half of the office that is outside
		{1, 0, 0, "192.0.2.200", "GET api.example.com/reports/1"},
		{9, 9, 0, "192.0.2.5", "GET api.example.com/reports/1"}, // the office
	} {
		if got := d.many(step.sent, step.after, step.client, step.request); got != step.want {
			t.Errorf("%d of %q from %s after %v: %d pass, want %d", step.sent, step.request, step.client, step.after, got, step.want)
		}
	}
}

// The token bucket of Traefik's documentation: average in a period, and burst, the
// most in an arbitrarily small time.
func TestRateLimitOfTraefik(t *testing.T) {
	d := newDecider(t, importFile(t, "traefik", "api.traefik.yml").Text)
	const a, b = "198.51.100.1", "198.51.100.2"
	for _, step := range []struct {
		sent, want      int
		after           time.Duration
		client, request string
	}{
		// The rule `behind`, which no router names, takes everything: 50/s, one at once. So
		// these are half a second apart, or each from another address.
		{1, 1, 0, a, "POST api.example.com/login"}, {1, 1, 500 * time.Millisecond, a, "POST api.example.com/login"},
		{1, 1, time.Second, a, "POST api.example.com/login"}, {1, 1, 1500 * time.Millisecond, a, "POST api.example.com/login"},
		{1, 1, 2 * time.Second, a, "POST api.example.com/login"},
		{1, 0, 2500 * time.Millisecond, a, "POST api.example.com/login"},                // 5 in 15 minutes
		{1, 1, 3*time.Minute + 100*time.Millisecond, a, "POST api.example.com/login"},   // one each 3 minutes
		{1, 0, 3*time.Minute + 600*time.Millisecond, a, "POST api.example.com/login"},   // and no more
		{1, 1, 3*time.Minute + 700*time.Millisecond, a, "POST api.example.com/healthz"}, // a router before it
		{1, 1, 3*time.Minute + 800*time.Millisecond, b, "POST other.example.com/login"}, // of another host
	} {
		if got := d.many(step.sent, step.after, step.client, step.request); got != step.want {
			t.Errorf("%d of %q from %s after %v: %d pass, want %d", step.sent, step.request, step.client, step.after, got, step.want)
		}
	}
	passed := 0
	for i := range 40 { // burst 20, whichever the address
		if d.at(time.Hour, fmt.Sprintf("203.0.113.%d", i), "GET api.example.com/ X-Api-Key=free-1") == "" {
			passed++
		}
	}
	if passed != 20 {
		t.Errorf("%d of a key of the free plan pass at once, want 20", passed)
	}
	for i, want := range []string{"", "per-key-free"} { // 10 a second
		if got := d.at(time.Hour+100*time.Millisecond, fmt.Sprintf("203.0.113.%d", 50+i), "GET api.example.com/ X-Api-Key=free-1"); got != want {
			t.Errorf("after 100ms request %d is refused by %q, want %q", i+1, got, want)
		}
	}
	passed = 0
	for i := range 25 { // without the header all are one
		if d.at(2*time.Hour, fmt.Sprintf("203.0.113.%d", i), "GET api.example.com/") == "" {
			passed++
		}
	}
	if passed != 20 {
		t.Errorf("%d without a key pass at once, want 20", passed)
	}
	passed = 0
	for i := range 10 { // seven in progress for a host
		if d.at(3*time.Hour, fmt.Sprintf("192.0.2.%d", i), "GET any.example.com/reports?format=csv") == "" {
			passed++
		}
	}
	if passed != 7 {
		t.Errorf("%d reports are in progress, want 7", passed)
	}
}

// caddy-ratelimit lets so many events into any window: it remembers when the last ones
// were. Zones without a fault of their own decide every sequence alike.
func TestZonesOfCaddyDecideAsTheirRing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		events := 1 + random.IntN(6)
		d := importText(t, "caddy", fmt.Sprintf(":80 {\n\trate_limit {\n\t\tzone a {\n\t\t\tkey {remote_host}\n\t\t\tipv6_prefix 64\n\t\t\tevents %d\n\t\t\twindow 10s\n\t\t}\n\t}\n}\n", events))
		var ring []time.Duration // of the last events
		at := time.Duration(0)
		for i := range 100 {
			at += time.Duration(random.IntN(5)) * time.Second
			want := len(ring) < events || at-ring[0] >= 10*time.Second
			if want {
				if ring = append(ring, at); len(ring) > events {
					ring = ring[1:]
				}
			}
			if got := d.at(at, "192.0.2.1", "GET a/") == ""; got != want {
				t.Fatalf("%d events: request %d at %v passes %v, want %v", events, i+1, at, got, want)
			}
		}
	}
}

func TestHandlersOfCaddyTakeRequestsInTheirOrder(t *testing.T) {
	d := newDecider(t, importFile(t, "caddy", "api.Caddyfile").Text)
	for _, step := range []struct {
		sent, want      int
		client, request string
	}{
		{6, 5, "198.51.100.1", "POST api.example.com/login"},
		{11, 10, "198.51.100.2", "GET api.example.net/ X-Api-Key=k"},
		{20, 20, "198.51.100.3", "GET api.example.com/ X-Api-Key=sk_live_paid_1"},
		{3, 2, "198.51.100.4", "GET api.example.com/search X-Api-Key=k"},
		{101, 100, "198.51.100.5", "GET api.example.com/healthz"}, // of all zones only that of the site
		{300, 300, "198.51.100.6", "GET other.example.com/"},
	} {
		if got := d.many(step.sent, 0, step.client, step.request); got != step.want {
			t.Errorf("%d of %q: %d pass, want %d", step.sent, step.request, got, step.want)
		}
	}
}
