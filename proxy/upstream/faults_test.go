package upstream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestUpstreamFaultsAreToldApart(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	tests := []struct {
		name, answer string
		want         int
	}{
		{"closes without a word", "", 502},
		{"closes in the header", "HTTP/1.1 200 OK\r\nConte", 502},
		{"garbage", "\x00\x01\x02\x03\r\n\r\n", 502},
		{"another protocol", "SSH-2.0-OpenSSH_9.2\r\n", 502},
		{"status 099", "HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n", 502},
		{"status 000", "HTTP/1.1 000 Odd\r\nContent-Length: 0\r\n\r\n", 502},
		{"status 1000", "HTTP/1.1 1000 Odd\r\nContent-Length: 0\r\n\r\n", 502},
		{"status -1", "HTTP/1.1 -01 Odd\r\nContent-Length: 0\r\n\r\n", 502},
		{"status 999", "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", 999},
		{"status 600", "HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n", 600},
		{"two lengths", ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 502},
		{"bad length", ok + "Content-Length: -1\r\n\r\n", 502},
		{"bad transfer coding", ok + "Transfer-Encoding: xchunked\r\n\r\n", 502},
		{"NUL in a value", ok + "X: a\x00b\r\nContent-Length: 0\r\n\r\n", 502},
		{"no colon", ok + "Nonsense\r\n\r\n", 502},
		{"length and chunked", ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", 200},
		{"unasked 101", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nx", 502},
		{"unasked 101 without a protocol", "HTTP/1.1 101 Switching Protocols\r\n\r\n", 502},
		{"11 MB of header", ok + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 11000) + "\r\n", 502},
		{"204 with a body", "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nevil!", 204},
		{"304 with a body", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nevil!", 304},
		{"50,000 early hints", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 50000) + ok + "Content-Length: 0\r\n\r\n", 502},
		{"eight early hints", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 8) + ok + "Content-Length: 0\r\n\r\n", 200},
		{"nine early hints", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 9) + ok + "Content-Length: 0\r\n\r\n", 502},
	}
	right := 0
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			addr := answering(t, test.answer)
			gw, d, p := front(t, "http://"+addr)
			for range 3 {
				res, body := get(t, client(t), gw.URL)
				if res.StatusCode != test.want {
					t.Fatalf("got %d, want %d; failed with %v", res.StatusCode, test.want, d.failures())
				}
				if strings.Contains(body, "evil") || strings.Contains(body, addr) {
					t.Errorf("got body %q", body)
				}
			}
			stats, tries := p.Stats()[0], uint64(3)
			if test.answer == "" {
				tries = 6 // before a byte of an answer a GET is tried again
			}
			if failed := test.want == 502; stats.InFlight != 0 || failed != (stats.Failures == tries) {
				t.Errorf("got %+v", stats)
			}
			right++
		})
	}
	t.Attr("S17", fmt.Sprintf("%d of %d odd answers told apart", right, len(tests)))
}

func TestNoConnectionIsABadGateway(t *testing.T) {
	ways := map[string]string{
		"refused":      "http://" + refused(t),
		"unknown name": "http://nowhere.invalid",
		"unroutable":   "http://192.0.2.1:9", // swallowed or unreachable, by the machine's routes
		"no TLS":       "https://" + answering(t, "HTTP/1.1 200 OK\r\n\r\n"),
		"silent TLS":   "https://" + raw(t, func(c net.Conn, _ *bufio.Reader) { io.Copy(io.Discard, c) }),
	}
	for name, server := range ways {
		s := spec(t, server)
		s.ConnectTimeout = 200 * time.Millisecond
		d := &door{}
		gw := gateway(t, newPool(t, s), d)
		began := time.Now()
		res, body := get(t, client(t), gw.URL)
		if res.StatusCode != http.StatusBadGateway || body != "no answer\n" {
			t.Errorf("%s: got %d %q, want 502", name, res.StatusCode, body)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
		if errs := d.failures(); len(errs) != 1 || !is[*ConnectError](errs[0]) {
			t.Errorf("%s: got %v, want one ConnectError", name, errs)
		}
	}
	t.Attr("S17", fmt.Sprintf("%d ways to have no connection are 502", len(ways)))
}

func TestSilentUpstreamIsAGatewayTimeout(t *testing.T) {
	t.Parallel() // it mostly waits
	gone := make(chan struct{}, 2)
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		io.Copy(io.Discard, r)
		gone <- struct{}{}
	})
	h2 := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	for _, server := range []string{"http://" + addr, strings.Replace(h2.URL, "http:", "h2c:", 1)} {
		s := spec(t, server)
		s.Timeout = time.Second // in which the request reaches the upstream on a busy machine, too
		p := newPool(t, s)
		gw := gateway(t, p, &door{})
		for _, method := range []string{"GET", "POST"} {
			req, _ := http.NewRequest(method, gw.URL, nil)
			if method == "POST" {
				req.Body, req.ContentLength = io.NopCloser(strings.NewReader("x")), 1
			}
			res, err := client(t).Do(req)
			if err != nil || res.StatusCode != http.StatusGatewayTimeout {
				t.Fatalf("%s %s: got %v, %v, want 504", method, server, res, err)
			}
			read(t, res)
			receive(t, "the upstream left", gone)
		}
		if got := p.Stats()[0]; got.InFlight != 0 || got.Failures != 2 || !got.Up {
			t.Errorf("got %+v", got)
		}
	}
	t.Attr("S17", "silence is 504")
}

