package upstream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"gateway/rules"
)

// sends has p forward a request with a body that is there as a whole, and that nobody
// may read from the client.
func sends(p *Pool, d *door, method, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://a/", untouchable{})
	r.ContentLength = int64(len(body))
	w := httptest.NewRecorder()
	server, _ := p.Pick(0)
	p.Forward(w, r, &Request{Front: d, Server: server, Path: "/", Body: []byte(body)})
	return w
}

// directSpec is spec for what direct alone does.
func directSpec(t testing.TB, servers ...string) *rules.Upstream {
	s := spec(t, servers...)
	s.Transport = "direct"
	return s
}

// untouchable is a body that must not be read.
type untouchable struct{}

func (untouchable) Read([]byte) (int, error) { panic("the body is read from the client") }
func (untouchable) Close() error             { return nil }

// pieces answers what it got, in how many pieces it came.
func pieces(t testing.TB, after func(net.Conn)) (addr string, requests *atomic.Int32) {
	requests = new(atomic.Int32)
	addr = raw(t, func(c net.Conn, _ *bufio.Reader) {
		p := make([]byte, 64<<10)
		for {
			n, err := c.Read(p)
			if err != nil {
				return
			}
			requests.Add(1)
			head, body, _ := strings.Cut(string(p[:n]), "\r\n\r\n")
			method, _, _ := strings.Cut(head, " ")
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s %s", len(method)+1+len(body), method, body)
			after(c)
		}
	})
	return addr, requests
}

func TestABodyThatIsThereGoesInOnePiece(t *testing.T) {
	addr, requests := pieces(t, func(net.Conn) {})
	p, d := newPool(t, directSpec(t, "http://"+addr)), &door{}
	long := strings.Repeat("0123456789abcdef", 256)
	for i, body := range []string{"x", "some body", long, "another"} {
		for _, method := range []string{"POST", "GET"} {
			if w := sends(p, d, method, body); w.Code != 200 || w.Body.String() != method+" "+body {
				t.Errorf("%d: got %d %.40q", i, w.Code, w.Body)
			}
		}
	}
	if n := requests.Load(); n != 8 {
		t.Errorf("the server read %d pieces, want 8", n)
	}
}

func TestABodyThatIsThereGoesToAnotherConnectionOrServer(t *testing.T) {
	// Each connection ends behind its answer, unannounced: the next request finds it closed.
	addr, requests := pieces(t, func(c net.Conn) { c.Close() })
	p, d := newPool(t, directSpec(t, "http://"+addr)), &door{}
	for i := range 5 {
		if w := sends(p, d, "POST", "some body"); w.Code != 200 || w.Body.String() != "POST some body" {
			t.Errorf("%d: got %d %q, %v", i, w.Code, w.Body, d.failures())
		}
		links := &p.servers[0].h1direct.links
		eventually(t, "the kept connection is seen to be closed", func() bool {
			links.mu.Lock()
			defer links.mu.Unlock()
			for _, s := range links.idle {
				for _, l := range s.links {
					if l.quiet() {
						return false
					}
				}
			}
			return true
		})
	}
	if n := requests.Load(); n != 5 {
		t.Errorf("%d requests, want 5", n)
	}

	addr, _ = pieces(t, func(net.Conn) {})
	p = newPool(t, directSpec(t, "http://"+refused(t), "http://"+addr))
	for range 4 { // one or the other is asked first
		if w := sends(p, d, "POST", "some body"); w.Code != 200 || w.Body.String() != "POST some body" {
			t.Errorf("got %d %q, %v", w.Code, w.Body, d.failures())
		}
	}
}

func TestABodyThatIsThereIsNeverSentTwice(t *testing.T) {
	var requests atomic.Int32
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		for kept := false; ; kept = true {
			if _, err := readRequest(r); err != nil {
				return
			}
			if requests.Add(1); kept {
				return // without an answer
			}
			io.WriteString(c, second)
		}
	})
	s := directSpec(t, "http://"+addr)
	s.Retries = 3
	p, d := newPool(t, s), &door{}
	for i, method := range []string{"POST", "GET", "PUT", "OPTIONS"} {
		if w := sends(p, d, method, "some body"); w.Code != 200 {
			t.Fatalf("%s: %d, %v", method, w.Code, d.failures())
		}
		if w := sends(p, d, method, "some body"); w.Code != http.StatusBadGateway {
			t.Errorf("%s on a connection that breaks: %d, want 502", method, w.Code)
		}
		if n := int(requests.Load()); n != 2*(i+1) {
			t.Fatalf("%s: the server has seen %d requests, want %d", method, n, 2*(i+1))
		}
	}
}
