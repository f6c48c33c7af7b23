package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"gateway/proxy"
	"gateway/rules"
)

var portsTaken atomic.Int64

// freePort returns a port that nobody listens on. It is not one of those that the
// kernel gives to connections, and to listeners that ask for any: one of these could
// have it before the test does.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + (os.Getpid()*61+int(portsTaken.Add(1)))%20_000
		if ln, err := net.Listen("tcp", fmt.Sprintf("0.0.0.0:%d", port)); err == nil {
			ln.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// listening is a file that listens on addr, with a limit.
func listening(addr, upstream string, limit int) string {
	return fmt.Sprintf("listen: %q\nadmin: 127.0.0.1:0\nupstream: %s\nrules:\n  - { name: a, key: ip, limit: %d/365d }\n", addr, upstream, limit)
}

// strangers is a flow of requests to addr, each over a connection of its own.
func strangers(addr string) *load {
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	return flow(200, func() error {
		a, err := request(c, "GET", "http://"+addr+"/")
		if err != nil {
			return err
		}
		return a.want(200)
	})
}

// limitAt returns the limit of the rule as an answer on addr shows it.
func limitAt(t testing.TB, addr string) int64 {
	t.Helper()
	c := newClient()
	defer c.CloseIdleConnections()
	a, err := request(c, "GET", "http://"+addr+"/")
	do(t, err)
	return a.of("a").q
}

// Case R08, first part.
func TestOccupiedPortRefusesTheWholeReload(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	do(t, err)
	defer taken.Close()
	g := serve(t, listening("127.0.0.1:0", up.URL, 50_000))
	flow := strangers(g.addr)

	g.save(listening(taken.Addr().String(), up.URL, 60_000))
	eventually(t, "the reload is refused", func() bool { return len(g.refusals()) == 1 })
	reason := errorsOf(t, g.refusals()[0])[0]
	if want := g.path + ":1:9: cannot listen on " + taken.Addr().String(); !strings.HasPrefix(reason, want) {
		t.Errorf("the refusal says %q, want %q and why", reason, want)
	}
	if a := g.control("POST", "/reload"); a.status != 422 || !strings.Contains(a.body, "address already in use") {
		t.Errorf("asked: %d %q, want 422 and that the address is in use", a.status, a.body)
	}
	if q := limitAt(t, g.addr); q != 50_000 {
		t.Errorf("limit %d after a refused reload, want 50000 as before", q)
	}
	if ok := g.metrics()["gateway_config_last_reload_successful"]; ok != 0 {
		t.Errorf("last reload successful is %v, want 0", ok)
	}

	// The port becomes free: asked again, the same file is good.
	flow.finish(t)
	held := newGate(t, "old")
	g.reload(listening("127.0.0.1:0", held.URL, 50_000))
	wait := held.hold(t, 20, "old", func() (answer, error) { return g.try("GET", "/") })
	taken.Close()
	old := g.addr
	g.reload(listening(taken.Addr().String(), up.URL, 60_000))
	if q := limitAt(t, taken.Addr().String()); q != 60_000 {
		t.Errorf("limit %d on the new address, want 60000", q)
	}
	if c, err := net.Dial("tcp", old); err == nil {
		c.Close()
		t.Errorf("%s still takes connections", old)
	}
	close(held.open)
	if n := wait(); n != 20 {
		t.Errorf("%d of 20 requests in progress on the old address finished", n)
	}
}

// Case R08: one port, another address of the machine.
func TestListenerNarrowsToOneAddressWithoutAGap(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	port := freePort(t)
	narrow := fmt.Sprintf("127.0.0.1:%d", port)
	g := serve(t, listening(fmt.Sprintf("0.0.0.0:%d", port), up.URL, 100_000))
	var flows []*load
	flows = append(flows, strangers(narrow), flow(100, func() error { // and one that keeps its connections
		a, err := request(g.client, "GET", "http://"+narrow+"/")
		if err != nil {
			return err
		}
		return a.want(200)
	}))
	var limit int64 = 100_000
	for range 5 {
		for _, addr := range []string{narrow, fmt.Sprintf("0.0.0.0:%d", port)} {
			limit++
			g.reload(listening(addr, up.URL, int(limit)))
			if q := limitAt(t, narrow); q != limit {
				t.Errorf("limit %d after %s, want %d", q, addr, limit)
			}
		}
	}
	g.reload(listening(narrow, up.URL, int(limit)))
	for _, f := range flows {
		f.finish(t)
		t.Logf("%d requests", f.sent.Load())
	}
	if ln, err := net.Listen("tcp", fmt.Sprintf("0.0.0.0:%d", port)); err == nil {
		ln.Close()
		t.Error("somebody else could listen on the port too")
	}
}

func TestNewAdminAddressIsServedToo(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, listening("127.0.0.1:0", up.URL, 5))
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	g.save(strings.Replace(listening("127.0.0.1:0", up.URL, 6), "admin: 127.0.0.1:0", "admin: "+addr, 1))
	eventually(t, "the new admin address answers", func() bool {
		a, err := request(g.client, "GET", "http://"+addr+"/readyz")
		return err == nil && a.status == 200
	})
	eventually(t, "the old admin address is closed", func() bool {
		g.client.CloseIdleConnections() // one that is open goes on
		_, err := request(g.client, "GET", "http://"+g.admin+"/readyz")
		return err != nil
	})
}

// Of an address that the file does not name it is said what listens there.
func TestTheDefaultAdminListenerIsNamedWhenItsAddressIsTaken(t *testing.T) {
	file, err := rules.Parse("gateway.yaml", []byte("upstream: http://a\nrules: []\n"))
	do(t, err)
	for addr, want := range map[string]string{"127.0.0.1:9900": "the address of the admin listener", ":8080": ""} {
		err := bindProblem(file, &proxy.BindError{Addr: addr, Err: syscall.EADDRINUSE})
		h, hints := errors.AsType[*hintError](err)
		if err.Error() != "cannot listen on "+addr+": address already in use" || hints != (want != "") || hints && !strings.Contains(h.hint, want) {
			t.Errorf("%s: %v, want a hint with %q", addr, err, want)
		}
	}
}
