package proxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gateway/rules"
)

// manyRules writes a file of n rules: one for every request, the others each for
// a path of its own. The gateway answers by itself.
func manyRules(n int, limit string) string {
	var b strings.Builder
	b.WriteString("routes: [{ respond: { status: 204 } }]\nrules:\n  - { name: per-ip, limit: " + limit + " }\n")
	for i := range n - 1 {
		fmt.Fprintf(&b, "  - { name: r-%05d, match: /api/v1/res-%05d/**, key: header.X-Api-Key, limit: %s }\n", i, i, limit)
	}
	return b.String()
}

// sink is a ResponseWriter that remembers the status alone.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(status int)      { s.status = status }

// through sends a request through the gateway, without a socket.
func through(g *Gateway, path string) int {
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("X-Api-Key", "k")
	s := sink{header: http.Header{}}
	g.ServeHTTP(&s, r)
	return s.status
}

func TestOfManyRulesThoseThatApplyAreCharged(t *testing.T) {
	const n = 3000
	g := New(Config{Clock: NewClock()}, build(t, manyRules(n, "2/h"), nil))
	t.Cleanup(g.Close)
	for i, want := range []int{204, 204, 429} {
		if got := through(g, "/api/v1/res-00007/x"); got != want {
			t.Fatalf("request %d: %d, want %d", i, got, want)
		}
	}
	units := int64(0)
	for _, r := range g.Current().rules.Rules {
		if got := r.Live.Units.Load(); got != 0 && r.Name != "per-ip" && r.Name != "r-00007" {
			t.Errorf("rule %s was charged %d", r.Name, got)
		} else {
			units += got
		}
	}
	if units != 4 {
		t.Errorf("%d units were charged, want 2 of each of 2 rules", units)
	}
}

// Ten thousand rules that nobody has met take little: no memory of counters.
func TestRulesWithoutTrafficTakeLittleMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	snap := build(t, manyRules(10_000, "2/h"), nil)
	if got := heap() - before; got > 48<<20 {
		t.Errorf("%d MiB for 10,000 rules", got>>20)
	} else {
		t.Logf("%d MiB for 10,000 rules", got>>20)
	}
	if n := snap.rules.Budget().Used(); n != 0 {
		t.Errorf("%d bytes of counters", n)
	}
}

// Read, matched and charged: all that a request costs but for its sockets.
func BenchmarkARequestAmongManyRules(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		for _, paths := range []int{1, n - 1} {
			b.Run(fmt.Sprintf("%d-rules/%d-met", n, paths), func(b *testing.B) {
				g := New(Config{Clock: NewClock()}, build(b, manyRules(n, "1000000000/s"), nil))
				b.Cleanup(g.Close)
				requests := make([]*http.Request, paths)
				for i := range requests {
					requests[i] = httptest.NewRequest("GET", fmt.Sprintf("/api/v1/res-%05d/x", i*7919%paths), nil)
					requests[i].Header.Set("X-Api-Key", "k")
				}
				s := sink{header: http.Header{}}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					clear(s.header)
					g.ServeHTTP(&s, requests[i%paths])
				}
				if s.status != 204 {
					b.Fatal(s.status)
				}
			})
		}
	}
}

// What a request among 10,000 rules costs, of which two apply, in parts of what it
// costs among 10, of which the same two do: the median of rounds of each in turn.
func BenchmarkManyRulesAgainstFew(b *testing.B) {
	const each = 2000
	var sides [2]func() time.Duration
	for i, n := range []int{10, 10_000} {
		g := New(Config{Clock: NewClock()}, build(b, manyRules(n, "1000000000/s"), nil))
		b.Cleanup(g.Close)
		r := httptest.NewRequest("GET", "/api/v1/res-00007/x", nil)
		r.Header.Set("X-Api-Key", "k")
		s := sink{header: http.Header{}}
		sides[i] = func() time.Duration {
			start := time.Now()
			for range each {
				clear(s.header)
				g.ServeHTTP(&s, r)
			}
			return time.Since(start)
		}
		if sides[i](); s.status != 204 || len(g.Current().rules.Rules) != n {
			b.Fatal(s.status)
		}
	}
	var ratios []float64
	for b.Loop() {
		few, many := sides[0](), sides[1]()
		ratios = append(ratios, float64(many)/float64(few))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "many/few")
}

// A reload of 10,000 rules, from the bytes to the line that says what has
// changed, and the longest a request takes meanwhile.
func BenchmarkReloadOfManyRules(b *testing.B) {
	files := [2][]byte{[]byte(manyRules(10_000, "1000000/s")), []byte(manyRules(10_000, "2000000/s"))}
	apply := func(g *Gateway, data []byte) *Gateway {
		file, err := rules.Parse("gateway.yaml", data)
		if err != nil {
			b.Fatal(err)
		}
		if g == nil {
			snap, err := Build(file, nil, nil)
			if err != nil {
				b.Fatal(err)
			}
			return New(Config{Clock: NewClock()}, snap)
		}
		before := g.Current()
		snap, err := Build(file, before, nil)
		if err != nil {
			b.Fatal(err)
		}
		g.Swap(snap)
		if snap.rules.Change(before.rules).Empty() {
			b.Fatal("nothing has changed")
		}
		return g
	}
	g := apply(nil, files[0])
	b.Cleanup(g.Close)
	var stop atomic.Bool
	longest := make(chan time.Duration)
	go func() {
		var most time.Duration
		for i := 0; !stop.Load(); i++ {
			start := time.Now()
			if through(g, fmt.Sprintf("/api/v1/res-%05d/x", i%9999)) != 204 {
				most = time.Hour
			}
			most = max(most, time.Since(start))
			time.Sleep(100 * time.Microsecond)
		}
		longest <- most
	}()
	for i := 1; b.Loop(); i++ {
		apply(g, files[i%2])
	}
	stop.Store(true)
	b.ReportMetric(float64(<-longest)/1e6, "longest-request-ms")
}
