package admin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gateway/proxy"
	"gateway/rules"
)

// withKeys is a gateway in which each of two rules remembers n keys, and refuses some
// of them, with its admin listener.
func withKeys(t testing.TB, n int) (*proxy.Gateway, http.Handler) {
	t.Helper()
	f, err := rules.Parse("gateway.yaml", []byte(`
routes: [{ respond: { status: 204 } }]
rules:
  - { name: per-key, key: header.X-Key, limit: 1/365d, max_keys: 2000000 }
  - { name: dry, key: header.X-Key, limit: 1/365d, max_keys: 2000000, dry_run: true }
`))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := proxy.Build(f, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := proxy.New(proxy.Config{Clock: proxy.NewClock()}, snap)
	t.Cleanup(g.Close)
	for i := range n {
		ask(g, i)
	}
	for i := range 500 {
		ask(g, i) // is refused
	}
	h := &History{}
	h.sample(time.Now(), snap.Rules())
	return g, NewHandler(Config{
		Gateway: g, Ready: func() bool { return true }, Reloads: func() Reloads { return Reloads{OK: true} }, History: h,
	})
}

// nothing is a ResponseWriter that keeps nothing.
type nothing struct {
	header http.Header
	status int
	bytes  int
}

func (s *nothing) Header() http.Header { return s.header }
func (s *nothing) Write(p []byte) (int, error) {
	s.bytes += len(p)
	return len(p), nil
}
func (s *nothing) WriteHeader(status int) { s.status = status }

// ask sends a request of the i-th client through the gateway, without a socket.
func ask(g *proxy.Gateway, i int) int {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Key", fmt.Sprint("client-", i))
	w := &nothing{header: http.Header{}}
	g.ServeHTTP(w, r)
	return w.status
}

func look(t testing.TB, h http.Handler, path string) {
	r := httptest.NewRequest("GET", path, nil)
	r.Host = "127.0.0.1:9900"
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})))
	w := &nothing{header: http.Header{}, status: 200}
	if h.ServeHTTP(w, r); w.status != 200 || w.bytes < 500 {
		t.Fatalf("%s: %d, %d bytes", path, w.status, w.bytes)
	}
}

// What the listener is asked for costs the same whatever number of keys there is:
// nothing walks them.
func TestTheFiguresCostTheSameWithManyKeys(t *testing.T) {
	_, few := withKeys(t, 1000)
	_, many := withKeys(t, 100_000)
	for _, path := range []string{"/metrics", "/status", "/"} {
		look(t, few, path)
		look(t, many, path)
		a := testing.AllocsPerRun(5, func() { look(t, few, path) })
		b := testing.AllocsPerRun(5, func() { look(t, many, path) })
		if b > 1.2*a+100 {
			t.Errorf("%s: %.0f allocations with 1,000 keys, %.0f with 100,000", path, a, b)
		}
	}
}

// The time of each answer while two clients send all they can, and the longest that
// one of their requests took meanwhile and without.
func BenchmarkMillionKeys(b *testing.B) {
	g, h := withKeys(b, 1_000_000)
	for _, path := range []string{"none", "/metrics", "/status", "/"} {
		b.Run(strings.Trim(path, "/")+"|", func(b *testing.B) {
			var stop atomic.Bool
			var wg sync.WaitGroup
			worst := make([][]time.Duration, 2)
			for w := range worst {
				wg.Go(func() {
					for i := w; !stop.Load(); i += 2 {
						began := time.Now()
						ask(g, i%1_100_000)
						worst[w] = append(worst[w], time.Since(began))
					}
				})
			}
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if path == "none" {
					time.Sleep(10 * time.Millisecond)
				} else {
					look(b, h, path)
				}
				took = append(took, time.Since(began))
			}
			stop.Store(true)
			wg.Wait()
			slices.Sort(took)
			all := slices.Concat(worst...)
			slices.Sort(all)
			ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
			b.ReportMetric(ms(took[len(took)/2]), "ms-half")
			b.ReportMetric(ms(took[len(took)-1]), "ms-most")
			b.ReportMetric(ms(all[len(all)*999/1000]), "request-ms-p99.9")
			b.ReportMetric(ms(all[len(all)-1]), "request-ms-most")
		})
	}
}
