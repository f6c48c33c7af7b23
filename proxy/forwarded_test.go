package proxy

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// spoofed are all headers by which a client could pass itself off as another.
var spoofed = []string{
	"X-Forwarded-For: 203.0.113.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil.example", "X-Forwarded-Port: 443",
	"X-Forwarded-Prefix: /admin", "X-Forwarded-Server: evil", "X-Forwarded: for=203.0.113.1", "Forwarded: for=203.0.113.1;host=evil.example",
	"X-Real-IP: 203.0.113.1", "True-Client-IP: 203.0.113.1", "CF-Connecting-IP: 203.0.113.1", "X-Client-IP: 203.0.113.1",
	"X-Original-URL: /admin", "X-Rewrite-URL: /admin", "X-HTTP-Method-Override: DELETE",
}

const openRules = "upstream: UPSTREAM\nrules: []\n"

func TestForwardingHeadersOfAnUntrustedPeerAreDropped(t *testing.T) {
	s := newSite(t, openRules, nil)
	both(t, func(t *testing.T, c *http.Client) {
		req, _ := http.NewRequest("GET", "http://"+s.addr+"/", nil)
		req.Host = "api.example.com"
		for _, line := range spoofed {
			name, value, _ := strings.Cut(line, ": ")
			req.Header.Set(name, value)
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		got := s.last().Header
		want := map[string]string{
			"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "api.example.com", "X-Real-Ip": "127.0.0.1",
		}
		for _, line := range spoofed {
			name, _, _ := strings.Cut(line, ":")
			if got, want := strings.Join(got.Values(name), " | "), want[http.CanonicalHeaderKey(name)]; got != want {
				t.Errorf("%s: %q reached the upstream, want %q", name, got, want)
			}
		}
	})
}

func TestForwardingHeadersOfATrustedPeerAreKeptAndAppended(t *testing.T) {
	s := newSite(t, "trusted_proxies: [private]\n"+openRules, nil)
	s.get("/", "X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 198.51.100.7, 10.0.0.9", "X-Forwarded-Proto: https",
		"X-Forwarded-Host: shop.example", "X-Forwarded-Port: 8443", "Forwarded: for=198.51.100.7", "X-Request-Id: abc-123", "X-Real-IP: 203.0.113.9")
	h := s.last().Header
	for name, want := range map[string]string{
		"X-Forwarded-For": "203.0.113.1, 198.51.100.7, 10.0.0.9, 127.0.0.1", "X-Forwarded-Proto": "https",
		"X-Forwarded-Host": "shop.example", "X-Forwarded-Port": "8443", "Forwarded": "for=198.51.100.7",
		"X-Real-Ip": "198.51.100.7", "X-Request-Id": "abc-123",
	} {
		if got := strings.Join(h.Values(name), " | "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := s.last().Host; got != "api.example.com" {
		t.Errorf("Host %q, want it preserved", got)
	}
}

func TestARequestHasOneIDEverywhere(t *testing.T) {
	s := newSite(t, "trusted_proxies: [127.0.0.1/32]\nupstream: UPSTREAM\nrules: []\n", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "the upstream's own")
	})
	long := strings.Repeat("i", 129)
	for n, test := range []struct {
		name, sent string
		kept       bool
	}{
		{"none", "", false},
		{"a good one", "0f-A_z.1", true},
		{"the longest", long[1:], true},
		{"one too long", long, false},
		{"a space in it", "a b", false},
		{"not ASCII", "caf\xc3\xa9", false},
	} {
		var header []string
		if test.sent != "" {
			header = []string{"X-Request-Id: " + test.sent}
		}
		r := s.get("/", header...)
		id := r.Header.Get("X-Request-Id")
		if test.kept != (id == test.sent) || !test.kept && len(id) != 32 {
			t.Errorf("%s: answered with %q", test.name, id)
		}
		if got := r.Header.Values("X-Request-Id"); len(got) != 1 {
			t.Errorf("%s: %d ids in the answer", test.name, len(got))
		}
		if got := s.last().Header.Values("X-Request-Id"); len(got) != 1 || got[0] != id {
			t.Errorf("%s: the upstream got %q, the client %q", test.name, got, id)
		}
		if got := s.entries(n + 1)[n]["request_id"]; got != id {
			t.Errorf("%s: logged as %v, want %q", test.name, got, id)
		}
	}

	open := newSite(t, openRules, nil)
	if id := open.get("/", "X-Request-Id: abc").Header.Get("X-Request-Id"); id == "abc" || open.last().Header.Get("X-Request-Id") != id {
		t.Errorf("an untrusted peer's id: %q answered, %q forwarded", id, open.last().Header.Get("X-Request-Id"))
	}
}

func TestViaNamesTheGatewayBehindWhatWasThere(t *testing.T) {
	s := newSite(t, openRules, nil)
	s.get("/")
	if diff := cmp.Diff([]string{"1.1 gateway"}, s.last().Header.Values("Via")); diff != "" {
		t.Error(diff)
	}
	s.get("/", "Via: 1.0 fred", "Via: 1.1 p.example")
	if diff := cmp.Diff([]string{"1.0 fred, 1.1 p.example, 1.1 gateway"}, s.last().Header.Values("Via")); diff != "" {
		t.Error(diff)
	}
}

func TestHeaderNamesWithAnUnderscoreAreDropped(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: k, key: header.X-Api-Key, limit: 2/h }]\n", nil)
	for range 2 {
		s.get("/", "X_Api_Key: a", "X-Api_Key: b", "X_Forwarded_For: 6.6.6.6", "X-Api-Key: real", "_: c")
		h := s.last().Header
		for name := range h {
			if strings.Contains(name, "_") {
				t.Errorf("%s reached the upstream", name)
			}
		}
		if got := h.Values("X-Api-Key"); len(got) != 1 || got[0] != "real" {
			t.Errorf("X-Api-Key %q", got)
		}
	}
	for i := range 10 {
		if r := s.get("/", "X_Api_Key: "+strings.Repeat("x", i), "X-Api-Key: real"); r.StatusCode != 429 {
			t.Errorf("an alias of the key was another key: %d", r.StatusCode)
		}
	}
}

