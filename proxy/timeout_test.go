package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestARouteHasItsOwnTimeToTheFirstByte(t *testing.T) {
	t.Parallel() // it mostly waits
	hold := make(chan struct{})
	slow := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/long", "/none", "/body":
			time.Sleep(5 * time.Second) // past the pool's time
		case "/begun":
			http.NewResponseController(w).Flush()
			time.Sleep(5 * time.Second)
		default:
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
		io.WriteString(w, "ok")
	}
	s := newSite(t, `
upstreams: { api: { servers: [UPSTREAM], timeout: 3s } }
routes:
  - { match: /short, timeout: 50ms }
  - { match: [/long, /body], timeout: 1m }
  - { match: /none, timeout: 0 }
  - {}
rules: [{ name: all, key: global, limit: 100/h, refund: { upstream_error: true } }]
`, slow)
	defer close(hold)
	both(t, func(t *testing.T, c *http.Client) {
		var all sync.WaitGroup
		defer all.Wait()
		for _, row := range []struct {
			path string
			want int
		}{{"/short", 504}, {"/default", 504}, {"/long", 200}, {"/none", 200}, {"/body", 200}, {"/begun", 200}} {
			all.Go(func() {
				var body io.Reader
				if row.path == "/body" {
					body = strings.NewReader(strings.Repeat("x", 100_000))
				}
				req, _ := http.NewRequest("POST", "http://"+s.addr+row.path, body)
				res, err := c.Do(req)
				if err != nil {
					t.Error(row.path, err)
					return
				}
				text, err := io.ReadAll(res.Body)
				res.Body.Close()
				if res.StatusCode != row.want || err != nil || row.want == 200 && string(text) != "ok" {
					t.Errorf("%s: %d %q %v, want %d", row.path, res.StatusCode, text, err, row.want)
				}
			})
		}
	})
	// Of the twelve requests four failed by the upstream's fault, and are given back.
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
	if u := s.taken(); u != 8 {
		t.Errorf("%d units, want 8", u)
	}
	for _, p := range s.gateway.Current().pools {
		if st := p.Stats()[0]; !st.Up || st.InFlight != 0 || st.Failures != 4 {
			t.Errorf("%+v: a slow answer takes no server out", st)
		}
	}
}
