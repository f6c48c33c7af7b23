package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"
)

// withFiles makes the process start with so many file descriptors.
func withFiles(n int) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.Args = append([]string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, n), c.Path}, c.Args[1:]...)
		c.Path = "/bin/sh"
	}
}

// Row S15: 400 connections meet 256 file descriptors, once bounded by what the
// gateway finds, once with a bound that is of no use.
func TestFileDescriptorsRunOut(t *testing.T) {
	for name, limits := range map[string]string{"auto": "", "no bound": "limits: { connections: 100000 }\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, nil)
			path := t.TempDir() + "/gateway.yaml"
			// None of the connections says anything, and none is cut for it meanwhile.
			write(t, path, ports+limits+"timeouts: { read_header: 10m }\nupstream: "+up.URL+"\nrules: [{ name: all, key: global, limit: 1000/h }]\n")
			g := serveFileAt(t, path, withFiles(256))
			before := g.metrics()
			var open []net.Conn
			for i := range 400 {
				c, err := net.DialTimeout("tcp", g.addr, patience)
				if err != nil {
					t.Fatalf("connection %d of 400: %v", i, err)
				}
				open = append(open, c)
			}
			alive := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
			for i := range 50 { // each over a connection of its own
				began := time.Now()
				res, err := alive.Get("http://" + g.admin + "/healthz")
				if err != nil {
					t.Fatalf("/healthz %d of 50, after %v: %v", i, time.Since(began), err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					t.Fatalf("/healthz %d of 50, its answer, after %v: %v", i, time.Since(began), err)
				}
				res.Body.Close()
				if res.StatusCode != 200 {
					t.Errorf("/healthz: %d", res.StatusCode)
				}
			}
			if limits == "" {
				eventually(t, "what is over the bound is refused", func() bool {
					return g.metrics()[`gateway_connections_refused_total{reason="connections"}`] == 400-96
				})
			}
			for _, c := range open {
				c.Close()
			}
			began, last := time.Now(), error(nil)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the last request that failed: %v", last)
				}
			})
			eventually(t, "requests are served again", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+g.addr, nil)
				res, err := alive.Transport.RoundTrip(req)
				if err != nil {
					last = err
					return false
				}
				res.Body.Close()
				if res.StatusCode != 200 {
					last = fmt.Errorf("status %d", res.StatusCode)
				}
				return res.StatusCode == 200
			})
			took := time.Since(began)
			score(t, "S15", "%s: /healthz 50 of 50, served again after %v", name, took.Round(time.Millisecond))
			if took > 20*time.Second { // 2 s on a machine that is not busy
				t.Errorf("served again after %v", took)
			}
			flat(t, g, before)
		})
	}
}

// A server that cannot be dialled for want of descriptors has done nothing wrong.
func TestFileDescriptorsThatRunOutAreNoServersFault(t *testing.T) {
	t.Parallel()
	one, two := newUpstream(t, nil), newUpstream(t, nil)
	path := t.TempDir() + "/gateway.yaml"
	write(t, path, ports+"limits: { connections: 100000 }\ntimeouts: { read_header: 10m }\nupstream: ["+one.URL+", "+two.URL+"]\nrules: []\n")
	g := serveFileAt(t, path, withFiles(256))
	client := dialRaw(t, g.addr) // while there is room
	eventually(t, "the client is in", func() bool { return g.metrics()["gateway_connections"] == 1 })
	for range 400 {
		c, err := net.Dial("tcp", g.addr)
		do(t, err)
		t.Cleanup(func() { c.Close() })
	}
	eventually(t, "descriptors have run out", func() bool { return len(g.logged("accepting a connection")) > 0 })
	for i := range 20 {
		if got := client.ask(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").StatusCode; got != 503 {
			t.Errorf("request %d: status %d, want 503: the gateway's own want", i, got)
		}
	}
	m := g.metrics()
	for _, up := range []*upstream{one, two} {
		if m[`gateway_upstream_up{server="`+up.URL+`",upstream="default"}`] != 1 {
			t.Errorf("%s is taken out:\n%s", up.URL, g.control("GET", "/metrics").body)
		}
	}
	if n := len(g.logged("server taken out after failures in a row")); n > 0 {
		t.Errorf("%d servers were taken out", n)
	}
}