// Names that some servers read as one that counts do not reach them beside it; others
// with the same letters do.
func TestAliasesOfHeadersThatCountAreDropped(t *testing.T) {
	const text = "upstream: UPSTREAM\nrules: [{ name: k, match: { header.X-Plan: '*' }, key: header.X-Api-Key, limit: 2/h }]\n"
	aliases := []string{"X.Api.Key", "X!Api-Key", "x-api~key", "X.Plan"}
	ofProxies := []string{"X.Forwarded.For", "X.forwarded-proto", "X-Real.Ip", "X.Original.URL", "X`HTTP-Method^Override", "X-Request.Id"}
	others := []string{"X.Other", "X-Amz-Meta-My.Key", "X-Api.Keys", "Xapi.Key", "X-Api-Key."}
	for _, trusted := range []bool{false, true} {
		s := newSite(t, map[bool]string{true: "trusted_proxies: [127.0.0.1]\n"}[trusted]+text, nil)
		lines := []string{"X-Api-Key: real", "X-Plan: free"}
		for _, name := range slices.Concat(aliases, ofProxies, others) {
			lines = append(lines, name+": 6.6.6.6")
		}
		for range 2 {
			s.get("/", lines...)
			h := s.last().Header
			there := func(name string) bool { return h.Get(name) == "6.6.6.6" }
			for _, name := range aliases {
				if there(name) {
					t.Errorf("trusted %v: %s reached the upstream", trusted, name)
				}
			}
			for _, name := range ofProxies {
				if there(name) != trusted {
					t.Errorf("trusted %v: %s reached the upstream: %v", trusted, name, !trusted)
				}
			}
			for _, name := range others {
				if !there(name) {
					t.Errorf("trusted %v: %s did not reach the upstream", trusted, name)
				}
			}
			if got := h.Values("X-Api-Key"); len(got) != 1 || got[0] != "real" {
				t.Errorf("X-Api-Key %q", got)
			}
		}
		if r := s.get("/", "X-Api-Key: real", "X-Plan: a", "X.Api.Key: another"); r.StatusCode != 429 {
			t.Errorf("an alias of the key was another key: %d", r.StatusCode)
		}
	}
}

