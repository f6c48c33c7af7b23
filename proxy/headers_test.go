package proxy

import (
	"net/http"
	"strings"
	"testing"
)

const headerSite = `
trusted_proxies: [127.0.0.1]
upstreams: { api: UPSTREAM }
routes:
  - match: { path: "/a/**", header.X-Which: ["a*", "b*"] }
    headers:
      request:
        set: { X-Client: "<{ip}|{request_id}|{tier}>", X-Route: "{route}", X-Empty: "", Authorization: "Bearer us" }
        remove: [Cookie, X-Drop, User-Agent]
      response:
        set: { X-Frame-Options: DENY, Cache-Control: private, X-Id: "{request_id}" }
        remove: [Server, X-Cost, Set-Cookie]
  - match: /here
    respond: { body: x }
    headers: { response: { set: { Cache-Control: max-age=60, Content-Type: text/css } } }
  - {}
rules: [{ name: all, key: global, limit: 10/h, cost: { header: X-Cost, reserve: 1, max: 10 } }]
`

func TestARouteChangesTheHeadersOfBothMessages(t *testing.T) {
	s := newSite(t, headerSite, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Server"], h["Set-Cookie"], h["X-Frame-Options"] = []string{"old"}, []string{"a", "b"}, []string{"x", "y"}
		h.Set("X-Cost", "6")
		h.Set("X-Kept", "yes")
	})
	r := s.get("/a/b", "X-Which: abc", "X-Request-Id: id-1", "X-Forwarded-For: 192.0.2.7", "Cookie: a=b", "X-Drop: 1",
		"X-Client: forged", "X-Client: twice", "Authorization: Basic them", "X-Nominated: 1", "Connection: X-Client, X-Drop, close")
	got := s.requests()[0].Header
	for name, want := range map[string]string{
		"X-Client": "<192.0.2.7|id-1|>", "X-Route": `{path: /a/**, header.X-Which: [a*, b*]}`, "X-Empty": "", "Authorization": "Bearer us",
	} {
		if v := got[name]; len(v) != 1 || v[0] != want {
			t.Errorf("%s to the upstream: %q, want %q", name, v, want)
		}
	}
	for _, name := range []string{"Cookie", "X-Drop", "User-Agent"} {
		if v, ok := got[name]; ok {
			t.Errorf("%s reached the upstream: %q", name, v)
		}
	}
	for name, want := range map[string]string{"X-Frame-Options": "DENY", "Cache-Control": "private", "X-Id": "id-1", "X-Kept": "yes"} {
		if v := r.Header[name]; len(v) != 1 || v[0] != want {
			t.Errorf("%s to the client: %q, want %q", name, v, want)
		}
	}
	for _, name := range []string{"Server", "X-Cost", "Set-Cookie"} {
		if v, ok := r.Header[name]; ok {
			t.Errorf("%s reached the client: %q", name, v)
		}
	}
	// The rule has seen the cost that the client has not: 6 of 10 are used.
	if u := s.gateway.Current().rules.Rules[0].Live.Units.Load(); u != 6 {
		t.Errorf("%d units, want 6", u)
	}
}

func TestARefusalOnlyGetsHeadersItHasNot(t *testing.T) {
	s := newSite(t, strings.ReplaceAll(headerSite, "limit: 10/h", "limit: 1/h"), nil)
	s.get("/a/b", "X-Which: a")
	r := s.get("/a/b", "X-Which: a")
	if r.StatusCode != 429 || r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("X-Frame-Options") != "DENY" ||
		r.Header.Get("X-Id") == "" || r.Header.Get("Retry-After") == "" {
		t.Errorf("%d, %v", r.StatusCode, r.Header)
	}
	problemOf(t, r)
}

func TestAnAnswerOfTheRouteItselfIsChangedToo(t *testing.T) {
	s := newSite(t, headerSite, nil)
	r := s.get("/here")
	if r.body != "x" || r.Header.Get("Cache-Control") != "max-age=60" || r.Header.Get("Content-Type") != "text/css" {
		t.Errorf("%q, %v", r.body, r.Header)
	}
}

func TestATunnelHasTheHeadersOfItsRoute(t *testing.T) {
	s := newSite(t, "upstreams: { api: UPSTREAM }\nroutes: [{ headers: { request: { set: { X-A: b } }, response: { set: { X-C: d } } } }]\nrules: []\n", echo)
	w := s.dial()
	if r := w.handshake("/ws", "hi"); r.StatusCode != 101 || r.Header.Get("X-C") != "d" {
		t.Errorf("%d, %v", r.StatusCode, r.Header)
	}
	w.expect("hi")
	if got := s.requests()[0].Header.Get("X-A"); got != "b" {
		t.Errorf("X-A %q", got)
	}
}
