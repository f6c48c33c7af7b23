package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// amplifier sends requests that stay, and says how many bytes that took.
type amplifier struct {
	name  string
	conns int
	send  func(t *testing.T, c net.Conn) (bytes int)
	held  bool // they are at the upstream when they have come
}

// tenKiB is what each request has to say.
const tenKiB = 10 << 10

func inOneRequest(head string) func(t *testing.T, c net.Conn) int {
	return func(t *testing.T, c net.Conn) int {
		n, err := io.WriteString(c, head)
		if err != nil {
			t.Error(err)
		}
		return n
	}
}

// overHTTP2 sends 100 requests with these header blocks over a connection.
func overHTTP2(block func(enc *hpack.Encoder, out *bytes.Buffer, i int)) func(t *testing.T, c net.Conn) int {
	return func(t *testing.T, c net.Conn) int {
		var out, head bytes.Buffer
		enc := hpack.NewEncoder(&head)
		out.WriteString(http2.ClientPreface)
		f := http2.NewFramer(&out, nil)
		f.WriteSettings()
		for i := range 100 {
			head.Reset()
			for _, h := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "a"}, {":path", "/"}} {
				enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
			}
			block(enc, &head, i)
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true})
		}
		go io.Copy(io.Discard, c) // also what the refusals say
		n, err := c.Write(out.Bytes())
		if err != nil {
			t.Error(err)
		}
		return n
	}
}

func amplifiers() []amplifier {
	var fields strings.Builder
	for i := range 20 {
		fmt.Fprintf(&fields, "X-%d: %s\r\n", i, strings.Repeat("x", tenKiB/20-8))
	}
	n := often(300, 1000)
	const start = "GET / HTTP/1.1\r\nHost: a\r\n"
	return []amplifier{
		{"header", n, inOneRequest(start + fields.String() + "\r\n"), true},
		{"half a header", n, inOneRequest(start + fields.String()), false},
		{"path and query", n, inOneRequest("GET /" + strings.Repeat("a/", tenKiB/4) + "?" + strings.Repeat("a&", tenKiB/4) + " HTTP/1.1\r\nHost: a\r\n\r\n"), true},
		{"body", n, inOneRequest(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", tenKiB, strings.Repeat("x", tenKiB))), true},
		{"half a body", n, inOneRequest(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", 2*tenKiB, strings.Repeat("x", tenKiB))), true},
		{"HTTP/2 header", n / 100, overHTTP2(func(enc *hpack.Encoder, _ *bytes.Buffer, i int) {
			for k := range 20 {
				enc.WriteField(hpack.HeaderField{Name: fmt.Sprint("x-", k), Value: strings.Repeat(string('a'+rune(i%26)), tenKiB*8/5/20), Sensitive: true}) // of 5 bits each
			}
		}), true},
		// One byte each names a field that was sent once.
		{"HTTP/2 indexed header", n / 100, overHTTP2(func(enc *hpack.Encoder, out *bytes.Buffer, i int) {
			enc.WriteField(hpack.HeaderField{Name: "x", Value: "y"})
			out.Write(bytes.Repeat([]byte{0x80 | 62}, tenKiB))
		}), false},
	}
}

// Row S11. The memory of the process is more than its heap.
func TestMemoryIsInProportionToWhatAClientSends(t *testing.T) {
	worst := 0.0
	for _, a := range amplifiers() {
		t.Run(a.name, func(t *testing.T) {
			var held atomic.Int64
			up := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
				held.Add(1)
				io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			})
			g := serveShipped(t, ports+"limits: { connections: 5000 }\ntimeouts: { read_header: 10m, read: 10m }\nupstream: "+up.URL+"\nrules: [{ name: all, limit: 100000/h }]\n")
			before := g.metrics()
			grown := g.growth()
			var mu sync.Mutex
			var conns []net.Conn
			sent := 0
			var wg sync.WaitGroup
			for range 20 { // at a time
				wg.Go(func() {
					for range a.conns / 20 {
						c, err := net.Dial("tcp", g.addr)
						if err != nil {
							t.Error(err)
							return
						}
						c.SetDeadline(time.Now().Add(patience))
						n := a.send(t, c)
						mu.Lock()
						sent += n
						conns = append(conns, c)
						mu.Unlock()
					}
				})
			}
			requests := a.conns
			if a.conns < 20 {
				requests *= 100
				for range a.conns {
					c, err := net.Dial("tcp", g.addr)
					do(t, err)
					sent += a.send(t, c)
					conns = append(conns, c)
				}
			}
			wg.Wait()
			if a.held {
				eventually(t, "all requests are at the upstream", func() bool { return held.Load() == int64(requests) })
			}
			for _, c := range conns { // what was sent is read before the end is
				c.(*net.TCPConn).CloseWrite()
				c.Close()
			}
			eventually(t, "the connections are gone", func() bool { return g.metrics()["gateway_connections"] == 0 })
			peak := grown()
			factor := float64(peak) / float64(sent)
			worst = max(worst, factor)
			t.Logf("%d bytes sent, memory grew by %d at most: x%.1f", sent, peak, factor)
			if factor > 10 {
				t.Errorf("memory grew by %.1f times what was sent, want at most 10", factor)
			}
			flat(t, g, before)
		})
	}
	score(t, "S11", "at most %.1f bytes of memory for a byte sent, over %d kinds of %d requests of 10 KiB", worst, len(amplifiers()), often(300, 1000))
}
