package proxy

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"gateway/rules"
)

// secondAnswer asks g twice for path, with that id from a trusted peer, and returns the
// second answer.
func secondAnswer(t *testing.T, g *Gateway, path, id string) *httptest.ResponseRecorder {
	t.Helper()
	var w *httptest.ResponseRecorder
	for range 2 {
		r := httptest.NewRequest("GET", path, nil)
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("X-Request-Id", id)
		w = httptest.NewRecorder()
		g.ServeHTTP(w, r)
	}
	return w
}

func TestARefusalIsWordedAsTheFileSays(t *testing.T) {
	const head = "trusted_proxies: [127.0.0.1]\nroutes: [{ respond: { status: 204 } }]\n"
	const over, blocked = "#quota-exceeded", "#abnormal-usage-detected"
	for name, row := range map[string]struct {
		rules          string
		status         int
		kind, title    string
		detail, policy string
		retry          string
	}{
		"by itself":               {"{ name: a, limit: 1/h }", 429, over, "Too many requests", `Over the limit of rule "a"; try again in 3600 seconds.`, "a", "3600"},
		"for a second":            {"{ name: a, limit: 1/s }", 429, over, "Too many requests", `Over the limit of rule "a"; try again in 1 second.`, "a", "1"},
		"by two rules":            {"{ name: a, limit: 1/h }, { name: b-2, limit: 1/2h }", 429, over, "Too many requests", `Over the limit of rule "a" and rule "b-2"; try again in 7200 seconds.`, "a b-2", "7200"},
		"with another status":     {"{ name: a, limit: 1/h, reject: { status: 503 } }", 503, over, "Too many requests", `Over the limit of rule "a"; try again in 3600 seconds.`, "a", "3600"},
		"in words of the file":    {"{ name: a, limit: 1/h, reject: { detail: 'Ça \"suffit\" \\ <{rule}>: {limit}, {retry_after} s, {rule}' } }", 429, over, "Too many requests", `Ça "suffit" \ <a>: 1/h, 3600 s, a`, "a", "3600"},
		"in words and odd braces": {"{ name: a, limit: 1/h, reject: { detail: 'a {{rule}} }{ {limit' } }", 429, over, "Too many requests", `a {a} }{ {limit`, "a", "3600"},
		"after a block":           {"{ name: a, limit: 1/h, penalty: { after: 1/h, block: 2h } }", 429, blocked, "Blocked", `Blocked under rule "a" for too many refusals; try again in 7200 seconds.`, "a", "7200"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, id := range []string{"plain", `"quoted\`} {
				g := New(Config{Clock: NewClock()}, build(t, head+"rules: [ "+row.rules+" ]\n", nil))
				defer g.Close()
				w := secondAnswer(t, g, "/", id)
				if name == "after a block" {
					w = secondAnswer(t, g, "/", id)
				}
				retry, err := strconv.ParseInt(row.retry, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				want, err := json.Marshal(struct {
					Type     string   `json:"type"`
					Title    string   `json:"title"`
					Status   int      `json:"status"`
					Detail   string   `json:"detail"`
					Instance string   `json:"instance"`
					Policies []string `json:"violated-policies"`
					Retry    int64    `json:"retry_after"`
				}{
					"https://iana.org/assignments/http-problem-types" + row.kind, row.title, row.status, row.detail, "urn:request:" + id, strings.Fields(row.policy), retry,
				})
				if err != nil {
					t.Fatal(err)
				}
				plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(want)) // which json.Marshal escapes for HTML
				if got := w.Body.String(); got != plain+"\n" {
					t.Errorf("body\n%swant\n%s", got, plain)
				}
				for field, want := range map[string]string{
					"Retry-After": row.retry, "Content-Type": "application/problem+json", "X-Content-Type-Options": "nosniff",
					"Cache-Control": "no-store", "X-Request-Id": id,
				} {
					if got := w.Header()[field]; w.Code != row.status || len(got) != 1 || got[0] != want {
						t.Errorf("%d, %s: %q, want %q", w.Code, field, got, want)
					}
				}
			}
		})
	}
}

func TestARefusalThatWaitingDoesNotHelp(t *testing.T) {
	hit := &rules.Hit{Rule: &rules.Rule{Name: "a"}, Plan: &rules.Plan{Limit: "1/h"}}
	f := refusal{rules: []*rules.Hit{hit}, id: "x", seconds: 0, canWait: false}
	for detail, want := range map[string]string{
		"":                         `Over the limit of rule \"a\"; this request can never pass.`,
		"in {retry_after} seconds": "in  seconds",
	} {
		w := newWording(&rules.Reject{Status: 429, Detail: detail, Body: "<{retry_after}>", ContentType: "text/plain"})
		body := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,"detail":"` +
			want + `","instance":"urn:request:x","violated-policies":["a"]}` + "\n"
		if got := string(f.write(nil, w.limited)); got != body {
			t.Errorf("%q\n%swant\n%s", detail, got, body)
		}
		if got := string(f.write(nil, w.body)); got != "<>" {
			t.Errorf("%q, want <>", got)
		}
	}
}

// Rules that say the same share one wording, others do not.
func TestWordingsAreShared(t *testing.T) {
	var list []*rules.Rule
	for _, r := range []*rules.Reject{
		{Status: 429}, {Status: 429}, {Status: 503}, {Status: 429, Detail: "x"}, {Status: 429, Body: "x", ContentType: "text/plain"},
		{Status: 429, Body: "x", ContentType: "text/html"}, {Status: 429, Jitter: 1},
		{Status: 429, Headers: []rules.Header{{Name: "A", Value: "1"}}}, {Status: 429, Headers: []rules.Header{{Name: "A", Value: "{rule}"}}},
		{Status: 429, Headers: []rules.Header{{Name: "A", Value: "1"}}},
	} {
		list = append(list, &rules.Rule{Reject: r})
	}
	known := map[*wording]int{}
	for i, w := range newWordings(list) {
		if first, ok := known[w]; ok && (i != 1 || first != 0) && (i != 9 || first != 7) {
			t.Errorf("%d has the words of %d", i, first)
		} else if !ok {
			known[w] = i
		}
	}
	if len(known) != 8 {
		t.Errorf("%d wordings, want 8", len(known))
	}
}

// Headers that all refusals share stay what they are whatever is done to one answer.
func TestHeadersOfTheFileAreAddedToEachRefusal(t *testing.T) {
	g := New(Config{Clock: NewClock()}, build(t, `
routes: [{ respond: { status: 204 }, headers: { response: { set: { Vary: Origin, X-Plain: no } } } }]
rules:
  - name: a
    limit: 1/h
    reject: { headers: { X-Plain: "yes", X-Why: "{rule} {limit} {retry_after} {other}" } }
`, nil))
	defer g.Close()
	for range 3 {
		h := secondAnswer(t, g, "/", "").Header()
		for name, want := range map[string]string{"X-Plain": "yes", "X-Why": "a 1/h 3600 {other}", "Vary": "Origin"} {
			if got := h[name]; len(got) != 1 || got[0] != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		for name := range h {
			h[name] = append(h[name], "more")
			h[name][0] = h[name][0] + "" // a value may be set; strings are not shared
		}
	}
}

// What a refusal allocates: the request's id, one text of numbers for the header
// fields, and their values.
func TestARefusalAllocatesLittle(t *testing.T) {
	const routes = "routes: [{ respond: { status: 204 } }]\n"
	for name, row := range map[string]struct {
		text string
		want float64
	}{
		"one rule":          {"rules: [{ name: a, limit: 1/d }]\n", 3},
		"the third of four": {"rules: [{ name: a, limit: 9/d }, { name: b, limit: 9/d }, { name: c, limit: 1/d }, { name: d, limit: 9/d }]\n", 3},
		"three of three":    {"rules: [{ name: a, limit: 1/d }, { name: b, limit: 1/d }, { name: c, limit: 1/d }]\n", 4}, // and their names, for the log
		"words of the file": {"rules: [{ name: a, limit: 1/d, reject: { detail: 'wait {retry_after} s', headers: { X-A: b } } }]\n", 3},
		"a body":            {"rules: [{ name: a, limit: 1/d, reject: { body: '<p>{rule} {limit}' } }]\n", 3},
		"no limit headers":  {"ratelimit_headers: off\nrules: [{ name: a, limit: 1/d }]\n", 3},
		"blocked":           {"rules: [{ name: a, limit: 1/d, penalty: { after: 1/h, block: 24h } }]\n", 3},
		"block":             {"block: { path: / }\nrules: []\n", 2}, // and no numbers
	} {
		t.Run(name, func(t *testing.T) {
			g := New(Config{Clock: NewClock()}, build(t, routes+row.text, nil))
			defer g.Close()
			r := httptest.NewRequest("GET", "/", nil)
			s := sink{header: http.Header{}}
			refuse := func() {
				clear(s.header)
				g.ServeHTTP(&s, r)
			}
			for range 12 { // over the limit, by the second or the tenth
				refuse()
			}
			if s.status < 400 {
				t.Fatalf("status %d", s.status)
			}
			if got := testing.AllocsPerRun(200, refuse); got != row.want && (!underRace || got > row.want+10) {
				t.Errorf("%v allocations, want %v", got, row.want)
			}
		})
	}
}
