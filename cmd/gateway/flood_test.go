package main

import (
	"bytes"
	"math"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// attacker is a client that speaks HTTP/2 frame by frame and means no good.
type attacker struct {
	*http2.Framer // what is written to it waits for send
	conn          net.Conn
	out           bytes.Buffer
	head          []byte        // an encoded request
	next          uint32        // stream
	heard         chan struct{} // one for each of its PINGs that came back
	closed        chan struct{} // by the other side
}

// newAttacker is for requests for path on c.
func newAttacker(c net.Conn, path string) *attacker {
	a := &attacker{conn: c, next: 1, heard: make(chan struct{}, 1), closed: make(chan struct{})}
	a.Framer = http2.NewFramer(&a.out, c)
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	enc.SetMaxDynamicTableSize(0) // each request the same bytes
	for _, h := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "a"}, {":path", path}} {
		enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	a.head = head.Bytes()
	return a
}

// attack opens a connection and reads what comes back.
func attack(addr, path string) (*attacker, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(patience))
	a := newAttacker(c, path)
	a.out.WriteString(http2.ClientPreface)
	a.WriteSettings()
	go func() {
		defer close(a.closed)
		for {
			f, err := a.ReadFrame()
			if err != nil {
				return
			}
			if p, ok := f.(*http2.PingFrame); ok && p.IsAck() && p.Data == lastPing {
				a.heard <- struct{}{}
			}
		}
	}()
	return a, nil
}

var lastPing = [8]byte{'l', 'a', 's', 't'}

// request opens a stream.
func (a *attacker) request() (stream uint32) {
	stream, a.next = a.next, a.next+2
	a.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: a.head, EndStream: true, EndHeaders: true})
	return stream
}

// send sends what was written so often, and reports whether the connection is open.
func (a *attacker) send(times int) bool {
	for range times {
		if _, err := a.conn.Write(a.out.Bytes()); err != nil {
			return false
		}
	}
	a.out.Reset()
	return true
}

// flood is a kind of attack.
type flood struct {
	name   string
	frames int                       // to be sent in all, on a connection at most
	begin  func(*attacker)           // once a connection
	write  func(*attacker) (n int)   // so many frames at a time
	same   bool                      // write writes the same each time
	alive  func(*attacker) (is bool) // whether the connection is open at the end
}

// answered reports whether a PING comes back, so that all before it was read.
func (a *attacker) answered() bool {
	a.out.Reset()
	a.WritePing(false, lastPing)
	a.send(1)
	select {
	case <-a.heard:
		return true
	case <-a.closed:
		return false
	}
}

// cut waits until the connection is closed.
func (a *attacker) cut() bool { <-a.closed; return false }

func inHeaders(a *attacker) {
	a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: a.head})
}

// floods are those of row S10.
var floods = []flood{
	{"rapid reset", 2 * 10_000, nil, func(a *attacker) int {
		a.WriteRSTStream(a.request(), http2.ErrCodeCancel)
		return 2
	}, false, (*attacker).answered},
	{"MadeYouReset", 2 * 10_000, nil, func(a *attacker) int {
		a.WriteWindowUpdate(a.request(), 1<<31-1) // the server must reset the stream
		return 2
	}, false, (*attacker).answered},
	{"CONTINUATION", 1_000_000, inHeaders, func(a *attacker) int {
		a.WriteContinuation(1, false, []byte{0x00, 0x01, 'x', 0x01, 'y'})
		return 1
	}, true, (*attacker).cut},
	{"empty CONTINUATION", 1_000_000, inHeaders, func(a *attacker) int {
		a.WriteContinuation(1, false, nil)
		return 1
	}, true, (*attacker).cut},
	{"PING", 1_000_000, nil, func(a *attacker) int {
		a.WritePing(false, [8]byte{1})
		return 1
	}, true, (*attacker).answered},
	{"SETTINGS", 1_000_000, nil, func(a *attacker) int {
		a.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16})
		return 1
	}, true, (*attacker).answered},
}

