package rules

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestGroupsAndKnownGoByUserNamesWithoutCase(t *testing.T) {
	s := compile(t, `upstream: http://a
groups:
  staff: { basic.username: [Ann, "É*"] }
  users: { body.user: [Ann, "sha256:`+fmt.Sprintf("%x", sha256.Sum256([]byte("bob")))+`"] }
rules:
  - { name: basic, match: { group: staff }, limit: 9/s }
  - { name: body, key: body.user, known: users, missing: skip, limit: 9/s }
`, nil)
	names := func(user, body string) string {
		f := factsOf(t, "POST", "a", "/", "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":x")), "Content-Type", "application/json")
		hits := s.Match(f, nil)
		f.SetBody(Body{State: BodyWhole, Bytes: []byte(body)})
		var list []string
		for _, h := range s.Resolve(f, hits) {
			list = append(list, h.Rule.Name)
		}
		return strings.Join(list, " ")
	}
	for _, row := range []struct{ user, body, want string }{
		{"ANN", `{"user":" aNN "}`, "basic body"}, {"bob", `{"user":"BOB"}`, "body"}, {"étienne", `{"user":"eve"}`, "basic"}, {"eve", `{}`, ""},
		{"eve", `{`, ""}, // as missing, which is skipped
	} {
		if got := names(row.user, row.body); got != row.want {
			t.Errorf("%s with %s: %q, want %q", row.user, row.body, got, row.want)
		}
	}
	if n := s.Rule("body").Live.Skipped.Load(); n != 3 {
		t.Errorf("skipped %d, want 3", n)
	}
}

func TestHitsWaitForTheBody(t *testing.T) {
	s := compile(t, `upstream: http://a
rules:
  - { name: ip, limit: 9/s }
  - { name: body, key: body.user, limit: 9/s }
  - { name: open, key: body.user, limit: 9/s, fail: open }
  - { name: closed, key: body.user, limit: 9/s, fail: closed }
  - { name: reject, key: body.user, limit: 9/s, missing: reject }
  - { name: skip, key: body.user, limit: 9/s, missing: skip }
  - { name: header, key: [header.X, body.user], limit: 9/s, missing: skip }
`, nil)
	for _, row := range []struct {
		body Body
		want string
	}{
		{Body{}, "ip body… open… closed… reject… skip…"},
		{Body{State: BodyWhole, Bytes: []byte(`{"user":"a"}`)}, "ip body open closed reject skip"},
		{Body{State: BodyWhole}, "ip body open closed reject(missing)"},
		{Body{State: BodyWhole, Bytes: []byte("{")}, "ip body closed(unreadable) reject(missing)"},
		{Body{State: BodyTooLong}, "ip body closed(too long) reject(missing)"},
		{Body{State: BodyNoMemory}, "ip body closed(no memory) reject(missing)"},
	} {
		f := factsOf(t, "POST", "a", "/")
		f.Header.Set("Content-Type", "application/json")
		hits := s.Match(f, nil)
		f.SetBody(row.body)
		hits = s.Resolve(f, hits)
		var got []string
		for _, h := range hits {
			text := h.Rule.Name
			if h.Pending {
				text += "…"
			}
			if h.Missing {
				text += "(missing)"
			}
			if h.Doubt != 0 {
				text += map[Outcome]string{KeyUnreadable: "(unreadable)", KeyTooLong: "(too long)", KeyNoMemory: "(no memory)"}[h.Doubt]
			}
			got = append(got, text)
		}
		if text := strings.Join(got, " "); text != row.want {
			t.Errorf("%v: %s, want %s", row.body, text, row.want)
		}
		// The keys are the same whether the body was there from the start or came later.
		at := factsOf(t, "POST", "a", "/")
		at.Header.Set("Content-Type", "application/json")
		at.SetBody(row.body)
		if diff := cmp.Diff(hits, s.Match(at, nil), cmp.Comparer(func(a, b *Rule) bool { return a == b }), cmp.Comparer(func(a, b *Plan) bool { return a == b })); diff != "" {
			t.Errorf("%v: resolved, and matched at once:\n%s", row.body, diff)
		}
	}
	for rule, quiet := range map[string]bool{"ip": false, "body": true, "header": true} {
		if s.Rule(rule).Quiet != quiet {
			t.Errorf("%s is quiet: %v", rule, !quiet)
		}
	}
	if got := s.HeadersRead(); strings.Join(got, " ") != "Content-Encoding Content-Type X" {
		t.Errorf("headers read: %q", got)
	}
	if n := s.Rule("open").Live.FailedOpen.Load(); n != 6 {
		t.Errorf("failed open %d times, want 6", n)
	}
}
