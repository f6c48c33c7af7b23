package upstream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// dying is a server that reads requests, records their ids and closes.
func dying(t testing.TB, l *ledger, asked *atomic.Int32) (addr string) {
	return raw(t, func(c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body)
		l.record(req.Header.Get("X-Id"))
		asked.Add(1)
	})
}

func TestARequestIsTriedAgainAsOftenAsItMay(t *testing.T) {
	good := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, tt := range []struct {
		method, body  string
		dying         int
		good          bool
		retries, sent int // sent: to servers that die
		want          int
	}{
		{"GET", "", 1, false, 0, 1, 502},
		{"GET", "", 1, false, 1, 2, 502}, // no other server: the same one
		{"GET", "", 1, false, 10, 11, 502},
		{"GET", "", 2, false, 3, 4, 502},
		{"HEAD", "", 1, true, 1, 1, 200},
		{"OPTIONS", "", 2, true, 2, 2, 200},
		{"TRACE", "", 3, true, 3, 3, 200},
		{"GET", "body", 1, true, 3, 1, 502},
		{"POST", "", 1, true, 3, 1, 502},
		{"POST", "body", 1, true, 3, 1, 502},
		{"PUT", "body", 1, true, 3, 1, 502},
		{"DELETE", "", 1, true, 3, 1, 502},
	} {
		var seen ledger
		var asked atomic.Int32
		var urls []string
		for range tt.dying {
			urls = append(urls, "http://"+dying(t, &seen, &asked))
		}
		if tt.good {
			urls = append(urls, good.URL)
		}
		s := spec(t, urls...)
		s.Retries, s.Balance = tt.retries, "round_robin"
		p := newPool(t, s)
		p.turn.Store(uint64(len(urls)) - 1) // begin with the first
		gw := gateway(t, p, &door{})
		if got := do(t, client(t), tt.method, gw.URL, "a", tt.body); got != tt.want || int(asked.Load()) != tt.sent {
			t.Errorf("%+v: got %d, sent %d times to those that die", tt, got, asked.Load())
		}
		eventually(t, "nothing in flight", func() bool {
			for _, st := range p.Stats() {
				if st.InFlight != 0 {
					return false
				}
			}
			return true
		})
	}
}

func TestNothingIsTriedAgainOnceAByteHasCome(t *testing.T) {
	for _, answer := range []string{"H", "HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Len"} {
		var asked atomic.Int32
		addr := raw(t, func(c net.Conn, r *bufio.Reader) {
			if _, err := header(r); err != nil {
				return
			}
			asked.Add(1)
			io.WriteString(c, answer)
		})
		s := spec(t, "http://"+addr)
		s.Retries = 5
		gw := gateway(t, newPool(t, s), &door{})
		if res, _ := get(t, client(t), gw.URL); res.StatusCode != http.StatusBadGateway || asked.Load() != 1 {
			t.Errorf("%q: got %d after %d tries, want 502 after one", answer, res.StatusCode, asked.Load())
		}
	}
}

func TestASlowAnswerIsNotTriedAgain(t *testing.T) {
	t.Parallel() // it mostly waits
	var asked atomic.Int32
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		<-r.Context().Done()
	}))
	s := spec(t, up.URL)
	s.Retries, s.Timeout = 5, time.Second
	gw := gateway(t, newPool(t, s), &door{})
	if res, _ := get(t, client(t), gw.URL); res.StatusCode != http.StatusGatewayTimeout || asked.Load() != 1 {
		t.Errorf("got %d after %d tries, want 504 after one", res.StatusCode, asked.Load())
	}
}

func TestWithoutRetriesNothingIsSentTwiceEvenOnAKeptConnection(t *testing.T) {
	var seen ledger
	var dies atomic.Bool
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if len(req.TransferEncoding) > 0 || req.ContentLength != 0 {
				t.Errorf("%s with a body: %v, %d", req.Method, req.TransferEncoding, req.ContentLength)
			}
			seen.record(req.Header.Get("X-Id"))
			if dies.Load() {
				return
			}
			io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	for retries, want := range []int{502, 502} {
		s := spec(t, "http://"+addr)
		s.Retries = retries
		gw, c := gateway(t, newPool(t, s), &door{}), client(t)
		dies.Store(false)
		id := strings.Repeat("x", retries+1)
		if got := do(t, c, "GET", gw.URL, id+"kept", ""); got != 204 {
			t.Fatalf("got %d", got)
		}
		dies.Store(true)
		if got := do(t, c, "GET", gw.URL, id, ""); got != want {
			t.Errorf("retries %d: got %d, want %d", retries, got, want)
		}
		seen.mu.Lock()
		if n := seen.seen[id]; (n == 1) != (retries == 0) {
			t.Errorf("retries %d: sent %d times", retries, n)
		}
		seen.mu.Unlock()
	}
}

func TestConnectionsThatCannotBeMadeGoOnToTheNextServer(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	for _, tt := range []struct{ retries, dead, want int }{{0, 1, 200}, {0, 2, 502}, {1, 2, 502}, {2, 2, 200}, {5, 4, 200}} {
		var urls []string
		for range tt.dead {
			urls = append(urls, "http://"+refused(t))
		}
		s := spec(t, append(urls, up.URL)...)
		s.Retries, s.Balance = tt.retries, "round_robin"
		p := newPool(t, s)
		p.turn.Store(uint64(tt.dead))
		gw := gateway(t, p, &door{})
		if got := do(t, client(t), "POST", gw.URL, "", "body"); got != tt.want {
			t.Errorf("%+v: got %d", tt, got)
		}
	}
}

