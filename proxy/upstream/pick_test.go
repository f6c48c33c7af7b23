package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestPickTakesTheServerWithTheFewestInFlight(t *testing.T) {
	p := newPool(t, spec(t, "http://a", "http://b", "http://c"))
	p.servers[0].inFlight.Store(2)
	p.servers[1].inFlight.Store(1)
	p.servers[2].inFlight.Store(2)
	for range 10 {
		if s, ok := p.Pick(0); !ok || s.URL.Host != "b" {
			t.Fatalf("got %v, %v", s, ok)
		}
	}
}

func TestPickTakesTiesInTurn(t *testing.T) {
	p := newPool(t, spec(t, "http://a", "http://b", "http://c"))
	seen := map[string]int{}
	for range 300 {
		s, _ := p.Pick(0)
		seen[s.URL.Host]++
	}
	for host, n := range seen {
		if n != 100 {
			t.Errorf("%s: got %d of 300, want 100", host, n)
		}
	}
}

func TestRequestsInProgressSpreadOverTheServers(t *testing.T) {
	hold := make(chan struct{})
	var counts [3]atomic.Int64
	var urls []string
	for i := range counts {
		up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			counts[i].Add(1)
			<-hold
		}))
		urls = append(urls, up.URL)
	}
	p := newPool(t, spec(t, urls...))
	gw := gateway(t, p, &door{})
	c := client(t)
	var wg sync.WaitGroup
	for n := range int64(30) {
		wg.Go(func() {
			res, err := c.Get(gw.URL)
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Close()
		})
		eventually(t, "the request in flight", func() bool {
			var sum int64
			for i := range counts {
				sum += counts[i].Load()
			}
			return sum == n+1
		})
	}
	for i, s := range p.Stats() {
		if counts[i].Load() != 10 || s.InFlight != 10 {
			t.Errorf("server %d: got %d requests, %d in flight, want 10", i, counts[i].Load(), s.InFlight)
		}
	}
	close(hold)
	wg.Wait()
	eventually(t, "nothing in flight", func() bool {
		for _, s := range p.Stats() {
			if s.InFlight != 0 || s.Answers[2] != 10 {
				return false
			}
		}
		return true
	})
}

func TestNoClientSeesThatOneOfTwoServersIsDead(t *testing.T) {
	var posts atomic.Int64
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); string(b) == "body" {
			posts.Add(1)
		}
	}))
	p := newPool(t, spec(t, "http://"+refused(t), up.URL))
	d := &door{}
	gw, c := gateway(t, p, d), client(t)
	for i := range 50 {
		res, err := c.Post(gw.URL, "", io.MultiReader(strings.NewReader("bo"), strings.NewReader("dy")))
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("request %d: %v, %v", i, res, err)
		}
		res.Body.Close()
	}
	if got := posts.Load(); got != 50 {
		t.Errorf("got %d whole bodies, want 50", got)
	}
	stats := p.Stats()
	if stats[0].Up || stats[0].Failures != rowOut || stats[0].InFlight != 0 {
		t.Errorf("dead server: got %+v, want it out after %d failures", stats[0], rowOut)
	}
	if !stats[1].Up || stats[1].Answers[2] != 50 || stats[1].InFlight != 0 {
		t.Errorf("live server: got %+v", stats[1])
	}
	if q, _ := d.last(); q.Server != p.servers[1] {
		t.Errorf("Request.Server: got %v, want the one that answered", q.Server.URL)
	}
}

func TestServerIsOutAfterThreeFailuresInARowAndComesBack(t *testing.T) {
	p := newPool(t, spec(t, "http://a", "http://b"))
	p.outFor = 50 * time.Millisecond
	a := p.servers[0]
	p.failed(a)
	p.failed(a)
	a.answered(500) // an answer is an answer
	p.failed(a)
	p.failed(a)
	if !p.Stats()[0].Up {
		t.Fatal("out after two failures in a row")
	}
	p.failed(a)
	if p.Stats()[0].Up {
		t.Fatal("in after three failures in a row")
	}
	if s := p.choose(&wish{}); s == a && !p.Stats()[0].Up {
		t.Error("picked a server that is out")
	}
	eventually(t, "back in", func() bool { return p.Stats()[0].Up })
	eventually(t, "picked again", func() bool { return p.choose(&wish{}) == a })
}

