package rules

import (
	"errors"
	"strings"
	"testing"
)

func TestLoosePaths(t *testing.T) {
	for sent, want := range map[string]string{
		"/login":             "/login",
		"/LOGIN":             "/login",
		"/Login/":            "/login",
		"/login;v=1":         "/login",
		"/login%3Bv=1":       "/login",
		"/login;v=1/x;y=2":   "/login/x",
		"/;x/login":          "/login",
		"/a/;x=1/login":      "/a/login",
		"//LOGIN;":           "/login",
		"/a/../Login":        "/login",
		"/%4Cogin":           "/login",
		"/ÉCOLE":             "/école",
		"/%C3%89cole":        "/école",
		"/K":                 "/k",
		"/a%2Fb":             "/a%2fb",
		"/":                  "/",
		"":                   "/",
		"/;jsessionid=1":     "/",
		"/a;b=../x":          "/a/x",
		"/users/:ID/exports": "/users/:id/exports",
	} {
		if got, err := LoosePath(sent); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", sent, got, err, want)
		}
	}
	for sent, want := range map[string]error{
		"/a/;x/../login": errPathTwoWays, // "/a/login" here, "/login" where segments are cut first
		"/a/..;/login":   errPathHidden,
		"/a//../b":       errPathTwoWays,
		"/%zz":           errPathCode,
		"a":              errPathRelative,
	} {
		if _, err := LoosePath(sent); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", sent, err, want)
		}
	}
}

const looseFile = `
paths: loose
upstreams: { a: http://a, b: http://b }
routes:
  - { match: /login, upstream: a }
  - { upstream: b }
exempt: /free
block: /kept-out
rules:
  - { name: login, match: POST /Login, limit: 5/m }
  - { name: user, match: /Users/:id, key: path.id, limit: 5/m }
  - { name: files, match: { path: /files/*.PDF }, limit: 5/m }
  - { name: numbers, match: { path: { regex: "/N/[A-F]+" } }, limit: 5/m }
  - { name: others, match: { not: { path: [/LOGIN, "/users/**", "/files/**", "/n/**"] } }, key: path, limit: 5/m }
  - { name: costly, match: /cost/**, cost: { /Cost/MORE: 3 }, limit: 5/m }
`

// What refuses is loose, what lets pass is not.
func TestLoosePathsAreForRulesAndBlock(t *testing.T) {
	s := compile(t, looseFile, nil)
	for _, tt := range []struct{ path, rules, route string }{
		{"/login", "login", "a"},
		{"/LOGIN", "login", "b"},
		{"/login;x=1", "login", "b"},
		{"/LogIn/", "login", "b"},
		{"/users/7;v=2", "user", "b"},
		{"/FILES/x.pdf", "files", "b"},
		{"/files/x;y.pdf", "", "b"}, // /files/x, for such an upstream
		{"/n/abc;z", "numbers", "b"},
		{"/other", "others", "b"},
		{"/free", "", "b"},
		{"/FREE", "others", "b"}, // exempt is strict
		{"/cost/more", "others costly", "b"},
	} {
		f := factsOf(t, "POST", "h", tt.path)
		var names []string
		for _, h := range s.Match(f, nil) {
			names = append(names, h.Rule.Name)
		}
		if got := strings.Join(names, " "); got != tt.rules {
			t.Errorf("%s: rules %q, want %q", tt.path, got, tt.rules)
		}
		if r := s.Route(f); r == nil || r.Upstream != tt.route {
			t.Errorf("%s: route %+v, want %s", tt.path, r, tt.route)
		}
	}
	for path, want := range map[string]bool{"/kept-out": true, "/Kept-Out": true, "/kept-out;x": true, "/kept": false} {
		if got := s.Blocked(factsOf(t, "GET", "h", path)); got != want {
			t.Errorf("%s is blocked: %v, want %v", path, got, want)
		}
	}
	if cost, _ := s.Rule("costly").CostOf(factsOf(t, "GET", "h", "/COST/more;a")); cost != 3 {
		t.Errorf("cost %d, want 3", cost)
	}
}

// Another spelling of a path must not be another counter either.
func TestKeysOfLoosePathsAreTheirLooseForm(t *testing.T) {
	s := compile(t, looseFile, nil)
	for _, spellings := range [][]string{
		{"/users/ann", "/users/ANN", "/USERS/ann;x=1", "/users/Ann/"},
		{"/other", "/Other", "/OTHER;a=b", "//other/."},
	} {
		first := s.Match(factsOf(t, "GET", "h", spellings[0]), nil)
		for _, spelling := range spellings[1:] {
			if hits := s.Match(factsOf(t, "GET", "h", spelling), nil); len(hits) != 1 || hits[0].Key != first[0].Key {
				t.Errorf("%s has another key than %s", spelling, spellings[0])
			}
		}
		if key, err := s.FindKey(first[0].Rule, []string{strings.TrimPrefix(strings.ToUpper(spellings[0]), "/USERS/")}, false); err != nil || key != first[0].Key {
			t.Errorf("the key of %s is not found by its text: %v", spellings[0], err)
		}
	}
	strict := compile(t, strings.Replace(looseFile, "loose", "strict", 1), nil)
	if n := len(strict.Match(factsOf(t, "POST", "h", "/LOGIN"), nil)); n != 0 {
		t.Errorf("%d rules take /LOGIN with strict paths; the one for others excludes it as written, that for /Login is another", n)
	}
}

func TestOfManyLooseRulesOnlyThoseThatMayApplyAreAsked(t *testing.T) {
	s := compile(t, "paths: loose\n"+manyRulesOf(2000, many[0].match), nil)
	f := factsOf(t, "GET", "h", "/API/v1/Res-00003;a/x")
	if hits := s.Match(f, nil); len(hits) != 2 || hits[1].Rule.Name != "r-00003" {
		t.Errorf("hits %v", hits)
	}
	if n := len(s.byRule.find(f)); n != 2 {
		t.Errorf("%d rules are asked; 2 apply", n)
	}
}

// Whatever is in its loose form stays so, and differs from the strict form in
// nothing but case and parameters.
func FuzzLoosePath(f *testing.F) {
	for _, sent := range append(drawnPaths, "/A;b/../c", "/a;/%2e%2e", "/%3B%3b/x") {
		f.Add(sent)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		loose, err := LoosePath(sent)
		normal, bad := NormalPath(sent)
		if bad != nil && err == nil {
			t.Fatalf("%q is refused (%v) but has the loose form %q", sent, bad, loose)
		}
		if err != nil {
			return
		}
		if strings.ContainsRune(loose, ';') || !strings.HasPrefix(loose, "/") {
			t.Fatalf("%q: %q", sent, loose)
		}
		if again, err := LoosePath(escapePath(loose)); again != loose || err != nil {
			t.Fatalf("%q: %q becomes %q, %v", sent, loose, again, err)
		}
		if !strings.ContainsRune(normal, ';') && foldCase(normal) != loose {
			t.Fatalf("%q: %q, want %q folded", sent, loose, normal)
		}
	})
}
