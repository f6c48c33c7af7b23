package rules

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// matchOf makes a match that is a list of patterns.
func matchOf(t testing.TB, patterns ...string) *Match {
	t.Helper()
	m := &Match{}
	for _, text := range patterns {
		m.Any = append(m.Any, Clause{Pattern: pattern(t, text)})
	}
	return m
}

// clause makes a clause of conditions as a match map has them: "path: /a", with
// several values separated by spaces.
func clause(t testing.TB, conditions ...string) Clause {
	t.Helper()
	var c Clause
	for _, cond := range conditions {
		name, values, _ := strings.Cut(cond, ": ")
		if name == "ip" {
			c.IP = prefixes(t, values)
			continue
		}
		for value := range strings.FieldsSeq(values) {
			c.add(t, name, value)
		}
	}
	return c
}

func (c *Clause) add(t testing.TB, name, value string) {
	t.Helper()
	var err *TextError
	switch name {
	case "path":
		c.Paths = append(c.Paths, pathPattern(t, value))
	case "method":
		var m string
		m, err = ParseMethod(value)
		c.Methods = append(c.Methods, m)
	case "host":
		var g Glob
		g, err = ParseHostGlob(value)
		c.Hosts = append(c.Hosts, g)
	default:
		var g Glob
		g, err = ParseGlob(value)
		a := attribute(t, name)
		if n := len(c.Values); n > 0 && c.Values[n-1].Attribute == a {
			c.Values[n-1].Globs = append(c.Values[n-1].Globs, g)
		} else {
			c.Values = append(c.Values, Is{Attribute: a, Globs: []Glob{g}})
		}
	}
	if err != nil {
		t.Fatalf("%s: %s: %v", name, value, err)
	}
}

func TestAClauseIsAllOfItsConditions(t *testing.T) {
	f := factsOf(t, "HEAD", "api.example.com", "/v1/users/7", "X-Plan", "gold-eu", "X-Two", "a", "X-Two", "b", "X-Empty", "", "Cookie", "sid=s1")
	f.RawQuery = "v=2&w="
	for _, test := range []struct {
		clause []string
		want   bool
	}{
		{nil, true},
		{[]string{"path: /v1/**"}, true},
		{[]string{"path: /v2/** /v1/users/*"}, true},
		{[]string{"path: /v2/**"}, false},
		{[]string{"method: GET"}, true},
		{[]string{"method: HEAD"}, true},
		{[]string{"method: POST PUT"}, false},
		{[]string{"host: *.example.com"}, true},
		{[]string{"host: API.example.com."}, true},
		{[]string{"host: example.com www.example.com"}, false},
		{[]string{"ip: 192.0.2.0/30"}, true},
		{[]string{"ip: private"}, false},
		{[]string{"header.X-Plan: gold*"}, true},
		{[]string{"header.X-Plan: silver gold-*"}, true},
		{[]string{"header.X-Plan: Gold*"}, false},
		{[]string{"header.X-Plan: *"}, true},
		{[]string{"header.X-None: *"}, false},
		{[]string{"header.X-Empty: *"}, false},
		{[]string{"header.X-Two: a"}, false},
		{[]string{"header.X-Two: a,*b"}, true},
		{[]string{"query.v: 2"}, true},
		{[]string{"query.v: 1"}, false},
		{[]string{"query.w: *"}, false},
		{[]string{"cookie.sid: s*"}, true},
		{[]string{"cookie.sid: t*"}, false},
		{[]string{"path: /v1/**", "ip: 192.0.2.1", "header.X-Plan: gold*"}, true},
		{[]string{"path: /v1/**", "ip: 192.0.2.9", "header.X-Plan: gold*"}, false},
		{[]string{"path: /v1/**", "method: POST"}, false},
	} {
		c := clause(t, test.clause...)
		if got := (&Match{Any: []Clause{c}}).Matches(f); got != test.want {
			t.Errorf("%q takes the request: %v", test.clause, got)
		}
	}
}

func TestAMatchIsAnyOfItsClauses(t *testing.T) {
	f := factsOf(t, "POST", "h", "/b")
	var none *Match
	if !none.Matches(f) {
		t.Error("no match does not take everything")
	}
	if (&Match{}).Matches(f) {
		t.Error("a match without clauses takes something")
	}
	if !matchOf(t, "/a", "POST /b").Matches(f) || matchOf(t, "/a", "GET /b").Matches(f) {
		t.Error("a list is not any of its patterns")
	}
}

