package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// slowClient is a way of holding a connection. bound is how long the gateway may
// let it: the sum of the timeouts that apply, a span each, and for HTTP/2 the
// second in which net/http waits for the client to heed its GOAWAY.
type slowClient struct {
	name    string
	bound   time.Duration
	hello   func(c net.Conn) error // at once
	dribble string                 // a piece of it now and then, for ever
	deaf    bool                   // reads nothing
}

const (
	slowTimeouts = "timeouts: { read_header: 2s, read: 2s, write: 2s, idle: 2s }\n"
	span         = 2 * time.Second
	goAway       = time.Second
)

// h2Start begins HTTP/2 with streams of this window and then lets more write.
func h2Start(window uint32, more func(a *attacker)) func(c net.Conn) error {
	return func(c net.Conn) error {
		a := newAttacker(c, "/long")
		a.out.WriteString(http2.ClientPreface)
		a.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
		more(a)
		_, err := c.Write(a.out.Bytes())
		return err
	}
}

func say(text string) func(c net.Conn) error {
	return func(c net.Conn) error { _, err := io.WriteString(c, text); return err }
}

var slowClients = []slowClient{
	{"D1 silence", span, say(""), "", false},
	{"D2 head byte by byte", span, say("GET / HTTP/1.1\r\nHost: a\r\nX: "), "x", false},
	{"D3 body byte by byte", span, say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"), "x", false},
	{"D3 chunks byte by byte", span, say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), "1\r\nx\r\n", false},
	{"D4 answer not read", span, say("GET /long HTTP/1.1\r\nHost: a\r\n\r\n"), "", true},
	{"D5 half a preface", span, say("PRI * HTTP/2.0\r\n"), "", false},
	{"D5 no SETTINGS", span + goAway, say(http2.ClientPreface), "", false},
	{"D5 idle", span + goAway, h2Start(1<<16, func(*attacker) {}), "", false},
	{"D5 POST without its body", span + span + goAway, h2Start(1<<16, func(a *attacker) {
		a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: a.head, EndHeaders: true})
	}), "", false},
	{"D5 window of zero", span + span + goAway, h2Start(0, func(a *attacker) { a.request() }), "", false},
	{"D5 HEADERS without an end", span + goAway, h2Start(1<<16, inHeaders), "", false},
}

// hold makes so many clients hold connections until all are gone, and returns
// how long that took since the last of them came.
func (k *slowClient) hold(t testing.TB, g *instance, up *upstream, clients int) time.Duration {
	var wg, gone sync.WaitGroup
	defer wg.Wait()
	stop := make(chan struct{})
	defer close(stop)
	before := up.count("/long")
	for range clients {
		c, err := net.Dial("tcp", g.addr)
		do(t, err)
		defer c.Close()
		c.(*net.TCPConn).SetReadBuffer(4 << 10)
		wg.Go(func() {
			if k.hello(c) != nil || k.dribble == "" {
				return
			}
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond): // the slowness is what is tested
				}
				if _, err := io.WriteString(c, k.dribble); err != nil {
					return
				}
			}
		})
		if !k.deaf {
			gone.Go(func() { io.Copy(io.Discard, c) })
		}
	}
	if k.deaf {
		eventually(t, "all are served", func() bool { return up.count("/long") == before+clients })
	}
	from := time.Now()
	gone.Wait()
	eventually(t, "all are gone", func() bool { return g.metrics()["gateway_connections"] <= 1 })
	return time.Since(from)
}

// Row S13. What the machine adds of its own is seen in the other client's
// requests; where that is not all, one of three measurements is enough.
func TestSlowClientsAreLetGoAndHarmNobody(t *testing.T) {
	for _, kind := range slowClients {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			const clients = 200
			answer := strings.Repeat("x", 8<<20) // more than the kernel buffers
			up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				if r.URL.Path == "/long" {
					io.WriteString(w, answer)
				}
			})
			g := serveShipped(t, ports+slowTimeouts+"limits: { connections: 1000 }\nupstream: "+up.URL+"\nrules: []\n")
			before := g.metrics()
			asked := 0
			var took, most time.Duration
			for attempt := 0; attempt == 0 || attempt < 3 && took > most; attempt++ {
				good := observeGood(g)
				took = kind.hold(t, g, up, clients)
				n, late := good.finish(t)
				asked += n
				most = kind.bound + time.Second + late
			}
			if took > most {
				t.Errorf("all were gone after %v, want %v", took, most)
			}
			score(t, "S13", "%s: %d gone after %v (timeout %v), other client %d of %d", kind.name, clients, took.Round(10*time.Millisecond), kind.bound, asked, asked)
			flat(t, g, before)
		})
	}
}

