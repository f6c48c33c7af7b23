//go:build long

package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// soakFor is how long the soak takes; $GATEWAY_SOAK changes it.
func soakFor(t *testing.T) time.Duration {
	if text := os.Getenv("GATEWAY_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		do(t, err)
		return d
	}
	return 10 * time.Minute
}

// Row S45: minutes of everything that goes wrong at once leave nothing behind: clients
// that hang up, stall, send nonsense or never read, WebSockets, uploads, keys by the
// ten thousand, servers that break off, lie or hang, edits good and bad, scrapes.
func TestSoakLeavesNothingBehind(t *testing.T) {
	span := soakFor(t)
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		hijack := func(text string) {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				io.WriteString(c, text)
				c.Close()
			}
		}
		switch r.URL.Path {
		case "/cut":
			hijack("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
		case "/lie":
			hijack("HTTP/9 nonsense\r\n\r\n")
		case "/drop":
			hijack("")
		case "/hang":
			select {
			case <-r.Context().Done():
			case <-time.After(2 * time.Second):
			}
		case "/large":
			w.Write(bytes.Repeat([]byte("x"), 1<<20))
		case "/bad":
			w.WriteHeader(500)
		case "/stream":
			for range 5 {
				io.WriteString(w, "data: x\n\n")
				http.NewResponseController(w).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		case "/socket":
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			c.SetDeadline(time.Now().Add(5 * time.Second))
			io.Copy(c, rw)
		default:
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, "ok")
		}
	})
	file := func(version int) string {
		return ports + "upstreams: { api: { servers: [" + up.URL + "], timeout: 1s } }\nstate: levels\n" +
			"timeouts: { read_header: 2s, read: 2s, write: 2s, idle: 5s, tunnel: 3s }\nrules:\n" +
			fmt.Sprintf("  - { name: keys, key: header.X-Key, limit: %d/s, max_keys: 20000, missing: skip }\n", 10+version%7) +
			"  - { name: slots, key: header.X-Key, concurrency: 50 }\n  - { name: wrong, match: /bad, count: { status: 2xx }, limit: 1000000/h }\n" +
			"  - { name: exact, match: /get, key: header.X-Key, algorithm: sliding_window_log, limit: 20/s }\n"
	}
	path := t.TempDir() + "/gateway.yaml"
	write(t, path, file(0))
	g := serveFileAt(t, path)
	base := "http://" + g.addr
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 20}}
	raw := func(send string, r *rand.Rand, listen time.Duration) {
		c, err := net.DialTimeout("tcp", g.addr, 5*time.Second)
		if err != nil {
			return
		}
		defer c.Close()
		if l, ok := c.(*net.TCPConn); ok && r.IntN(2) == 0 {
			l.SetLinger(0)
		}
		io.WriteString(c, send)
		c.SetReadDeadline(time.Now().Add(listen))
		io.Copy(io.Discard, io.LimitReader(c, int64(r.IntN(1<<16))))
	}
	paths := []string{"/cut", "/lie", "/drop", "/hang", "/large", "/bad", "/stream", "/get", "/get", "/get"}
	faults := []func(r *rand.Rand){
		func(r *rand.Rand) { // an ordinary client
			req, _ := http.NewRequest("GET", base+paths[r.IntN(len(paths))], nil)
			req.Header.Set("X-Key", fmt.Sprint(r.IntN(50_000)))
			if res, err := client.Do(req); err == nil {
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		},
		func(r *rand.Rand) { // one that leaves in the middle
			raw("GET "+paths[r.IntN(len(paths))]+" HTTP/1.1\r\nHost: a\r\n\r\n", r, time.Duration(r.IntN(100))*time.Millisecond)
		},
		func(r *rand.Rand) { // nonsense
			raw([]string{"GET / HTTP/1.1\r\nHost: a\r\nX: ", "\x16\x03\x01\x02", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n",
				"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}[r.IntN(5)], r, 100*time.Millisecond)
		},
		func(r *rand.Rand) { // an upload that breaks off, or not
			size := r.IntN(256 << 10)
			req, _ := http.NewRequest("POST", base+"/put", io.LimitReader(strings.NewReader(strings.Repeat("u", size)), int64(size)/int64(1+r.IntN(2))))
			req.ContentLength = int64(size)
			if res, err := client.Do(req); err == nil {
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		},
		func(r *rand.Rand) { // a WebSocket
			raw(fmt.Sprintf(upgrade, "/socket")+"early", r, time.Duration(r.IntN(300))*time.Millisecond)
		},
		func(r *rand.Rand) { // whoever looks after it
			if res, err := client.Get("http://" + g.admin + []string{"/metrics", "/", "/status"}[r.IntN(3)]); err == nil {
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		},
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	var done, versions atomic.Int64
	for w := range 12 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for !stop.Load() {
				f := r.IntN(20)
				if f >= len(faults) {
					f = 0
				}
				faults[f](r)
				done.Add(1)
				time.Sleep(time.Millisecond) // a steady load, not all that there can be
			}
		})
	}
	wg.Go(func() {
		for !stop.Load() {
			time.Sleep(700 * time.Millisecond)
			v := int(versions.Add(1))
			if v%3 == 0 {
				g.save(file(v) + "oops: 1\n")
			} else {
				g.save(file(v))
			}
		}
	})
	// A tenth of the time to warm up, then a look each second.
	time.Sleep(span / 10)
	began := time.Now()
	var at, rss []float64
	for time.Since(began) < span-span/10 {
		m := g.metrics()
		at, rss = append(at, time.Since(began).Minutes()), append(rss, m["process_resident_memory_bytes"]/(1<<20))
		time.Sleep(time.Second)
	}
	stop.Store(true)
	wg.Wait()
	client.CloseIdleConnections()
	g.client.CloseIdleConnections()
	var now map[string]float64
	eventually(t, "nothing is in progress", func() bool {
		now = g.metrics()
		return now["gateway_connections"] == 0 && g.status().InFlight == 0
	})
	quiet := serve(t, ports+"upstream: "+up.URL+"\nrules: []\n") // as one that has seen nothing
	eventually(t, "goroutines and open files are as those of one that has seen nothing", func() bool {
		g.client.CloseIdleConnections()
		quiet.client.CloseIdleConnections()
		fresh := quiet.metrics()
		now = g.metrics()
		return now["go_goroutines"] <= fresh["go_goroutines"]+8 && now["process_open_fds"] <= fresh["process_open_fds"]+8
	})
	slope := slopeOf(at, rss)
	g.stop() // which finds panics
	score(t, "S45", "%v, %d requests and faults, %d edits: goroutines %v, open files %v, %+.2f MB/min, 0 panics",
		span, done.Load(), versions.Load(), now["go_goroutines"], now["process_open_fds"], slope)
	if slope >= 1 && span >= 5*time.Minute { // a short one sees caches fill
		t.Errorf("resident memory grows by %.2f MB a minute", slope)
	}
}

// slopeOf returns the slope of the line through the points with the least squares.
func slopeOf(x, y []float64) float64 {
	n, sx, sy, sxx, sxy := float64(len(x)), 0.0, 0.0, 0.0, 0.0
	for i := range x {
		sx, sy, sxx, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
