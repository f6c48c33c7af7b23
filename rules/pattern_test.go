package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pattern parses a pattern that is good.
func pattern(t testing.TB, text string) *Pattern {
	t.Helper()
	p, err := ParsePattern(text)
	if err != nil {
		t.Fatalf("ParsePattern(%q): %v", text, err)
	}
	return p
}

// pathPattern parses a path of a match map that is good.
func pathPattern(t testing.TB, text string) *Pattern {
	t.Helper()
	p, err := ParsePathPattern(text)
	if err != nil {
		t.Fatalf("ParsePathPattern(%q): %v", text, err)
	}
	return p
}

func TestPatternsTakeTheirPathsAndNoOthers(t *testing.T) {
	for _, test := range []struct{ pattern, yes, no string }{
		{"/", "/ // /. /a/..", "/a /a/b"},
		{"/**", "/ /a /a/b/c", ""},
		{"/login", "/login /login/ //login /./login /%6cogin /a/../login", "/LOGIN /login%2f /login;v=1 /logins /login/x / /loginx"},
		{"/login/", "/login /login/", "/login/x"},
		{"//login", "/login //login", "/"},
		{"/%6cogin", "/login /%6cogin", "/%256cogin"},
		{"/exports/**", "/exports /exports/ /exports/a /exports/a/b", "/exportsa / /export"},
		{"/users/*", "/users/7 /users/7/ /users/a%2Fb", "/users /users/7/x"},
		{"/users/:id", "/users/7 /users/a%20b", "/users /users/7/x"},
		{"/users/:id/exports", "/users/7/exports", "/users/7 /users/7/exports/1 /users//exports /users/exports"},
		{"/users/*/exports/**", "/users/7/exports /users/7/exports/1/2", "/users/exports /users/7/export"},
		{"/*", "/a", "/ /a/b"},
		{"/*/**", "/a /a/b", "/"},
		{"/a/*/:x/**", "/a/b/c /a/b/c/d", "/a/b /a"},
		{"/a%2Fb", "/a%2Fb /a%2fb", "/a/b /a%252Fb"},
		{"/a%2fb", "/a%2Fb", "/a/b"},
		{"/%2A", "/* /%2A", "/a"},
		{"/%3Aid", "/:id", "/7"},
		{"/a%20b", "/a%20b", "/a+b"},
		{"/100%25", "/100%25", "/100"},
		{"/é", "/%C3%A9", "/e%CC%81"},
		{"/a;v=1", "/a;v=1", "/a"},
		{"/(a)+$x", "/(a)+$x", "/a"},
	} {
		p := pattern(t, test.pattern)
		for path := range strings.FieldsSeq(test.yes) {
			if !p.Matches(factsOf(t, "GET", "h", path)) {
				t.Errorf("%s does not take %s", test.pattern, path)
			}
		}
		for path := range strings.FieldsSeq(test.no) {
			if p.Matches(factsOf(t, "GET", "h", path)) {
				t.Errorf("%s takes %s", test.pattern, path)
			}
		}
	}
}

func TestPatternsTakeTheirMethodsAndHosts(t *testing.T) {
	for _, test := range []struct {
		pattern, method, host string
		want                  bool
	}{
		{"GET /x", "GET", "h", true},
		{"GET /x", "HEAD", "h", true},
		{"HEAD /x", "GET", "h", false},
		{"HEAD /x", "HEAD", "h", true},
		{"POST /x", "GET", "h", false},
		{"GET /x", "get", "h", false},
		{"PROPFIND  /x", "PROPFIND", "h", true},
		{"M-SEARCH /x", "M-SEARCH", "h", true},
		{"/x", "ANYTHING", "h", true},
		{"api.example.com/x", "GET", "api.example.com", true},
		{"API.Example.com./x", "GET", "api.example.com", true},
		{"api.example.com/x", "GET", "example.com", false},
		{"*.example.com/x", "GET", "api.example.com", true},
		{"*.example.com/x", "GET", "a.b.example.com", true},
		{"*.example.com/x", "GET", "example.com", false},
		{"*.example.com/x", "GET", "evilexample.com", false},
		{"*.example.com/x", "GET", "a.example.com.evil.org", false},
		{"api-*.example.com/x", "GET", "api-eu.example.com", true},
		{"api-*.example.com/x", "GET", "web-eu.example.com", false},
		{"localhost/x", "GET", "localhost", true},
		{"192.0.2.1/x", "GET", "192.0.2.1", true},
		{"[2001:DB8::1]/x", "GET", "[2001:db8::1]", true},
		{"POST api.example.com/x", "POST", "api.example.com", true},
		{"POST api.example.com/x", "POST", "www.example.com", false},
		{"POST api.example.com/x", "GET", "api.example.com", false},
	} {
		if got := pattern(t, test.pattern).Matches(factsOf(t, test.method, test.host, "/x")); got != test.want {
			t.Errorf("%s takes %s %s/x: %v", test.pattern, test.method, test.host, got)
		}
	}
}

