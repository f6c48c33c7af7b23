package upstream

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPiecesOfAStreamArriveAsTheyAreSent sends a piece only when the client has
// the one before, so that one piece held back anywhere would stop everything.
func TestPiecesOfAStreamArriveAsTheyAreSent(t *testing.T) {
	kinds := map[string]http.Header{
		"events":               {"Content-Type": {"text/event-stream"}},
		"events, odd spelling": {"Content-Type": {"Text/Event-Stream; charset=utf-8"}},
		"events, compressed":   {"Content-Type": {"text/event-stream; charset=utf-8"}, "Content-Encoding": {"gzip"}},
		"lines of JSON":        {"Content-Type": {"application/x-ndjson"}},
		"no type":              {"Content-Type": nil},
		"known length":         {"Content-Type": {"text/plain"}, "Content-Length": {"64"}},
	}
	clients := map[string]*http.Client{"HTTP/1.1": client(t), "HTTP/2": h2cClient(t)}
	for name, header := range kinds {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for k, v := range header {
					w.Header()[k] = v
				}
				w.WriteHeader(200)
				var body io.Writer = w
				flush := func() { w.(http.Flusher).Flush() }
				if header.Get("Content-Encoding") == "gzip" {
					z := gzip.NewWriter(w)
					body, flush = z, func() { z.Flush(); w.(http.Flusher).Flush() }
				}
				flush()
				for range 4 {
					select {
					case <-next:
					case <-r.Context().Done():
						return
					}
					io.WriteString(body, "data: 0123456\n\n\n")
					flush()
				}
				select {
				case <-next:
				case <-r.Context().Done():
				}
			}))
			for proto, c := range clients {
				gw, _, _ := front(t, up.URL)
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				req, _ := http.NewRequestWithContext(ctx, "GET", gw.URL, nil)
				res, err := c.Do(req) // the header comes before any piece
				if err != nil {
					t.Fatalf("%s: %v", proto, err)
				}
				var body io.Reader = res.Body
				for i := range 4 {
					next <- struct{}{}
					if i == 0 && header.Get("Content-Encoding") == "gzip" {
						if body, err = gzip.NewReader(res.Body); err != nil {
							t.Fatal(err)
						}
					}
					if _, err := io.ReadFull(body, make([]byte, 16)); err != nil {
						t.Fatalf("%s: piece %d: %v", proto, i, err)
					}
				}
				next <- struct{}{}
				if rest, err := io.ReadAll(body); len(rest) > 0 || (err != nil && header.Get("Content-Encoding") == "") {
					t.Errorf("%s: at the end got %q, %v", proto, rest, err)
				}
				res.Body.Close()
			}
		})
	}
}

func TestFirstBytesOfAnUploadReachTheUpstreamBeforeTheLast(t *testing.T) {
	first := make(chan string, 1)
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := make([]byte, 5)
		io.ReadFull(r.Body, b)
		first <- string(b)
		io.Copy(io.Discard, r.Body)
	}))
	gw, _, _ := front(t, up.URL)
	body, w := io.Pipe()
	go io.WriteString(w, "first")
	req, _ := http.NewRequest("POST", gw.URL, body)
	done := make(chan error, 1)
	go func() {
		res, err := client(t).Do(req)
		if err == nil {
			res.Body.Close()
		}
		done <- err
	}()
	if got := receive(t, "the first bytes", first); got != "first" {
		t.Errorf("got %q", got)
	}
	w.Close()
	if err := receive(t, "the answer", done); err != nil {
		t.Error(err)
	}
}

func TestFramingIsKeptBothWays(t *testing.T) {
	heads := make(chan string, 1)
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		head, _ := header(r)
		switch {
		case strings.Contains(head, "chunked"):
			for line := ""; line != "0\r\n"; {
				line, _ = r.ReadString('\n')
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n")
		case strings.Contains(head, "Content-Length: 5"):
			io.ReadFull(r, make([]byte, 5))
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		default:
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
		heads <- head
	})
	gw, _, _ := front(t, "http://"+addr)
	tests := []struct{ request, upstream, client string }{
		{"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\n"},
		{"Content-Length: 5\r\n\r\nhello", "Content-Length: 5\r\n", "Content-Length: 2\r\n"},
		{"Content-Length: 0\r\n\r\n", "Content-Length: 0\r\n", "Content-Length: 0\r\n"},
	}
	for _, test := range tests {
		c, r := dial(t, gw)
		send(t, c, "POST / HTTP/1.1\r\nHost: h\r\n"+test.request)
		if got := receive(t, "the request", heads); strings.Count(got, test.upstream) != 1 ||
			strings.Contains(got, "Transfer") != strings.HasPrefix(test.upstream, "Transfer") {
			t.Errorf("%q: the upstream got %q", test.request, got)
		}
		got, err := header(r)
		if err != nil || strings.Count(got, test.client) != 1 ||
			strings.Contains(got, "Transfer") != strings.HasPrefix(test.client, "Transfer") {
			t.Errorf("%q: the client got %q, %v", test.request, got, err)
		}
	}
}

