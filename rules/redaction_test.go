package rules

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatTheFileListsIsNotShown(t *testing.T) {
	f, err := Parse("gateway.yaml", []byte(`
upstreams: { api: "http://127.0.0.1:1" }
routes:
  - { match: /reset/:token, upstream: api }
  - { match: { path: [ "/u/:user/:token", "/v/:token/**" ] }, upstream: api }
  - { match: /**, upstream: api }
rules:
  - { name: a, key: query.tenant, limit: 1/m }
  - { name: b, match: "POST api.example.com/items/:id/:token", limit: 1/m }
log: { redact: [query.session, path.token, header.referer] }
`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := f.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := set.Redaction()
	if diff := cmp.Diff([]string{"tenant", "session"}, r.Query); diff != "" || !r.Referer || r.UserAgent {
		t.Errorf("referer %t, user agent %t, query (-want +got)\n%s", r.Referer, r.UserAgent, diff)
	}
	for path, want := range map[string]string{
		"/reset/abc": "/reset/***", "/reset": "", "/reset/abc/d": "", "/": "", "/u/ann/abc": "/u/ann/***", "/u/ann": "",
		"/v/abc": "/v/***", "/v/abc/d/e f": "/v/***/d/e%20f", "/items/7/abc": "/items/7/***", "/other/abc": "", "": "***",
	} {
		if got, ok := r.Path(path); got != want || ok != (want != "") {
			t.Errorf("%q: %q %t, want %q", path, got, ok, want)
		}
	}
}

func TestLoosePathsAreRedactedAsRulesTakeThem(t *testing.T) {
	f, err := Parse("gateway.yaml", []byte(`
upstream: http://127.0.0.1:1
paths: loose
rules: [{ name: a, match: "/reset/:token", limit: 1/m }]
log: { redact: path.token }
`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := f.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/Reset/ABC": "/Reset/***", "/reset;v=1/abc;x": "/reset%3Bv=1/***", "/;a/reset/abc": "***", "/other": ""} {
		if got, ok := set.Redaction().Path(path); got != want || ok != (want != "") {
			t.Errorf("%q: %q %t, want %q", path, got, ok, want)
		}
	}
}

func TestRedactingWhatNoLineHoldsIsWarnedOf(t *testing.T) {
	f, err := Parse("gateway.yaml", []byte("upstream: http://a:1\nrules: []\nlog: { redact: [header.X-Plan, cookie.a, body.user, basic.username] }\n"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, w := range f.Warnings {
		if strings.Contains(w.Error(), "no line of the access log holds it") {
			n++
		}
	}
	if n != 4 || len(f.Log.Redact) != 0 {
		t.Errorf("%d warnings, want 4: %v; %v", n, f.Warnings, f.Log.Redact)
	}
}
