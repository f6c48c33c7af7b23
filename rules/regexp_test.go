package rules

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func pathRegexp(t testing.TB, text string) *Pattern {
	t.Helper()
	p, err := ParsePathRegexp(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

func TestARegularExpressionTakesWholePathsInTheirNormalForm(t *testing.T) {
	for _, tt := range []struct {
		regex, path string
		want        bool
	}{
		{"/users/[0-9]+", "/users/17", true},
		{"/users/[0-9]+", "/users/17/", true},
		{"/users/[0-9]+", "//users/./17", true},
		{"/users/[0-9]+", "/%75sers/%31", true},
		{"/users/[0-9]+", "/users/17/x", false},
		{"/users/[0-9]+", "/a/users/17", false},
		{"/users/[0-9]+", "/users/1a", false},
		{"/users/[0-9]+", "/USERS/17", false},
		{"(?i)/users/[0-9]+", "/USERS/17", true},
		{"^/users/[0-9]+$", "/users/17", true},
		{"/a|/b/.*", "/a", true},
		{"/a|/b/.*", "/b/c", true},
		{"/a|/b/.*", "/a/c", false},    // both are whole paths, not a beginning and an end
		{"/a|/b/.*", "/x/b/c", false},  //
		{"/a/.*", "/a/x%0Ay", true},    // a line break does not lead past it
		{"/a/.+", "/a/%0A", true},      //
		{"/a$", "/a%0A", false},        // nor is it the end of the path
		{"(?m)/a$", "/a%0Ab", false},   //
		{"/a[^/]b", "/a%2Fb", false},   // which stays a code: three characters
		{"/a%2Fb", "/a%2fb", true},     //
		{"/é+", "/%C3%A9%C3%A9", true}, //
		{".*", "/", true},
		{"/", "/", true},
		{"/", "/a", false},
	} {
		f := factsOf(t, "GET", "h", tt.path)
		if got := pathRegexp(t, tt.regex).Matches(f); got != tt.want {
			t.Errorf("%s takes %s: %v, want %v", tt.regex, tt.path, got, tt.want)
		}
	}
}

// What the text says ends where it ends: it cannot close the brackets that hold it
// to the whole of a path.
func TestARegularExpressionCannotEscapeItsAnchors(t *testing.T) {
	for _, text := range []string{"/a)|(?:.*", "/a)(", `/a\`, "/[a", "/a(?i", "/a(?P<n>"} {
		if p, err := ParsePathRegexp(text); err == nil {
			t.Errorf("%s is accepted as %v", text, p.re)
		}
	}
}

func TestRegularExpressionsAreBounded(t *testing.T) {
	for text, good := range map[string]bool{
		"/[a-z]{1000}":                                        true,
		"/([a-z]{10}){100}":                                   true,
		"/[a-z]{1000}-[0-9]{1000}":                            false,
		"/(a{30}b{30}){30}":                                   true,
		"/" + strings.Repeat("x", 4000):                       false,
		"/" + strings.Repeat(`\pL`, 100):                      false,
		"/" + strings.Repeat("(", 999) + "a":                  false,
		strings.Repeat("(", 1200) + strings.Repeat(")", 1200): false,
	} {
		if _, err := ParsePathRegexp(text); (err == nil) != good {
			t.Errorf("%.40s: %v, want good %v", text, err, good)
		}
	}
	var b strings.Builder
	b.WriteString("upstream: http://a\nrules:\n")
	for i := range maxRegexps/1000 + 1 {
		fmt.Fprintf(&b, "  - { name: r%d, limit: 1/m, match: { path: { regex: \"/x%d/[a-z]{990}\" } } }\n", i, i)
	}
	if _, err := Parse("gateway.yaml", []byte(b.String())); err == nil || !strings.Contains(err.Error(), "too large together") {
		t.Errorf("so many regular expressions are accepted: %v", err)
	}
}

func TestAMatchTakesPatternsBesideRegularExpressions(t *testing.T) {
	s := compile(t, oneRule(`limit: 1/m, match: { path: [/plain/**, { regex: "/v[0-9]+/x" }], method: POST }`), nil)
	for _, tt := range []struct {
		method, path string
		want         bool
	}{{"POST", "/plain/a", true}, {"POST", "/v12/x", true}, {"GET", "/v12/x", false}, {"POST", "/v/x", false}} {
		if got := len(s.Match(factsOf(t, tt.method, "h", tt.path), nil)) == 1; got != tt.want {
			t.Errorf("%s %s: %v, want %v", tt.method, tt.path, got, tt.want)
		}
	}
	if why := s.Rules[0].match.WhyNot(factsOf(t, "POST", "h", "/v/x")); why != "path /v/x is not /plain/** or { regex: /v[0-9]+/x }" {
		t.Errorf("why not: %s", why)
	}
}

// One that begins with plain segments is found by them, like a pattern.
func TestAnIndexFindsRegularExpressionsByTheirPlainBeginning(t *testing.T) {
	s := compile(t, manyRulesOf(100, func(i int) string { return fmt.Sprintf(`{ path: { regex: "/api/res-%05d/[0-9]+" } }`, i) }), nil)
	f := factsOf(t, "GET", "h", "/api/res-00003/7")
	if hits := s.Match(f, nil); len(hits) != 2 || hits[1].Rule.Name != "r-00003" {
		t.Errorf("hits %v", hits)
	}
	if n := len(s.byRule.find(f)); n != 2 {
		t.Errorf("%d rules of 100 are asked; 2 may apply", n)
	}
	var hits []Hit
	if n := testing.AllocsPerRun(100, func() { hits = s.Match(f, hits[:0]) }); n != 0 {
		t.Errorf("a match allocates %v times", n)
	}
}

// What the index takes for the beginning of all paths of an expression is one.
func TestEveryPathOfARegularExpressionIsWithinItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		atoms := rapid.SampledFrom([]string{"/", "a", "b", "/a/", "[ab]", "a?", "(a|/b)", "b*", "/+", "(?i:a)", "^", "$", "|", "."})
		text := "/" + strings.Join(rapid.SliceOfN(atoms, 0, 6).Draw(t, "atoms"), "")
		p, err := ParsePathRegexp(text)
		if err != nil {
			t.Skip(err.Error())
		}
		bound := &Pattern{segs: p.segs, rest: true}
		path := "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "ba", "A"}), 0, 4).Draw(t, "path"), "/")
		takes := regexp.MustCompile(`^(?s:`+text+`)$`).FindString(path) == path && regexp.MustCompile(`\A(?s:`+text+`)\z`).MatchString(path)
		if got := p.matchesPath(path); got != takes {
			t.Fatalf("%s takes %s: %v, want %v", text, path, got, takes)
		}
		if takes && !bound.matchesPath(path) {
			t.Fatalf("%s takes %s, which is not below %v", text, path, p.segs)
		}
	})
}

func FuzzPathRegexp(f *testing.F) {
	for _, text := range append(drawnRegexps, "/users/(?P<id>[0-9]+)", "*", "/a{2,1000}", `/\pL+`, "/(?!x)", "") {
		f.Add(text, "/a/b")
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		p, err := ParsePathRegexp(text)
		normal, bad := NormalPath(path)
		if err != nil || bad != nil {
			return
		}
		facts := &Facts{Method: "GET", Path: normal}
		taken := p.Matches(facts)
		if bound := (&Pattern{segs: p.segs, rest: true}); taken && !bound.matchesPath(normal) {
			t.Fatalf("%q takes %q outside its bound", text, normal)
		}
		x := newIndexOf([]*Match{{Any: []Clause{{Paths: []*Pattern{p}}}}}, 0)
		if found := x.first(facts) == 0; found != taken {
			t.Fatalf("%q takes %q: %v, but the index says %v", text, normal, taken, found)
		}
		p.loosened().Matches(facts)
	})
}