func TestBrokenOffAnswerIsNeverWhole(t *testing.T) {
	for name, answer := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"chunk":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nhalf",
		"nothing": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
	} {
		gw, _, p := front(t, "http://"+answering(t, answer))
		for proto, c := range map[string]*http.Client{"HTTP/1.1": client(t), "HTTP/2": h2cClient(t)} {
			res, err := c.Get(gw.URL)
			if err == nil {
				_, err = io.ReadAll(res.Body)
				res.Body.Close()
			}
			if err == nil {
				t.Errorf("%s over %s: the client took a half answer for a whole one", name, proto)
			}
		}
		eventually(t, "nothing in flight", func() bool { return p.Stats()[0].InFlight == 0 })
	}
}

func TestUnasked101LeaksNothing(t *testing.T) {
	closed := make(chan struct{}, 100)
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		if _, err := header(r); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n")
		io.Copy(io.Discard, r)
		closed <- struct{}{}
	})
	gw, _, _ := front(t, "http://"+addr)
	asks := []string{
		"",
		"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n",
		"Connection: Upgrade\r\nUpgrade: foo\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket\r\n", // but the upstream switches to h2c
		"Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",
		"Connection: Upgrade\r\nUpgrade: \xff\r\n",
	}
	for i := range 2 * len(asks) {
		c, r := dial(t, gw)
		send(t, c, "GET / HTTP/1.1\r\nHost: h\r\n"+asks[i%len(asks)]+"\r\n")
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != http.StatusBadGateway {
			t.Fatalf("ask %q: got %v, %v, want 502", asks[i%len(asks)], res, err)
		}
		receive(t, "the upstream's connection closed", closed)
	}
	t.Attr("S17", fmt.Sprintf("0 of %d connections of an unasked 101 leaked", 2*len(asks)))
}

func TestOnlyAWebSocketUpgradeReachesTheUpstream(t *testing.T) {
	heads := make(chan string, 1)
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		head, _ := header(r)
		heads <- head
		io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
	})
	gw, _, _ := front(t, "http://"+addr)
	tests := []struct {
		ask  string
		want bool
	}{
		{"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n", true},
		{"GET / HTTP/1.1\r\nconnection: keep-alive, upgrade\r\nUPGRADE: WebSocket\r\n", true},
		{"POST / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n", false},
		{"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n", false},
		{"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n", false},
		{"GET / HTTP/1.1\r\nUpgrade: websocket\r\n", false},
		{"GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n", false},
	}
	for _, test := range tests {
		c, r := dial(t, gw)
		send(t, c, test.ask+"Host: h\r\n\r\nx")
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 403 {
			t.Fatalf("%q: got %v, %v", test.ask, res, err)
		}
		head := strings.ToLower(receive(t, "the request", heads))
		if got := strings.Contains(head, "upgrade"); got != test.want || strings.Contains(head, "settings") {
			t.Errorf("%q: the upstream got %q", test.ask, head)
		}
	}
}

func TestLeftoverOfAnAnswerReachesNoOtherClient(t *testing.T) {
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nevil!"
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		for {
			if _, err := header(r); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 304 Not Modified\r\nContent-Length: 43\r\n\r\n"+evil)
		}
	})
	gw, d, _ := front(t, "http://"+addr)
	c := client(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				res, err := c.Get(gw.URL)
				if err != nil || res.StatusCode != 304 {
					t.Errorf("got %v, %v; failed with %v", res, err, d.failures())
					return
				}
				res.Body.Close()
			}
		})
	}
	wg.Wait()
}

func TestInterimAnswersLoseTheirConnectionHeaders(t *testing.T) {
	addr := answering(t, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\n\r\n"+
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	gw, _, _ := front(t, "http://"+addr)
	for version, want := range map[string]string{
		"1.1": "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",
		"1.0": "", // knows no interim answer
	} {
		c, r := dial(t, gw)
		send(t, c, fmt.Sprintf("GET / HTTP/%s\r\nHost: h\r\n\r\n", version))
		if want != "" {
			if got, err := header(r); err != nil || got != want {
				t.Errorf("HTTP/%s: got %q, %v, want %q", version, got, err, want)
			}
		}
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 200 {
			t.Errorf("HTTP/%s: got %v, %v", version, res, err)
		}
	}
}

func TestErrorsLeaveNoGoroutine(t *testing.T) {
	gw, _, p := front(t, "http://"+answering(t, "HTTP/1.1 099 Odd\r\n\r\n"))
	c := client(t)
	get(t, c, gw.URL)
	before := runtime.NumGoroutine()
	for range 200 {
		get(t, c, gw.URL)
	}
	p.Close()
	after := 0
	eventually(t, "goroutines at the baseline", func() bool { after = runtime.NumGoroutine(); return after <= before+5 })
	t.Attr("S17", fmt.Sprintf("%d goroutines before 200 errors, %d after", before, after))
}
