package upstream

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"syscall"
	"testing"
)

// BenchmarkForward compares a pool with a bare ReverseProxy that has the same
// transport and buffers, over net/http's transport and over direct, in one run.
func BenchmarkForward(b *testing.B) {
	log.SetOutput(io.Discard)
	body := make([]byte, 1024)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(body) }))
	b.Cleanup(up.Close)
	target, err := url.Parse(up.URL)
	if err != nil {
		b.Fatal(err)
	}
	f := &door{}
	type way struct {
		name string
		h    http.Handler
	}
	var ways []way
	for _, transport := range []string{"net_http", "direct"} {
		s := spec(b, up.URL)
		s.Transport = transport
		p := newPool(b, s)
		var carries http.RoundTripper = p.servers[0].h1
		if transport == "direct" {
			carries = p.servers[0].h1direct
		}
		ways = append(ways, way{"bare/" + transport, &httputil.ReverseProxy{
			Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
			Transport:  carries,
			BufferPool: buffers,
		}}, way{"pool/" + transport, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			server, _ := p.Pick(0)
			p.Forward(w, r, &Request{Front: f, Server: server, Path: SentPath(r)})
		})})
	}
	for _, way := range ways {
		b.Run("recorder/"+way.name, func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			r := httptest.NewRequest("GET", "/x?y=z", nil).WithContext(b.Context())
			for b.Loop() {
				way.h.ServeHTTP(&nowhere{h: http.Header{}}, r)
			}
		})
	}
	for _, way := range ways {
		b.Run("socket/"+way.name, func(b *testing.B) {
			gw := httptest.NewServer(way.h)
			defer gw.Close()
			tr := &http.Transport{MaxIdleConnsPerHost: 100}
			defer tr.CloseIdleConnections()
			b.ReportAllocs()
			defer cpu(b)()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					req, _ := http.NewRequest("GET", gw.URL+"/x?y=z", nil)
					res, err := tr.RoundTrip(req)
					if err != nil {
						b.Error(err)
						return
					}
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			})
		})
	}
}

// cpu reports the processor time of the whole process for each operation; on a
// busy machine it says more than the clock.
func cpu(b *testing.B) (report func()) {
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// nowhere is a ResponseWriter that keeps nothing.
type nowhere struct{ h http.Header }

func (n *nowhere) Header() http.Header         { return n.h }
func (n *nowhere) WriteHeader(int)             {}
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n *nowhere) Flush()                      {}