func TestAnAddressIsMatchedAsResolvedAndNotAsForged(t *testing.T) {
	// Case K10: exempt your own networks, behind a trusted proxy.
	exempt := &Match{Any: []Clause{clause(t, "ip: 10.0.0.0/8 127.0.0.1/32")}}
	trusted := prefixes(t, "127.0.0.1")
	for _, test := range []struct {
		peer, xff string
		want      bool
	}{
		{"127.0.0.1:9", "10.1.2.3", true},
		{"127.0.0.1:9", "198.51.100.7", false},
		{"127.0.0.1:9", "10.1.2.3, 198.51.100.7", false},
		{"198.51.100.7:9", "10.1.2.3", false},
		{"[::ffff:10.1.2.3]:9", "", true},
	} {
		h := http.Header{"X-Forwarded-For": {test.xff}}
		client, _ := ClientAddr(netip.MustParseAddrPort(test.peer), h, trusted)
		if got := exempt.Matches(&Facts{Client: client}); got != test.want {
			t.Errorf("from %s with X-Forwarded-For %q, which is %v: exempt %v", test.peer, test.xff, client, got)
		}
	}
}

func TestAMatchReadsNoMoreOfTheQueryThanItMust(t *testing.T) {
	f := factsOf(t, "GET", "h", "/b")
	f.RawQuery = "v=%zz"
	m := &Match{Any: []Clause{clause(t, "path: /a", "query.v: 1")}}
	if m.Matches(f) || f.QueryError() != nil {
		t.Errorf("a match that its path decides: QueryError %v", f.QueryError())
	}
	f.Path = "/a"
	if m.Matches(f) || f.QueryError() == nil {
		t.Error("a match that reads a broken query: no error")
	}
}

func TestMatchTellsWhatItIs(t *testing.T) {
	one := func(conditions ...string) *Match { return &Match{Any: []Clause{clause(t, conditions...)}} }
	for _, test := range []struct {
		what       string
		m          *Match
		everything bool
	}{
		{"none", nil, true},
		{"/**", matchOf(t, "/**"), true},
		{"/ or /**", matchOf(t, "/", "/**"), true},
		{"GET /**", matchOf(t, "GET /**"), false},
		{"GET, HEAD /a", matchOf(t, "HEAD /a", "GET /a", "GET /b"), false},
		{"GET /a, /b", matchOf(t, "GET /a", "/b"), false},
		{"host/**", matchOf(t, "h.example/**"), false},
		{"/*/**", matchOf(t, "/*/**"), false},
		{"an empty map", one(), true},
		{"path: /**", one("path: /x /**"), true},
		{"host: *", one("host: *"), true},
		{"host: *.x", one("host: *.x"), false},
		{"all addresses", one("ip: 0.0.0.0/0"), false},
		{"header", one("header.X: *"), false},
		{"query", one("query.x: *"), false},
		{"methods", one("method: PUT POST"), false},
	} {
		if got := test.m.Everything(); got != test.everything {
			t.Errorf("%s takes everything: %v", test.what, got)
		}
		if got := test.m.Never(); got != "" {
			t.Errorf("%s takes nothing: %s", test.what, got)
		}
	}
	all := Clause{IP: prefixes(t, "0.0.0.0/0 ::/0")}
	if !(&Match{Any: []Clause{all}}).Everything() {
		t.Error("all addresses of both families are not everything")
	}
}

func TestMatchKnowsWhatItCanNeverTake(t *testing.T) {
	methods := clause(t, "method: POST")
	methods.Pattern = pattern(t, "GET /a")
	head := clause(t, "method: HEAD")
	head.Pattern = pattern(t, "GET /a")
	paths := clause(t, "path: /b/**")
	paths.Pattern = pattern(t, "/a")
	for _, test := range []struct {
		what  string
		m     *Match
		never bool
	}{
		{"no clause", &Match{}, true},
		{"GET and POST", &Match{Any: []Clause{methods}}, true},
		{"GET and HEAD", &Match{Any: []Clause{head}}, false},
		{"/a and /b/**", &Match{Any: []Clause{paths}}, true},
		{"one that can", &Match{Any: []Clause{methods, head}}, false},
		{"two that cannot", &Match{Any: []Clause{methods, paths}}, true},
	} {
		if got := test.m.Never(); (got != "") != test.never {
			t.Errorf("%s: Never = %q", test.what, got)
		}
	}
}

