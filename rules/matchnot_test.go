package rules

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

const matchHead = "upstream: http://a\ngroups:\n  office: { ip: 192.0.2.0/24 }\n  vip: { header.X-Plan: gold }\nrules: [{name: a, limit: 1/s, match: "

func TestAMatchCanExcludeAndNameGroups(t *testing.T) {
	for _, tt := range []struct {
		match  string
		want   string // which of the requests below it takes
		broken bool   // their query is broken, and that matters
	}{
		{"{group: office}", "office-get office-post", false},
		{"{group: [office, vip]}", "office-get office-post vip", false},
		{"{group: office, method: POST}", "office-post", false},
		{"[{group: vip}, POST /a]", "office-post vip", false},
		{"{not: {group: office}}", "vip nobody query cookie", false},
		{"{not: {group: [office, vip]}}", "nobody query cookie", false},
		{"{not: [{group: office}, {group: vip}, {path: /q}]}", "nobody cookie", false},
		{"{not: GET /a}", "office-post query cookie", false},
		{"{path: /a, not: {group: office, method: POST}}", "office-get vip nobody", false},
		{"{not: {not: {group: office}}}", "office-get office-post", false},
		{"{not: {header.X-Plan: \"*\"}}", "office-get office-post nobody query cookie", false},
		{"{query.page: \"1\"}", "query", true},
		{"{query.page: [\"2\", \"1*\"]}", "query", true},
		{"{query.page: \"2\"}", "", true},
		{"{path: /q, not: {query.page: \"1\"}}", "", false}, // only /q has its query read
		{"{cookie.plan: gold}", "cookie", false},
		{"{not: {cookie.plan: \"*\"}}", "office-get office-post vip nobody query", false},
	} {
		s := compile(t, matchHead+tt.match+"}]\n", nil)
		got := ""
		for _, r := range []struct{ name, method, path, addr, header, value, query string }{
			{"office-get", "GET", "/a", "192.0.2.1", "", "", ""},
			{"office-post", "POST", "/a", "192.0.2.1", "", "", ""},
			{"vip", "GET", "/a", "203.0.113.1", "X-Plan", "gold", ""},
			{"nobody", "GET", "/a", "203.0.113.1", "", "", ""},
			{"query", "GET", "/q", "203.0.113.1", "", "", "page=1"},
			{"cookie", "GET", "/c", "203.0.113.1", "Cookie", "plan=gold", ""},
		} {
			f := request(r.addr)
			f.Method, f.Path, f.RawQuery = r.method, r.path, r.query
			if r.header != "" {
				f.Header[r.header] = []string{r.value}
			}
			if len(s.Match(f, nil)) > 0 {
				if got != "" {
					got += " "
				}
				got += r.name
			}
			if f.QueryError() != nil {
				t.Errorf("%s: %v", tt.match, f.QueryError())
			}
		}
		if got != tt.want {
			t.Errorf("%s takes %q, want %q", tt.match, got, tt.want)
		}
		f := request("203.0.113.1")
		f.RawQuery = "page=%zz"
		s.Match(f, nil)
		if broken := f.QueryError() != nil; broken != tt.broken {
			t.Errorf("%s: a broken query is an error: %v, want %v", tt.match, broken, tt.broken)
		}
	}
}

func TestRoutesExemptAndBlockTakeGroups(t *testing.T) {
	s := compile(t, `
upstreams: { a: http://a, b: http://b }
groups: { office: { ip: 192.0.2.0/24 }, bad: { header.User-Agent: "*bot*" } }
routes: [{ match: { group: office }, upstream: b }, { upstream: a }]
exempt: { group: office }
block: [{ group: bad, not: { group: office } }]
rules: [{name: all, limit: 1/s}]
`, nil)
	for _, tt := range []struct {
		addr, agent     string
		route           string
		blocked, exempt bool
	}{
		{"192.0.2.1", "x", "b", false, true},
		{"192.0.2.1", "a bot", "b", false, true},
		{"203.0.113.1", "a bot", "a", true, false},
		{"203.0.113.1", "x", "a", false, false},
	} {
		f := request(tt.addr)
		f.Header["User-Agent"] = []string{tt.agent}
		if r := s.Route(f); r.Upstream != tt.route || s.Blocked(f) != tt.blocked || s.Exempt(f) != tt.exempt || (len(s.Match(f, nil)) == 0) != tt.exempt {
			t.Errorf("%s, %s: route to %s, blocked %v, exempt %v", tt.addr, tt.agent, r.Upstream, s.Blocked(f), s.Exempt(f))
		}
	}
}

