package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTheMostSpecificPatternSaysTheCost(t *testing.T) {
	s := compile(t, oneRule(`limit: 100/m, match: ["/**"], cost: {
		/search: 10, POST /orders: 5, "/users/:id": 2, /users/me: 0, "/users/**": 3, "/users/*/exports": 20,
		"/**": 4, "GET /**": 6, "HEAD /**": 7, "api.example.com/search": 11, "*.example.com/search": 12, "*.eu.example.com/search": 13 }`), nil)
	for _, tt := range []struct {
		method, host, path string
		want               int64
		by                 string
	}{
		{"POST", "h", "/search", 10, "/search"},
		{"GET", "h", "/search", 10, "/search"}, // the path comes before the method
		{"GET", "h", "//search/", 10, "/search"},
		{"GET", "h", "/%73earch", 10, "/search"},
		{"GET", "api.example.com", "/search", 11, "api.example.com/search"},
		{"GET", "web.example.com", "/search", 12, "*.example.com/search"},
		{"GET", "web.eu.example.com", "/search", 13, "*.eu.example.com/search"},
		{"GET", "api.example.com", "/other", 6, "GET /**"},
		{"POST", "h", "/orders", 5, "POST /orders"},
		{"GET", "h", "/orders", 6, "GET /**"},
		{"GET", "h", "/users/7", 2, "/users/:id"},
		{"GET", "h", "/users/me", 0, "/users/me"},
		{"GET", "h", "/users/me/exports", 20, "/users/*/exports"},
		{"GET", "h", "/users", 3, "/users/**"},
		{"GET", "h", "/users/7/x", 3, "/users/**"},
		{"PUT", "h", "/", 4, "/**"},
		{"HEAD", "h", "/", 7, "HEAD /**"},
	} {
		f := factsOf(t, tt.method, tt.host, tt.path)
		hits := s.Match(f, nil)
		if len(hits) != 1 || hits[0].Cost != tt.want {
			t.Errorf("%s %s%s: hits %+v, want a cost of %d", tt.method, tt.host, tt.path, hits, tt.want)
		}
		if cost, by := s.Rules[0].CostOf(f); cost != tt.want || by.String() != tt.by {
			t.Errorf("%s %s%s: %d by %q, want %d by %q", tt.method, tt.host, tt.path, cost, by, tt.want, tt.by)
		}
	}
}

func TestWhatNoPatternTakesCostsOne(t *testing.T) {
	s := compile(t, oneRule("limit: 100/m, cost: { /search: 10, /exports/**: 0 }"), nil)
	for path, want := range map[string]int64{"/search": 10, "/exports": 0, "/exports/a/b": 0, "/searches": 1, "/": 1, "/Search": 1, "/search/x": 1} {
		if hits := s.Match(factsOf(t, "GET", "h", path), nil); hits[0].Cost != want {
			t.Errorf("%s costs %d, want %d", path, hits[0].Cost, want)
		}
	}
	f := factsOf(t, "GET", "h", "/x")
	if cost, by := s.Rules[0].CostOf(f); cost != 1 || by != nil {
		t.Errorf("%d by %v", cost, by)
	}
	const want = "100 at once, then 1 every 600ms; at most 200 in any minute; a request takes 10 for /search, 0 for /exports/**, 1 otherwise"
	if got := s.Rules[0].Describe(); got != want {
		t.Errorf("described as %q", got)
	}
}

func TestCostsAreNoPartOfARulesIdentity(t *testing.T) {
	before := compile(t, oneRule("limit: 100/m, cost: { /search: 10 }"), nil)
	for settings, changes := range map[string]bool{
		"limit: 100/m, cost: { /search: 10 }": false, "limit: 100/m, cost: { /search: 11 }": true, "limit: 100/m, cost: { /find: 10 }": true,
		"limit: 100/m": true, "limit: 100/m, cost: 10": true, "limit: 100/m, cost: { header: X-Cost }": true,
	} {
		after := compile(t, oneRule(settings), before)
		if after.Rules[0].Live != before.Rules[0].Live {
			t.Errorf("%s: counters start afresh", settings)
		}
		if got := after.Change(before); got.Empty() == changes || changes && !strings.Contains(got.String(), "cost") {
			t.Errorf("%s: %v", settings, got)
		}
	}
}