func TestPatternRemembersHowItWasWritten(t *testing.T) {
	p := pattern(t, "POST api.example.com/users/:id/:file_name/**")
	if got, want := p.Names(), []string{"id", "file_name"}; !cmp.Equal(got, want) {
		t.Errorf("Names = %v, want %v", got, want)
	}
	if p.String() != "POST api.example.com/users/:id/:file_name/**" || p.Method() != "POST" {
		t.Errorf("String = %q, Method = %q", p.String(), p.Method())
	}
	if got, ok := p.capture("/users/7/a%2Fb/x", "file_name"); !ok || got != "a%2Fb" {
		t.Errorf("file_name = %q, %v", got, ok)
	}
	if got, ok := p.capture("/users/7/a", "x"); ok {
		t.Errorf("x = %q", got)
	}
}

func TestAStarInAPathOfAMapMayBePartOfASegment(t *testing.T) {
	for _, test := range []struct{ path, yes, no string }{
		{"/healthz", "/healthz /healthz/", "/healthz/x"},
		{"/api/*", "/api/a", "/api /api/a/b"},
		{"/files/*.pdf", "/files/a.pdf /files/.pdf", "/files/a.pdfx /files/x/a.pdf /files/a.txt"},
		{"/v*/**", "/v1 /v2/users /v", "/w1 /"},
		{"/a*b*c", "/abc /axbxc /abbc", "/ab /acb"},
		{"/.*", "/.well-known", "/well-known"},
		{"/users/:id/*.json", "/users/7/a.json", "/users/7/a"},
	} {
		p := pathPattern(t, test.path)
		for path := range strings.FieldsSeq(test.yes) {
			if !p.Matches(factsOf(t, "PUT", "h", path)) {
				t.Errorf("%s does not take %s", test.path, path)
			}
		}
		for path := range strings.FieldsSeq(test.no) {
			if p.Matches(factsOf(t, "PUT", "h", path)) {
				t.Errorf("%s takes %s", test.path, path)
			}
		}
	}
}

