package rules

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"gateway/limit"
)

const tiersFile = `
upstream: http://a
groups:
  gold: { header.X-API-Key: ["g-*"] }
  silver: { header.X-API-Key: ["s-*", g-both] }
  office: { ip: 192.0.2.0/24 }
rules:
  - name: per-key
    key: header.X-API-Key
    limit: 10/s
    tiers:
      silver: { limit: 30/s, burst: 40 }
      gold: { limit: 100/s }
      office: { limit: 1000/m }
`

// keyed is a request with that key.
func keyed(addr, key string) *Facts {
	f := request(addr)
	if key != "" {
		f.Header["X-Api-Key"] = []string{key}
	}
	return f
}

func TestARequestFallsUnderTheFirstTierItsClientIsIn(t *testing.T) {
	s := compile(t, tiersFile, nil)
	for _, tt := range []struct {
		addr, key, tier, policy, limit string
	}{
		{"198.51.100.1", "", "", `"per-key";q=10;w=1`, "10/s"},
		{"198.51.100.1", "x-1", "", `"per-key";q=10;w=1`, "10/s"},
		{"198.51.100.1", "s-1", "silver", `"per-key";q=40;w=2`, "30/s"},
		{"198.51.100.1", "g-1", "gold", `"per-key";q=100;w=1`, "100/s"}, // burst: the number in the tier's own limit
		{"198.51.100.1", "g-both", "silver", `"per-key";q=40;w=2`, "30/s"},
		{"192.0.2.7", "g-1", "gold", `"per-key";q=100;w=1`, "100/s"},
		{"192.0.2.7", "x-1", "office", `"per-key";q=1000;w=60`, "1000/m"},
		{"192.0.2.7", "", "office", `"per-key";q=1000;w=60`, "1000/m"},
	} {
		hits := s.Match(keyed(tt.addr, tt.key), nil)
		if len(hits) != 1 {
			t.Fatalf("%+v: %d hits", tt, len(hits))
		}
		if p := hits[0].Plan; p.Tier != tt.tier || p.Policy() != tt.policy || p.Limit != tt.limit || hits[0].Cost != 1 {
			t.Errorf("%s with %q: tier %q, %s, %s at %d; want %q, %s, %s", tt.addr, tt.key, p.Tier, p.Policy(), p.Limit, hits[0].Cost, tt.tier, tt.policy, tt.limit)
		}
	}
	if n := len(s.Tables()); n != 4 {
		t.Errorf("%d tables, want one for each of 4 plans", n)
	}
}

func TestTiersCountApart(t *testing.T) {
	s := compile(t, strings.ReplaceAll(tiersFile, "header.X-API-Key\n", "ip\n"), nil)
	s.Activate(0)
	passes := func(key string) (n int) {
		for take(s, keyed("198.51.100.1", key), 0) {
			n++
		}
		return n
	}
	if a, b, c, d := passes("g-1"), passes("x"), passes("s-1"), passes("g-2"); a != 100 || b != 10 || c != 40 || d != 0 {
		t.Errorf("%d, %d, %d and %d pass; want 100 of gold, 10 of none, 40 of silver and no more of gold", a, b, c, d)
	}
}

func TestReloadKeepsTheCountersOfATier(t *testing.T) {
	const window = "\n    algorithm: fixed_window"
	for _, tt := range []struct {
		name, old, new string
		kept           []string // of "", silver, gold, office
		afresh         string
		change         string
	}{
		{"nothing", "", "", []string{"", "silver", "gold", "office"}, "", "nothing"},
		{"a tier's limit", "gold: { limit: 100/s }", "gold: { limit: 50/s }", []string{"", "silver", "gold", "office"}, "",
			`changed "per-key" (tier gold: limit 100/s → 50/s; counters kept)`},
		{"a tier's burst", "burst: 40", "burst: 41", []string{"", "silver", "gold", "office"}, "",
			`changed "per-key" (tier silver: burst 40 → 41; counters kept)`},
		{"the base limit", "limit: 10/s", "limit: 11/s", []string{"", "silver", "gold", "office"}, "",
			`changed "per-key" (limit 10/s → 11/s, burst 10 → 11; counters kept)`},
		{"a tier less", "\n      gold: { limit: 100/s }", "", []string{"", "silver", "office"}, "gold",
			`changed "per-key" (tier gold removed; counters kept)`},
		{"who is in", `["g-*"]`, `[g-1]`, []string{"", "silver", "gold", "office"}, "", `groups changed "gold" (1 → 1 listed)`},
		{"the key", "key: header.X-API-Key", "key: ip", nil, "", `changed "per-key" (key header.X-Api-Key → ip; counters start afresh)`},
		{"the algorithm", "limit: 10/s", "algorithm: gcra\n    limit: 10/s", nil, "", `changed "per-key" (algorithm token_bucket → gcra; counters start afresh)`},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "-"), func(t *testing.T) {
			before := compile(t, tiersFile, nil)
			before.Activate(0)
			after := compile(t, strings.Replace(tiersFile, tt.old, tt.new, 1), before)
			for _, tier := range []string{"", "silver", "gold", "office"} {
				p, old := after.Rules[0].Plan(tier), before.Rules[0].Plan(tier)
				if kept := p != nil && p.Live == old.Live; kept != slices.Contains(tt.kept, tier) {
					t.Errorf("counters of %q kept: %v", tier, kept)
				}
			}
			if got := after.Change(before).String(); got != tt.change {
				t.Errorf("change: %s\nwant:   %s", got, tt.change)
			}
		})
	}
	// Of a window the period is part of what a counter means, for each tier.
	text := strings.Replace(strings.Replace(tiersFile, ", burst: 40", "", 1), "limit: 10/s", "limit: 10/s"+window, 1)
	before := compile(t, text, nil)
	before.Activate(0)
	after := compile(t, strings.Replace(text, "100/s", "100/m", 1), before)
	r, old := after.Rules[0], before.Rules[0]
	if r.Base.Live != old.Base.Live || r.Plan("gold").Live == old.Plan("gold").Live || r.Plan("office").Live != old.Plan("office").Live || r.Live != old.Live {
		t.Error("with another period of one tier that tier, and no other, starts afresh")
	}
	if got, want := after.Change(before).String(), `changed "per-key" (tier gold: limit 100/s → 100/m, tier gold starts afresh; counters kept)`; got != want {
		t.Errorf("change: %s\nwant:   %s", got, want)
	}
}