// busy is a pool with at most max requests at each of n servers, which hold them
// until the test lets them go.
func busy(t *testing.T, n, max int, wait time.Duration) (p *Pool, url string, d *door, hold chan struct{}, most *atomic.Int32) {
	hold, most = make(chan struct{}), &atomic.Int32{}
	var urls []string
	for range n {
		var now atomic.Int32
		up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for n := now.Add(1); ; {
				if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
					break
				}
			}
			defer now.Add(-1)
			<-hold
		}))
		urls = append(urls, up.URL)
	}
	s := spec(t, urls...)
	s.MaxConns, s.ConnectTimeout = max, wait
	d, p = &door{}, newPool(t, s)
	return p, gateway(t, p, d).URL, d, hold, most
}

func TestRequestsWaitForAPlaceAndNoServerGetsMoreThanItMay(t *testing.T) {
	p, url, _, hold, most := busy(t, 2, 3, deadline)
	var wg sync.WaitGroup
	var good atomic.Int32
	c := client(t)
	for range 50 {
		wg.Go(func() {
			if do(t, c, "GET", url, "", "") == 200 {
				good.Add(1)
			}
		})
	}
	eventually(t, "44 wait", func() bool { return p.queue.n.Load() == 44 })
	close(hold)
	wg.Wait()
	if good.Load() != 50 || most.Load() > 3 {
		t.Errorf("%d of 50 got their answer, %d at once at one server", good.Load(), most.Load())
	}
	eventually(t, "nothing left", func() bool {
		s := p.Stats()
		return p.queue.n.Load() == 0 && p.queue.waiting.Len() == 0 && s[0].InFlight+s[1].InFlight == 0
	})
}

func TestWhoWaitsTooLongForAPlaceGets503(t *testing.T) {
	p, url, d, hold, _ := busy(t, 1, 1, time.Second) // to connect, too
	c := client(t)
	first := make(chan int, 1)
	go func() { first <- do(t, c, "GET", url, "", "") }()
	eventually(t, "one in flight", func() bool { return p.Stats()[0].InFlight == 1 })
	if got := do(t, c, "POST", url, "", "body"); got != http.StatusServiceUnavailable {
		t.Errorf("got %d, want 503; failed with %v", got, d.failures())
	}
	if err := d.failures()[0]; !is[*BusyError](err) {
		t.Errorf("failed with %v", err)
	}
	if s := p.Stats()[0]; s.Failures != 0 {
		t.Errorf("that is held against the server: %+v", s)
	}
	close(hold)
	if got := receive(t, "the first answer", first); got != 200 {
		t.Errorf("got %d", got)
	}
}

func TestWhoLeavesWhileWaitingTakesNoPlace(t *testing.T) {
	p, _, _, hold, _ := busy(t, 1, 1, time.Hour)
	s := p.servers[0]
	if !s.reserve(1) {
		t.Fatal("no place")
	}
	ctx, cancel := withCancel(t)
	left := make(chan error, 1)
	go func() {
		_, err := p.board(&flight{in: new(http.Request).WithContext(ctx)}, s, 0)
		left <- err
	}()
	eventually(t, "it waits", func() bool { return p.queue.n.Load() == 1 })
	cancel()
	if err := receive(t, "the end of the wait", left); err == nil {
		t.Error("it got a place")
	}
	p.leave(s)
	if s.inFlight.Load() != 0 || p.queue.waiting.Len() != 0 {
		t.Errorf("%d in flight, %d waiting", s.inFlight.Load(), p.queue.waiting.Len())
	}
	close(hold)
}

func TestAServerThatComesUpTakesThoseThatWait(t *testing.T) {
	p, _, _, hold, _ := busy(t, 2, 1, deadline)
	close(hold)
	p.health.Lock()
	p.servers[1].down.Store(true)
	p.servers[1].found = findings{checked: true, against: 1}
	p.choice.Store(choose(p.servers))
	p.health.Unlock()
	p.servers[0].reserve(1)
	got := make(chan *Server, 1)
	go func() {
		s, err := p.board(&flight{in: new(http.Request).WithContext(t.Context())}, p.servers[0], 0)
		if err != nil {
			t.Error(err)
		}
		got <- s
	}()
	eventually(t, "it waits", func() bool { return p.queue.n.Load() == 1 })
	p.judge(p.servers[1], nil)
	if s := receive(t, "a place", got); s != p.servers[1] {
		t.Errorf("got %v", s)
	}
	p.leave(p.servers[0])
	p.leave(p.servers[1])
}

// TestAConnectionClosedBeforeItsFirstRequestHurtsNoGET has a server close every
// other connection as soon as it is made, which net/http calls idle.
func TestAConnectionClosedBeforeItsFirstRequestHurtsNoGET(t *testing.T) {
	var made atomic.Int32
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		if made.Add(1)%2 == 1 {
			return
		}
		if _, err := header(r); err == nil {
			io.WriteString(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
		}
	})
	gw, d, _ := front(t, "http://"+addr)
	c := client(t)
	for i := range 100 {
		if res, _ := get(t, c, gw.URL); res.StatusCode != 204 {
			t.Fatalf("GET %d: got %d; failed with %v", i, res.StatusCode, d.failures())
		}
	}
}