func TestBadPatternsSayWhatToWrite(t *testing.T) {
	for _, test := range []struct {
		text     string
		off, len int
		want     string
	}{
		{"", 0, 0, `write "/**"`},
		{"*", 0, 1, `write "/**"`},
		{"**", 0, 2, `write "/**"`},
		{"login", 0, 5, `write "/login"`},
		{"users/:id", 0, 5, `write "/users/:id"`},
		{":id/x", 0, 3, `write "/:id/x"`},
		{"POST", 0, 4, `write "POST /**"`},
		{"POST login", 5, 5, `write "POST /login"`},
		{"POST ", 5, 0, `write "POST /**"`},
		{"api.example.com", 0, 15, `or "api.example.com/**" if it is a host`},
		{"http://api.example.com/x", 0, 7, `write "api.example.com/x"`},
		{"GET https://api.example.com/x", 4, 8, `write "GET api.example.com/x"`},
		{"api.example.com:8080/x", 15, 5, "write api.example.com"},
		{"[::1]:80/x", 5, 3, "write [::1]"},
		{"2001:db8::1/x", 0, 11, "write [2001:db8::1]"},
		{"exa%6dple.com/x", 0, 13, "something else"},
		{"a..b/x", 0, 4, "empty label"},
		{"*/x", 0, 1, `write "/x"`},
		{"**/x", 0, 2, `write "/x"`},
		{" /x", 0, 1, "begin with a space"},
		{"get /x", 0, 3, "write GET"},
		{"GTE /x", 0, 3, `did you mean "GET"?`},
		{"PSOT /x", 0, 4, `did you mean "POST"?`},
		{"GET,POST /x", 0, 8, "as a list"},
		{"GET|POST /x", 0, 8, "as a list"},
		{"* /x", 0, 1, "leave the method out"},
		{"ANY /x", 0, 3, "leave the method out"},
		{"GET: /x", 3, 1, "no method"},
		{"CONNECT /x", 0, 7, "405"},
		{"~ ^/x", 2, 1, "regular expression"},
		{"/a/**/b", 3, 2, "at its end only"},
		{"/**//b", 1, 2, "at its end only"},
		{"/**/**", 1, 2, "at its end only"},
		{"/a/b**", 4, 2, "whole segment"},
		{"/a/b*", 4, 1, `{ path: "/b*" }`},
		{"/a/***", 3, 2, "whole segment"},
		{"/a/:", 4, 0, "name of a path segment"},
		{"/a/:1", 4, 1, "name of a path segment"},
		{"/a/:id.json", 6, 1, "name of a path segment"},
		{"/:id/x/:id", 7, 3, `a second segment named "id"`},
		{"/users/{id}", 7, 4, "write :id"},
		{"/users/{id:[0-9]+}", 7, 11, "write :id"},
		{"/users/<id>", 7, 4, "write :id"},
		{"/users/[id]", 7, 4, "write :id"},
		{"/users/{rest...}", 7, 9, "write **"},
		{"/users/{*rest}", 7, 7, "write **"},
		{"/users/{", 7, 1, "write it %7B"},
		{"/users/[0-9]+", 7, 5, "regular expression"},
		{"^/users", 0, 1, "regular expression"},
		{"/^users", 1, 1, "regular expression"},
		{"/users$", 6, 1, "%24"},
		{"/(a|b)", 3, 1, "regular expression"},
		{`/users/\d+`, 7, 1, "regular expression"},
		{"/a?b=1", 2, 4, "no query"},
		{"/a#b", 2, 2, "no fragment"},
		{"/a b", 2, 1, "%20"},
		{`/a"b`, 2, 1, "%22"},
		{"/a/%zz", 3, 3, "%25"},
		{"/a/100%", 6, 1, "%25"},
		{"/a/%00", 3, 3, "NUL"},
		{"/a/%ff", 3, 3, "UTF-8"},
		{"/a/../b", 3, 2, "dot segment"},
		{"/a/./b", 3, 1, "dot segment"},
		{"/a/%2e%2E/b", 3, 6, "dot segment"},
		{"/a/..%2Fb", 3, 6, "hides a dot segment"},
		{"/a/..;/b", 3, 3, "hides a dot segment"},
	} {
		p, err := ParsePattern(test.text)
		if err == nil {
			t.Errorf("ParsePattern(%q) = %v, want an error", test.text, p)
			continue
		}
		if err.Off != test.off || err.Len != test.len || !strings.Contains(err.Error(), test.want) {
			t.Errorf("ParsePattern(%q): %d+%d %v; want %d+%d %q", test.text, err.Off, err.Len, err, test.off, test.len, test.want)
		}
	}
	for text, want := range map[string]string{
		"": `write "/**"`, "healthz": `write "/healthz"`, "GET /x": "under method", "example.com/x": "under host", "/a/**x": "whole segment",
		"/a/%2A*": "star", "/a/*%zz": "%25", "/a/..": "dot segment",
	} {
		if p, err := ParsePathPattern(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParsePathPattern(%q) = %v, %v; want %q", text, p, err, want)
		}
	}
}