// run attacks until all frames were sent and read, over as many connections as
// it takes, and returns how many of those were closed on it. It ends early when
// stop is closed, or once is set and a connection was closed.
func (f *flood) run(addr string, once bool, stop <-chan struct{}) (closed int, err error) {
	for sent := 0; sent < f.frames && !(once && closed > 0); {
		a, err := attack(addr, "/attack")
		if err != nil {
			return closed, err
		}
		if f.begin != nil {
			f.begin(a)
		}
		open, stopped := a.send(1), false
		for open && !stopped && sent < f.frames {
			n, times := 0, 1
			for a.out.Len() < 4<<10 {
				n += f.write(a)
			}
			if f.same {
				times = 16
			}
			sent += n * times
			open = a.send(times)
			select {
			case <-stop:
				stopped = true
			default:
			}
		}
		if !stopped && (!open || !f.alive(a)) {
			closed++
		}
		a.conn.Close()
		<-a.closed
		if stopped {
			break
		}
	}
	return closed, nil
}

// while floods addr for as long as do takes.
func (f *flood) while(t testing.TB, addr string, do func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := f.run(addr, false, stop); err != nil {
				t.Error(err)
				return
			}
		}
	})
	do()
	close(stop)
	wg.Wait()
}

// p99 sends n requests one after another, all of which must be answered 200.
func (g *instance) p99(n int) time.Duration {
	g.t.Helper()
	var took []time.Duration
	for range n {
		start := time.Now()
		do(g.t, g.get("/").want(200))
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[(len(took)*99-1)/100]
}

// slowdown is how much longer the requests of another client take while f goes
// against g than while it goes against the other gateway on this machine, which
// costs the machine the same: the middle of several rounds. What the machine does
// beside that makes it larger or smaller; at most 2 in one of a few measurements
// is what counts.
func (f *flood) slowdown(g, other *instance) (ratio float64, worst time.Duration) {
	best := math.Inf(1)
	for attempt := 0; attempt < 5 && best > 2; attempt++ {
		var ratios []float64
		for range often(3, 7) {
			var p99 [2]time.Duration
			for i, target := range []*instance{other, g} {
				f.while(g.t, target.addr, func() { p99[i] = g.p99(often(100, 500)) })
			}
			ratios = append(ratios, float64(p99[1])/float64(p99[0]))
			worst = max(worst, p99[1])
		}
		slices.Sort(ratios)
		best = min(best, ratios[len(ratios)/2])
	}
	return best, worst
}

// Row S10.
func TestHTTP2FloodsHarmNobodyElse(t *testing.T) {
	const most = 20 << 20
	up := newUpstream(t, nil)
	text := ports + "upstream: " + up.URL + "\nrules: [{ name: attacked, match: /attack, limit: 1000/m }]\n"
	g, other := serveShipped(t, text), serveShipped(t, text)
	for _, g := range []*instance{g, other} {
		g.p99(50)
		for _, f := range floods[:2] { // memory that any load takes once
			_, err := f.run(g.addr, true, nil)
			do(t, err)
		}
	}
	before := g.metrics()
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			grown := g.growth()
			closed, err := f.run(g.addr, !long(), nil)
			do(t, err)
			rss := grown()
			if rss > most {
				t.Errorf("memory grew by %d MiB, want at most %d", rss>>20, most>>20)
			}
			if closed == 0 {
				t.Error("no connection was closed")
			}
			ratio, p99 := f.slowdown(g, other)
			if ratio > 2 {
				t.Errorf("another client's p99 is %.1f times as long, want at most 2", ratio)
			}
			score(t, "S10", "%s: RSS %+.1f MB, other client's p99 x%.1f (%v at most), connection closed",
				f.name, float64(rss)/1e6, ratio, p99.Round(time.Millisecond))
		})
	}
	flat(t, g, before)
}
