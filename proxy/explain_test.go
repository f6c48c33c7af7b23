package proxy

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const explainedSite = `
trusted_proxies: [127.0.0.0/8]
upstreams: { api: UPSTREAM }
routes:
  - { match: /own, respond: { status: 410, body: gone } }
  - { match: /moved/**, redirect: { to: "/new/{path.rest}" } }
  - { match: /small, upstream: api, max_body: 4B }
  - { match: api.example.com/v1/**, upstream: api, rewrite: "/one/{path.rest}" }
  - { match: [/login, /pages, /keys, /free, /search], upstream: api }
exempt: { path: /free }
block: { header.User-Agent: bad* }
rules:
  - { name: ip, limit: 4/h, match: [/login, /pages, /own, /small, "/v1/**", "/moved/**"] }
  - { name: name, match: POST /login, key: body.name, limit: 2/h, fail: closed }
  - { name: key, match: /keys, key: header.X-Key, missing: reject, limit: 3/h }
  - { name: page, match: { path: /pages, query.page: "*" }, key: query.page, limit: 1/h, reject: { status: 403, body: no } }
  - { name: search, match: /search, limit: 25/h, cost: { /search: 10 } }
  - { name: trial, limit: 1/h, dry_run: true }
`

// What is explained is what a gateway does with the same requests, one after another.
func TestExplanationsAreWhatTheGatewayDoes(t *testing.T) {
	for _, text := range []string{
		"GET /pages", "GET /pages?page=1", "GET /pages?page=1&page=2", "GET /pages?page=%zz", "GET /pages?page=", "GET /free", "GET /own", "GET /moved/a/b",
		"GET /v1/x/y", "GET //pages/", "GET /nowhere", "GET /keys", "GET /keys\nX-Key: k", "GET /search", "GET /a//../b", "GET /free%00",
		"GET /pages\nUser-Agent: bad robot", "GET /pages\nX-Forwarded-For: 203.0.113.7", "GET /pages\nExpect: x", "PRI /pages", "TRACE /pages",
		"GET /pages\nUpgrade: websocket\nConnection: upgrade\nContent-Length: 1\n\nx",
		"POST /login\nContent-Type: application/json\nContent-Length: 14\n\n{\"name\":\"ann\"}",
		"POST /login\nContent-Type: application/json\nContent-Length: 12\n\n{\"name\":\"ann",
		"POST /login\nContent-Type: application/x-www-form-urlencoded\nContent-Length: 8\n\nname=ann",
		"POST /login\nContent-Type: text/plain\nContent-Length: 8\n\nname=ann",
		"POST /login\nContent-Encoding: gzip\nContent-Length: 8\n\nname=ann",
		"POST /login\nContent-Length: 0",
		"POST /small\nContent-Length: 4\n\nabcd", "POST /small\nContent-Length: 5\n\nabcde",
		"GET /pages\n" + strings.Repeat("X-A: b\n", 101),
		"GET /" + strings.Repeat("a", 17<<10),
	} {
		head, body, _ := strings.Cut(text, "\n\n")
		first, rest, _ := strings.Cut(head, "\n")
		name, _, _ := strings.Cut(first, "/aaaa")
		t.Run(strings.ReplaceAll(name, "/", "|"), func(t *testing.T) {
			s := newSite(t, explainedSite, nil)
			if rest = strings.TrimSuffix(rest, "\n"); rest != "" {
				rest += "\n"
			}
			raw := first + " HTTP/1.1\nHost: api.example.com\n" + rest + "\n" + body
			const times = 6
			var want []string
			for range times {
				before := len(s.requests())
				r := s.raw(raw)
				sent := ""
				if got := s.requests(); len(got) > before {
					sent = " as " + got[before].RequestURI
				}
				want = append(want, fmt.Sprintf("%d %s%s", r.StatusCode, r.Header.Get("Location"), sent))
			}
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(raw, "\n", "\r\n"))))
			if err != nil {
				t.Fatal(err)
			}
			r.RemoteAddr = "127.0.0.1:4000"
			e := build(t, strings.ReplaceAll(explainedSite, "UPSTREAM", s.url), nil).Explain(r, []byte(body), times)
			var got []string
			for _, try := range e.Tries {
				line := "200  as " + e.Path
				if try.Answer != nil {
					line = fmt.Sprintf("%d %s", try.Answer.Status, try.Answer.Header.Get("Location"))
				}
				if r.URL.RawQuery != "" && try.Answer == nil {
					line += "?" + r.URL.RawQuery
				}
				got = append(got, line)
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("explained as\n%s\nand the gateway does\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			checkReasons(t, e)
		})
	}
}

// checkReasons checks that the rules which decide are those that are said to apply.
func checkReasons(t *testing.T, e *Explained) {
	t.Helper()
	applies := map[string]bool{}
	for i := range e.Rules {
		if e.Rules[i].WhyNot == "" && e.Rules[i].Refuses == "" {
			applies[e.Rules[i].Rule.Name] = true
		}
	}
	for i, try := range e.Tries {
		if len(try.Takes) > 0 && len(try.Takes) != len(applies) {
			t.Errorf("%d: %d rules decide and %d apply", i, len(try.Takes), len(applies))
		}
		for _, take := range try.Takes {
			if !applies[take.Rule.Name] {
				t.Errorf("%d: rule %s decides and is said not to apply", i, take.Rule.Name)
			}
		}
	}
}
