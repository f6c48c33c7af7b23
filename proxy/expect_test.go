package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const expecting = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"

func TestContinueIsSaidOnceTheUpstreamWantsTheBody(t *testing.T) {
	s := newSite(t, openRules, swallow)
	w := s.dial()
	for range 3 { // on one connection: each answer belongs to its request
		w.send(expecting)
		res, err := http.ReadResponse(w.in, nil)
		if err != nil || res.StatusCode != 100 {
			t.Fatalf("%v, %v; want 100 before the body is sent", res, err)
		}
		w.send("hello")
		if r := w.mustAnswer("POST"); r.StatusCode != 200 || r.body != "5 bytes" {
			t.Errorf("%d %q", r.StatusCode, r.body)
		}
	}
}

func TestAnEarlyAnswerToAnExpectationHarmsNoOtherRequest(t *testing.T) {
	for _, status := range []string{"413 Request Entity Too Large", "200 OK"} {
		up := listen4(t, func(c net.Conn, in *bufio.Reader) {
			for {
				head, err := readHead(in)
				if err != nil {
					return
				}
				io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 2\r\n\r\nno")
				if strings.HasPrefix(head, "POST") {
					if _, err := io.CopyN(io.Discard, in, 5); err != nil {
						return
					}
				}
			}
		})
		s := newSite(t, "upstream: http://"+up+"\nrules: []\n", nil)
		for range 10 {
			w := s.dial()
			w.send(expecting)
			r := w.mustAnswer("POST")
			if r.Status != status || r.body != "no" {
				t.Errorf("%s %q, want the upstream's answer", r.Status, r.body)
			}
			// Whoever waited for 100 may send the body now, or not; then comes the next
			// request, which the gateway must not take for the body.
			w.send("hello" + after)
			if next, ok := w.answer("GET"); ok == r.Close || ok && next.Status != status {
				t.Errorf("close %t, and then %t %v", r.Close, ok, next.Response)
			}
			w.Close()
		}
	}
}

func TestARefusedExpectationGetsNo100(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: one, limit: 1/h }]\n", nil)
	s.get("/")
	w := s.dial()
	w.send(expecting)
	res, err := http.ReadResponse(w.in, nil)
	if err != nil || res.StatusCode != 429 {
		t.Errorf("%v, %v; want 429 at once", res, err)
	}
	if n := len(s.requests()); n != 1 {
		t.Errorf("%d requests at the upstream", n)
	}
}

// TestABodyThatEndsAsItsAnswerDoesHarmsNothing lets the last piece of an upload
// arrive at about the time its handler returns, on HTTP/2, where a deadline set
// on a stream that is over is a panic in the transport's goroutine.
func TestABodyThatEndsAsItsAnswerDoesHarmsNothing(t *testing.T) {
	up := listen4(t, func(c net.Conn, in *bufio.Reader) {
		if _, err := readHead(in); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
		io.Copy(io.Discard, in)
	})
	s := newSite(t, "upstream: http://"+up+"\nrules: []\n", nil)
	c := h2c(t)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 25 {
				in, out := io.Pipe()
				req, _ := http.NewRequest("POST", "http://"+s.addr, in)
				go func() {
					io.WriteString(out, strings.Repeat("x", 2000))
					time.Sleep(time.Duration((worker*25+i)*10) * time.Microsecond) // somewhere around the answer
					out.Close()
				}()
				res, err := c.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		})
	}
	wg.Wait()
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
}