const slotsFile = `
upstream: http://a
groups: { gold: { header.X-API-Key: "g-*" } }
rules: [{ name: at-once, key: ip, concurrency: 2, tiers: { gold: { concurrency: 5 } } }]
`

// grants asks all rules of s, and returns what a request that passes holds.
func grants(s *Set, f *Facts) (*limit.Grant, bool) {
	var claims []limit.Claim
	for _, h := range s.Match(f, nil) {
		claims = append(claims, limit.Claim{})
		h.Claim(&claims[len(claims)-1])
	}
	var l limit.Limiter
	g, v := l.Acquire(context.Background(), 0, claims)
	return &g, v.OK
}

func TestAClientThatChangesItsTierKeepsItsRequestsInProgress(t *testing.T) {
	s := compile(t, slotsFile, nil)
	s.Activate(0)
	gold, none := keyed("192.0.2.1", "g-1"), keyed("192.0.2.1", "x")
	var held []*limit.Grant
	hold := func(s *Set, f *Facts, want bool) {
		t.Helper()
		g, ok := grants(s, f)
		if ok != want {
			t.Errorf("with %d in progress: passes %v, want %v", len(held), ok, want)
		}
		if ok {
			held = append(held, g)
		}
	}
	for range 4 {
		hold(s, gold, true)
	}
	hold(s, none, false)
	hold(s, gold, true)
	hold(s, gold, false)
	if len(s.Tables()) != 1 {
		t.Errorf("%d tables, want one", len(s.Tables()))
	}
	// A new list decides for requests that began under the old one, and keeps count.
	higher := compile(t, strings.Replace(slotsFile, "concurrency: 5", "concurrency: 6", 1), s)
	hold(higher, gold, false) // it is not in force
	higher.Activate(0)
	hold(s, gold, true)
	hold(s, gold, false)
	lower := compile(t, strings.Replace(slotsFile, "concurrency: 5", "concurrency: 3", 1), higher)
	lower.Activate(0)
	for len(held) > 3 {
		held[0].Done(0, nil)
		held = held[1:]
		if len(held) >= 3 {
			hold(s, gold, false)
			hold(lower, gold, false)
		}
	}
	held[0].Done(0, nil)
	held = held[1:]
	hold(lower, none, false) // 2 of 2
	hold(lower, gold, true)
	without := compile(t, "upstream: http://a\nrules: [{ name: at-once, key: ip, concurrency: 4 }]\n", lower)
	without.Activate(0)
	hold(without, none, true)
	hold(without, none, false)
	for _, g := range held {
		g.Done(0, nil)
	}
	if keys := without.Tables()[0].Stats().Keys; keys > 1 {
		t.Errorf("%d keys", keys)
	}
}

func TestWorksOfARuleHoldInItsTiers(t *testing.T) {
	s := compile(t, `
upstream: http://a
groups: { gold: { ip: 192.0.2.0/24 } }
rules: [{ name: a, limit: 20/m, cost: 10, dry_run: true, fail: closed, refund: { status: 5xx }, tiers: { gold: { limit: 50/m } } }]
`, nil)
	h := s.Match(request("192.0.2.1"), nil)[0]
	var c limit.Claim
	h.Claim(&c)
	if c.N != 10 || c.Mode != limit.DryRun || !c.Closed || !c.Pending || c.Most != nil || c.Table != s.Rules[0].Plan("gold").Live.Table {
		t.Errorf("claim %+v", c)
	}
	// At most the tier's own number comes back in a period.
	want, _ := limit.NewFixedWindow(50, time.Minute)
	if got := h.Plan.Numbers.Refunds; got != want {
		t.Errorf("refunds %v, want %v", got, want)
	}
}

