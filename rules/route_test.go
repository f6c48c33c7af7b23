package rules

import (
	"fmt"
	"strings"
	"testing"
)

// routeOf compiles a route and reads a request that it takes.
func routeOf(t *testing.T, route, path, query string) (*Route, *Facts, Path) {
	t.Helper()
	f := parse(t, "upstreams: { api: http://localhost:3000 }\nroutes:\n  - "+route+"\n  - upstream: api\nrules: []\n")
	set, err := f.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ReadPath(path)
	if err != nil {
		t.Fatal(err)
	}
	facts := &Facts{Method: "GET", Host: "example.com", Path: p.Normal, RawPath: path, RawQuery: query}
	r := set.Route(facts)
	if r != set.Routes[0] {
		t.Fatalf("route %q does not take %q", route, path)
	}
	return r, facts, p
}

func TestRewriteKeepsTheBytesAsSent(t *testing.T) {
	for _, row := range []struct{ match, rewrite, path, want string }{
		{"/old/**", "/new/{path.rest}", "/old/a/b", "/new/a/b"},
		{"/old/**", "/new/{path.rest}", "/old", "/new/"},
		{"/old/**", "/new/{path.rest}", "/old/", "/new/"},
		{"/old/**", "/new/{path.rest}", "/old/a/", "/new/a/"},
		{"/old/**", "/new/{path.rest}", "//old//a//b/", "/new/a//b/"},
		{"/old/**", "/new/{path.rest}", "/%6fld/%41%2fb%20c", "/new/%41%2fb%20c"},
		{"/old/**", "/new/{path.rest}", "/old/x/../y%2Fz", "/new/y%2Fz"},
		{"/old/**", "/new", "/old/a", "/new"},
		{"/old/**", "/{path.rest}", "/old/a", "/a"},
		{"/old/**", "/new{path.rest}", "/old/a", "/newa"},
		{"/u/:id/x/:n", "/{path.n}/of-{path.id}/{path.n}", "/u/7/x/8%2f9", "/8%2f9/of-7/8%2f9"},
		{"/u/:id/**", "/{path.rest}/{path.id}", "/u/7", "//7"},
		{"/u/:rest/x/**", "/{path.rest}", "/u/7/x/8", "/7"},
		{"[/a/:id, /b/*/:id]", "/c/{path.id}", "/b/1/2", "/c/2"},
		{"{ path: [/a/:id, /b/*/:id], host: example.com }", "/c/{path.id}", "/b/1/2", "/c/2"},
		{"/**", "/x/{path.rest}", "/", "/x/"},
		{"/**", "/{path.rest}", "/q%3Fx#y", "/q%3Fx#y"},
	} {
		r, f, p := routeOf(t, "{ match: "+row.match+", rewrite: \""+row.rewrite+"\" }", row.path, "")
		got, ok := r.Path(f, p)
		if !ok || got != row.want {
			t.Errorf("%s → %s of %s: %q, %v; want %q", row.match, row.rewrite, row.path, got, ok, row.want)
		}
	}
}

func TestARewriteThatCouldBeReadInTwoWaysIsRefused(t *testing.T) {
	// The segments are harmless by themselves and hide a dot segment together.
	for _, row := range []struct{ rewrite, path string }{
		{"/x/z{path.a}..", "/u/y%2f/b"}, {"/x/..{path.a}z", "/u/%5cy/b"}, {"/x/..{path.a}z", "/u/;y/b"}, {"/x/z{path.a}%2e", "/u/y%252f/b"},
	} {
		r, f, p := routeOf(t, "{ match: /u/:a/:b, rewrite: \""+row.rewrite+"\" }", row.path, "")
		if got, ok := r.Path(f, p); ok {
			t.Errorf("%s of %s: %q is let through", row.rewrite, row.path, got)
		}
	}
}

