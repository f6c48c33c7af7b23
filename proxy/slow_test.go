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

// swallow reads the body to its end and says how long it was.
func swallow(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	fmt.Fprintf(w, "%d bytes", n)
}

// trickle is a body of n bytes that come piece by piece.
type trickle struct {
	n, piece int
	pause    time.Duration
}

func (b *trickle) Read(p []byte) (int, error) {
	if b.n == 0 {
		return 0, io.EOF
	}
	time.Sleep(b.pause) // the slowness of the client is what is tested
	n := min(b.piece, b.n, len(p))
	b.n -= n
	return n, nil
}

func TestATrickledBodyIs408(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, "timeouts: { read: 500ms }\n"+fivePerHour, swallow)
	for _, head := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
		w := s.dial()
		w.send("POST / HTTP/1.1\r\nHost: a\r\n" + head + "\r\n\r\n")
		stop := make(chan struct{})
		go func() { // a byte now and then, for as long as anybody listens
			for {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
				}
				if strings.HasPrefix(head, "T") {
					w.send("1\r\nx\r\n")
				} else {
					w.send("x")
				}
			}
		}()
		r := w.mustAnswer("POST")
		close(stop)
		if r.StatusCode != 408 || problemOf(t, r)["status"] != 408.0 {
			t.Errorf("%s: %d, want 408", head, r.StatusCode)
		}
		if _, ok := w.answer("POST"); ok {
			t.Errorf("%s: the connection went on in the middle of a body", head)
		}
	}
	req, _ := http.NewRequest("POST", "http://"+s.addr, &trickle{1000, 1, 50 * time.Millisecond})
	res, err := h2c(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 408 {
		t.Errorf("HTTP/2: %d, want 408", res.StatusCode)
	}
	for _, e := range s.entries(3) {
		if e["status"] != 408.0 || e["settled"] != 1.0 {
			t.Errorf("access line %v, want 408 and its unit kept", e)
		}
	}
}

func TestASlowHonestUploadLives(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, "timeouts: { read: 2s }\n"+openRules, swallow)
	both(t, func(t *testing.T, c *http.Client) {
		// 180 KiB in 4.5 s: twice and more the span, with some 80 KiB in each where at most 4 are asked for,
		// so that a machine which is busy for a second is not taken for a client that is slow.
		req, _ := http.NewRequest("POST", "http://"+s.addr, &trickle{180 << 10, 4 << 10, 100 * time.Millisecond})
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, _ := io.ReadAll(res.Body); res.StatusCode != 200 || string(body) != "184320 bytes" {
			t.Errorf("%d %q", res.StatusCode, body)
		}
	})
}

func TestAnUpstreamThatIsSlowToReadIsNotTheClientsFault(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, "timeouts: { read: 2s }\n"+openRules, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Second) // more than twice what the client has
		swallow(w, r)
	})
	both(t, func(t *testing.T, c *http.Client) {
		t.Parallel()
		const size = 24 << 20 // more than lies in buffers on the way
		req, _ := http.NewRequest("POST", "http://"+s.addr, strings.NewReader(strings.Repeat("x", size)))
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, _ := io.ReadAll(res.Body); res.StatusCode != 200 || string(body) != fmt.Sprint(size, " bytes") {
			t.Errorf("%d %q", res.StatusCode, body)
		}
	})
}

func TestARefusedUploadIsAnsweredAtOnceAndHoldsNothingForEver(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, "timeouts: { read: 6s }\nupstream: UPSTREAM\nrules: [{ name: one, limit: 1/h }]\n", nil)
	s.get("/")
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for _, body := range []string{
		"Content-Length: 1000\r\n\r\nhalf",
		"Content-Length: 1000000000\r\n\r\nhalf",
		"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n",
		"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
	} {
		w := s.dial()
		began := time.Now()
		w.send("POST / HTTP/1.1\r\nHost: a\r\n" + body)
		r := w.mustAnswer("POST")
		if r.StatusCode != 429 || r.Header.Get("Retry-After") == "" {
			t.Errorf("%q: %d, want 429 (and no 100)", body, r.StatusCode)
		}
		if waited := time.Since(began); waited > 5*time.Second {
			t.Errorf("%q: answered after %v: the gateway waited for the body", body, waited)
		}
		waiting.Go(func() {
			if n, err := io.Copy(io.Discard, w.in); n > 0 || err != nil && !isReset(err) {
				t.Errorf("%q: the connection went on in the middle of a body: %d bytes, %v", body, n, err)
			}
		})
	}
}

func TestARefusedUploadThatIsThereKeepsItsConnection(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: one, limit: 1/h }]\n", nil)
	s.get("/")
	w := s.dial()
	for i := range 5 {
		w.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
		if r := w.mustAnswer("POST"); r.StatusCode != 429 || r.Close {
			t.Fatalf("request %d: %d, close %t", i, r.StatusCode, r.Close)
		}
	}
}

func TestAnUploadThatStallsWhenItsUpstreamHasAnsweredIsLetGo(t *testing.T) {
	up := listen4(t, func(c net.Conn, in *bufio.Reader) {
		if _, err := readHead(in); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n0\r\n\r\n")
		io.Copy(io.Discard, in)
	})
	s := newSite(t, "timeouts: { read: 15s }\nupstream: http://"+up+"\nrules: []\n", nil)
	w := s.dial()
	began := time.Now()
	w.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf")
	if r := w.mustAnswer("POST"); r.StatusCode != 200 || r.body != "early" {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	if waited := time.Since(began); waited > 10*time.Second {
		t.Errorf("the end of the answer came after %v: it waited for the client's body", waited)
	}
}

func TestAStalledUploadOfADeadUpstreamEndsWithinTheSpan(t *testing.T) {
	t.Parallel() // it mostly waits
	up := listen4(t, func(c net.Conn, in *bufio.Reader) {
		readHead(in)
		c.(*net.TCPConn).SetLinger(0) // a reset
	})
	s := newSite(t, "timeouts: { read: 1s }\nupstream: http://"+up+"\nrules: []\n", nil)
	for range 20 {
		w := s.dial()
		w.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf")
	}
	w := s.dial()
	w.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf")
	if r := w.mustAnswer("POST"); r.StatusCode != 408 && r.StatusCode != 502 {
		t.Errorf("%d, want 408 or 502", r.StatusCode)
	}
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
}

func TestASlowHeadIsCut(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, "timeouts: { read_header: 500ms }\n"+openRules, nil)
	quiet, slow := s.dial(), s.dial()
	slow.send("GET / HTTP/1.1\r\nHost: a\r\n")
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				slow.send("X: y\r\n")
			}
		}
	}()
	for name, w := range map[string]*wire{"silent": quiet, "slow": slow} {
		if r, ok := w.answer("GET"); ok && r.StatusCode != 408 {
			t.Errorf("%s: %d", name, r.StatusCode)
		}
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
}
