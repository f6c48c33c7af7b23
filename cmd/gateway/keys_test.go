package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Case G01, on the binary: keys are remembered as long as they matter, then forgotten
// without any traffic.
func TestKeysAreForgottenWithoutTraffic(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nlog: { access: off }\nupstream: "+up.URL+`
trusted_proxies: [127.0.0.1]
rules:
  - { name: a, key: ip, limit: 1/25s }
`)
	const keys, connections = 10_000, 8
	keysNow := func() float64 { return g.metrics()[`gateway_rule_keys{rule="a"}`] }
	before := g.metrics()["process_resident_memory_bytes"]
	start := time.Now()
	var wg sync.WaitGroup
	for c := range connections {
		wg.Go(func() { manyAddresses(t, g.addr, c*keys/connections, keys/connections) })
	}
	wg.Wait()
	took := time.Since(start)
	n := keysNow()
	if took < 22*time.Second && n != keys || n > keys {
		t.Errorf("%v keys after %d addresses in %v", n, keys, took)
	}
	peak := g.metrics()["process_resident_memory_bytes"]
	eventually(t, "all keys are forgotten", func() bool { return keysNow() == 0 })
	t.Logf("%d addresses in %v: %v keys, memory %.1f → %.1f MiB; none after %v",
		keys, took, n, before/(1<<20), peak/(1<<20), time.Since(start))
	if a := g.get("/", "X-Forwarded-For: 198.18.0.1"); a.status != 200 {
		t.Errorf("status %d of a client that has been forgotten, want 200", a.status)
	}
}

// manyAddresses sends n requests over one connection, each of another client,
// many at a time without waiting for their answers.
func manyAddresses(t testing.TB, addr string, from, n int) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * patience))
	in := bufio.NewReader(c)
	const batch = 50
	for sent := 0; sent < n; sent += batch {
		out := bufio.NewWriter(c)
		for i := from + sent; i < from+sent+batch; i++ {
			fmt.Fprintf(out, "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.%d.%d.%d\r\n\r\n", 18+i>>16, i>>8&255, i&255)
		}
		if err := out.Flush(); err != nil {
			t.Error(err)
			return
		}
		for range batch {
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if res.StatusCode != 200 {
				t.Errorf("status %d of a new client, want 200", res.StatusCode)
			}
			in.Discard(int(res.ContentLength))
		}
	}
}
