package rules

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"pgregory.net/rapid"

	"gateway/limit"
)

// linear is what an index is held to: each match is asked in its turn.
type linear []*Match

// take returns the matches that take the request, the segment that each calls id,
// and what is wrong with the query if one has asked for it.
func (l linear) take(f *Facts) (owners []int, ids []string, err error) {
	for i, m := range l {
		if m.Matches(f) {
			owners, ids = append(owners, i), append(ids, m.capture(f, "id"))
		}
	}
	return owners, ids, f.QueryError()
}

// first returns the first match that takes the request, or -1.
func (l linear) first(f *Facts) (owner int, err error) {
	for i, m := range l {
		if m.Matches(f) {
			return i, f.QueryError()
		}
	}
	return -1, f.QueryError()
}

// take does with an index what linear.take does.
func (x *index) take(f *Facts) (owners []int, ids []string, err error) {
	last := int32(-1)
	for _, n := range x.find(f) {
		if w := &x.ways[n]; w.owner != last && w.matches(f) {
			last = w.owner
			owners, ids = append(owners, int(last)), append(ids, w.capture(f, "id"))
		}
	}
	return owners, ids, f.QueryError()
}

// Few words, so that what is drawn meets.
var (
	drawnHosts   = []string{"a.example", "b.example", "x.a.example", "a.b.example", "example", "[::1]", "192.0.2.1"}
	drawnGlobs   = []string{"a.example", "b.example", "*.example", "*.a.example", "x.*", "*a*", "*", "[::1]", "*.b.example"}
	drawnMethods = []string{"GET", "HEAD", "POST", "PUT", "M-SEARCH"}
	drawnValues  = []string{"1", "2", "3", "1, 2", "gold", "1*", "*", "*d"}
	drawnAddrs   = []string{
		"192.0.2.1", "192.0.2.0/24", "192.0.2.128/25", "0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "255.255.255.255", "128.0.0.0/1",
		"2001:db8::/32", "2001:db8::1", "::/0", "::1", "::ffff:0:0/96", "fe80::/10", "private",
	}
	drawnNames = []string{"header.X-A", "header.X-B", "query.a", "query.b", "cookie.a", "jwt.a", "basic.username"}
	drawnPaths = []string{
		"/", "//", "/a", "/a/", "//a", "/./a", "/a/../b", "/%61", "/a%2Fb", "/a%252Fb", "/a/b/c", "/b/a", "/ab", "/a;b", "/a/%3Aid", "/*", "/**",
		"/a/**", "/c/*/d", "/é", "/a/b/c/d/e", "/b//c", "/%2e/a", "/*a", "/ba", "/A/b", "/a;x/B", "/;x/a", "/É",
	}
	drawnSegments = []string{"a", "b", "c", "B", "c;a", "*", ":id", ":x", "a%2Fb", "%2A", "%3Aid"}
	drawnParts    = []string{"a*", "*a", "*b*", "a*b", "A*;b"} // in a map only
	drawnRegexps  = []string{
		"/a", "/a/.*", "/[ab]+", "/a/(b|c)", "(?i)/A.*", ".*", "/a/b/[^/]*", "/a|/b/.*", "/a%2Fb", "^/ab?$", "/(a/)?b", "/A/.*",
	}
)

func drawPath(t *rapid.T, segments []string) string {
	segs := rapid.SliceOfNDistinct(rapid.SampledFrom(segments), 0, 4, rapid.ID).Draw(t, "segments")
	if rapid.Bool().Draw(t, "rest") {
		segs = append(segs, "**")
	}
	return "/" + strings.Join(segs, "/")
}

