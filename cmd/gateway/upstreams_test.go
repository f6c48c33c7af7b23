package main

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

func TestARenewedFileOfAnUpstreamIsReadWhenAReloadIsAskedFor(t *testing.T) {
	t.Parallel()
	up := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "secure") }))
	t.Cleanup(up.Close)
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw}))
	dir := t.TempDir()
	ca, path := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "gateway.yaml")
	write(t, ca, authority)
	write(t, path, ports+"upstreams:\n  api: { servers: "+up.URL+", tls: { ca: ca.pem } }\nrules: []\n")
	g := serveFileAt(t, path)
	works := func() {
		t.Helper()
		if a, err := g.try("GET", "/"); err != nil || a.status != 200 || a.body != "secure" {
			t.Errorf("got %d %q, %v", a.status, a.body, err)
		}
	}
	reloads := func(status int, want string) {
		t.Helper()
		if a := g.control("POST", "/reload"); a.status != status || !strings.Contains(a.body, want) {
			t.Errorf("got %d %q, want %d and %q", a.status, a.body, status, want)
		}
	}
	works()
	reloads(200, "unchanged")
	write(t, ca, "# the same, renewed\n"+authority)
	reloads(200, `changed: files of upstream "api"`)
	works()
	reloads(200, "unchanged")
	write(t, ca, "broken\n")
	reloads(422, `gateway.yaml:4:`)
	works()
}

func TestAServerThatIsDownShowsInTheMetrics(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dead := "http://127.0.0.1:1"
	g := serve(t, ports+"upstreams:\n  api: { servers: [ "+up.URL+", "+dead+", \"http://127.0.0.2:1\" ], health: { path: /, interval: 100ms } }\nrules: []\n")
	eventually(t, "both are down", func() bool {
		m := g.metrics()
		return m[`gateway_upstream_panic{upstream="api"}`] == 1 && m[`gateway_upstream_health_failures_total{server="`+dead+`",upstream="api"}`] > 1
	})
	m := g.metrics()
	if m[`gateway_upstream_up{server="`+dead+`",upstream="api"}`] != 0 || m[`gateway_upstream_up{server="`+up.URL+`",upstream="api"}`] != 1 {
		t.Errorf("up: %v and %v", m[`gateway_upstream_up{server="`+dead+`",upstream="api"}`], m[`gateway_upstream_up{server="`+up.URL+`",upstream="api"}`])
	}
	for range 20 {
		if a, err := g.try("GET", "/"); err != nil || a.status != 200 {
			t.Errorf("got %d, %v", a.status, err)
		}
	}
	if n := len(g.logged("server is down, says its check")); n != 2 {
		t.Errorf("%d lines say that a server is down, want 2", n)
	}
}