func TestConnectionCannotRemoveWhatARuleReadOrTheGatewaySets(t *testing.T) {
	s := newSite(t, `
upstream: UPSTREAM
rules:
  - { name: key, match: { path: /** }, key: header.X-Api-Key, limit: 3/h }
  - { name: agent, match: { header.X-Plan: "free*" }, key: cookie.session, limit: 100/h }
`, nil)
	const all = "Connection: close, X-Api-Key, x-plan, cookie, X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, X-Real-Ip, X-Request-Id, Via"
	for i := range 3 {
		r := s.get("/", all, "X-Api-Key: k", "X-Plan: free", "Cookie: session=s", "X-Other: 1")
		if r.StatusCode != 200 {
			t.Fatalf("request %d: %d", i, r.StatusCode)
		}
		h := s.last().Header
		for name, want := range map[string]string{
			"X-Api-Key": "k", "X-Plan": "free", "Cookie": "session=s", "X-Forwarded-For": "127.0.0.1", "X-Real-Ip": "127.0.0.1",
			"X-Forwarded-Proto": "http", "X-Forwarded-Host": "api.example.com", "Via": "1.1 gateway", "X-Other": "1",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %q reached the upstream, want %q", name, got, want)
			}
		}
		if h.Get("X-Request-Id") == "" {
			t.Error("no X-Request-Id reached the upstream")
		}
	}
	if r := s.get("/", all, "X-Api-Key: k", "X-Plan: free", "Cookie: session=s"); r.StatusCode != 429 {
		t.Errorf("the fourth with the same key: %d, want 429", r.StatusCode)
	}
	s.get("/", "Connection: close, X-Other", "X-Other: 1", "X-Api-Key: k2")
	if got := s.last().Header.Get("X-Other"); got != "" {
		t.Errorf("X-Other, which nobody reads, was nominated and reached the upstream: %q", got)
	}
}

func TestHeadersOfTheClientsConnectionEndHereThoughARuleReadsThem(t *testing.T) {
	s := newSite(t, `
upstream: UPSTREAM
rules:
  - name: hop
    match:
      - { header.Connection: "*", header.Keep-Alive: "*" }
      - { header.Upgrade: "*", header.TE: "*", header.Proxy-Connection: "*", header.Proxy-Authorization: "*" }
    limit: 1/h
`, nil)
	lines := []string{
		"Connection: close, X-Forwarded-For, X-Real-Ip, Keep-Alive, TE, Upgrade, HTTP2-Settings, Proxy-Connection, Proxy-Authorization",
		"Keep-Alive: timeout=500", "TE: gzip", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
		"Proxy-Connection: keep-alive", "Proxy-Authorization: Basic YTpi",
	}
	if r := s.get("/", lines...); r.StatusCode != 200 {
		t.Fatalf("the first: %d, want 200", r.StatusCode)
	}
	for name, v := range s.last().Header {
		switch name {
		case "Connection", "Keep-Alive", "Te", "Upgrade", "Http2-Settings", "Proxy-Connection", "Proxy-Authorization":
			t.Errorf("%s: %q reached the upstream", name, v)
		}
	}
	if got := s.last().Header.Get("X-Forwarded-For"); got != "127.0.0.1" {
		t.Errorf("X-Forwarded-For %q reached the upstream", got)
	}
	if r := s.get("/", lines...); r.StatusCode != 429 {
		t.Errorf("the second: %d, want 429: the rule reads them all the same", r.StatusCode)
	}
}

func TestARuleAndTheUpstreamSeeTheSameOfAnUntrustedHeader(t *testing.T) {
	// A rule on a header that an untrusted peer may not set finds it missing.
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: k, key: header.CF-Connecting-IP, limit: 5/h }]\n", nil)
	passed := s.pass(20, func(i int) []string {
		return []string{"CF-Connecting-IP: 203.0.113." + string(rune('a'+i)), "Connection: CF-Connecting-IP"}
	})
	if passed != 5 {
		t.Errorf("%d of 20 passed, want 5", passed)
	}
	for _, r := range s.requests() {
		if got := r.Header.Get("Cf-Connecting-Ip"); got != "" {
			t.Fatalf("the upstream got CF-Connecting-IP %q of an untrusted peer", got)
		}
	}
}
