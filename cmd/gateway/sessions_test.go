package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const upgrade = "GET %s HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// session is a way in which a WebSocket goes and ends.
type session struct {
	name, path string
	run        func(c *rawConn, r *rand.Rand) error
}

// blob returns up to most random bytes, at least one.
func blob(r *rand.Rand, most int) []byte {
	b := make([]byte, 1+r.IntN(most))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// begin asks for a WebSocket and sends early in the same packet.
func (c *rawConn) begin(path string, early []byte) error {
	if _, err := c.Write(append(fmt.Appendf(nil, upgrade, path), early...)); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.in, &http.Request{Method: "GET"})
	if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("status %d, want 101", res.StatusCode)
	}
	return err
}

// echoes reads exactly want.
func (c *rawConn) echoes(want []byte) error {
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c.in, got); err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("%d bytes, %v; want the %d that were sent", n, err, len(want))
	}
	return nil
}

// exchange begins with early bytes and lets blocks go and come back.
func (c *rawConn) exchange(path string, r *rand.Rand) error {
	early := blob(r, 20<<10)
	if err := c.begin(path, early); err != nil {
		return err
	}
	if err := c.echoes(early); err != nil {
		return fmt.Errorf("early: %w", err)
	}
	for range 3 {
		b := blob(r, 64<<10)
		sent := make(chan error, 1)
		go func() { _, err := c.Write(b); sent <- err }()
		if err := c.echoes(b); err != nil {
			return err
		}
		if err := <-sent; err != nil {
			return err
		}
	}
	return nil
}

// end reads to the end, of which it takes a reset for one.
func (c *rawConn) end() []byte {
	rest, _ := io.ReadAll(c.in)
	return rest
}

var sessions = []session{
	{"closes", "/echo", func(c *rawConn, r *rand.Rand) error { return c.exchange("/echo", r) }},
	{"ends its half first", "/echo", func(c *rawConn, r *rand.Rand) error {
		if err := c.exchange("/echo", r); err != nil {
			return err
		}
		last := blob(r, 64<<10)
		go func() { c.Write(last); c.CloseWrite() }()
		if rest := c.end(); !bytes.Equal(rest, last) {
			return fmt.Errorf("%d bytes after the half-close, want %d", len(rest), len(last))
		}
		return nil
	}},
	{"the upstream ends its half first", "/half", func(c *rawConn, r *rand.Rand) error {
		early := blob(r, 1000)
		if err := c.begin("/half", early); err != nil {
			return err
		}
		rest := c.end() // the upstream has no more to say, and listens
		if string(rest) != "over" {
			return fmt.Errorf("%q, want what the upstream says", rest)
		}
		_, err := c.Write([]byte("still here"))
		return err
	}},
	{"vanishes", "/echo", func(c *rawConn, r *rand.Rand) error {
		err := c.exchange("/echo", r)
		c.Write(blob(r, 64<<10))
		c.SetLinger(0)
		return err
	}},
	{"the upstream vanishes", "/gone", func(c *rawConn, r *rand.Rand) error {
		if err := c.begin("/gone", blob(r, 1000)); err != nil {
			return err
		}
		c.end()
		return nil
	}},
	{"falls silent", "/echo", func(c *rawConn, r *rand.Rand) error {
		if err := c.exchange("/echo", r); err != nil {
			return err
		}
		if rest := c.end(); len(rest) > 0 { // until the gateway cuts it
			return fmt.Errorf("%d bytes out of nothing", len(rest))
		}
		return nil
	}},
}

// webSocketUpstream is the upstream's part. heard counts those who spoke after
// the upstream had ended its half.
func webSocketUpstream(heard *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, brw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		switch r.URL.Path {
		case "/half":
			io.WriteString(c, "over")
			c.(*net.TCPConn).CloseWrite()
			if b, _ := io.ReadAll(brw); bytes.HasSuffix(b, []byte("still here")) {
				heard.Add(1)
			}
		case "/gone":
			brw.ReadByte()
			c.(*net.TCPConn).SetLinger(0)
		default:
			io.Copy(c, brw)
		}
	}
}

// Row S20.
func TestWebSocketSessionsAreByteEqualAndLeaveNothing(t *testing.T) {
	t.Parallel()
	var heard atomic.Int64
	up := newUpstream(t, webSocketUpstream(&heard))
	// A session is cut when it is silent for longer than a busy machine may make it.
	g := serveShipped(t, ports+"timeouts: { tunnel: 6s }\nlimits: { connections: 3000 }\nupstream: "+up.URL+"\nrules: [{ name: all, limit: 1000000/365d }]\n")
	before := g.metrics()
	total := often(1000, 20_000)
	places := make(chan struct{}, 300) // of which the silent ones take most
	var wg sync.WaitGroup
	for i := range total {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			s := sessions[i%len(sessions)]
			c, err := net.Dial("tcp", g.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			raw := newRawConn(c)
			if err := s.run(raw, rand.New(rand.NewPCG(20, uint64(i)))); err != nil {
				t.Errorf("session %d, which %s: %v", i, s.name, err)
			}
		})
	}
	wg.Wait()
	half := int64((total + len(sessions) - 3) / len(sessions))
	eventually(t, "the upstream has heard all who spoke after its end", func() bool { return heard.Load() == half })
	eventually(t, "nothing is in flight", func() bool { return g.metrics()[`gateway_requests_in_flight{route="/**"}`] == 0 })
	score(t, "S20", "%d sessions of %d kinds, byte-equal; goroutines and open files as before", total, len(sessions))
	flat(t, g, before)
}