func TestAKeyThatNoGroupListsIsMissing(t *testing.T) {
	text := func(more string) string {
		return `
upstream: http://a
groups:
  partner: { header.X-API-Key: [p-1, p-2, "` + hashOf("p-3") + `"], ip: 192.0.2.0/24 }
  friend: { header.X-API-Key: "f-*" }
  office: { ip: 198.51.100.0/24 }
rules: [{ name: a, limit: 10/s, ` + more + ` }]
`
	}
	outcome := func(s *Set, f *Facts) string {
		hits := s.Match(f, nil)
		switch {
		case len(hits) == 0:
			return "skip"
		case hits[0].Missing:
			return "reject"
		}
		var buf []byte
		buf, o := s.Rules[0].recipe.appendKey(buf, f, nil)
		if o == KeyFallback {
			return "fallback"
		}
		return "key " + string(buf[:1])
	}
	for _, tt := range []struct{ rule, addr, key, want string }{
		{"key: header.X-API-Key, known: partner", "203.0.113.1", "p-1", "key k"},
		{"key: header.X-API-Key, known: partner", "203.0.113.1", "p-3", "key k"},
		{"key: header.X-API-Key, known: partner", "203.0.113.1", "p-4", "fallback"},
		{"key: header.X-API-Key, known: partner", "203.0.113.1", "", "fallback"},
		{"key: header.X-API-Key, known: partner", "192.0.2.1", "p-4", "fallback"}, // a partner's address makes no key known
		{"key: header.X-API-Key, known: [partner, friend]", "203.0.113.1", "f-7", "key k"},
		{"key: header.X-API-Key, known: partner, missing: skip", "203.0.113.1", "x", "skip"},
		{"key: header.X-API-Key, known: partner, missing: reject", "203.0.113.1", "x", "reject"},
		{"key: [header.X-API-Key, ip], known: friend", "203.0.113.1", "f-1", "key k"},
		{"key: [header.X-API-Key, ip], known: friend", "203.0.113.1", "x", "fallback"},
		{"key: [header.X-API-Key, ip], known: [friend, office]", "203.0.113.1", "f-1", "fallback"},
		{"key: [header.X-API-Key, ip], known: [friend, office]", "198.51.100.1", "f-1", "key k"},
		{"key: ip/16, known: office, missing: skip", "198.51.100.1", "", "key k"},
		{"key: ip/16, known: office, missing: skip", "198.51.101.1", "", "skip"},
	} {
		s := compileWithout(t, text(tt.rule))
		if got := outcome(s, keyed(tt.addr, tt.key)); got != tt.want {
			t.Errorf("%s: %s with %q: %s, want %s", tt.rule, tt.addr, tt.key, got, tt.want)
		}
	}
	// Keys that nobody knows share the counter of their address, and no more.
	s := compileWithout(t, text("key: header.X-API-Key, known: partner"))
	first := s.Match(keyed("203.0.113.1", "made-up-1"), nil)[0].Key
	if second := s.Match(keyed("203.0.113.1", "made-up-2"), nil)[0].Key; second != first {
		t.Error("a client gets another counter for another key it made up")
	}
	if other := s.Match(keyed("203.0.113.2", "made-up-1"), nil)[0].Key; other == first {
		t.Error("two addresses share a counter")
	}
	skipped := compileWithout(t, text("key: header.X-API-Key, known: partner, missing: skip"))
	skipped.Match(keyed("203.0.113.1", "x"), nil)
	if n := skipped.Rules[0].Live.Skipped.Load(); n != 1 {
		t.Errorf("%d skipped, want 1", n)
	}
}

// compileWithout compiles a file without group files.
func compileWithout(t *testing.T, text string) *Set {
	t.Helper()
	return compileWith(t, text, nil, nil)
}

// What a match looks at while a key is made must not end up in the key.
func TestAMatchThatReadsValuesLeavesAKeyAlone(t *testing.T) {
	s := compile(t, `
upstream: http://a
groups: { g: { header.X-G: "*" } }
rules:
  - { name: plain, match: "/u/:user", key: [header.X-A, path.user], limit: 1/s }
  - { name: reads, match: { path: "/u/:user", header.X-Long: "*", query.q: "*", cookie.c: "*", group: g }, key: [header.X-A, path.user], limit: 1/s }
`, nil)
	f := request("192.0.2.1")
	f.Path, f.RawQuery = "/u/ann", "q="+strings.Repeat("q", 40)
	f.Header = map[string][]string{
		"X-A": {"some-key-of-some-length"}, "X-Long": {strings.Repeat("l", 50), strings.Repeat("m", 50)},
		"Cookie": {"c=" + strings.Repeat("c", 30)}, "X-G": {strings.Repeat("g", 60)},
	}
	var keys []string
	for _, r := range s.Rules {
		s.Match(f, nil) // gives the scratch some size
		key, outcome := r.recipe.appendKey(f.buf[:0], f, r.match)
		f.buf = key
		if outcome != KeyFound {
			t.Fatalf("%s: outcome %v", r.Name, outcome)
		}
		keys = append(keys, string(key))
	}
	if keys[0] != keys[1] {
		t.Errorf("keys %q and %q", keys[0], keys[1])
	}
}
