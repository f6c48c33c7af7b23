package proxy

import (
	"net/http"
	"strings"
	"testing"
)

const fivePerHour = `
upstream: UPSTREAM
rules:
  - name: per-ip
    key: ip
    limit: 5/h
`

func TestRefusalIsAnHonest429(t *testing.T) {
	s := newSite(t, fivePerHour, nil)
	for i := range 5 {
		r := s.get("/")
		if r.StatusCode != 200 || r.body != "ok" {
			t.Fatalf("request %d: %d %q", i, r.StatusCode, r.body)
		}
		if got, want := r.Header.Get("RateLimit-Policy"), `"per-ip";q=5;w=3600`; got != want {
			t.Errorf("RateLimit-Policy %q, want %q", got, want)
		}
		// 5/h gives one back each 720 s: after i+1 requests at once the bucket is
		// full again in (i+1)*720 s; with none left the next is there in 720 s.
		want := []string{`"per-ip";r=4;t=720`, `"per-ip";r=3;t=1440`, `"per-ip";r=2;t=2160`, `"per-ip";r=1;t=2880`, `"per-ip";r=0;t=720`}[i]
		if got := r.Header.Get("RateLimit"); got != want {
			t.Errorf("request %d: RateLimit %q, want %q", i, got, want)
		}
	}
	r := s.get("/")
	if r.StatusCode != 429 {
		t.Fatalf("sixth request: %d, want 429", r.StatusCode)
	}
	for name, want := range map[string]string{
		"Retry-After": "720", "Cache-Control": "no-store", "RateLimit": `"per-ip";r=0;t=720`,
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	p := problemOf(t, r)
	if p["type"] != "https://iana.org/assignments/http-problem-types#quota-exceeded" || p["status"] != 429.0 || p["retry_after"] != 720.0 {
		t.Errorf("problem %v", p)
	}
	if got := p["violated-policies"].([]any); len(got) != 1 || got[0] != "per-ip" {
		t.Errorf("violated-policies %v", got)
	}
	if id := r.Header.Get("X-Request-Id"); len(id) != 32 || p["instance"] != "urn:request:"+id {
		t.Errorf("instance %v of request id %q", p["instance"], id)
	}
	if n := len(s.requests()); n != 5 {
		t.Errorf("%d requests reached the upstream, want 5", n)
	}
}

func TestTheUpstreamsOwnLimitHeadersAreKeptAndOursComeAfter(t *testing.T) {
	s := newSite(t, fivePerHour, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit", `"theirs";r=9`)
		w.Header().Set("RateLimit-Limit", "1000")
		if r.URL.Path == "/busy" {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(503)
		}
	})
	r := s.get("/busy")
	if r.StatusCode != 503 || r.Header.Get("Retry-After") != "30" || r.Header.Get("RateLimit-Limit") != "1000" {
		t.Errorf("%d, Retry-After %q, RateLimit-Limit %q: not as the upstream sent them", r.StatusCode, r.Header.Get("Retry-After"), r.Header.Get("RateLimit-Limit"))
	}
	if got, want := strings.Join(r.Header.Values("RateLimit"), " | "), `"theirs";r=9 | "per-ip";r=4;t=720`; got != want {
		t.Errorf("RateLimit %q, want %q", got, want)
	}
}

func TestLimitHeadersSurviveAnEarlyHint(t *testing.T) {
	s := newSite(t, fivePerHour, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.WriteHeader(200)
	})
	c := &http.Client{}
	defer c.CloseIdleConnections()
	res, err := c.Get("http://" + s.addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got := res.Header.Values("RateLimit"); res.StatusCode != 200 || len(got) != 1 {
		t.Errorf("status %d with RateLimit %q, want one", res.StatusCode, got)
	}
}

func TestARefusalSaysWhatTheFileSays(t *testing.T) {
	s := newSite(t, `
upstream: UPSTREAM
reject: { status: 503, headers: { Access-Control-Allow-Origin: "*" } }
rules:
  - name: a
    match: /a
    limit: 1/m
    reject: { status: 420, content_type: text/html, body: "<p>{rule} {limit} {retry_after}</p>", headers: { X-Why: "{rule}" } }
  - name: b
    match: /b
    limit: 1/m
`, nil)
	s.get("/a")
	r := s.get("/a")
	if r.StatusCode != 420 || r.body != "<p>a 1/m 60</p>" || r.Header.Get("X-Why") != "a" || r.Header.Get("Content-Type") != "text/html" {
		t.Errorf("%d %q %v", r.StatusCode, r.body, r.Header)
	}
	if r.Header.Get("Retry-After") != "60" {
		t.Errorf("Retry-After %q, want 60", r.Header.Get("Retry-After"))
	}
	s.get("/b")
	if r := s.get("/b"); r.StatusCode != 503 || r.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
}

func TestTheTightestRuleComesFirst(t *testing.T) {
	s := newSite(t, `
upstream: UPSTREAM
rules:
  - { name: wide, limit: 100/h, algorithm: fixed_window }
  - { name: trial, limit: 1/h, dry_run: true }
  - { name: narrow, limit: 2/h, algorithm: fixed_window }
`, nil)
	for i, want := range []string{
		`"narrow";q=2;w=3600, "wide";q=100;w=3600`,
		`"narrow";q=2;w=3600, "wide";q=100;w=3600`,
		`"narrow";q=2;w=3600, "wide";q=100;w=3600`,
	} {
		r := s.get("/")
		if got := r.Header.Get("RateLimit-Policy"); got != want {
			t.Errorf("request %d: RateLimit-Policy %q, want %q", i, got, want)
		}
		if i == 2 && r.StatusCode != 429 {
			t.Errorf("third request: %d, want 429", r.StatusCode)
		}
	}
	if n := s.gateway.Current().rules.Rules[1].Base.Live.DryRunRejected.Load(); n != 1 {
		t.Errorf("the dry run would have refused %d, want 1: the third request was refused by another rule", n)
	}
}

func TestGRPCRefusalIsTrailersOnly(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: calls, limit: 1/h }]\n", nil)
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &p}
	defer tr.CloseIdleConnections()
	call := func() *http.Response {
		req, _ := http.NewRequest("POST", "http://"+s.addr+"/pkg.Service/Do", strings.NewReader("x"))
		req.Header.Set("Content-Type", "application/grpc+proto")
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res
	}
	call()
	res := call()
	if res.StatusCode != 200 || res.Header.Get("Grpc-Status") != "8" || res.Header.Get("Retry-After") != "3600" {
		t.Errorf("%d grpc-status %q Retry-After %q, want 200, 8, 3600", res.StatusCode, res.Header.Get("Grpc-Status"), res.Header.Get("Retry-After"))
	}
	if !strings.Contains(res.Header.Get("Grpc-Message"), `"calls"`) {
		t.Errorf("grpc-message %q does not name the rule", res.Header.Get("Grpc-Message"))
	}
}

func TestExemptRequestsHaveNoLimitHeaders(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nexempt: /health\nrules: [{ name: all, limit: 1/h }]\n", nil)
	for range 3 {
		r := s.get("/health")
		if r.StatusCode != 200 || r.Header.Get("RateLimit") != "" || r.Header.Get("RateLimit-Policy") != "" {
			t.Errorf("%d %v", r.StatusCode, r.Header)
		}
	}
}
