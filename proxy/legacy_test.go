package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
)

// checkFields parses the limit headers with somebody else's parser and checks
// that they are what the draft allows, for the rules named.
func checkFields(t testing.TB, h http.Header, names ...string) {
	t.Helper()
	for field, params := range map[string][]string{"RateLimit-Policy": {"q", "w", "qu"}, "RateLimit": {"r", "t"}} {
		list, err := httpsfv.UnmarshalList(h.Values(field))
		if err != nil {
			t.Errorf("%s %q: %v", field, h.Values(field), err)
			continue
		}
		var got []string
		for _, member := range list {
			item, ok := member.(httpsfv.Item)
			if !ok {
				t.Errorf("%s %q: a member is no Item", field, h.Values(field))
				continue
			}
			name, ok := item.Value.(string)
			if !ok {
				t.Errorf("%s: %v is no String", field, item.Value)
			}
			got = append(got, name)
			for i, param := range params {
				v, there := item.Params.Get(param)
				switch n, isInt := v.(int64); {
				case param == "qu" && there:
					if v != "concurrent-requests" {
						t.Errorf("%s: qu is %v", name, v)
					}
				case there && (!isInt || n < 0):
					t.Errorf("%s: %s is %v", name, param, v)
				case !there && i == 0:
					t.Errorf("%s %q: %s has no %s", field, h.Values(field), name, param)
				}
			}
			for _, param := range item.Params.Names() {
				if !strings.Contains(" "+strings.Join(params, " ")+" ", " "+param+" ") {
					t.Errorf("%s: parameter %s", field, param)
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(names) {
			t.Errorf("%s is of %v, want %v", field, got, names)
		}
	}
}

func TestLimitHeadersAreStructuredFields(t *testing.T) {
	s := newSite(t, `
upstream: UPSTREAM
rules:
  - { name: a, limit: 9/h }
  - { name: b_2-x, limit: 5/m, algorithm: gcra, burst: 7 }
  - { name: fixed, limit: 40/15m, algorithm: fixed_window }
  - { name: sliding, limit: 50/h, algorithm: sliding_window }
  - { name: log, limit: 4/d, algorithm: sliding_window_log }
  - { name: slots, concurrency: 60 }
  - { name: huge, limit: 1000000000/366d, burst: 90000000000 }
  - { name: login, key: body.username, limit: 10/h }
`, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("RateLimit", `"theirs";r=9`) })
	for i := range 6 {
		r := s.json(`{"username":"ann"}`)
		names := []string{"log", "b_2-x", "a", "fixed", "sliding", "slots", "huge"}
		if i < 4 {
			r.Header["Ratelimit"] = r.Header["Ratelimit"][1:] // the upstream's comes first
		}
		if i == 0 { // 3, 6, 8, …
			checkFields(t, r.Header, names...)
		} else {
			list, err := httpsfv.UnmarshalList(r.Header.Values("RateLimit"))
			if err != nil || len(list) != len(names) || list[0].(httpsfv.Item).Value != "log" {
				t.Errorf("request %d: %v %v", i, r.Header.Values("RateLimit"), err)
			}
		}
		if want := map[bool]int{true: 200, false: 429}[i < 4]; r.StatusCode != want {
			t.Errorf("request %d: %d, want %d", i, r.StatusCode, want)
		}
	}
}

// legacy returns the old limit headers as text: limit remaining reset, twice.
func legacy(h http.Header) string {
	var parts []string
	for _, prefix := range []string{"RateLimit-", "X-RateLimit-"} {
		for _, name := range []string{"Limit", "Remaining", "Reset"} {
			parts = append(parts, strings.Join(h.Values(prefix+name), "+"))
		}
	}
	return strings.Join(parts, " ")
}

// Case C16, legacy: one value each, and it is ours.
func TestLegacyHeadersTellOfTheTightestRule(t *testing.T) {
	theirs := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit-Limit", "1000")
		w.Header().Set("RateLimit-Remaining", "999")
		w.Header().Add("X-RateLimit-Reset", "1")
		w.Header().Add("X-RateLimit-Reset", "2")
		w.Header().Set("RateLimit", `"theirs";r=9`)
		if r.URL.Path == "/busy" {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(503)
		}
	}
	for _, kind := range []string{"legacy", "both", "draft-11", "off"} {
		s := newSite(t, "upstream: UPSTREAM\nratelimit_headers: "+kind+`
rules:
  - { name: per-ip, match: [/, /busy], limit: 5/m, algorithm: fixed_window }
  - { name: hour, match: [/, /busy], limit: 100/h, algorithm: fixed_window }
  - { name: slots, match: /slots, concurrency: 3 }
  - { name: try, match: /try, limit: 1/h, dry_run: true }
`, theirs)
		hour := nextHour()
		s.at(hour)
		old, new := kind == "legacy" || kind == "both", kind == "draft-11" || kind == "both"
		reset := strconv.FormatInt(int64(hour)/1e9+60, 10)
		for i, want := range []string{"4", "3", "2", "1", "0", "0"} {
			path := "/"
			if i == 1 {
				path = "/busy"
			}
			r := s.get(path)
			wantText := "5 " + want + " 60 5 " + want + " " + reset
			if !old {
				wantText = "1000 999    1+2"
				if r.StatusCode == 429 {
					wantText = "     "
				}
			}
			if got := legacy(r.Header); got != wantText {
				t.Errorf("%s, request %d: %q, want %q", kind, i, got, wantText)
			}
			n := 0
			if r.StatusCode != 429 {
				n++ // the upstream's own
			}
			if new {
				n++
			}
			if len(r.Header.Values("RateLimit")) != n || (len(r.Header.Values("RateLimit-Policy")) == 1) != new {
				t.Errorf("%s, request %d: RateLimit %q, policy %q", kind, i, r.Header.Values("RateLimit"), r.Header.Values("RateLimit-Policy"))
			}
			if i == 1 && (r.StatusCode != 503 || r.Header.Get("Retry-After") != "30") {
				t.Errorf("%s: the upstream's 503 came as %d, Retry-After %q", kind, r.StatusCode, r.Header.Get("Retry-After"))
			}
		}
		untouched := "1000 999    1+2"
		slots := "3 2  3 2 "
		if !old {
			slots = untouched
		}
		for path, want := range map[string]string{"/other": untouched, "/try": untouched, "/slots": slots} {
			if got := legacy(s.get(path).Header); got != want {
				t.Errorf("%s, %s: %q, want %q", kind, path, got, want)
			}
		}
	}
}
