package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestWhatSixtyAMinuteMeans(t *testing.T) {
	for _, row := range []struct {
		burst  string
		passed int
		retry  string
	}{
		{"", 21, ""}, // the bucket holds 60
		{", burst: 1", 1, "1"},
		{", burst: 20", 20, "1"},
	} {
		s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: a, limit: 60/m"+row.burst+" }]\n", nil)
		codes := make(chan [2]string, 21)
		for range 21 { // at once, so that no second passes
			go func() {
				r := s.get("/")
				codes <- [2]string{fmt.Sprint(r.StatusCode), r.Header.Get("Retry-After")}
			}()
		}
		passed := 0
		for range 21 {
			switch code := <-codes; {
			case code[0] == "200":
				passed++
			case code != [2]string{"429", "1"}:
				t.Errorf("limit 60/m%s: %v, want 429 and 1", row.burst, code)
			}
		}
		if passed != row.passed && passed != row.passed+1 { // one may come back meanwhile
			t.Errorf("limit 60/m%s: %d of 21 passed, want %d", row.burst, passed, row.passed)
		}
	}
}

func TestTwoAMinuteOverAMinute(t *testing.T) {
	type step struct {
		second int
		want   int
		retry  string
	}
	for algorithm, steps := range map[string][]step{
		// Two at 0, and then one comes back each 30 s.
		"token_bucket": {{0, 200, ""}, {0, 200, ""}, {1, 429, "29"}, {31, 200, ""}, {61, 200, ""}, {62, 429, "28"}},
		// Two in each minute of the clock.
		"fixed_window": {{0, 200, ""}, {0, 200, ""}, {1, 429, "59"}, {31, 429, "29"}, {61, 200, ""}, {62, 200, ""}, {63, 429, "57"}},
	} {
		s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: a, limit: 2/m, algorithm: "+algorithm+" }]\n", nil)
		start, at := nextHour(), -1
		for _, step := range steps {
			if step.second != at {
				at = step.second
				now := start.Add(time.Duration(at) * time.Second)
				if at > 0 { // and a half, so that the time the test takes rounds nothing over
					now = now.Add(time.Second / 2)
				}
				s.at(now)
			}
			r := s.get("/")
			if r.StatusCode != step.want || r.Header.Get("Retry-After") != step.retry {
				t.Errorf("%s at %d s: %d, Retry-After %q; want %d, %q", algorithm, step.second, r.StatusCode, r.Header.Get("Retry-After"), step.want, step.retry)
			}
		}
	}
}