// count returns how many requests for path have come.
func (u *upstream) count(path string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.paths[path]
}

// good is a client that sends one request after another, all of which must be
// answered 200.
type good struct {
	stop    chan struct{}
	done    chan struct{}
	n       int
	slowest time.Duration
	err     error
}

func observeGood(g *instance) *good {
	o := &good{stop: make(chan struct{}), done: make(chan struct{})}
	// A connection that is about to be closed for idleness is not used again.
	g.client.Transport.(*http.Transport).IdleConnTimeout = span / 4
	go func() {
		defer close(o.done)
		for o.err == nil {
			select {
			case <-o.stop:
				return
			case <-time.After(20 * time.Millisecond): // its pace
			}
			start := time.Now()
			a, err := g.try("GET", "/")
			if o.err = err; err == nil {
				o.err = a.want(200)
			}
			o.n++
			o.slowest = max(o.slowest, time.Since(start))
		}
	}()
	return o
}

func (o *good) finish(t testing.TB) (n int, slowest time.Duration) {
	t.Helper()
	close(o.stop)
	<-o.done
	if o.err != nil {
		t.Errorf("request %d of the other client: %v", o.n, o.err)
	}
	return o.n, o.slowest
}

// paced reads at a pace.
type paced struct {
	io.Reader
	rate  int // bytes a second
	start time.Time
	n     int
}

func (p *paced) Read(b []byte) (int, error) {
	if p.start.IsZero() {
		p.start = time.Now()
	}
	n, err := p.Reader.Read(b[:min(len(b), 64<<10)])
	p.n += n
	ahead := time.Duration(p.n)*time.Second/time.Duration(p.rate) - time.Since(p.start)
	time.Sleep(ahead) // the slowness is what is tested
	return n, err
}

// Row S14.
func TestSlowHonestReadersAndStreamsAreNotCut(t *testing.T) {
	t.Parallel()
	size := often(20<<20, 64<<20)
	events := often(100, 5*60*10)
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range events {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
				select {
				case <-time.After(100 * time.Millisecond): // the stream's pace
				case <-r.Context().Done():
					return
				}
			}
			return
		}
		piece := strings.Repeat("x", 64<<10)
		for range size / len(piece) {
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
		}
	})
	// A machine that stands still for a moment must not be taken for a slow client.
	g := serveShipped(t, ports+"timeouts: { read_header: 4s, read: 4s, write: 4s, idle: 4s }\nupstream: "+up.URL+"\nrules: []\n")
	before := g.metrics()
	h2 := newH2C()
	h2.Timeout = 0
	defer h2.CloseIdleConnections()
	h1 := newClient()
	h1.Timeout = 0
	defer h1.CloseIdleConnections()
	var wg sync.WaitGroup
	for name, c := range map[string]*http.Client{"HTTP/1.1": h1, "HTTP/2": h2} {
		wg.Go(func() {
			res, err := c.Get("http://" + g.addr + "/")
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			start := time.Now()
			n, err := io.Copy(io.Discard, &paced{Reader: res.Body, rate: 2 << 20})
			if n != int64(size) || err != nil {
				t.Errorf("%s: %d of %d bytes, %v", name, n, size, err)
			}
			t.Logf("%s: %d MiB in %v", name, n>>20, time.Since(start).Round(10*time.Millisecond))
		})
		wg.Go(func() {
			res, err := c.Get("http://" + g.addr + "/events")
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			if n := strings.Count(string(text), "data: "); n != events || err != nil {
				t.Errorf("%s: %d of %d events, %v", name, n, events, err)
			}
		})
	}
	wg.Wait()
	score(t, "S14", "%d MiB at 2 MiB/s and %d s of events past timeouts of 4 s, HTTP/1.1 and HTTP/2: 0 cut", size>>20, events/10)
	h1.CloseIdleConnections()
	h2.CloseIdleConnections()
	flat(t, g, before)
}
