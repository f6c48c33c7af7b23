package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// directory is a name server with one name.
type directory struct {
	asked atomic.Int32

	mu    sync.Mutex
	addrs []netip.Addr
	err   error
}

func (d *directory) set(err error, addrs ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addrs, d.err = nil, err
	for _, a := range addrs {
		d.addrs = append(d.addrs, netip.MustParseAddr(a))
	}
}

func (d *directory) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked.Add(1)
	if host != "app.test" {
		return nil, fmt.Errorf("asked for %s", host)
	}
	return d.addrs, d.err
}

// named is a pool with one server by name, whose addresses d knows.
func named(t *testing.T, d *directory, port string) *Pool {
	s := spec(t, "http://app.test:"+port)
	s.Resolve = 10 * time.Second
	p := newPool(t, s)
	p.lookup = d.lookup
	return p
}

func TestANameIsLookedUpAgainAndItsLastAddressesKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &directory{}
		d.set(nil, "10.0.0.2", "10.0.0.1")
		p := named(t, d, "80")
		s := p.servers[0]
		if got := s.address(); got != "app.test:80" {
			t.Errorf("before a look-up: %s", got)
		}
		p.Start()
		defer p.Close()
		use := func() map[string]int {
			synctest.Wait()
			got := map[string]int{}
			for range 12 {
				got[s.address()]++
			}
			return got
		}
		want := func(when string, n int, addrs ...string) {
			t.Helper()
			got := use()
			for _, a := range addrs {
				if got[a] != n {
					t.Errorf("%s: got %v, want each of %v %d times", when, got, addrs, n)
				}
			}
		}
		want("at first", 6, "10.0.0.1:80", "10.0.0.2:80")
		d.set(nil, "10.0.0.2", "10.0.0.3", "10.0.0.4", "::1")
		time.Sleep(12 * time.Second)
		want("changed", 4, "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80")
		d.set(errors.New("no such host"))
		time.Sleep(time.Minute)
		want("in a failure", 4, "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80")
		d.set(nil)
		time.Sleep(time.Minute)
		want("without an address", 4, "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80")
		d.set(nil, "::1", "10.0.0.2")
		time.Sleep(12 * time.Second)
		want("IPv6 first", 12, "[::1]:80")
		if got := s.names.others("[::1]:80"); len(got) != 1 || got[0] != "10.0.0.2:80" {
			t.Errorf("what is dialled next: %v", got)
		}
		before := d.asked.Load()
		time.Sleep(1000 * time.Second)
		if n := d.asked.Load() - before; n < 1000/11 || n > 1000/9+1 {
			t.Errorf("%d look-ups in 1000 s", n)
		}
	})
}

func TestAddressesAndZeroAreNotLookedUp(t *testing.T) {
	for _, server := range []string{"http://10.0.0.1", "http://[::1]:80", "https://10.0.0.1"} {
		s := spec(t, server)
		s.Resolve = time.Second
		if p := newPool(t, s); p.servers[0].names != nil {
			t.Errorf("%s is a name", server)
		}
	}
	if p := newPool(t, spec(t, "http://app.test")); p.servers[0].names != nil {
		t.Error("resolve: 0 looks up")
	}
	s := spec(t, "https://app.test")
	s.Resolve = time.Second
	if n := newPool(t, s).servers[0].names; n.host != "app.test" || n.port != "443" {
		t.Errorf("got %s and %s", n.host, n.port)
	}
}

// at starts a server on an address of the loopback, all of them on one port.
func at(t *testing.T, addr, port string, served *atomic.Int32) (boundPort string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(addr, port))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		io.WriteString(w, r.Host)
	}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	_, boundPort, _ = net.SplitHostPort(l.Addr().String())
	return boundPort
}

func TestRequestsFollowTheAddressesOfAName(t *testing.T) {
	var one, two atomic.Int32
	port := at(t, "127.0.0.1", "0", &one)
	at(t, "127.0.0.2", port, &two)
	d := &directory{}
	d.set(nil, "127.0.0.1", "127.0.0.2")
	p := named(t, d, port)
	p.spec.Resolve = 10 * time.Millisecond
	p.spec.Host, p.ownHost = "upstream", true
	p.Start()
	eventually(t, "a look-up", func() bool { return p.servers[0].names.known.Load() != nil })
	gw, c := gateway(t, p, &door{}), client(t)
	for range 20 {
		if _, got := get(t, c, gw.URL); got != "app.test:"+port {
			t.Errorf("the Host is %q", got)
		}
	}
	if one.Load() != 10 || two.Load() != 10 {
		t.Errorf("got %d and %d requests, want 10 and 10", one.Load(), two.Load())
	}
	d.set(nil, "127.0.0.2")
	eventually(t, "the change", func() bool { return len(p.servers[0].names.known.Load().used) == 1 })
	for range 20 { // kept connections to the other are there, and stay unused
		get(t, c, gw.URL)
	}
	if one.Load() != 10 || two.Load() != 30 {
		t.Errorf("after the change got %d and %d requests, want 10 and 30", one.Load(), two.Load())
	}
}

func TestAnAddressThatRefusesHurtsNobody(t *testing.T) {
	var served atomic.Int32
	port := at(t, "127.0.0.1", "0", &served)
	d := &directory{}
	d.set(nil, "127.0.0.3", "127.0.0.1", "::1") // as localhost, with a server on one of its addresses
	p := named(t, d, port)
	p.Start()
	eventually(t, "a look-up", func() bool { return p.servers[0].names.known.Load() != nil })
	gw, c := gateway(t, p, &door{}), client(t)
	for range 20 {
		do(t, c, "POST", gw.URL, "", "body")
	}
	if s := p.Stats()[0]; served.Load() != 20 || s.Failures != 0 {
		t.Errorf("%d of 20 served; %+v", served.Load(), s)
	}
}