func TestAnswersWithoutABodyHaveNone(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.Header().Set("Etag", `"x"`)
			w.WriteHeader(304)
		default:
			w.Header().Set("Content-Length", "1234")
		}
	}))
	gw, _, _ := front(t, up.URL)
	c, r := dial(t, gw)
	for request, want := range map[string]string{
		"GET /204":  "HTTP/1.1 204 No Content\r\n",
		"GET /304":  "HTTP/1.1 304 Not Modified\r\n",
		"HEAD /200": "HTTP/1.1 200 OK\r\n",
	} {
		send(t, c, request+" HTTP/1.1\r\nHost: h\r\n\r\n")
		got, err := header(r)
		if err != nil || !strings.HasPrefix(got, want) || strings.Contains(got, "chunked") {
			t.Errorf("%s: got %q, %v", request, got, err)
		}
		if length := strings.Contains(got, "Content-Length: 1234\r\n"); length != strings.HasPrefix(request, "HEAD") {
			t.Errorf("%s: got %q", request, got)
		}
	}
}

// TestLargeBodiesFlowBothWaysInLittleMemory echoes through the gateway what is
// far larger than the memory it may grow by.
func TestLargeBodiesFlowBothWaysInLittleMemory(t *testing.T) {
	const size = 48 << 20
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		http.NewResponseController(w).EnableFullDuplex()
		io.Copy(w, r.Body)
	}))
	gw, _, _ := front(t, up.URL)
	for _, length := range []int64{-1, size} {
		sent, got := sha256.New(), sha256.New()
		req, _ := http.NewRequest("POST", gw.URL, io.TeeReader(io.LimitReader(&pattern{}, size), sent))
		req.ContentLength = length
		peak := watchHeap(t)
		res, err := client(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(hash.Hash(got), res.Body)
		res.Body.Close()
		if err != nil || n != size || fmt.Sprintf("%x", got.Sum(nil)) != fmt.Sprintf("%x", sent.Sum(nil)) {
			t.Errorf("length %d: got %d bytes, %v; the hash is another", length, n, err)
		}
		if grown := peak(); grown > 16<<20 {
			t.Errorf("length %d: the heap grew by %d MiB", length, grown>>20)
		}
	}
}

// watchHeap samples the live heap until the returned func is called, which says
// by how much it has grown at most.
func watchHeap(t *testing.T) (peak func() uint64) {
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	base, most := live(), uint64(0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, live())
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	})
	return func() uint64 {
		close(stop)
		wg.Wait()
		return most - min(base, most)
	}
}

func TestSlowReaderSlowsTheUpstream(t *testing.T) {
	const size = 256 << 20
	wrote := make(chan int64, 1)
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.CopyN(w, &pattern{}, size)
		wrote <- n
	}))
	gw, _, _ := front(t, up.URL)
	res, err := client(t).Get(gw.URL)
	if err != nil {
		t.Fatal(err)
	}
	io.CopyN(io.Discard, res.Body, 1<<20)
	res.Body.Close() // the upstream must not have got rid of all of it by now
	if n := receive(t, "the upstream's end", wrote); n > size/2 {
		t.Errorf("the upstream wrote %d MiB for a client that read one", n>>20)
	}
}

// pattern is an endless body that repeats in no power of two.
type pattern struct{ at int }

func (p *pattern) Read(b []byte) (int, error) {
	n := copy(b, primes[p.at:])
	p.at = (p.at + n) % len(primes)
	return n, nil
}

// primes is 64 KiB less a little, of bytes that do not repeat with its halves.
var primes = func() []byte {
	b := make([]byte, 65521)
	for i := range b {
		b[i] = byte(i % 251)
	}
	return b
}()
