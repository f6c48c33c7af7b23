package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// faulty serves a gateway before a server that reads a head, says text, and
// closes.
func faulty(t *testing.T, text string) *site {
	up := listen4(t, func(c net.Conn, in *bufio.Reader) {
		if _, err := readHead(in); err == nil {
			io.WriteString(c, text)
		}
	})
	return newSite(t, "upstream: http://"+up+"\nrules: [{ name: all, limit: 100/h }]\n", nil)
}

func TestAnUnusableAnswerIs502(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	faults := 0
	for name, text := range map[string]string{
		"nothing":                   "",
		"garbage":                   "garbage\r\n\r\n",
		"half a head":               ok + "Content-Le",
		"status 099":                "HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n",
		"status 000":                "HTTP/1.1 000 Zero\r\nContent-Length: 0\r\n\r\n",
		"status of four digits":     "HTTP/1.1 1000 High\r\nContent-Length: 0\r\n\r\n",
		"status negative":           "HTTP/1.1 -20 Odd\r\nContent-Length: 0\r\n\r\n",
		"status of letters":         "HTTP/1.1 abc Odd\r\n\r\n",
		"unasked 101":               "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
		"two lengths":               ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
		"a bad length":              ok + "Content-Length: x\r\n\r\n",
		"an unknown coding":         ok + "Transfer-Encoding: zip\r\n\r\nok",
		"a NUL in a value":          ok + "X: a\x00b\r\nContent-Length: 2\r\n\r\nok",
		"11 MB of header":           ok + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 11_000) + "\r\n",
		"a hundred interim answers": strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100) + ok + "Content-Length: 2\r\n\r\nok",
		"interim answers only":      "HTTP/1.1 103 Early Hints\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := faulty(t, text)
			both(t, func(t *testing.T, c *http.Client) {
				res, err := c.Get("http://" + s.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				body, _ := io.ReadAll(res.Body)
				p := problemOf(t, reply{res, string(body)})
				if res.StatusCode != 502 || p["status"] != 502.0 || p["instance"] != "urn:request:"+res.Header.Get("X-Request-Id") {
					t.Errorf("%d %v, want 502", res.StatusCode, p)
				}
				if len(res.Header.Values("RateLimit")) != 1 {
					t.Errorf("RateLimit %q, want one", res.Header.Values("RateLimit"))
				}
				namesNoAddress(t, string(body))
				faults++
			})
		})
	}
	t.Attr("S17", fmt.Sprintf("%d unusable answers are 502 for clients of HTTP/1 and HTTP/2", faults))
}

// namesNoAddress fails if an answer tells a client where the upstream is.
func namesNoAddress(t *testing.T, body string) {
	t.Helper()
	for _, word := range []string{"127.0.0.1", "dial", "tcp", "localhost", "refused"} {
		if strings.Contains(body, word) {
			t.Errorf("the body says %q: %s", word, body)
		}
	}
}

