package main

import (
	"bufio"
	"bytes"
	"math"
	"net"
	"slices"
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
	a.Framer = http2.NewFramer(&a.out, bufio.NewReaderSize(c, 64<<10))
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
	frames int                       // to be sent in all, on one connection if it stays open
	bytes  int                       // of a frame where it takes 2 MiB to be cut; fewer may be too few
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

// ended ends the headers, so that it can be told whether the connection is open.
func (a *attacker) ended() bool {
	a.out.Reset()
	a.WriteContinuation(1, true, nil)
	a.send(1)
	return a.answered()
}

func inHeaders(a *attacker) {
	a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: a.head})
}

// floods are those of row S10.
var floods = []flood{
	{"rapid reset", 2 * 10_000, 0, nil, func(a *attacker) int {
		a.WriteRSTStream(a.request(), http2.ErrCodeCancel)
		return 2
	}, false, (*attacker).answered},
	{"MadeYouReset", 2 * 10_000, 0, nil, func(a *attacker) int {
		a.WriteWindowUpdate(a.request(), 1<<31-1) // the server must reset the stream
		return 2
	}, false, (*attacker).answered},
	{"CONTINUATION", often(100_000, 1_000_000), 0, inHeaders, func(a *attacker) int {
		a.WriteContinuation(1, false, []byte{0x00, 0x01, 'x', 0x01, 'y'})
		return 1
	}, true, (*attacker).cut},
	{"empty CONTINUATION", often(100_000, 1_000_000), 9, inHeaders, func(a *attacker) int {
		a.WriteContinuation(1, false, nil)
		return 1
	}, true, (*attacker).ended},
	{"PING", often(100_000, 1_000_000), 17, nil, func(a *attacker) int {
		a.WritePing(false, [8]byte{1})
		return 1
	}, true, (*attacker).answered},
	{"SETTINGS", often(100_000, 1_000_000), 15, nil, func(a *attacker) int {
		a.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16})
		return 1
	}, true, (*attacker).answered},
}

// run attacks until all frames were sent and read, over as many connections as
// it takes, and returns how many of those were closed on it. With once it is
// content with the first.
func (f *flood) run(addr string, once bool) (closed int, err error) {
	for sent := 0; sent < f.frames && !(once && closed > 0); {
		a, err := attack(addr, "/attack")
		if err != nil {
			return closed, err
		}
		if f.begin != nil {
			f.begin(a)
		}
		open := a.send(1)
		for open && sent < f.frames {
			n, times := 0, 1
			for a.out.Len() < 4<<10 {
				n += f.write(a)
			}
			if f.same {
				times = 16
			}
			sent += n * times
			open = a.send(times)
		}
		if !open || !f.alive(a) {
			closed++
		}
		a.conn.Close()
		<-a.closed
	}
	return closed, nil
}

// during floods addr once and returns how long the requests of another client of
// g take meanwhile, and a little longer; all must be answered 200.
func (f *flood) during(addr string, g *instance) (took []time.Duration) {
	g.t.Helper()
	over := make(chan error, 1)
	go func() {
		_, err := f.run(addr, true)
		over <- err
	}()
	for flooding := true; flooding || len(took) < 25; {
		start := time.Now()
		do(g.t, g.get("/").want(200))
		took = append(took, time.Since(start))
		select {
		case err := <-over:
			do(g.t, err)
			flooding = false
		default:
		}
	}
	return took
}

func p99(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[(len(took)*99-1)/100]
}

// slowdown is how much longer the requests of another client take, at p99, while
// f goes against g than while it goes against the other gateway on this machine,
// which costs the machine the same. The two take turns, and the requests of six
// turns are taken together. The best of at most four measurements counts: what
// the machine does beside makes them worse.
func (f flood) slowdown(g, other *instance) (ratio float64, during, without time.Duration) {
	f.frames = min(f.frames, often(20_000, f.frames))
	ratio = math.Inf(1)
	for attempt := 0; attempt < 4 && ratio > 2; attempt++ {
		var took [2][]time.Duration
		for range 6 {
			for i, target := range []*instance{other, g} {
				took[i] = append(took[i], f.during(target.addr, g)...)
			}
		}
		a, b := p99(took[0]), p99(took[1])
		if r := float64(b) / float64(a); r < ratio {
			ratio, during, without = r, b, a
		}
	}
	return ratio, during, without
}

// mostSlowdown is what slowdown may be. On a machine so busy that each request
// waits for its turn, a process that works waits longer than one that does not,
// whatever it does.
func mostSlowdown(without time.Duration) float64 {
	if !long() && without > 10*time.Millisecond {
		return 5
	}
	return 2
}

// Row S10.
func TestHTTP2FloodsHarmNobodyElse(t *testing.T) {
	const most = 20 << 20
	up := newUpstream(t, nil)
	text := ports + "upstream: " + up.URL + "\nrules: [{ name: attacked, match: /attack, limit: 1000/m }]\n"
	g, other := serveShipped(t, text), serveShipped(t, text)
	for _, g := range []*instance{g, other} {
		for range 50 {
			do(t, g.get("/").want(200))
		}
		for _, f := range floods[:2] { // memory that any load takes once
			_, err := f.run(g.addr, true)
			do(t, err)
		}
	}
	before := g.metrics()
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			grown := g.growth()
			closed, err := f.run(g.addr, !long())
			do(t, err)
			rss := grown()
			if rss > most {
				t.Errorf("memory grew by %d MiB, want at most %d", rss>>20, most>>20)
			}
			cut := "connection closed"
			switch due := f.frames*f.bytes == 0 || f.frames*f.bytes > 2<<20; {
			case due && closed == 0:
				t.Error("no connection was closed")
			case !due:
				cut = "too short to be closed"
			}
			ratio, during, without := f.slowdown(g, other)
			if most := mostSlowdown(without); ratio > most {
				t.Errorf("another client's p99 is %v instead of %v, want at most %v times as much", during, without, most)
			}
			score(t, "S10", "%s, %d frames: RSS %+.1f MB, other client's p99 x%.1f (%v, else %v), %s",
				f.name, f.frames, float64(rss)/1e6, ratio, during.Round(100*time.Microsecond), without.Round(100*time.Microsecond), cut)
		})
	}
	flat(t, g, before)
}
