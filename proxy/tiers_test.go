package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

const tiers = `
groups:
  premium: { header.X-API-Key: [p-1] }
  office: { ip: 127.0.0.0/8 }
upstreams: { a: UPSTREAM }
routes:
  - match: /headers/**
    headers:
      request: { set: { X-Tier: "<{tier}>" } }
      response: { set: { X-Tier: "<{tier}>" } }
  - {}
`

// Two tiers of a rule: their numbers are in the headers, in the refusal and in
// what passes.
func TestATierHasItsOwnNumbers(t *testing.T) {
	s := newSite(t, tiers+`
rules:
  - name: per-key
    key: header.X-API-Key
    limit: 2/h
    reject: { headers: { X-Limit: "{rule} {limit}" } }
    tiers: { premium: { limit: 5/h, burst: 4 } }
`, nil)
	for _, tt := range []struct {
		key, policy, limit string
		passes             int
	}{
		{"p-1", `"per-key";q=4;w=2880`, "per-key 5/h", 4},
		{"x-1", `"per-key";q=2;w=3600`, "per-key 2/h", 2},
	} {
		for i := range tt.passes + 1 {
			r := s.get("/", "X-API-Key: "+tt.key)
			want := http.StatusOK
			if i == tt.passes {
				want = http.StatusTooManyRequests
			}
			if r.StatusCode != want || r.Header.Get("RateLimit-Policy") != tt.policy {
				t.Errorf("%s, request %d: %d with %s, want %d with %s", tt.key, i, r.StatusCode, r.Header.Get("RateLimit-Policy"), want, tt.policy)
			}
			if want := fmt.Sprintf(`"per-key";r=%d`, tt.passes-1-i); i < tt.passes && !strings.HasPrefix(r.Header.Get("RateLimit"), want) {
				t.Errorf("%s, request %d: RateLimit %s, want %s…", tt.key, i, r.Header.Get("RateLimit"), want)
			}
			if i == tt.passes && r.Header.Get("X-Limit") != tt.limit {
				t.Errorf("refused with {rule} {limit} %q, want %q", r.Header.Get("X-Limit"), tt.limit)
			}
		}
	}
	rule := s.gateway.Current().rules.Rules[0]
	premium := rule.Plan("premium").Live
	if a, b, c, d := premium.Allowed.Load(), premium.Rejected.Load(), rule.Base.Live.Allowed.Load(), rule.Base.Live.Rejected.Load(); a != 4 || b != 1 || c != 2 || d != 1 {
		t.Errorf("counted %d and %d of premium, %d and %d of others; want 4, 1, 2, 1", a, b, c, d)
	}
	if n := rule.Live.Units.Load(); n != 6 {
		t.Errorf("%d units of both, want 6", n)
	}
}

func TestTheTierIsFilledIn(t *testing.T) {
	s := newSite(t, tiers+`
exempt: /headers/exempt
rules:
  - { name: plain, limit: 100/s }
  - { name: other, key: header.X-Other, missing: skip, limit: 100/s, tiers: { premium: { limit: 1000/s } } }
  - { name: per-ip, limit: 1/h, tiers: { premium: { limit: 3/h }, office: { limit: 2/h } } }
`, nil)
	for _, tt := range []struct {
		path string
		key  string
		code int
		want string
	}{
		{"/headers/a", "p-1", 200, "<premium>"},
		{"/headers/a", "", 200, "<office>"},
		{"/headers/a", "x", 200, "<office>"},
		{"/headers/a", "x", 429, "<office>"}, // a refusal too
		{"/headers/exempt", "p-1", 200, "<>"},
	} {
		r := s.get(tt.path, "X-API-Key: "+tt.key, "X-Tier: <forged>")
		if got := r.Header.Get("X-Tier"); r.StatusCode != tt.code || got != tt.want {
			t.Errorf("%s with %q: %d, X-Tier %s; want %d, %s", tt.path, tt.key, r.StatusCode, got, tt.code, tt.want)
		}
	}
	var seen []string
	for _, r := range s.requests() {
		seen = append(seen, r.Header.Get("X-Tier"))
	}
	if want := []string{"<premium>", "<office>", "<office>", "<>"}; !slices.Equal(seen, want) {
		t.Errorf("the upstream saw %q, want %q", seen, want)
	}
}

