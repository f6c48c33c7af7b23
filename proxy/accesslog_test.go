package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// canary is a secret that must stand in no line.
const canary = "c4n4ry-5ecret"

func TestEachRequestHasOneSoundLineWhateverIsInIt(t *testing.T) {
	s := newSite(t, "trusted_proxies: [127.0.0.1/32]\nupstream: UPSTREAM\nrules: [{ name: all, limit: 100000/h }]\n", nil)
	texts := []string{
		"GET / HTTP/1.1\nUser-Agent: " + strings.Repeat("u", 60_000) + "\n",
		"GET / HTTP/1.1\nUser-Agent: a\tb \x1b[31m\xff\xc3\n",
		"GET / HTTP/1.1\nReferer: http://x/?\"\\\xff\n",
		"GET / HTTP/1.1\nX-Request-Id: \"},{\"evil\":\"1\n",
		"GET / HTTP/1.1\nX-Forwarded-For: \"},{\xff\n",
		"GET / HTTP/1.1\nTraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n",
		"GET / HTTP/1.1\nTraceparent: 00-\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"-00f067aa0ba902b7-01\n",
		"GET /%0d%0a%1b%00%22%5c HTTP/1.1\n",
		"GET /%0d%0aevil%1b[31m HTTP/1.1\n",
		"GET /?%0d%0a\"\\ HTTP/1.1\n",
		"GET /\xff\xfe\"\\<>& HTTP/1.1\n",
		"GET /caf\xc3\xa9?\xc3\xff\xe2\x80\xa8 HTTP/1.1\n",
		"GET /?" + strings.Repeat("<", 3000) + " HTTP/1.1\n",
		"GET /?" + strings.Repeat("\xff", 3000) + " HTTP/1.1\n",
		"GET /" + strings.Repeat("\xe2\x80\xa8", 3000) + " HTTP/1.1\n",
		"GET /?" + strings.Repeat("\"", 3000) + " HTTP/1.1\n",
		strings.Repeat("&", 3000) + " /?" + strings.Repeat("&", 3000) + " HTTP/1.1\n",
		strings.Repeat("'", 3000) + " /" + strings.Repeat("'", 3000) + " HTTP/1.1\n",
		"GET /" + strings.Repeat("%00", 3000) + " HTTP/1.1\n",
		"GET /" + strings.Repeat("u", 20_000) + " HTTP/1.1\n",
		"GET / HTTP/1.1\n" + strings.Repeat("X: y\n", 200),
	}
	ids := map[string]bool{}
	for _, text := range texts {
		r := s.raw(text + "Host: api.example.com\nConnection: close\n\n")
		if id := r.Header.Get("X-Request-Id"); id != "" { // else net/http refused it by itself
			ids[id] = true
		}
	}
	if len(ids) < 15 {
		t.Errorf("only %d of the requests came as far as the gateway", len(ids))
	}
	ids[s.get("/end").Header.Get("X-Request-Id")] = true
	eventually(t, "the last line", func() bool {
		all := s.access.all()
		return strings.Contains(all[len(all)-1], "/end")
	})
	list := s.access.all()
	traced := 0
	for _, line := range list {
		if len(line) > 4096 || !utf8.ValidString(line) || strings.ContainsAny(line, "\x1b\r\x00") {
			t.Errorf("a line of %d bytes, sound UTF-8 %t: %.200q", len(line), utf8.ValidString(line), line)
		}
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil || m["status"] == nil || m["method"] == nil || m["evil"] != nil {
			t.Errorf("%v: %.200q", err, line)
		}
		if id, _ := m["request_id"].(string); !ids[id] {
			t.Errorf("a line too many, or of nobody: %.200q", line)
		} else {
			delete(ids, id)
		}
		if id := m["trace_id"]; id == "4bf92f3577b34da6a3ce929d0e0e4736" {
			traced++
		} else if id != nil {
			t.Errorf("trace_id %v", id)
		}
	}
	if len(ids) > 0 || traced != 1 {
		t.Errorf("%d requests without a line, %d with a trace id, want 1", len(ids), traced)
	}
	t.Attr("S43", fmt.Sprintf("%d injections, one valid line for each request that came so far", len(texts)))
}