func TestLastServerThatIsInStaysIn(t *testing.T) {
	p := newPool(t, spec(t, "http://a", "http://b"))
	var wg sync.WaitGroup
	for _, s := range p.servers {
		for range 4 {
			wg.Go(func() {
				for range 100 {
					p.failed(s)
				}
			})
		}
	}
	wg.Wait()
	stats := p.Stats()
	if stats[0].Up == stats[1].Up {
		t.Errorf("got up %v and %v, want exactly one", stats[0].Up, stats[1].Up)
	}
	one := newPool(t, spec(t, "http://a"))
	for range 10 {
		one.failed(one.servers[0])
	}
	if s, ok := one.Pick(0); !ok || !one.Stats()[0].Up {
		t.Errorf("the only server: got %v, %v, up %v", s, ok, one.Stats()[0].Up)
	}
}

func TestSlowAnswerAndClosedIdleConnectionTakeNoServerOut(t *testing.T) {
	slow := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	s := spec(t, slow.URL, "http://"+refused(t))
	s.Timeout = 100 * time.Millisecond
	p := newPool(t, s)
	gw, c := gateway(t, p, &door{}), client(t)
	for range 10 {
		get(t, c, gw.URL)
	}
	if got := p.Stats()[0]; !got.Up || got.Failures < 5 {
		t.Errorf("slow server: got %+v, want it in", got)
	}
}

func TestServerThatResetsIsTakenOut(t *testing.T) {
	bad := answering(t, "")
	good := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for retries, want := range []int{rowOut, 0} {
		s := spec(t, "http://"+bad, good.URL)
		s.Retries = retries
		p := newPool(t, s)
		gw, c := gateway(t, p, &door{}), client(t)
		var bads int
		for range 20 {
			if res, _ := get(t, c, gw.URL); res.StatusCode == http.StatusBadGateway {
				bads++
			}
		}
		if bads != want || p.Stats()[0].Up || p.Stats()[0].Failures != rowOut {
			t.Errorf("retries %d: got %d times 502 and %+v, want %d and out", retries, bads, p.Stats()[0], want)
		}
	}
}

// starve makes every dial of s fail as when the gateway has run out of what it is.
func starve(s *Server, what syscall.Errno) {
	dial := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", what)}
	}
	for _, t := range s.transports() {
		t.DialContext = dial
	}
	if s.h1direct != nil {
		s.h1direct.dial = dial
	}
}

func TestAWantOfOurOwnIsNotTheServersFault(t *testing.T) {
	for _, what := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		d, p := &door{}, newPool(t, spec(t, "http://127.0.0.1:1", "http://127.0.0.1:2"))
		starve(p.servers[0], what)
		starve(p.servers[1], what)
		gw := gateway(t, p, d)
		c := client(t)
		for range 4 * rowOut {
			res, err := c.Get(gw.URL)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%v: status %d, want 503", what, res.StatusCode)
			}
		}
		for _, s := range p.Stats() {
			if !s.Up || s.Failures != 0 || s.InFlight != 0 {
				t.Errorf("%v: %s: %+v, want it in and blamed for nothing", what, s.URL, s)
			}
		}
	}
}

// A port that one destination has no more of is there for another.
func TestAWantOfPortsGoesOnToTheNextServer(t *testing.T) {
	up := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	p := newPool(t, spec(t, "http://127.0.0.1:1", up.URL))
	starve(p.servers[0], syscall.EADDRNOTAVAIL)
	gw := gateway(t, p, &door{})
	c := client(t)
	for range 10 {
		res, err := c.Post(gw.URL, "text/plain", strings.NewReader("hi"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("status %d, want 200 of the other server", res.StatusCode)
		}
	}
}