func TestOnePatternCoversAnother(t *testing.T) {
	for _, test := range []struct {
		p, q string
		want bool
	}{
		{"/**", "/", true},
		{"/**", "GET h.example/a/:b/**", true},
		{"/", "/**", false},
		{"/a", "/a", true},
		{"/a/", "/%61", true},
		{"/a", "GET /a", true},
		{"GET /a", "/a", false},
		{"GET /a", "HEAD /a", true},
		{"HEAD /a", "GET /a", false},
		{"GET /a", "POST /a", false},
		{"/a/**", "/a", true},
		{"/a/**", "/a/b/**", true},
		{"/a/b/**", "/a/**", false},
		{"/a/*", "/a/:id", true},
		{"/a/:id", "/a/b", true},
		{"/a/b", "/a/*", false},
		{"/a/*", "/a/b/c", false},
		{"/a/*", "/a/**", false},
		{"/a/*/**", "/a/**", false},
		{"/a/**", "/a/*/**", true},
		{"/*/b", "/a/*", false},
		{"example.com/a", "/a", false},
		{"/a", "example.com/a", true},
		{"*.example.com/a", "api.example.com/a", true},
		{"*.example.com/a", "*.eu.example.com/a", true},
		{"*.eu.example.com/a", "*.example.com/a", false},
		{"api.example.com/a", "*.example.com/a", false},
	} {
		if got := pattern(t, test.p).Covers(pattern(t, test.q)); got != test.want {
			t.Errorf("%s covers %s: %v", test.p, test.q, got)
		}
	}
}

// naiveMatch matches a path in normal form with the segments of a pattern the
// slow and obvious way.
func naiveMatch(pattern, path string) bool {
	split := func(s string) []string {
		return slices.DeleteFunc(strings.Split(s, "/"), func(s string) bool { return s == "" })
	}
	var match func(pat, segs []string) bool
	match = func(pat, segs []string) bool {
		switch {
		case len(pat) == 0:
			return len(segs) == 0
		case pat[0] == "**":
			return true
		case len(segs) == 0:
			return false
		case pat[0] == "*", pat[0][0] == ':':
			return match(pat[1:], segs[1:])
		}
		text, err := NormalPath("/" + pat[0])
		return err == nil && text == "/"+segs[0] && match(pat[1:], segs[1:])
	}
	return match(split(pattern), split(path))
}

func FuzzPattern(f *testing.F) {
	for _, pat := range []string{"/", "/**", "/a/:b/**", "/*/b", "/a%2fb/*", "GET h.x/a", "/%2A"} {
		for _, path := range []string{"/", "/a", "/a/b/", "/a%2Fb//c", "/*"} {
			f.Add(pat, "/a/*", path)
		}
	}
	f.Fuzz(func(t *testing.T, first, second, sent string) {
		path, err := NormalPath(sent)
		if err != nil {
			return
		}
		facts := &Facts{Method: "GET", Host: "h.x", Path: path}
		p, perr := ParsePattern(first)
		for _, e := range []*TextError{perr} {
			if e != nil && (e.Off < 0 || e.Len < 0 || e.Off+e.Len > len(first) || e.Msg == "") {
				t.Fatalf("ParsePattern(%q): %+v", first, e)
			}
		}
		if perr != nil {
			return
		}
		if first[0] == '/' {
			if got, want := p.Matches(facts), naiveMatch(first, path); got != want {
				t.Fatalf("%q takes %q: %v, want %v", first, path, got, want)
			}
			if glob, err := ParsePathPattern(first); err != nil || glob.Matches(facts) != p.Matches(facts) {
				t.Fatalf("%q as a path: %v", first, err)
			}
		}
		for _, name := range p.names {
			if seg, ok := p.capture(path, name); p.Matches(facts) && (!ok || seg == "") {
				t.Fatalf("%q of %q has no %s", first, path, name)
			}
		}
		q, qerr := ParsePattern(second)
		if qerr == nil && p.Covers(q) && q.Matches(facts) && !p.Matches(facts) {
			t.Fatalf("%q covers %q, but does not take %q", first, second, path)
		}
	})
}

func BenchmarkPattern(b *testing.B) {
	f := factsOf(b, "POST", "api.example.com", "/v1/users/42/exports/2024")
	for _, text := range []string{"/v1/users/42/exports/2024", "/v1/**", "/v1/users/:id/exports/*", "POST api.example.com/v1/users/:id/**", "*.example.com/v2/**"} {
		p := pattern(b, text)
		b.Run(strings.ReplaceAll(text, "/", "|"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Matches(f)
			}
		})
	}
}
