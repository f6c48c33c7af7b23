//go:build !race

package proxy

import (
	"bytes"
	"flag"
	"net"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// fixed is an upstream that gives one answer again and again, and allocates nothing.
func fixed(t testing.TB, answer string) (url string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf, out := make([]byte, 8<<10), []byte(answer)
				for have := 0; ; {
					n, err := c.Read(buf[have:])
					if err != nil {
						return
					}
					if have += n; !bytes.HasSuffix(buf[:have], []byte("\r\n\r\n")) {
						continue
					}
					have = 0
					if _, err := c.Write(out); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

// allocations returns how many objects the whole process allocates for one request
// on a connection that is open, with client and upstream that allocate nothing.
func allocations(t testing.TB, s *site, request string) float64 {
	w := s.dial()
	defer w.Close()
	answer, ask := make([]byte, 8<<10), []byte(request)
	once := func() {
		if _, err := w.Write(ask); err != nil {
			t.Fatal(err)
		}
		for n := 0; ; {
			m, err := w.Read(answer[n:])
			if n += m; err != nil {
				t.Fatal(err)
			}
			if bytes.HasSuffix(answer[:n], []byte("\n.")) {
				if !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")) {
					t.Fatalf("got %s", answer[:n])
				}
				return
			}
		}
	}
	for range 20 {
		once()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	if *profile {
		runtime.MemProfileRate = 1
	}
	var before, after runtime.MemStats
	const requests = 2000
	runtime.ReadMemStats(&before)
	for range requests {
		once()
	}
	runtime.ReadMemStats(&after)
	t.Logf("%.1f B", float64(after.TotalAlloc-before.TotalAlloc)/requests)
	return float64(after.Mallocs-before.Mallocs) / requests
}

var profile = flag.Bool("allocs", false, "sample each allocation of the allocation tests, for -memprofile")

// TestWhatAnAllowedRequestAllocates keeps what a request costs from creeping up.
// Most of it is net/http's and ReverseProxy's; a bare ReverseProxy over
// http.Transport takes about 90.
func TestWhatAnAllowedRequestAllocates(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\nContent-Length: 1000\r\n\r\n"
	s := newSite(t, `upstream: `+fixed(t, head+strings.Repeat("x", 998)+"\n.")+`
rules:
  - { name: key, key: header.X-Api-Key, limit: 1000000/s }
  - { name: address, limit: 1000000/s }
  - { name: none, match: /refused, key: global, limit: 1/d }
`, nil)
	s.gateway.AccessLog().SetFormat("off")
	get := "GET /allowed?x=1 HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: bench\r\nAccept: */*\r\nX-Api-Key: one\r\n\r\n"
	post := "POST /allowed HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: bench\r\nX-Api-Key: one\r\nContent-Length: 19\r\n\r\n{\"some\":\"body\"}\r\n\r\n" // in one piece, or fixed takes it for two
	rows := []struct {
		request string
		most    float64
	}{{get, 50}, {post, 59}}
	if *transport == "net_http" { // which sends a body in a piece of its own
		rows = rows[:1]
		rows[0].most = 106
	}
	for _, row := range rows {
		got := allocations(t, s, row.request)
		t.Logf("%.4s: %.2f allocations", row.request, got)
		if got > row.most+1 {
			t.Errorf("%.4s: %.2f allocations, want %.0f at most", row.request, got, row.most)
		}
	}
}
