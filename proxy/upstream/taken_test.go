package upstream

import (
	"context"
	"net"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gateway/rules"
)

// deaf is a pool whose one server takes connections and reads nothing of them.
func deaf(t *testing.T, transport string, timeout time.Duration) *Pool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := spec(t)
	s.Transport, s.Timeout = transport, timeout
	s.Servers = []rules.Server{{URL: &url.URL{Scheme: "unix", Path: path}, Socket: path}}
	return newPool(t, s)
}

// TestServerThatDoesNotTakeTheHeader sends more than the buffers between take.
func TestServerThatDoesNotTakeTheHeader(t *testing.T) {
	for _, transport := range []string{"direct", "net_http"} {
		for _, body := range []string{"", "short", strings.Repeat("x", 100<<10)} {
			t.Run(transport, func(t *testing.T) {
				p, d := deaf(t, transport, 50*time.Millisecond), &door{}
				p.stall = 50 * time.Millisecond
				r := httptest.NewRequest("POST", "http://a/", strings.NewReader(body))
				r.Header.Set("X-Long", strings.Repeat("x", 4<<20))
				w := httptest.NewRecorder()
				d.serve(p, 0).ServeHTTP(w, r)
				if w.Code != 504 {
					t.Errorf("%d B of body: got %d, want 504; failed with %v", len(body), w.Code, d.failures())
				}
				if n := p.Stats()[0].InFlight; n != 0 {
					t.Errorf("%d in flight at the end", n)
				}
			})
		}
	}
}

// TestClientLeavesBeforeTheHeaderIsTaken has no bound on the time to the first byte.
func TestClientLeavesBeforeTheHeaderIsTaken(t *testing.T) {
	for _, transport := range []string{"direct", "net_http"} {
		p, d := deaf(t, transport, 0), &door{}
		ctx, leave := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, "GET", "http://a/", nil)
		r.Header.Set("X-Long", strings.Repeat("x", 4<<20))
		over := make(chan int)
		go func() {
			w := httptest.NewRecorder()
			d.serve(p, 0).ServeHTTP(w, r)
			over <- w.Code
		}()
		eventually(t, "a request in flight", func() bool { return p.Stats()[0].InFlight == 1 })
		leave()
		if got := receive(t, "the end of "+transport, over); got != StatusClientGone {
			t.Errorf("%s: got %d, want %d", transport, got, StatusClientGone)
		}
	}
}