func TestAnUpstreamThatIsNotThereIs502(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s := newSite(t, "upstream: http://"+l.Addr().String()+"\nrules: []\n", nil)
	r := s.get("/")
	if r.StatusCode != 502 || problemOf(t, r)["detail"] != "The upstream cannot be reached." {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	namesNoAddress(t, r.body)
	if e := s.entries(1)[0]; e["status"] != 502.0 || e["err"] == nil {
		t.Errorf("access line %v, want 502 and why", e)
	}
}

func TestAnUpstreamThatDoesNotAnswerIs504(t *testing.T) {
	up := listen4(t, func(c net.Conn, _ *bufio.Reader) { io.Copy(io.Discard, c) })
	s := newSite(t, "upstreams: { slow: { servers: ['http://"+up+"'], timeout: 300ms } }\nroutes: [{ upstream: slow }]\nrules: []\n", nil)
	r := s.get("/")
	if r.StatusCode != 504 || problemOf(t, r)["detail"] != "The upstream did not answer in time." {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	namesNoAddress(t, r.body)
	if st := s.gateway.Current().pools["slow"].Stats()[0]; !st.Up || st.InFlight != 0 {
		t.Errorf("a slow answer is no failure: %+v", st)
	}
}

func TestATruncatedAnswerNeverLooksComplete(t *testing.T) {
	broken := 0
	for name, text := range map[string]string{
		"short of its length":      "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
		"without a last chunk":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"in the middle of a chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhalf",
		"with a bad chunk":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n",
		"before trailers end":      "HTTP/1.1 200 OK\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\nX: y",
	} {
		t.Run(name, func(t *testing.T) {
			s := faulty(t, text)
			both(t, func(t *testing.T, c *http.Client) {
				broken++
				res, err := c.Get("http://" + s.addr)
				if err != nil {
					return // broken off before a byte of it came: as good
				}
				defer res.Body.Close()
				if body, err := io.ReadAll(res.Body); err == nil {
					t.Errorf("%d with %q and a clean end", res.StatusCode, body)
				}
			})
			eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
		})
	}
	t.Attr("S17", fmt.Sprintf("0 of %d truncated answers look whole", broken))
}

func TestABodyBehindAnAnswerWithoutOneIsDropped(t *testing.T) {
	for _, text := range []string{
		"HTTP/1.1 204 No Content\r\nX-Kept: 1\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
		"HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\nX-Kept: 1\r\n\r\npoison",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Kept: 1\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
	} {
		s := faulty(t, text)
		for range 3 {
			r := s.get("/")
			if r.body != "" || r.Header.Get("X-Kept") != "1" || r.StatusCode != 200 && r.StatusCode != 204 && r.StatusCode != 304 {
				t.Errorf("%q: %d %q %v", text, r.StatusCode, r.body, r.Header)
			}
			if len(r.Header.Values("RateLimit")) != 1 {
				t.Errorf("%q: RateLimit %q, want one", text, r.Header.Values("RateLimit"))
			}
		}
	}
}

func TestAClientThatLeavesIs499AndTheUpstreamHearsOfIt(t *testing.T) {
	heard := make(chan time.Time, 100)
	entered := make(chan struct{}, 100)
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: all, limit: 1000/h }]\n", func(_ http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-r.Context().Done()
		heard <- time.Now()
	})
	n := 0
	both(t, func(t *testing.T, c *http.Client) {
		for range 10 {
			n++
			ctx, leave := context.WithCancel(t.Context())
			req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+s.addr, nil)
			failed := make(chan error, 1)
			go func() {
				res, err := c.Do(req)
				if err == nil {
					res.Body.Close()
				}
				failed <- err
			}()
			<-entered
			left := time.Now()
			leave()
			if err := <-failed; err == nil {
				t.Error("an answer although the client left")
			}
			if took := (<-heard).Sub(left); took > 2*time.Second { // 200 ms on an idle machine
				t.Errorf("the upstream heard of it after %v", took)
			}
		}
	})
	for _, e := range s.entries(n) {
		if e["status"] != 499.0 || e["settled"] != 1.0 || e["result"] != "allowed" {
			t.Errorf("access line %v, want 499 and the unit kept", e)
		}
	}
	for _, r := range s.gateway.Routes() {
		for _, a := range r.Responses {
			if a.Code != 499 {
				t.Errorf("counted as %d", a.Code)
			}
		}
	}
	if st := s.gateway.Current().pools["default"].Stats()[0]; st.Failures != 0 || st.InFlight != 0 || !st.Up {
		t.Errorf("the upstream is blamed for it: %+v", st)
	}
	if got := len(s.requests()); got != n {
		t.Errorf("%d requests at the upstream for %d of the client: some were tried again", got, n)
	}
}

func TestAnAnswerOfTooManyHintsDoesNotTakeTheLimitHeadersAlong(t *testing.T) {
	s := faulty(t, strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n", 5)+
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nRateLimit: \"theirs\";r=1\r\n\r\nok")
	w := s.dial()
	w.send(get + "Connection: close\r\n\r\n")
	hints := 0
	for {
		res, err := http.ReadResponse(w.in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == 103 {
			hints++
			if res.Header.Get("X-Hop") != "" || res.Header.Get("Link") != "</x>" {
				t.Errorf("a hint with %v", res.Header)
			}
			continue
		}
		if got := strings.Join(res.Header.Values("RateLimit"), " | "); got != `"theirs";r=1 | "all";r=99;t=36` || hints != 5 {
			t.Errorf("%d with RateLimit %q behind %d hints", res.StatusCode, got, hints)
		}
		return
	}
}

func TestAnErrorOfTheUpstreamPassesAsItIs(t *testing.T) {
	s := faulty(t, "HTTP/1.1 503 Busy\r\nRetry-After: 30\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nlater")
	r := s.get("/")
	if r.StatusCode != 503 || r.Header.Get("Retry-After") != "30" || r.body != "later" || r.Header.Get("Content-Type") != "text/plain" {
		t.Errorf("%d %q %v", r.StatusCode, r.body, r.Header)
	}
}