func TestEveryFormatBoundsAndEscapesItsLines(t *testing.T) {
	odd := strings.Repeat("\x1b\xff\"\\\u2028\n<", 2000)
	names := strings.Repeat("a-long-name-of-a-rule,", 500)
	r := Record{
		Method: odd, Target: odd, Proto: "HTTP/1.1", Referer: odd, UserAgent: odd, Status: 200, Err: odd, RequestID: strings.Repeat("\"", 128),
		Rule: names, DryRun: names, Route: odd, Upstream: odd, TraceID: strings.Repeat("f", 32), Result: "allowed", Count: 3,
	}
	for format, f := range formatters {
		if f.line == nil {
			continue
		}
		line := string(f.line(nil, &r))
		if len(line) > 4096 || strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") || !utf8.ValidString(line) || strings.Contains(line, "\x1b") {
			t.Errorf("%s: %d bytes, %d ends of line: %.100q", format, len(line), strings.Count(line, "\n"), line)
		}
	}
	var m map[string]any
	if err := json.Unmarshal(jsonLine(nil, &r), &m); err != nil {
		t.Error(err)
	}
}

func TestNoLineHoldsAKey(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, `
upstream: UPSTREAM
rules:
  - { name: a, key: header.X-Plan-Id, limit: 1/h }
  - { name: b, key: query.tenant, limit: 1000/h }
  - { name: c, key: cookie.session, limit: 1000/h }
  - { name: d, key: header.Authorization, missing: query.fallback, limit: 1000/h }
`, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Set-Cookie", "session="+canary) })
	queries := []string{
		"key=", "api_key=", "API_KEY=", "access_token=", "x-secret=", "password=", "tenant=", "fallback=", "ten%61nt=", "%74oken=", "k%65y=", "a=1&token=",
		"pass%77ord=", "tenant=x&tenant=", "=&tenant=",
	}
	n := 0
	for _, format := range []string{"json", "combined", "text"} {
		s.gateway.access.SetFormat(format)
		for _, q := range queries {
			n++
			s.get("/p?"+q+canary, "X-Plan-Id: "+canary, "Cookie: session="+canary, "Authorization: Bearer "+canary, "X-API-Key: "+canary,
				"Proxy-Authorization: Basic "+canary, "Referer: http://app.example/?"+q+canary)
		}
		n++
		s.raw("GET http://user:" + canary + "@api.example.com/p?token=" + canary + " HTTP/1.1\nHost: a\nConnection: close\nX-Plan-Id: " + canary + "\n\n")
		n++
		s.get("/%00?token="+canary, "X-Plan-Id: "+canary) // refused with 400
		eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 && len(s.gateway.access.queue) == 0 })
		s.get("/" + format) // a line that is not summed up
		eventually(t, "all is written", func() bool { return strings.Contains(strings.Join(s.access.all(), "\n"), "/"+format) })
	}
	// What is summed up comes within a second.
	eventually(t, "a summed line", func() bool { return strings.Contains(strings.Join(s.access.all(), "\n"), "count") })
	all := strings.Join(s.access.all(), "\n")
	if i := strings.Index(all, canary); i >= 0 {
		t.Errorf("a secret in the log: …%s", all[max(0, i-200):i+len(canary)])
	}
	if !strings.Contains(all, "/p?api_key=***") {
		t.Error("the query is gone altogether")
	}
	t.Attr("S43", fmt.Sprintf("%d leaks in the lines of %d requests with secrets in %d places", strings.Count(all, canary), n, len(queries)+8))
}

func TestWhatIsToBeRedactedIsInNoLine(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, `
upstream: UPSTREAM
rules: [{ name: a, match: /reset/:token/**, limit: 1000/h }]
log: { redact: [query.session, path.token, header.Referer, header.User-Agent] }
`, nil)
	for _, format := range []string{"json", "combined", "text"} {
		s.gateway.access.SetFormat(format)
		for _, target := range []string{
			"/reset/" + canary, "/reset/" + canary + "/a?b=1", "//reset/./" + canary + "/", "/%72eset/" + canary, "/a?session=" + canary, "/a?s%65ssion=" + canary,
			"/reset/" + canary + "/%00",
		} {
			s.get(target, "Referer: http://app.example/"+canary, "User-Agent: "+canary)
		}
		s.get("/" + format)
		eventually(t, "all is written", func() bool { return strings.Contains(strings.Join(s.access.all(), "\n"), "/"+format) })
	}
	all := strings.Join(s.access.all(), "\n")
	if i := strings.Index(all, canary); i >= 0 {
		t.Errorf("in the log: …%s", all[max(0, i-200):i+len(canary)])
	}
	for _, want := range []string{"/reset/***/a?b=1", "/a?session=***", `"***" "***"`} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in\n%s", want, all)
		}
	}
}

