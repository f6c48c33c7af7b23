package rules

import (
	"strings"
	"testing"
)

const setFile = `
upstreams: {api: http://a, web: http://b}
routes:
  - {match: /api/**, upstream: api, strip_prefix: /api}
  - {upstream: web}
exempt: /healthz
block: {ip: 192.0.2.66}
rules:
  - {name: all, limit: 100/m}
  - {name: login, match: POST /login, limit: 5/m}
  - {name: key, key: header.X-Key, missing: skip, limit: 5/m}
  - {name: need, match: /api/**, key: header.X-Key, missing: reject, limit: 5/m}
`

func TestSetMatchesAllRulesThatApply(t *testing.T) {
	s := compile(t, setFile, nil)
	for _, tt := range []struct {
		method, path, key string
		want              string
	}{
		{"GET", "/", "", "all"},
		{"POST", "/login", "", "all login"},
		{"GET", "/", "k", "all key"},
		{"GET", "/api/x", "", "all need!"},
		{"GET", "/api/x", "k", "all key need"},
		{"GET", "/healthz", "k", ""},
	} {
		f := request("192.0.2.1")
		f.Method, f.Path = tt.method, tt.path
		if tt.key != "" {
			f.Header.Set("X-Key", tt.key)
		}
		got := ""
		for _, h := range s.Match(f, nil) {
			if got != "" {
				got += " "
			}
			got += h.Rule.Name
			if h.Missing {
				got += "!"
			}
		}
		if got != tt.want {
			t.Errorf("%s %s key %q: rules %q, want %q", tt.method, tt.path, tt.key, got, tt.want)
		}
	}
	if n := s.Rule("key").Live.Skipped.Load(); n != 3 {
		t.Errorf("%d requests skipped, want 3", n)
	}
}

func TestSetTakesTheFirstRoute(t *testing.T) {
	s := compile(t, setFile, nil)
	f := request("192.0.2.1")
	f.Path = "/api"
	if r := s.Route(f); r == nil || r.Upstream != "api" || r.StripPrefix != "/api" || r.Name != "/api/**" {
		t.Errorf("route of /api: %+v", r)
	}
	f.Path = "/apis"
	if r := s.Route(f); r == nil || r.Upstream != "web" || r.Name != "/**" {
		t.Errorf("route of /apis: %+v", r)
	}
	only := compile(t, "upstreams: {a: http://a}\nroutes: [{match: /a/**}]\nrules: []\n", nil)
	if r := only.Route(f); r != nil {
		t.Errorf("route of /apis: %+v, want none", r)
	}
}

func TestSetBlocksAndExempts(t *testing.T) {
	s := compile(t, setFile, nil)
	if !s.Blocked(request("192.0.2.66")) || s.Blocked(request("192.0.2.67")) {
		t.Error("block is by address")
	}
	f := request("192.0.2.1")
	if s.Exempt(f) {
		t.Error("/ is exempt")
	}
	f.Path = "/healthz"
	if !s.Exempt(f) {
		t.Error("/healthz is not exempt")
	}
	none := compile(t, "upstream: http://a\nrules: []\n", nil)
	if none.Blocked(f) || none.Exempt(f) {
		t.Error("without block and exempt something is blocked or exempt")
	}
}

func TestASetKnowsWhatItReadsOfARequest(t *testing.T) {
	s := compile(t, `
upstreams: { a: http://a }
exempt: { header.X-Internal: "yes" }
routes: [{ match: { header.X-Version: "2" } }, {}]
rules:
  - { name: a, limit: 5/m, key: [ip, header.X-Key, query.b] }
  - { name: b, limit: 5/m, key: query.a, missing: header.X-Other, match: { header.x-key: "*" } }
`, nil)
	if got, want := strings.Join(s.HeadersRead(), " "), "X-Internal X-Key X-Other X-Version"; got != want {
		t.Errorf("headers %q, want %q", got, want)
	}
	if got, want := strings.Join(s.QueryKeys(), " "), "a b"; got != want {
		t.Errorf("query parameters %q, want %q", got, want)
	}
}

func TestMatchingTakesNoMemory(t *testing.T) {
	s := compile(t, setFile, nil)
	f := request("192.0.2.1")
	f.Path = "/api/x"
	f.Header.Set("X-Key", "k")
	hits := s.Match(f, nil)
	if n := testing.AllocsPerRun(100, func() {
		hits = s.Match(f, hits[:0])
		if s.Route(f) == nil || s.Blocked(f) {
			t.Fatal("no route, or blocked")
		}
	}); n != 0 {
		t.Errorf("%v allocations a request, want 0", n)
	}
}