func drawPattern(t *rapid.T) *Pattern {
	text := drawPath(t, drawnSegments)
	if rapid.IntRange(0, 2).Draw(t, "with host") == 0 {
		host := rapid.SampledFrom(drawnGlobs).Draw(t, "host")
		if host != "*" && host != "*a*" {
			text = host + text
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "with method") == 0 {
		text = rapid.SampledFrom(drawnMethods).Draw(t, "method") + " " + text
	}
	p, err := ParsePattern(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

func draws[T any](t *rapid.T, what string, from []string, parse func(string) (T, *TextError)) []T {
	var all []T
	for _, text := range rapid.SliceOfNDistinct(rapid.SampledFrom(from), 1, 3, rapid.ID).Draw(t, what) {
		v, err := parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all = append(all, v)
	}
	return all
}

func drawGroup(t *rapid.T) InGroup {
	text := rapid.SampledFrom([]string{"ip", "header.X-A", "query.a", "cookie.a"}).Draw(t, "attribute of a group")
	a, err := ParseAttribute(text)
	if err != nil {
		t.Fatal(err)
	}
	b, values := newValueSetBuilder(a), drawnValues
	if a.IsIP() {
		values = drawnAddrs
	}
	for _, text := range rapid.SliceOfNDistinct(rapid.SampledFrom(values), 1, 3, rapid.ID).Draw(t, "members") {
		if err := b.add(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return InGroup{group: &Group{Members: []Members{{Attribute: a, values: b.done()}}}}
}

func drawClause(t *rapid.T) Clause {
	var c Clause
	if rapid.IntRange(0, 2).Draw(t, "as a pattern") > 0 {
		c.Pattern = drawPattern(t)
		return c
	}
	some := func(what string) bool { return rapid.IntRange(0, 2).Draw(t, what) == 0 }
	if some("with paths") {
		for range rapid.IntRange(1, 3).Draw(t, "paths") {
			p, err := ParsePathPattern(drawPath(t, slices.Concat(drawnSegments, drawnParts)))
			if err != nil {
				t.Fatal(err)
			}
			if some("as a regular expression") {
				if p, err = ParsePathRegexp(rapid.SampledFrom(drawnRegexps).Draw(t, "regexp")); err != nil {
					t.Fatal(err)
				}
			}
			c.Paths = append(c.Paths, p)
		}
	}
	if some("with methods") {
		c.Methods = draws(t, "methods", drawnMethods, ParseMethod)
	}
	if some("with hosts") {
		c.Hosts = draws(t, "hosts", drawnGlobs, ParseHostGlob)
	}
	if some("with addresses") {
		c.IP = NewPrefixes(slices.Concat(draws(t, "addresses", drawnAddrs, ParsePrefix)...))
	}
	if some("with groups") {
		for range rapid.IntRange(1, 2).Draw(t, "groups") {
			c.Groups = append(c.Groups, drawGroup(t))
		}
	}
	if some("with not") {
		c.Not = &Match{Any: []Clause{drawClause(t)}}
	}
	for range rapid.IntRange(0, 2).Draw(t, "values") {
		a, err := ParseAttribute(rapid.SampledFrom(drawnNames).Draw(t, "attribute"))
		if err != nil {
			t.Fatal(err)
		}
		c.Values = append(c.Values, Is{Attribute: a, Globs: draws(t, "globs", drawnValues, ParseGlob)})
	}
	return c
}

func drawMatches(t *rapid.T) []*Match {
	matches := make([]*Match, rapid.IntRange(0, 40).Draw(t, "matches"))
	loose := rapid.Bool().Draw(t, "paths are loose")
	for i := range matches {
		if rapid.IntRange(0, 20).Draw(t, "everything") == 0 {
			continue
		}
		matches[i] = &Match{}
		for range rapid.IntRange(0, 3).Draw(t, "clauses") {
			matches[i].Any = append(matches[i].Any, drawClause(t))
		}
		if loose {
			matches[i] = matches[i].loosened()
		}
	}
	return matches
}

func drawFacts(t *rapid.T) *Facts {
	f := &Facts{
		Method: rapid.SampledFrom(append(drawnMethods, "get", "")).Draw(t, "method"),
		Host:   rapid.SampledFrom(append(drawnHosts, "", ".", "..example")).Draw(t, "host"),
		Header: http.Header{},
	}
	sent := rapid.SampledFrom(drawnPaths).Draw(t, "path")
	if rapid.Bool().Draw(t, "odd path") {
		sent = "/" + rapid.StringOfN(rapid.SampledFrom([]rune("/ab.%2Fe;*:")), 0, 8, -1).Draw(t, "sent")
	}
	f.Path = sent // what the front door never lets in must do no harm either
	if normal, err := NormalPath(sent); err == nil && rapid.IntRange(0, 9).Draw(t, "as sent") > 0 {
		f.Path = normal
	}
	if text := rapid.SampledFrom([]string{
		"", "192.0.2.1", "192.0.2.129", "10.1.2.3", "255.255.255.255", "::1", "2001:db8::1", "2001:db8::2", "::ffff:10.1.2.3", "fe80::1%eth0",
	}).Draw(t, "client"); text != "" {
		f.Client = netip.MustParseAddr(text)
	}
	values := []string{"", " ", "1", "2", "3", "gold", "bad"}
	for _, name := range []string{"X-A", "X-B"} {
		if lines := rapid.SliceOfN(rapid.SampledFrom(values), 0, 2).Draw(t, name); len(lines) > 0 {
			f.Header[name] = lines
		}
	}
	if v := rapid.SampledFrom([]string{"", "a=1", "b=2; a=3", "a", `a="1"`}).Draw(t, "cookie"); v != "" {
		f.Header["Cookie"] = []string{v}
	}
	f.verifier, f.Now = drawnVerifier(), limit.InstantOf(tokenTime)
	if v := rapid.SampledFrom(drawnCredentials()).Draw(t, "credentials"); v != "" {
		f.Header["Authorization"] = []string{v}
	}
	f.RawQuery = rapid.SampledFrom([]string{"", "a=1", "b=2&a=3", "a=%31", "a", "a=%zz", "b=2&c=%", strings.Repeat("a=1&", maxPairs+1)}).Draw(t, "query")
	return f
}

// anew returns the facts of the same request, of which nothing has been read yet.
func (f *Facts) anew() *Facts {
	return &Facts{Method: f.Method, Host: f.Host, Path: f.Path, RawQuery: f.RawQuery, Client: f.Client, Header: f.Header, verifier: f.verifier, Now: f.Now}
}

var drawnVerifier = sync.OnceValue(func() *verifier {
	j := &JWT{Setting: "secret", Source: Secret{value: new("0123456789abcdef0123456789abcdef")}}
	keys, _ := j.keys()
	return &verifier{keys: keys, claims: []string{"a"}, parser: newParser()}
})

var drawnCredentials = sync.OnceValue(func() []string {
	all := []string{"", "Bearer x", "Basic Z29sZDp4", "Basic MTp4"}
	for _, a := range []any{"1", "2", "gold", "", nil, 3} {
		token, _ := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"a": a}).SignedString([]byte("0123456789abcdef0123456789abcdef"))
		all = append(all, "Bearer "+token)
	}
	return all
})

// An index finds exactly what asking each match in its turn finds, in that order,
// with the same captures, and looks at the query of the same requests.
func anIndexFindsWhatAskingAllFinds(t *rapid.T) {
	matches := drawMatches(t)
	all := linear(matches)
	x := newIndexOf(matches, rapid.SampledFrom([]int{1, 2, fewWays}).Draw(t, "few"))
	for range 8 {
		f := drawFacts(t)
		owners, ids, err := all.take(f.anew())
		gotOwners, gotIDs, gotErr := x.take(f.anew())
		if !slices.Equal(gotOwners, owners) || !slices.Equal(gotIDs, ids) || gotErr != err {
			t.Fatalf("of %+v:\n got %v %q %v\nwant %v %q %v", f, gotOwners, gotIDs, gotErr, owners, ids, err)
		}
		g := f.anew()
		got := x.first(g)
		if want, err := all.first(f.anew()); got != want || g.QueryError() != err {
			t.Fatalf("of %+v: first %d, %v; want %d, %v", f, got, g.QueryError(), want, err)
		}
	}
}

func TestAnIndexFindsWhatAskingAllFinds(t *testing.T) { rapid.Check(t, anIndexFindsWhatAskingAllFinds) }

func FuzzAnIndexFindsWhatAskingAllFinds(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(anIndexFindsWhatAskingAllFinds))
}

// many are long lists of rules that differ by one thing, and a request that two
// of them take, the first and number 3.
var many = []struct {
	name  string
	match func(i int) string
	ask   func(f *Facts)
}{
	{"path", func(i int) string { return fmt.Sprintf("/api/v1/res-%05d/**", i) }, func(f *Facts) { f.Path = "/api/v1/res-00003/x" }},
	{"path with names", func(i int) string { return fmt.Sprintf("GET /api/:v/res-%05d/:id", i) }, func(f *Facts) { f.Path = "/api/v1/res-00003/7" }},
	{"host", func(i int) string { return fmt.Sprintf("t%05d.example.com/**", i) }, func(f *Facts) { f.Host = "t00003.example.com" }},
	{"names below a host", func(i int) string { return fmt.Sprintf(`"*.t%05d.example.com/v1/**"`, i) }, func(f *Facts) {
		f.Host, f.Path = "x.t00003.example.com", "/v1/a"
	}},
	{"header", func(i int) string { return fmt.Sprintf("{ header.X-Tenant: t%05d }", i) }, func(f *Facts) { f.Header.Set("X-Tenant", "t00003") }},
	{"cookie", func(i int) string { return fmt.Sprintf("{ path: /a/**, header.Cookie: plan=%05d }", i) }, func(f *Facts) {
		f.Path = "/a"
		f.Header.Set("Cookie", "plan=00003")
	}},
	{"address", func(i int) string { return fmt.Sprintf("{ ip: 10.%d.%d.0/24 }", i/250, i%250) }, func(f *Facts) {
		f.Client = netip.MustParseAddr("10.0.3.9")
	}},
	{"host and path", func(i int) string { return fmt.Sprintf("t%03d.example.com/p%03d", i/100, i%100) }, func(f *Facts) {
		f.Host, f.Path = "t000.example.com", "/p003"
	}},
	{"tenant and path", func(i int) string {
		return fmt.Sprintf("{ header.X-Tenant: [t%03d, u%03d], path: /p%03d }", i/100, i/100, i%100)
	}, func(f *Facts) {
		f.Header.Set("X-Tenant", "u000")
		f.Path = "/p003"
	}},
}

// manyRules writes a file of n rules that differ by match; the first has none.
func manyRulesOf(n int, match func(int) string) string {
	var b strings.Builder
	b.WriteString("upstream: http://a\nrules:\n  - { name: per-ip, limit: 100/m }\n")
	for i := range n - 1 {
		fmt.Fprintf(&b, "  - { name: r-%05d, match: %s, limit: 100/m }\n", i, match(i))
	}
	return b.String()
}

func TestOfManyRulesOnlyThoseThatMayApplyAreAsked(t *testing.T) {
	for _, m := range many {
		s := compile(t, manyRulesOf(2000, m.match), nil)
		f := request("192.0.2.1")
		m.ask(f)
		hits := s.Match(f, nil)
		if len(hits) != 2 || hits[0].Rule.Name != "per-ip" || hits[1].Rule.Name != "r-00003" {
			t.Errorf("%s: hits %v", m.name, hits)
		}
		if n := len(s.byRule.find(f)); n > 2 {
			t.Errorf("%s: %d rules of 2000 are asked; 2 apply", m.name, n)
		}
		if n := testing.AllocsPerRun(100, func() { hits = s.Match(f, hits[:0]) }); n != 0 {
			t.Errorf("%s: a match allocates %v times", m.name, n)
		}
	}
}

func TestOfManyRoutesTheFirstIsTaken(t *testing.T) {
	var b strings.Builder
	b.WriteString("upstreams: { a: http://a, b: http://b }\nrules: []\nroutes:\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "  - { match: /r/%d/**, upstream: a }\n  - { match: [/r/%d, /s/%d], upstream: b }\n", i, i, i)
	}
	s := compile(t, b.String(), nil)
	for path, want := range map[string]string{"/r/2999": "a", "/r/7/x": "a", "/s/7": "b", "/s/7/x": "", "/": ""} {
		f := request("192.0.2.1")
		f.Path = path
		got := ""
		if r := s.Route(f); r != nil {
			got = r.Upstream
		}
		if n := len(s.byRoute.find(f)); got != want || n > 2 {
			t.Errorf("%s goes to %q after %d routes were asked, want %q", path, got, n, want)
		}
	}
}

func TestALongListOfExemptAndBlockedIsIndexedToo(t *testing.T) {
	var b strings.Builder
	b.WriteString("upstream: http://a\nrules: [{ name: a, limit: 1/m }]\nexempt:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "  - /e/%d\n", i)
	}
	b.WriteString("block:\n  - path: [/x")
	for i := range 1000 {
		fmt.Fprintf(&b, ", /b/%d/**", i)
	}
	b.WriteString("]\n    ip: 192.0.2.0/24\n")
	s := compile(t, b.String(), nil)
	for path, want := range map[string][2]bool{"/e/9": {true, false}, "/b/999/c": {false, true}, "/x": {false, true}, "/b/1000": {}} {
		f := request("192.0.2.1")
		f.Path = path
		if got := [2]bool{s.Exempt(f), s.Blocked(f)}; got != want {
			t.Errorf("%s: exempt and blocked %v, want %v", path, got, want)
		}
		if n := len(s.exempt.find(f)) + len(s.block.find(f)); n > 1 {
			t.Errorf("%s: %d alternatives are asked", path, n)
		}
	}
	f := request("198.51.100.1")
	f.Path = "/x"
	if s.Blocked(f) {
		t.Error("another address is blocked")
	}
}

func TestRangesAreTheirPrefixes(t *testing.T) {
	for _, tt := range []struct{ ranges, want string }{
		{"192.0.2.0/24", "192.0.2.0/24"},
		{"192.0.2.0/25 192.0.2.128/25", "192.0.2.0/24"},
		{"192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4", "192.0.2.1/32 192.0.2.2/31 192.0.2.4/32"},
		{"0.0.0.0/0", "0.0.0.0/0"},
		{"255.255.255.254/31", "255.255.255.254/31"},
		{"::/1 8000::/1", "::/0"},
		{"2001:db8::/33 2001:db8:8000::/34", "2001:db8::/33 2001:db8:8000::/34"},
	} {
		var got []string
		for _, s := range prefixes(t, tt.ranges).spans {
			for _, p := range s.prefixes() {
				got = append(got, p.String())
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", tt.ranges, got, tt.want)
		}
	}
}

func BenchmarkManyRules(b *testing.B) {
	for _, m := range many {
		for _, n := range []int{10, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(m.name, " ", "-"), n), func(b *testing.B) {
				s := compile(b, manyRulesOf(n, m.match), nil)
				f := request("192.0.2.1")
				m.ask(f)
				var hits []Hit
				b.ReportAllocs()
				for b.Loop() {
					hits = s.Match(f, hits[:0])
				}
				if len(hits) != 2 {
					b.Fatalf("%d hits", len(hits))
				}
			})
		}
	}
}