func TestWhichAlternativesCaptureAName(t *testing.T) {
	for _, test := range []struct {
		what    string
		m       *Match
		without string
		ok      bool
	}{
		{"none", nil, "", false},
		{"one", matchOf(t, "/users/:id"), "", true},
		{"two", matchOf(t, "/users/:id", "POST /orders/:id/**"), "", true},
		{"one of two", matchOf(t, "/users/:id", "/orders/:no"), "/orders/:no", false},
		{"paths", &Match{Any: []Clause{clause(t, "path: /a/:id /b/:id")}}, "", true},
		{"one of two paths", &Match{Any: []Clause{clause(t, "path: /a/:id /b/*")}}, "/b/*", false},
		{"no path", &Match{Any: []Clause{clause(t, "method: GET")}}, "", false},
	} {
		if without, ok := test.m.Captures("id"); without != test.without || ok != test.ok {
			t.Errorf("%s: %q, %v; want %q, %v", test.what, without, ok, test.without, test.ok)
		}
	}
}

func TestOneMatchCoversAnother(t *testing.T) {
	one := func(conditions ...string) *Match { return &Match{Any: []Clause{clause(t, conditions...)}} }
	for _, test := range []struct {
		what string
		m, n *Match
		want bool
	}{
		{"none, none", nil, nil, true},
		{"none, /a", nil, matchOf(t, "/a"), true},
		{"/a, none", matchOf(t, "/a"), nil, false},
		{"/a or /b, /b", matchOf(t, "/a", "/b"), matchOf(t, "/b"), true},
		{"/b, /a or /b", matchOf(t, "/b"), matchOf(t, "/a", "/b"), false},
		{"/a/**, path /a/b", matchOf(t, "/a/**"), one("path: /a/b /a/c"), true},
		{"/a/**, path /a/b or /d", matchOf(t, "/a/**"), one("path: /a/b /d"), false},
		{"/a, path /a and more", matchOf(t, "/a"), one("path: /a", "ip: private", "header.X: y"), true},
		{"path /a and ip, /a", one("path: /a", "ip: 10.0.0.1"), matchOf(t, "/a"), false},
		{"path *.pdf, path a.pdf", one("path: /*.pdf"), one("path: /a.pdf"), true},
		{"path *.pdf, path a*.pdf", one("path: /*.pdf"), one("path: /a*.pdf"), true},
		{"path a*.pdf, path *.pdf", one("path: /a*.pdf"), one("path: /*.pdf"), false},
		{"path *.pdf, path *", one("path: /*.pdf"), one("path: /*"), false},
		{"path *, path *.pdf", one("path: /*"), one("path: /*.pdf"), true},
		{"GET, HEAD", one("method: GET"), one("method: HEAD"), true},
		{"GET or POST, POST", one("method: GET POST"), one("method: POST"), true},
		{"POST, GET or POST", one("method: POST"), one("method: GET POST"), false},
		{"GET, pattern GET", one("method: GET"), matchOf(t, "GET /a"), true},
		{"pattern GET /a, GET and path /a", matchOf(t, "GET /a"), one("method: GET", "path: /a"), true},
		{"host *.x, host a.x", one("host: *.x"), one("host: a.x b.x"), true},
		{"host a.x, host *.x", one("host: a.x"), one("host: *.x"), false},
		{"host *, none", one("host: *"), nil, true},
		{"pattern host, map host", matchOf(t, "*.x/**"), one("host: a.x"), true},
		{"ip, part of it", one("ip: 10.0.0.0/24"), one("ip: 10.0.0.7"), true},
		{"ip, more", one("ip: 10.0.0.0/24"), one("ip: 10.0.0.0/23"), false},
		{"ip, any", one("ip: 10.0.0.0/24"), one("path: /a"), false},
		{"header *, header v", one("header.X: *"), one("header.X: v"), true},
		{"header v, header *", one("header.X: v"), one("header.X: *"), false},
		{"header v or w, header w", one("header.X: v w"), one("header.X: w"), true},
		{"header X, header Y", one("header.X: *"), one("header.Y: v"), false},
	} {
		if got := test.m.Covers(test.n); got != test.want {
			t.Errorf("%s: %v", test.what, got)
		}
	}
}