func TestRefusalsBeyondTenASecondAreSummedUp(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: a, key: header.K, limit: 1/h }]\n", nil)
	const n = 200
	w := s.dial()
	go w.send(strings.Repeat("GET /a HTTP/1.1\r\nHost: a\r\nK: one\r\n\r\n", n))
	for range n {
		w.mustAnswer("GET")
	}
	s.get("/other", "K: two")
	// A second may turn while they come, so there may be twice ten lines and sums.
	var lines, counted, sums int
	eventually(t, "all are accounted for", func() bool {
		lines, counted, sums = 0, 0, 0
		for _, line := range s.access.all() {
			var m map[string]any
			if json.Unmarshal([]byte(line), &m) != nil || m["path"] != "/a" {
				continue
			}
			lines++
			c, summed := m["count"].(float64)
			if !summed {
				c = 1
			} else if sums++; m["rule"] != "a" || m["status"] != 429.0 || m["result"] != "rejected" {
				t.Errorf("the sum says %s", line)
			}
			counted += int(c)
		}
		return counted == n
	})
	if lines > 1+3*11 || sums < 1 {
		t.Errorf("%d lines, %d of them sums, for %d requests", lines, sums, n)
	}
}

func TestASumIsOfOneRule(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: a, match: /a, limit: 1/h }, { name: b, match: /b, limit: 1/h }]\n", nil)
	const n = 30
	w := s.dial() // one address: the same key under both rules
	go w.send(strings.Repeat("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n", n+1))
	for range 2 * (n + 1) {
		w.mustAnswer("GET")
	}
	refused := map[string]int{}
	eventually(t, "all are accounted for", func() bool {
		clear(refused)
		for _, line := range s.access.all() {
			var m map[string]any
			if json.Unmarshal([]byte(line), &m) != nil || m["status"] != 429.0 {
				continue
			}
			c, summed := m["count"].(float64)
			if !summed {
				c = 1
			}
			refused[fmt.Sprint(m["rule"], m["path"])] += int(c)
		}
		return refused["a/a"]+refused["b/b"] == 2*n || len(refused) > 2
	})
	if refused["a/a"] != n || refused["b/b"] != n {
		t.Errorf("%v, want %d of each rule", refused, n)
	}
}

func TestALineNamesTheDryRunRuleThatWouldHaveRefused(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: a, limit: 10/h }, { name: trial, limit: 2/h, dry_run: true }]\n", nil)
	for i := range 11 {
		s.get("/")
		e := s.entries(i + 1)[i]
		want := any(nil)
		if i >= 2 && i < 10 {
			want = "trial"
		}
		if e["dry_run_rule"] != want {
			t.Errorf("request %d: dry_run_rule %v, want %v", i, e["dry_run_rule"], want)
		}
		if i == 10 && (e["rule"] != "a" || e["status"] != 429.0) {
			t.Errorf("the last: %v", e)
		}
	}
	for _, r := range s.gateway.Current().rules.Rules {
		if r.Name == "trial" && r.Base.Live.DryRunRejected.Load() != 8 {
			t.Errorf("the trial would have refused %d, want 8", r.Base.Live.DryRunRejected.Load())
		}
	}
}

func TestALineSaysWhatWasDecidedAndWhen(t *testing.T) {
	s := newSite(t, "upstreams: { app: UPSTREAM }\nroutes: [{ match: /a/**, upstream: app }]\nrules: [{ name: all, limit: 2/h }]\n", nil)
	began := time.Now()
	for range 3 {
		s.get("/a/b?x=1")
	}
	s.get("/none")
	e := s.entries(4)
	for i, want := range []map[string]any{
		{"status": 200.0, "result": "allowed", "seq": 1.0, "cost": 1.0, "settled": 1.0, "bytes": 2.0, "upstream": "app", "route": "/a/**", "rule": nil},
		{"status": 200.0, "result": "allowed", "seq": 2.0, "cost": 1.0, "settled": 1.0, "bytes": 2.0, "upstream": "app", "route": "/a/**", "rule": nil},
		{"status": 429.0, "result": "rejected", "seq": 3.0, "cost": 1.0, "settled": 0.0, "upstream": nil, "route": "/a/**", "rule": "all"},
		{"status": 404.0, "result": "failed", "upstream": nil, "route": nil, "rule": nil},
	} {
		for name, want := range want {
			if e[i][name] != want {
				t.Errorf("line %d: %s is %v, want %v", i, name, e[i][name], want)
			}
		}
		at := time.Unix(0, int64(e[i]["at"].(float64)))
		if at.Before(began.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
			t.Errorf("line %d: at %v", i, at)
		}
		if i < 3 && fmt.Sprintf("%v %v %v %v", e[i]["client"], e[i]["peer"], e[i]["method"], e[i]["path"]) != "127.0.0.1 127.0.0.1 GET /a/b?x=1" {
			t.Errorf("line %d: %v", i, e[i])
		}
	}
}
