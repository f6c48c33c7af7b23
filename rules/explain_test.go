package rules

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const explained = `upstream: http://a
ipv6_prefix: 56
groups:
  gold: { header.X-A: [a, "ab*"], ip: 10.0.0.0/8 }
  keys: { query.a: ["1"] }
exempt: { path: /exempt }
rules:
- { name: ip, limit: 9/m }
- { name: subnet, key: ip/24, limit: 9/m }
- { name: all, key: global, match: GET /**, limit: 9/m }
- { name: pair, key: [header.X-A, host], limit: 9/m, tiers: { gold: { limit: 99/m } } }
- { name: skip, key: header.X-A, missing: skip, limit: 9/m }
- { name: reject, key: cookie.a, missing: reject, limit: 9/m, match: { not: { host: a.example } } }
- { name: other, key: query.a, missing: header.X-B, limit: 9/m }
- { name: known, key: query.a, known: keys, limit: 9/m }
- { name: known-skip, key: [query.a, ip], known: keys, missing: skip, limit: 9/m }
- { name: user, match: ["/:user", "/a/:user/**"], key: path.user, limit: 9/m }
- { name: gold, match: [{ group: gold }, { header.X-B: "*" }], concurrency: 9 }
- { name: costs, limit: 99/m, cost: { "/a/**": 3, "GET /**": 2 } }
- { name: body, key: body.name, limit: 9/m, match: POST /** }
- { name: body-open, key: body.name, limit: 9/m, fail: open, missing: reject, match: POST /** }
- { name: body-closed, key: [ip, body.name], limit: 9/m, fail: closed, match: POST /** }
`

// Explain says what Match does, of any request.
func TestExplanationsAgreeWithMatching(t *testing.T) {
	s := compile(t, explained, nil)
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		f.Header.Set("Content-Type", rapid.SampledFrom([]string{"application/json", "application/x-www-form-urlencoded", "text/plain"}).Draw(t, "type"))
		f.SetBody(rapid.SampledFrom([]Body{
			{State: BodyWhole}, {State: BodyTooLong}, {State: BodyNoMemory}, {State: BodyWhole, Bytes: []byte(`{"name": "ann"}`)},
			{State: BodyWhole, Bytes: []byte(`{"name": "ann", "name": "bob"}`)}, {State: BodyWhole, Bytes: []byte("name=ann")}, {State: BodyWhole, Bytes: []byte("x=y")},
		}).Draw(t, "body"))
		var want, got []string
		for _, h := range s.Match(f, nil) {
			want = append(want, fmt.Sprint(h.Rule.Name, h.Plan.Tier, h.Key, h.Cost, h.Missing, h.Doubt))
		}
		for _, e := range s.Explain(f) {
			if e.WhyNot != "" {
				continue
			}
			h := e.hit
			got = append(got, fmt.Sprint(h.Rule.Name, e.Plan.Tier, h.Key, e.Cost, h.Missing, h.Doubt))
			if refused := h.Missing || h.Doubt != KeyFound; refused != (e.Refuses != "") || refused == (len(e.Key) > 0) {
				t.Fatalf("%s: %+v", e.Rule.Name, e)
			}
			_, outcome := e.Rule.recipe.Digest(s.secret, f, s.byRule.way(e.Rule.Index, f))
			if (outcome == KeyFound) != (e.Instead == "" && e.Refuses == "") {
				t.Fatalf("%s: outcome %d, instead %q, refuses %q", e.Rule.Name, outcome, e.Instead, e.Refuses)
			}
		}
		if strings.Join(want, "\n") != strings.Join(got, "\n") {
			t.Fatalf("Match:\n%s\nExplain:\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
		}
		taken, whyNot := s.ExplainRoute(f)
		if taken != s.Route(f) || len(whyNot) != 0 {
			t.Fatalf("route %v, others %v", taken, whyNot)
		}
	})
}

func TestExplanationsSayWhatCounts(t *testing.T) {
	s := compile(t, explained, nil)
	f := factsOf(t, "POST", "a.example", "/a/ann/x")
	f.Header.Set("X-A", "abc d")
	f.RawQuery = "a=2"
	f.Header.Set("Content-Type", "application/json")
	f.SetBody(Body{State: BodyWhole, Bytes: []byte(`{"name": " Ann "}`)})
	var got strings.Builder
	for _, e := range s.Explain(f) {
		fmt.Fprintf(&got, "%s/%s %v %d %v|%s|%s|%s\n", e.Rule.Name, e.Plan.Tier, e.Key, e.Cost, e.CostBy, e.Instead, e.Refuses, e.WhyNot)
	}
	const want = `ip/ [ip = 192.0.2.1] 1 <nil>|||
subnet/ [ip/24 = 192.0.2.0/24] 1 <nil>|||
all/ [] 0 <nil>|||method POST is not GET
pair/gold [header.X-A = "abc d" host = a.example] 1 <nil>|||
skip/ [header.X-A = "abc d"] 1 <nil>|||
reject/ [] 0 <nil>|||not: the request is one that is excluded
other/ [query.a = 2] 1 <nil>|||
known/ [ip = 192.0.2.1] 1 <nil>|query.a is not a known one||
known-skip/ [] 0 <nil>|||query.a is not a known one, and missing: skip
user/ [path.user = ann] 1 <nil>|||
gold/ [ip = 192.0.2.1] 1 <nil>|||
costs/ [ip = 192.0.2.1] 3 /a/**|||
body/ [body.name = ann] 1 <nil>|||
body-open/ [body.name = ann] 1 <nil>|||
body-closed/ [ip = 192.0.2.1 body.name = ann] 1 <nil>|||
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	f = factsOf(t, "POST", "h", "/")
	f.SetBody(Body{State: BodyTooLong})
	for name, want := range map[string]string{
		"pair":        "header.X-A is not in the request",
		"skip":        "header.X-A is not in the request, and missing: skip",
		"reject":      "cookie.a is not in the request, and missing: reject",
		"other":       "query.a is not in the request",
		"body":        "body.name is in a body over body_limit",
		"body-open":   "body.name is in a body over body_limit, and fail: open",
		"body-closed": "body.name is in a body over body_limit, and fail: closed",
		"gold":        "the client is not in group gold; header.X-B is not in the request",
	} {
		e := s.Explain(f)[s.Rule(name).Index]
		if got := e.WhyNot + e.Refuses + e.Instead; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, e := range s.Explain(factsOf(t, "GET", "h", "/exempt")) {
		if e.WhyNot != "the request is exempt" {
			t.Errorf("%s on an exempt request: %q", e.Rule.Name, e.WhyNot)
		}
	}
}