func TestARefusalOfOneRuleCostsTheOtherNothing(t *testing.T) {
	for _, algorithm := range []string{"token_bucket", "fixed_window"} {
		for _, order := range []bool{true, false} {
			a := "  - { name: a, limit: 10/h, algorithm: " + algorithm + " }\n"
			b := "  - { name: b, key: header.X-Job, limit: 1/h, algorithm: fixed_window }\n"
			rules := a + b
			if !order {
				rules = b + a
			}
			s := newSite(t, "upstream: UPSTREAM\nrules:\n"+rules, nil)
			s.at(nextHour())
			var passed int
			var mu sync.Mutex
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					if s.get("/", "X-Job: j1").StatusCode == 200 {
						mu.Lock()
						passed++
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if passed != 1 {
				t.Errorf("%s: %d of 10 with one job passed, want 1", algorithm, passed)
			}
			s.at(nextHour().Add(time.Second))
			passed = 0
			for i := range 12 {
				r := s.get("/", fmt.Sprintf("X-Job: k%d", i))
				if r.StatusCode == 200 {
					passed++
					if got := rest(r, "a"); got != fmt.Sprint(8-i) {
						t.Errorf("%s: job %d leaves %s of a, want %d", algorithm, i, got, 8-i)
					}
					continue
				}
				if got := problemOf(t, r)["violated-policies"].([]any); len(got) != 1 || got[0] != "a" {
					t.Errorf("%s: refused by %v, want a", algorithm, got)
				}
				// One of the first step's ten was taken a second before; the bucket gives
				// one back each 360 s, the window ends with its hour.
				// The clock goes on between the steps, so it may be a second more or less.
				want := map[string]int{"token_bucket": 359, "fixed_window": 3599}[algorithm]
				if got, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || got < want-1 || got > want+1 {
					t.Errorf("%s: Retry-After %q, want %d or a second more or less", algorithm, r.Header.Get("Retry-After"), want)
				}
			}
			if passed != 9 {
				t.Errorf("%s: %d of 12 jobs passed, want 9", algorithm, passed)
			}
		}
	}
}

// rest returns what RateLimit says is left of a rule.
func rest(r reply, rule string) string {
	_, after, _ := strings.Cut(r.Header.Get("RateLimit"), `"`+rule+`";r=`)
	n, _, _ := strings.Cut(after, ";")
	return n
}

func TestTheHeadersDescribeTheLimitThatBites(t *testing.T) {
	s := newSite(t, `
upstream: UPSTREAM
rules:
  - { name: minute, limit: 10/m, algorithm: fixed_window }
  - { name: hour, limit: 12/h, algorithm: fixed_window }
`, nil)
	start := nextHour()
	s.at(start.Add(500 * time.Millisecond))
	expect := func(what string, want int, rates, retry, by string) {
		t.Helper()
		r := s.get("/")
		if got := r.Header.Values("RateLimit"); r.StatusCode != want || len(got) != 1 || got[0] != rates || r.Header.Get("Retry-After") != retry {
			t.Errorf("%s: %d, RateLimit %q, Retry-After %q; want %d, %q, %q", what, r.StatusCode, got, r.Header.Get("Retry-After"), want, rates, retry)
		}
		if by != "" {
			if got := problemOf(t, r)["violated-policies"].([]any); len(got) != 1 || got[0] != by {
				t.Errorf("%s: refused by %v, want %s", what, got, by)
			}
		}
	}
	for i := range 10 {
		expect(fmt.Sprint("minute 1, request ", i+1), 200, fmt.Sprintf(`"minute";r=%d;t=60, "hour";r=%d;t=3600`, 9-i, 11-i), "", "")
	}
	expect("the 11th", 429, `"minute";r=0;t=60, "hour";r=2;t=3600`, "60", "minute")
	s.at(start.Add(61500 * time.Millisecond))
	expect("minute 2, the first", 200, `"hour";r=1;t=3539, "minute";r=9;t=59`, "", "")
	expect("the second", 200, `"hour";r=0;t=3539, "minute";r=8;t=59`, "", "")
	expect("the third", 429, `"hour";r=0;t=3539, "minute";r=8;t=59`, "3539", "hour")
	eventually(t, "the lines", func() bool { return len(s.access.all()) == 14 })
	if e := s.entries(14); e[10]["rule"] != "minute" || e[13]["rule"] != "hour" || e[13]["result"] != "rejected" {
		t.Errorf("refusals logged as %v and %v", e[10], e[13])
	}
	for _, rule := range s.gateway.Current().rules.Rules {
		if n := rule.Base.Live.Rejected.Load(); n != 1 {
			t.Errorf("%s refused %d, want 1", rule.Name, n)
		}
	}
}

func TestPathsWithoutARuleShowTheUpstreamsOwnHeaders(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: a, match: /api/**, limit: 5/m }]\n", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit-Limit", "1000")
		w.Header().Set("RateLimit-Remaining", "999")
		if r.URL.Path == "/api/busy" {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(503)
		}
	})
	for path, status := range map[string]int{"/api/x": 200, "/api/busy": 503, "/other": 200} {
		r := s.get(path)
		if r.StatusCode != status || strings.Join(r.Header.Values("RateLimit-Limit"), "|") != "1000" || strings.Join(r.Header.Values("RateLimit-Remaining"), "|") != "999" {
			t.Errorf("%s: %d %v", path, r.StatusCode, r.Header)
		}
		want := 1
		if path == "/other" {
			want = 0
		}
		if len(r.Header["Ratelimit"]) != want || len(r.Header["Ratelimit-Policy"]) != want {
			t.Errorf("%s: %d of our own headers, want %d", path, len(r.Header["Ratelimit"]), want)
		}
		if status == 503 && r.Header.Get("Retry-After") != "30" {
			t.Errorf("Retry-After %q, want the upstream's 30", r.Header.Get("Retry-After"))
		}
	}
}

func TestPreflightsAreCountedOnlyWhereTheRuleSaysSo(t *testing.T) {
	const cors = "reject: { headers: { Access-Control-Allow-Origin: '*', Access-Control-Expose-Headers: 'Retry-After, RateLimit, RateLimit-Policy' } }\n"
	for match, want := range map[string][]int{
		// OPTIONS and GET in turn, three of each.
		"match: { method: GET }, ": {200, 200, 200, 200, 200, 429},
		"":                         {200, 200, 429, 429, 429, 429},
	} {
		s := newSite(t, cors+"upstream: UPSTREAM\nrules: [{ name: a, "+match+"limit: 2/h }]\n", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Access-Control-Allow-Origin", "*")
		})
		for i, want := range want {
			method := []string{"OPTIONS", "GET"}[i%2]
			r := s.raw(method + " / HTTP/1.1\nHost: a\nConnection: close\nOrigin: https://app.example\nAccess-Control-Request-Method: GET\n\n")
			if r.StatusCode != want || r.Header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%q, request %d, %s: %d, want %d; %v", match, i, method, r.StatusCode, want, r.Header)
			}
			if want == 429 && r.Header.Get("Access-Control-Expose-Headers") == "" {
				t.Error("the refusal lacks the fixed headers")
			}
		}
		if got := s.raw("HEAD / HTTP/1.1\nHost: a\nConnection: close\n\n").StatusCode; got != 429 {
			t.Errorf("%q: HEAD, which a GET rule covers: %d", match, got)
		}
	}
}

func TestARulesNameIsItsNamespace(t *testing.T) {
	one := newSite(t, "upstream: UPSTREAM\nrules: [{ name: a, match: [/a, /b], limit: 10/h }]\n", nil)
	for i := range 10 {
		if got := one.get("/a").StatusCode; got != 200 {
			t.Fatalf("request %d: %d", i, got)
		}
	}
	if got := one.get("/b").StatusCode; got != 429 {
		t.Errorf("one rule on two paths, the 11th: %d, want 429", got)
	}
	two := newSite(t, "upstream: UPSTREAM\nrules: [{ name: a, match: /a, limit: 10/h }, { name: b, match: /b, limit: 10/h }]\n", nil)
	for i := range 20 {
		if got := two.get([]string{"/a", "/b"}[i/10]).StatusCode; got != 200 {
			t.Errorf("two rules, request %d: %d, want 200", i, got)
		}
	}
}

func TestThirtyInTenSecondsWithABurstOfTen(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: a, key: header.K, limit: 30/10s, burst: 10 }]\n", nil)
	start, passed := nextHour(), 0
	for i := range 100 { // one each 100 ms: 10, and what comes back in 9.9 s
		s.at(start.Add(time.Duration(i) * 100 * time.Millisecond))
		switch r := s.get("/", "K: slow"); {
		case r.StatusCode == 200:
			passed++
		case r.Header.Get("Retry-After") != "1": // the next is there in 0.33 s
			t.Errorf("request %d: %d, Retry-After %q", i, r.StatusCode, r.Header.Get("Retry-After"))
		}
	}
	if passed != 39 && passed != 40 {
		t.Errorf("%d of 100 passed, want 39 or 40", passed)
	}
}