func TestARedirectLeadsWhereTheFileSaysAndNowhereElse(t *testing.T) {
	for _, row := range []struct{ match, to, path, query, want string }{
		{"/old/**", "/new/{path.rest}", "/old/a/b", "", "/new/a/b"},
		{"/old/**", "/new/{path.rest}", "/old/a", "x=1&y=%20", "/new/a?x=1&y=%20"},
		{"/old/**", "/new?a=b", "/old/a", "x=1", "/new?a=b"},
		{"/old/**", "https://example.org/{path.rest}", "/old/a", "x=1", "https://example.org/a?x=1"},
		{"/old/**", "https://example.org", "/old/a", "", "https://example.org"},
		{"/**", "https://example.org/{path.rest}", "/", "", "https://example.org/"},
		// Another host, or a header of the client's making.
		{"/**", "/{path.rest}", "//evil.com/x", "", "/evil.com/x"},
		{"/**", "/{path.rest}", `/\evil.com`, "", "/%5Cevil.com"},
		{"/**", "/{path.rest}", `/%5cevil.com`, "", "/%5cevil.com"},
		{"/old/**", "/{path.rest}", "/old//evil.com", "", "/evil.com"},
		{"/old/**", "/{path.rest}", "/old/%2Fevil.com", "", "/%2Fevil.com"},
		{"/u/:a/**", "/{path.rest}/{path.a}", "/u/evil.com", "", "/evil.com"},
		{"/u/:a/**", "/{path.rest}/{path.a}", `/u/\evil.com`, "", "/%5Cevil.com"},
		{"/u/:a/**", "/{path.a}", "/u/https:%2f%2fevil.com", "", "/https:%2f%2fevil.com"},
		{"/**", "/{path.rest}", "/a%0D%0AX:%20y", "", "/a%0D%0AX:%20y"},
		{"/**", "/{path.rest}", "/a\"<b>é#f", "", "/a%22%3Cb%3E%C3%A9%23f"},
		{"/**", "/x", "/a", "a=\"<b>é#f\\", "/x?a=%22%3Cb%3E%C3%A9%23f%5C"},
	} {
		r, f, p := routeOf(t, fmt.Sprintf("{ match: %s, redirect: { to: %q } }", row.match, row.to), row.path, row.query)
		if got := r.Location(f, p); got != row.want {
			t.Errorf("%s → %s of %s?%s: %q, want %q", row.match, row.to, row.path, row.query, got, row.want)
		}
	}
}

func TestTemplatesAreSplitAtPlaceholdersOnly(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain": "plain", "{a}": "<a>", "x{a.b}y{c}": "x<a.b>y<c>", "{a}{b}": "<a><b>",
		`{"group":"x"}`: `{"group":"x"}`, "{": "{", "{}": "{}", "{a": "{a", "a}": "a}", "{{a}}": "{<a>}", "{a b}": "{a b}", "{é}": "{é}",
	} {
		if got := parseTemplate(text).fill(func(name string) string { return "<" + name + ">" }); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzLocationStaysOnThisHost(f *testing.F) {
	for _, path := range []string{"/", "//evil.com", `/\evil.com`, "/a//b", "/%2f%2fevil.com", "/\t/evil", "/%09/evil.com"} {
		f.Add(path)
	}
	file, err := Parse("f", []byte("routes: [{ match: '/:a/**', redirect: { to: '/{path.rest}/{path.a}' } }, { redirect: { to: '/x' } }]\nrules: []\n"))
	if err != nil {
		f.Fatal(err)
	}
	set, _ := file.Compile(nil)
	f.Fuzz(func(t *testing.T, path string) {
		p, err := ReadPath(path)
		if err != nil {
			return
		}
		facts := &Facts{Method: "GET", Path: p.Normal}
		to := set.Route(facts).Location(facts, p)
		if to[0] != '/' || len(to) > 1 && (to[1] == '/' || to[1] == '\\') || strings.ContainsFunc(to, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Errorf("%q leads to %q", path, to)
		}
	})
}

func TestSpareIsRoundedInFavourOfTheRequest(t *testing.T) {
	for _, row := range []struct {
		max, reserve, normal, sheddable int64
	}{
		{10, 20, 2, 4}, {1, 20, 0, 0}, {4, 20, 0, 1}, {100, 0, 0, 0}, {3, 49, 1, 2}, {1, 49, 0, 0}, {7, 33, 2, 4},
		{1_000_000_000_000_000, 49, 490_000_000_000_000, 980_000_000_000_000},
	} {
		o := OverloadSpec{row.max, row.reserve}
		if n, s, c := o.spare(Normal), o.spare(Sheddable), o.spare(Critical); n != row.normal || s != row.sheddable || c != 0 {
			t.Errorf("%+v: %d, %d, %d", row, n, s, c)
		}
	}
}