func TestGlobs(t *testing.T) {
	for _, test := range []struct{ glob, yes, no string }{
		{"a", "a", "b aa A"},
		{"*", "a abc *", ""},
		{"a*", "a ab a*", "ba"},
		{"*a", "a ba", "ab"},
		{"a*a", "aa aba aaa", "a ab"},
		{"a*b*c", "abc axxbxxc abbcc abcbc", "ac acb abcx"},
		{"*a*", "a bab", "b"},
		{"**", "a", ""},
		{"a**b", "ab axb", "a"},
		{"*ab*ab*", "abab xabxabx", "ab xab aab"},
	} {
		g, err := ParseGlob(test.glob)
		if err != nil {
			t.Fatal(err)
		}
		for s := range strings.FieldsSeq(test.yes) {
			if !g.matches(s) {
				t.Errorf("%s does not take %q", test.glob, s)
			}
		}
		for s := range strings.FieldsSeq(test.no) {
			if g.matches(s) {
				t.Errorf("%s takes %q", test.glob, s)
			}
		}
	}
	for text, want := range map[string]string{"": "missing", "  ": "missing", " a": `write "a"`, "a\n": "control", "a\x00b": "control"} {
		if g, err := ParseGlob(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseGlob(%q) = %v, %v; want %q", text, g, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "empty host", "http://a.b": "write a.b", "a.b/x": "no path", "a.b:80": "write a.b", "*.b:80": "write *.b", "::1": "write [::1]",
		"a b": "something else", "*..b": "empty label", "a_%": "something else", "[::1": "brackets",
	} {
		if g, err := ParseHostGlob(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseHostGlob(%q) = %v, %v; want %q", text, g, err, want)
		}
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("a*b", "*", "axb")
	f.Add("*ab*ab*", "*ab*", "aabab")
	f.Add("a**", "a*", "a")
	f.Fuzz(func(t *testing.T, first, second, s string) {
		if strings.Count(first, "*") > 4 || len(s) > 200 {
			return // the naive one takes its time
		}
		g, h := newGlob(first), newGlob(second)
		var naive func(g, s string) bool
		naive = func(g, s string) bool {
			if g == "" {
				return s == ""
			}
			if g[0] != '*' {
				return s != "" && s[0] == g[0] && naive(g[1:], s[1:])
			}
			for i := range len(s) + 1 {
				if naive(g[1:], s[i:]) {
					return true
				}
			}
			return false
		}
		if got, want := g.matches(s), naive(first, s); got != want {
			t.Fatalf("%q takes %q: %v, want %v", first, s, got, want)
		}
		if g.covers(h) && h.matches(s) && !g.matches(s) {
			t.Fatalf("%q covers %q, but does not take %q", first, second, s)
		}
	})
}

func TestAMatchTakesNoMemory(t *testing.T) {
	f := factsOf(t, "POST", "api.example.com", "/v1/users/7/exports", "X-Plan", "gold")
	for _, m := range []*Match{
		nil,
		matchOf(t, "/a", "GET /v1/**", "POST api.example.com/v1/users/:id/exports"),
		{Any: []Clause{clause(t, "path: /a /v1/users/**", "host: *.example.com", "ip: private 192.0.2.0/30", "header.X-Plan: gold*", "method: POST")}},
	} {
		if !m.Matches(f) {
			t.Fatal("no match")
		}
		if n := testing.AllocsPerRun(100, func() { m.Matches(f) }); n != 0 {
			t.Errorf("a match allocates %v times", n)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	f := factsOf(b, "POST", "api.example.com", "/v1/users/7/exports", "X-Plan", "gold")
	for name, m := range map[string]*Match{
		"pattern": matchOf(b, "POST /v1/users/:id/exports"),
		"none":    matchOf(b, "/v2/**"),
		"map":     {Any: []Clause{clause(b, "path: /v1/users/**", "host: *.example.com", "ip: 192.0.2.0/30", "header.X-Plan: gold*")}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Matches(f)
			}
		})
	}
}