func TestNotAndGroupsCoverEachOther(t *testing.T) {
	for _, tt := range []struct {
		m, n string
		want bool
	}{
		{"{group: office}", "{group: office}", true},
		{"{group: [office, vip]}", "{group: office}", true},
		{"{group: office}", "{group: [office, vip]}", false},
		{"{group: office}", "/a", false},
		{"/**", "{group: office}", true},
		{"{not: /a}", "{not: /a/**}", true},
		{"{not: /a/**}", "{not: /a}", false},
		{"{not: /a}", "/**", false},
		{"/**", "{not: /a}", true},
		{"{not: {group: office}}", "{not: {group: [office, vip]}}", true},
	} {
		m, n := compile(t, matchHead+tt.m+"}]\n", nil).Rules[0].match, compile(t, matchHead+tt.n+"}]\n", nil).Rules[0].match
		if got := m.Covers(n); got != tt.want {
			t.Errorf("%s covers %s: %v", tt.m, tt.n, got)
		}
	}
}

// A match that covers another takes whatever that one takes, and one that can
// take nothing takes nothing.
func TestCoversAndNeverHoldForAnyMatch(t *testing.T) {
	groups := groupSet{}
	for name, glob := range map[string]string{"a": "a*", "b": "*b"} {
		b := newValueSetBuilder(Attribute{kind: kindHeader, name: "X"})
		if err := b.add(glob); err != nil {
			t.Fatal(err)
		}
		groups[name] = &Group{Name: name, Members: []Members{{Attribute: b.attribute, values: b.done()}}}
	}
	paths, methods := []string{"/a", "/a/b", "/**", "/a/**", "/*"}, []string{"GET", "HEAD", "POST"}
	var draw func(r *rapid.T, depth int) *Match
	draw = func(r *rapid.T, depth int) *Match {
		m := &Match{}
		for range rapid.IntRange(1, 2).Draw(r, "clauses") {
			var c Clause
			if rapid.Bool().Draw(r, "path") {
				c.Paths = append(c.Paths, pathPattern(t, rapid.SampledFrom(paths).Draw(r, "path")))
			}
			if rapid.Bool().Draw(r, "method") {
				c.Methods = append(c.Methods, rapid.SampledFrom(methods).Draw(r, "method"))
			}
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b"}), 0, 2, rapid.ID).Draw(r, "groups") {
				c.Groups = append(c.Groups, InGroup{Name: name})
			}
			if depth > 0 && rapid.Bool().Draw(r, "not") {
				c.Not = draw(r, depth-1)
			}
			m.Any = append(m.Any, c)
		}
		return m
	}
	var all []*Facts
	for _, path := range []string{"/", "/a", "/a/b", "/c"} {
		for _, method := range methods {
			for _, x := range []string{"", "a", "b", "ab", "c"} {
				f := request("192.0.2.1")
				f.Method, f.Path, f.Header["X"] = method, path, []string{x}
				all = append(all, f)
			}
		}
	}
	covered := 0
	rapid.Check(t, func(r *rapid.T) {
		m, n := draw(r, 2), draw(r, 2)
		covers, never := m.Covers(n), m.Never() != ""
		if covers {
			covered++
		}
		bound, other := m.bind(groups), n.bind(groups)
		for _, f := range all {
			if what := fmt.Sprintf("%s %s with X: %s", f.Method, f.Path, f.Header["X"]); covers && other.Matches(f) && !bound.Matches(f) {
				r.Fatalf("covers, and does not take %s, which the other takes", what)
			} else if never && bound.Matches(f) {
				r.Fatalf("can take nothing (%s), and takes %s", m.Never(), what)
			}
		}
	})
	if covered == 0 {
		t.Error("no match covered another; the test shows nothing")
	}
}
