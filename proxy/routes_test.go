package proxy

import (
	"strings"
	"testing"
)

const routedSite = `
upstreams: { api: UPSTREAM }
routes:
  - match: /old/:id/**
    upstream: api
    rewrite: /new/{path.id}/x/{path.rest}
  - match: /odd/:id
    upstream: api
    rewrite: /z{path.id}..
  - match: /moved/**
    redirect: { to: "/now/{path.rest}", status: 301 }
  - match: GET /robots.txt
    respond: { body: "User-agent: *\n", content_type: text/plain }
  - match: /gone
    respond: { status: 410 }
  - match: /empty
    respond: { status: 204 }
  - { upstream: api }
rules: [{ name: all, key: global, limit: 10/h }]
`

func TestTheUpstreamGetsTheRewrittenPathAndTheWholeQuery(t *testing.T) {
	up := record(t)
	s := newSite(t, strings.ReplaceAll(routedSite, "UPSTREAM", up.url), nil)
	for _, row := range [][2]string{
		{"/old/7/a%2Fb//c/?x=%41;y&&z", "/new/7/x/a%2Fb//c/?x=%41;y&&z"},
		{"/old/7//../8", ""}, // read in two ways: 400
		{"//old/7/..//8", "/new/8/x/"},
		{"/old/7/./a", "/new/7/x/a"},
		{"/old/7", "/new/7/x/"},
		{"/odd/y%2f", ""}, // rewritten, it hides a dot segment
		{"/odd/y", "/zy.."},
	} {
		before := len(up.targets())
		r := s.get(row[0])
		got := strings.Join(up.targets()[before:], " ")
		if want := row[1]; got != want || (want == "") != (r.StatusCode == 400) {
			t.Errorf("%s: %d, the upstream saw %q, want %q", row[0], r.StatusCode, got, want)
		}
	}
}

// P11 with a prefix: neither a slash too many nor one lost.
func TestAStrippedPrefixMeetsTheBasePath(t *testing.T) {
	for _, base := range []string{"", "/", "/base", "/base/"} {
		up := record(t)
		s := newSite(t, "upstreams: { api: "+up.url+base+" }\nroutes: [{ match: /api/**, upstream: api, strip_prefix: /api }]\nrules: []\n", nil)
		for _, row := range [][2]string{
			{"/api", ""}, {"/api/", "/"}, {"/api/x", "/x"}, {"/api/x/", "/x/"}, {"/api//x", "//x"}, {"//api", ""}, {"/api?q=1", "?q=1"},
		} {
			want := strings.TrimSuffix(base, "/") + row[1]
			if want == "" || want[0] == '?' {
				want = "/" + want
			}
			before := len(up.targets())
			s.get(row[0])
			if got := strings.Join(up.targets()[before:], " "); got != want {
				t.Errorf("base %q: %s reached the upstream as %q, want %q", base, row[0], got, want)
			}
		}
	}
}

func TestARouteWithoutAnUpstreamIsAnsweredHere(t *testing.T) {
	s := newSite(t, routedSite, nil)
	for _, row := range []struct {
		line, location, body string
		want                 int
	}{
		{"GET /moved/a?b=c", "/now/a?b=c", "", 301},
		{"POST /moved//evil.example.com", "/now/evil.example.com", "", 301},
		{"HEAD /robots.txt", "", "", 200},
		{"GET /robots.txt", "", "User-agent: *\n", 200},
		{"GET /gone", "", "", 410},
		{"DELETE /empty", "", "", 204},
	} {
		r := s.raw(row.line + " HTTP/1.1\nHost: a\nConnection: close\n\n")
		if r.StatusCode != row.want || r.body != row.body || r.Header.Get("Location") != row.location {
			t.Errorf("%s: %d, %q, %q", row.line, r.StatusCode, r.body, r.Header.Get("Location"))
		}
		if r.Header.Get("RateLimit") == "" || r.Header.Get("X-Request-Id") == "" || r.Header.Get("Cache-Control") != "" {
			t.Errorf("%s: headers %v", row.line, r.Header)
		}
		if row.line == "HEAD /robots.txt" && r.ContentLength != 14 || row.want == 204 && r.Header.Get("Content-Length") != "" {
			t.Errorf("%s: Content-Length %d", row.line, r.ContentLength)
		}
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
	// Such answers are metered like any other: of ten, six were used.
	for range 4 {
		s.get("/gone")
	}
	if r := s.get("/moved/x"); r.StatusCode != 429 || r.Header.Get("Location") != "" {
		t.Errorf("%d, Location %q, want 429", r.StatusCode, r.Header.Get("Location"))
	}
}

func TestAGatewayWithoutAnyUpstreamAnswers(t *testing.T) {
	s := newSite(t, "routes: [{ respond: { status: 503, body: closed } }]\nrules: [{ name: bad, limit: 1/h, count: { status: 503 } }]\n", nil)
	if r := s.get("/"); r.StatusCode != 503 || r.body != "closed" {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	if r := s.get("/"); r.StatusCode != 429 { // what a rule counts it counts here too
		t.Errorf("%d, want 429", r.StatusCode)
	}
}

func TestABodySentToARedirectIsNotTakenForARequest(t *testing.T) {
	s := newSite(t, routedSite, nil)
	w := s.dial()
	w.send("POST /moved/x HTTP/1.1\r\nHost: a\r\nContent-Length: 49\r\n\r\n" + smuggled + "GET /gone HTTP/1.1\r\nHost: a\r\n\r\n")
	if r := w.mustAnswer("POST"); r.StatusCode != 301 {
		t.Errorf("%d, want 301", r.StatusCode)
	}
	if r, ok := w.answer("GET"); ok && r.StatusCode != 410 {
		t.Errorf("%d, want 410 or the end of the connection", r.StatusCode)
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
}
