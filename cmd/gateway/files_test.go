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
			var open []net.Conn
			for range 400 {
				c, err := net.Dial("tcp", g.addr)
				do(t, err)
				open = append(open, c)
			}
			alive := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
			for range 50 { // each over a connection of its own
				res, err := alive.Get("http://" + g.admin + "/healthz")
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, res.Body)
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
			began := time.Now()
			eventually(t, "requests are served again", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+g.addr, nil)
				res, err := alive.Transport.RoundTrip(req)
				if err != nil {
					return false
				}
				res.Body.Close()
				return res.StatusCode == 200
			})
			took := time.Since(began)
			t.Logf("served again after %v", took)
			if took > 5*time.Second { // 2 s on a machine that is not busy
				t.Errorf("served again after %v", took)
			}
		})
	}
}
