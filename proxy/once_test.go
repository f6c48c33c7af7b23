package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Whatever an upstream does, each header of the gateway is in the final answer,
// once; a list that the upstream has begun goes on with ours.
func TestOurHeadersAreThereExactlyOnce(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: all, limit: 100/h }]\n", func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		switch r.URL.Path {
		case "/hints":
			h.Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusEarlyHints)
		case "/theirs":
			for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
				h.Add(name, `"theirs";r=1`)
				h.Add(name, `"more";r=2`)
			}
			h.Add("X-Request-Id", "1")
			h.Add("X-Request-Id", "2")
		case "/trailers":
			h.Set("Trailer", "X-Sum")
			defer h.Set("X-Sum", "7")
		case "/304":
			w.WriteHeader(304)
			return
		case "/ws":
			echo(w, r)
			return
		}
		io.WriteString(w, "ok")
	})
	check := func(t *testing.T, what string, status int, res *http.Response) bool {
		t.Helper()
		id := res.Header.Values("X-Request-Id")
		good := res.StatusCode == status && len(id) == 1 && len(id[0]) == 32
		for _, name := range []string{"Ratelimit", "Ratelimit-Policy"} {
			good = good && strings.Count(strings.Join(res.Header.Values(name), ", "), `"all";`) == 1
		}
		if !good {
			t.Errorf("%s: %d %v", what, res.StatusCode, res.Header)
		}
		return good
	}
	tries, good := 0, 0
	count := func(ok bool) {
		if tries++; ok {
			good++
		}
	}
	both(t, func(t *testing.T, c *http.Client) {
		for _, row := range []struct {
			method, path string
			status       int
		}{{"GET", "/hints", 200}, {"GET", "/theirs", 200}, {"GET", "/trailers", 200}, {"HEAD", "/", 200}, {"GET", "/304", 304}} {
			req, _ := http.NewRequest(row.method, "http://"+s.addr+row.path, nil)
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			count(check(t, row.method+" "+row.path, row.status, res))
			if row.path == "/theirs" && !strings.HasPrefix(strings.Join(res.Header.Values("RateLimit"), ", "), `"theirs";r=1, "more";r=2, "all";`) {
				t.Errorf("RateLimit %q: theirs should come first", res.Header.Values("RateLimit"))
			}
			if row.path == "/trailers" && res.Trailer.Get("X-Sum") != "7" {
				t.Errorf("trailers %v", res.Trailer)
			}
		}
	})
	w := s.dial()
	count(check(t, "a WebSocket", 101, w.handshake("/ws", "")))
	t.Attr("S19", fmt.Sprintf("%d of %d answers have each header of ours once", good, tries))
}
