package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAnUpstreamThatClosesIdleConnectionsCosts502OnlyToPosts(t *testing.T) {
	t.Parallel() // it mostly waits
	var mu sync.Mutex
	seen := map[string]int{}
	up := listen4(t, func(c net.Conn, in *bufio.Reader) {
		for first := true; ; first = false {
			if !first { // a machine that stands still does not keep a new connection from being used
				c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // its keep-alive
			}
			head, err := readHead(in)
			if err != nil {
				return
			}
			line, _, _ := strings.Cut(head, "\r\n")
			if strings.HasPrefix(line, "POST") {
				io.CopyN(io.Discard, in, 2)
				mu.Lock()
				seen[line]++
				mu.Unlock()
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	s := newSite(t, "upstream: http://"+up+"\nrules: [{ name: all, limit: 1000/h }]\n", nil)
	c := h1(t)
	posts := 0
	for i := range 60 {
		time.Sleep(time.Duration(18+i%5) * time.Millisecond) // about when it closes
		res, err := c.Get("http://" + s.addr)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Errorf("GET %d: %d", i, res.StatusCode)
		}
		time.Sleep(time.Duration(18+i%5) * time.Millisecond)
		res, err = c.Post(fmt.Sprintf("http://%s/%d", s.addr, i), "text/plain", strings.NewReader("hi"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode == 200 {
			posts++
		} else if res.StatusCode != 502 {
			t.Errorf("POST %d: %d", i, res.StatusCode)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for line, n := range seen {
		if n != 1 {
			t.Errorf("%s was sent %d times", line, n)
		}
	}
	if len(seen) < posts {
		t.Errorf("%d POSTs were answered and %d reached the upstream", posts, len(seen))
	}
	units := s.gateway.Current().rules.Rules[0].Live.Units.Load()
	if units != 120 {
		t.Errorf("%d units for 120 requests", units)
	}
	t.Attr("S18", fmt.Sprintf("%d units for 120 requests to an upstream that closes idle connections", units))
}

func TestAPostIsNeverSentTwice(t *testing.T) {
	sent, twice := 0, 0
	for _, header := range []string{"", "Idempotency-Key: 1\r\n", "X-Idempotency-Key: 1\r\n"} {
		var mu sync.Mutex
		n := 0
		up := listen4(t, func(_ net.Conn, in *bufio.Reader) {
			if _, err := readHead(in); err == nil {
				mu.Lock()
				n++
				mu.Unlock()
			}
		})
		s := newSite(t, "upstream: http://"+up+"\nrules: []\n", nil)
		const each = 334
		for range each {
			w := s.dial()
			w.send(post + header + "Content-Length: 2\r\nConnection: close\r\n\r\nhi")
			if r := w.mustAnswer("POST"); r.StatusCode != http.StatusBadGateway {
				t.Errorf("%q: %d, want 502", header, r.StatusCode)
			}
			w.Close()
		}
		mu.Lock()
		if n != each {
			t.Errorf("%q: the upstream saw %d requests for %d", header, n, each)
		}
		sent, twice = sent+each, twice+n-each
		mu.Unlock()
	}
	t.Attr("S18", fmt.Sprintf("%d of %d POSTs sent twice", twice, sent))
}