func TestACostPatternThatTheMatchNeverMeetsIsWarnedOf(t *testing.T) {
	for _, tt := range []struct {
		match, pattern string
		meets          bool
	}{
		{`/orders/**`, "/search", false},
		{`/orders/**`, "/orders", true},
		{`/orders/**`, "/orders/:id/items", true},
		{`/orders/:id`, "/orders/**", true},
		{`/orders/:id`, "/orders", false},
		{`/orders/:id`, "/orders/7/x", false},
		{`[/orders, /search]`, "/search", true},
		{`POST /search`, "GET /search", false},
		{`GET /search`, "HEAD /search", true},
		{`HEAD /search`, "GET /search", true},
		{`{ method: [PUT, POST] }`, "POST /search", true},
		{`{ method: [PUT, POST] }`, "GET /search", false},
		{`{ path: "/f/*.pdf" }`, "/f/a.pdf", true},
		{`{ path: "/f/*.pdf" }`, "/f/a.txt", false},
		{`{ host: a.example.com }`, "b.example.com/x", false},
		{`{ host: "*.example.com" }`, "b.example.com/x", true},
		{`a.example.com/**`, "/x", true},
		{`{ not: /search }`, "/search", false},
		{`{ not: "GET /search" }`, "/search", true},
		{`{ header.X: "1" }`, "/search", true},
		{`{ ip: private }`, "/search", true},
	} {
		f := parse(t, oneRule(fmt.Sprintf("limit: 100/m, match: %s, cost: { %q: 2 }", tt.match, tt.pattern)))
		warned := slices.ContainsFunc(f.Warnings, func(e *Error) bool {
			return strings.Contains(e.Msg, "the match of the rule takes no such request")
		})
		if warned == tt.meets {
			t.Errorf("match %s, cost of %s: warnings %v", tt.match, tt.pattern, f.Warnings.Lines())
		}
	}
}

// Of patterns that are no two equally specific, the cost is that of the most
// specific one, asked in whatever order, and with an index as without.
func TestCostsDoNotDependOnTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []PatternCost
		for i := range rapid.IntRange(0, 30).Draw(t, "patterns") {
			if p := drawPattern(t); asSpecific(list, p) == nil {
				list = append(list, PatternCost{Pattern: p, Cost: int64(i)})
			}
		}
		other := newCosts(rapid.Permutation(list).Draw(t, "order"))
		other.index = nil
		c := newCosts(list)
		for range 8 {
			f := drawFacts(t)
			got := c.of(f)
			var want *PatternCost
			for i := range list {
				p := list[i].Pattern
				if !p.Matches(f) {
					continue
				}
				if want != nil && p.moreSpecific(want.Pattern) == 0 {
					t.Fatalf("%s and %s take %+v and are equally specific", p, want.Pattern, f)
				}
				if want == nil || p.moreSpecific(want.Pattern) < 0 {
					want = &list[i]
				}
			}
			if (got == nil) != (want == nil) || got != nil && got.Cost != want.Cost {
				t.Fatalf("of %+v: got %v, want %v", f, got, want)
			}
			if again := other.of(f); (again == nil) != (want == nil) || again != nil && again.Cost != want.Cost {
				t.Fatalf("of %+v: in another order %v, want %v", f, again, want)
			}
		}
	})
}

// What two patterns both take, they meet; so does a match.
func TestPatternsThatTakeOneRequestMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q, f := drawPattern(t), drawPattern(t), drawFacts(t)
		if p.Matches(f) && q.Matches(f) && !p.meets(q) {
			t.Fatalf("%s and %s take %+v", p, q, f)
		}
		if p.Covers(q) && q.moreSpecific(p) > 0 {
			t.Fatalf("%s takes all that %s takes, and is more specific", p, q)
		}
		m := &Match{Any: []Clause{drawClause(t)}}
		if m.Matches(f) && p.Matches(f) && !m.meets(p) {
			t.Fatalf("%+v and %s take %+v", m, p, f)
		}
	})
}

func TestACostTakesNoMemory(t *testing.T) {
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, "/p/%d/**: %d, ", i, i%10)
	}
	s := compile(t, "upstream: http://a\nrules:\n"+
		"  - { name: few, limit: 100/m, cost: { /p/7: 3, /q: 4 } }\n  - { name: many, limit: 100/m, cost: { "+b.String()+" } }\n  - { name: last, limit: 9/m }\n", nil)
	f := factsOf(t, "GET", "h", "/p/7/x")
	hits := s.Match(f, nil)
	if len(hits) != 3 || hits[0].Cost != 1 || hits[1].Cost != 7 || hits[2].Cost != 1 {
		t.Fatalf("hits %+v", hits)
	}
	if n := testing.AllocsPerRun(100, func() { hits = s.Match(f, hits[:0]) }); n != 0 {
		t.Errorf("%v allocations a request, want 0", n)
	}
	if got := s.Rules[1].Describe(); !strings.Contains(got, "others for 290 more, 1 otherwise") {
		t.Errorf("described as %q", got)
	}
}