// cost, count, refund, concurrency and dry_run with a tier.
func TestATierWorksWithWhatElseARuleSays(t *testing.T) {
	var status atomic.Int32
	status.Store(http.StatusOK)
	hold, held := make(chan struct{}), make(chan struct{}, 10)
	s := newSite(t, tiers+`
rules:
  - { name: cost, match: /cost, limit: 20/h, cost: 10, tiers: { premium: { limit: 30/h } } }
  - { name: count, match: /count, limit: 1/h, count: { status: 401 }, tiers: { premium: { limit: 2/h } } }
  - { name: dry, match: /dry, limit: 1/h, dry_run: true, tiers: { premium: { limit: 2/h } } }
  - { name: slow, match: /slow, concurrency: 1, tiers: { premium: { concurrency: 2 } } }
`, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			held <- struct{}{}
			<-hold
		}
		w.WriteHeader(int(status.Load()))
	})
	codes := func(path, key string, n int) (all []int) {
		for range n {
			all = append(all, s.get(path, "X-API-Key: "+key).StatusCode)
		}
		return all
	}
	same := func(what string, got []int, want ...int) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	same("cost of premium", codes("/cost", "p-1", 4), 200, 200, 200, 429)
	same("cost", codes("/cost", "x", 3), 200, 200, 429)
	same("what does not count", codes("/count", "p-1", 3), 200, 200, 200)
	status.Store(http.StatusUnauthorized)
	same("what counts, premium", codes("/count", "p-1", 3), 401, 401, 429)
	same("what counts", codes("/count", "x", 2), 401, 429)
	status.Store(http.StatusOK)
	same("dry run", codes("/dry", "p-1", 4), 200, 200, 200, 200)
	if n := s.gateway.Current().rules.Rule("dry").Plan("premium").Live.DryRunRejected.Load(); n != 2 {
		t.Errorf("%d would have been refused of premium, want 2", n)
	}
	done := make(chan int, 2)
	for range 2 {
		go func() { done <- s.get("/slow", "X-API-Key: p-1").StatusCode }()
		<-held
	}
	same("a third in progress", codes("/slow", "p-1", 1), 429)
	same("of the same address without its key", codes("/slow", "x", 1), 429) // two are in progress, and one may be
	close(hold)
	same("in progress", []int{<-done, <-done}, 200, 200)
	eventually(t, "both slots are back", func() bool { return codes("/slow", "x", 1)[0] == 200 })
	if p := s.get("/slow", "X-API-Key: p-1").Header.Get("RateLimit-Policy"); p != `"slow";q=2;qu="concurrent-requests"` {
		t.Errorf("policy %s", p)
	}
}

func TestAKeyThatIsNotKnownIsToldSo(t *testing.T) {
	s := newSite(t, "groups: { g: { header.X-API-Key: p-1 } }\nupstream: UPSTREAM\nrules: [{name: a, key: header.X-API-Key, known: g, missing: reject, limit: 9/s}]\n", nil)
	if r := s.get("/", "X-API-Key: p-1"); r.StatusCode != 200 {
		t.Errorf("a known key: %d", r.StatusCode)
	}
	for _, header := range []string{"X-API-Key: secret-guess", "X-Other: 1"} {
		r := s.get("/", header)
		if p := problemOf(t, r); r.StatusCode != 400 || p["detail"] != `Rule "a" needs a known header.X-Api-Key in the request.` || strings.Contains(r.body, "secret-guess") {
			t.Errorf("%s: %d %s", header, r.StatusCode, r.body)
		}
	}
	if n := len(s.requests()); n != 1 {
		t.Errorf("%d reached the upstream, want 1", n)
	}
}

