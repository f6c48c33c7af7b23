package proxy

import (
	"strings"
	"testing"
)

func TestACostByPatternIsTakenAndTold(t *testing.T) {
	s := newSite(t, `
upstream: UPSTREAM
rules:
  - { name: all, key: global, limit: 30/h, cost: { /search: 10, POST /search: 1, "/static/**": 0 } }
`, nil)
	for _, row := range []struct {
		request string
		status  int
		left    string // what the RateLimit field says is left
	}{
		{"GET /search", 200, "20"}, // of 30, 10
		{"GET //search/", 200, "10"},
		{"GET /", 200, "9"},
		{"GET /static/app.js", 200, "9"},
		{"GET /%73earch", 429, "9"}, // 10 do not fit, and nothing is taken
		{"POST /search", 200, "8"},
		{"GET /static", 200, "8"},
	} {
		r := s.raw(row.request + " HTTP/1.1\nHost: a\nContent-Length: 0\n\n")
		if got := r.Header.Get("RateLimit"); r.StatusCode != row.status || !strings.HasPrefix(got, `"all";r=`+row.left+`;`) {
			t.Errorf("%s: %d, RateLimit %s; want %d and %s left", row.request, r.StatusCode, got, row.status, row.left)
		}
	}
}