// A query that a match reads and that is broken is answered 400, whatever the
// match would have made of it; one that nobody reads is the upstream's business.
func TestABrokenQueryIsRefusedOnlyWhereItIsRead(t *testing.T) {
	const broken = "/a?x=%zz&y=1"
	for _, tt := range []struct {
		name, settings string
		code           int
	}{
		{"nobody", "upstream: UPSTREAM\nrules: [{name: a, match: {header.X: y}, limit: 9/s}]\n", 200},
		{"a match", "upstream: UPSTREAM\nrules: [{name: a, match: {query.y: '1'}, limit: 9/s}]\n", 400},
		{"a match of another path", "upstream: UPSTREAM\nrules: [{name: a, match: {path: /b, query.y: '1'}, limit: 9/s}]\n", 200},
		{"not", "upstream: UPSTREAM\nrules: [{name: a, match: {not: {query.y: '1'}}, limit: 9/s}]\n", 400},
		{"exempt", "upstream: UPSTREAM\nexempt: {query.y: '1'}\nrules: [{name: a, limit: 9/s}]\n", 400},
		{"exempt but", "upstream: UPSTREAM\nexempt: {not: {query.y: '1'}}\nrules: [{name: a, limit: 9/s}]\n", 400},
		{"block", "upstream: UPSTREAM\nblock: {query.y: '2'}\nrules: []\n", 400},
		{"block but", "upstream: UPSTREAM\nblock: {not: {query.y: '1'}}\nrules: []\n", 400},
		{"a route", "upstreams: {a: UPSTREAM}\nroutes: [{match: {query.y: '1'}}, {}]\nrules: []\n", 400},
		{"the only route", "upstreams: {a: UPSTREAM}\nroutes: [{match: {query.y: '2'}}]\nrules: []\n", 400},
		{"a group", "upstream: UPSTREAM\ngroups: {g: {query.y: '1'}}\nrules: [{name: a, limit: 9/s, tiers: {g: {limit: 1/s}}}]\n", 400},
		{"a group of no use here", "upstream: UPSTREAM\ngroups: {g: {query.y: '1'}}\nrules: [{name: a, match: {path: /b, group: g}, limit: 9/s}]\n", 200},
		{"known", "upstream: UPSTREAM\ngroups: {g: {query.y: '1'}}\nrules: [{name: a, key: query.y, known: g, limit: 9/s}]\n", 400},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "-"), func(t *testing.T) {
			s := newSite(t, tt.settings, nil)
			if r := s.get(broken); r.StatusCode != tt.code {
				t.Errorf("%d, want %d: %s", r.StatusCode, tt.code, r.body)
			}
			if n := len(s.requests()); (n == 1) != (tt.code == 200) {
				t.Errorf("%d reached the upstream", n)
			}
		})
	}
}

// A client that moves to another tier, by a reload, keeps its requests in
// progress; what it used of a limit belongs to the tier.
func TestAReloadMovesClientsBetweenTiers(t *testing.T) {
	text := func(members string) string {
		return "groups: { vip: { header.X-API-Key: [" + members + "] } }\nupstream: UPSTREAM\nrules:\n" +
			"  - { name: rate, key: header.X-API-Key, limit: 2/h, tiers: { vip: { limit: 3/h } } }\n"
	}
	s := newSite(t, text("a, b"), nil)
	passes := func(key string) (n int) {
		for s.get("/", "X-API-Key: "+key).StatusCode == 200 {
			n++
		}
		return n
	}
	if a, c := passes("a"), passes("c"); a != 3 || c != 2 {
		t.Errorf("%d of vip pass and %d of others, want 3 and 2", a, c)
	}
	s.reload(text("b, c"))
	if b, c, a := passes("b"), passes("c"), passes("a"); b != 3 || c != 3 || a != 2 {
		t.Errorf("after the reload %d, %d and %d pass; want 3 of vip, 3 of who is vip now, 2 of who was", b, c, a)
	}
	s.reload(text("a, b, c"))
	if a, b := passes("a"), passes("b"); a != 0 || b != 0 {
		t.Errorf("%d and %d pass again: what was used of a tier is forgotten", a, b)
	}
}
