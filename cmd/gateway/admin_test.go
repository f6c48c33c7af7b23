package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func TestAdminAnswers(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, listening("127.0.0.1:0", up.URL, 5))
	for _, c := range []struct {
		method, path string
		status       int
		text         string
	}{
		{"GET", "/healthz", 200, "alive"},
		{"HEAD", "/healthz", 200, ""},
		{"GET", "/readyz", 200, "ready"},
		{"GET", "/metrics", 200, "gateway_build_info{"},
		{"POST", "/reload", 200, "unchanged"},
		{"GET", "/reload", 405, ""},
		{"PUT", "/reload", 405, ""},
		{"POST", "/metrics", 405, ""},
		{"GET", "/debug/pprof/", 200, "goroutine"},
		{"GET", "/debug/pprof/heap?debug=1", 200, "heap profile"},
		{"GET", "/debug/pprof/profile?seconds=1", 200, ""},
		{"DELETE", "/debug/pprof/heap", 405, ""},
		{"GET", "/nowhere", 404, ""},
	} {
		a := g.control(c.method, c.path)
		if a.status != c.status || !strings.Contains(a.body, c.text) {
			t.Errorf("%s %s: %d %.80q, want %d with %q", c.method, c.path, a.status, a.body, c.status, c.text)
		}
	}
	// The public side has none of it: these go to the upstream, under the rules.
	for _, path := range []string{"/metrics", "/reload", "/healthz", "/debug/pprof/"} {
		if a := g.get(path); a.body != "ok" {
			t.Errorf("%s on the public side: %d %.80q, want the upstream's answer", path, a.status, a.body)
		}
	}
	up.Close()
	if a := g.control("GET", "/readyz"); a.status != 200 {
		t.Errorf("/readyz %d without the upstream, want 200: one broken pool must not take the gateway away", a.status)
	}
}

// Rows J2 and S42: what a web page could make a browser send.
func TestAdminRefusesOtherHostsAndOrigins(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, listening("127.0.0.1:0", up.URL, 5))
	_, port, _ := net.SplitHostPort(g.admin)
	hostile, refused := 0, 0
	for _, c := range []struct {
		header []string
		status int
	}{
		{nil, 200},
		{[]string{"Host: localhost:" + port}, 200},
		{[]string{"Host: LOCALHOST"}, 200},
		{[]string{"Host: [::1]:" + port}, 200},
		{[]string{"Origin: http://" + g.admin}, 200},
		{[]string{"Sec-Fetch-Site: same-origin"}, 200},
		{[]string{"Sec-Fetch-Site: none"}, 200},
		{[]string{"Host: evil.example"}, 403},
		{[]string{"Host: evil.example:" + port}, 403},
		{[]string{"Host: localhost.evil.example"}, 403},
		{[]string{"Host: 127.0.0.1.evil.example:" + port}, 403},
		{[]string{"Origin: http://evil.example"}, 403},
		{[]string{"Origin: null"}, 403},
		{[]string{"Origin: http://127.0.0.1:1"}, 403},
		{[]string{"Origin: http://127.0.0.1." + port + ".evil.example"}, 403},
		{[]string{"Sec-Fetch-Site: cross-site"}, 403},
		{[]string{"Sec-Fetch-Site: same-site"}, 403},
	} {
		for _, r := range []string{"POST /reload", "GET /metrics", "GET /readyz"} {
			method, path, _ := strings.Cut(r, " ")
			if a := g.control(method, path, c.header...); a.status != c.status {
				t.Errorf("%s with %q: %d, want %d", r, c.header, a.status, c.status)
			} else if c.status == 403 {
				refused++
			}
		}
		if c.status == 403 {
			hostile += 3
		}
	}
	score(t, "S42", "%d of %d refused: other hosts, other origins, other sites", refused, hostile)
}

func TestMetricsAreWellFormed(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, listening("127.0.0.1:0", up.URL, 5))
	g.statuses(10, 2, "/", nil)
	a := g.control("GET", "/metrics")
	problems, err := promlint.New(strings.NewReader(a.body)).Lint()
	do(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	m := g.metrics()
	for series, want := range map[string]float64{
		`gateway_requests_total{code="200",method="GET",route="/**"}`:                            5,
		`gateway_requests_total{code="429",method="GET",route="/**"}`:                            5,
		`gateway_rule_decisions_total{result="allowed",rule="a",tier=""}`:                        5,
		`gateway_rule_decisions_total{result="rejected",rule="a",tier=""}`:                       5,
		`gateway_rule_units_total{rule="a"}`:                                                     5,
		`gateway_rule_keys{rule="a"}`:                                                            1,
		`gateway_rule_evictions_total{rule="a"}`:                                                 0,
		`gateway_requests_in_flight{route="/**"}`:                                                0,
		`gateway_config_last_reload_successful`:                                                  1,
		`gateway_upstream_up{server="` + up.URL + `",upstream="default"}`:                        1,
		`gateway_upstream_panic{upstream="default"}`:                                             0,
		`gateway_upstream_health_failures_total{server="` + up.URL + `",upstream="default"}`:     0,
		`gateway_log_dropped_total`:                                                              0,
		`gateway_upstream_duration_seconds_count{upstream="default"}`:                            5,
		`gateway_request_duration_seconds_count{route="/**"}`:                                    10,
		`gateway_upstream_requests_total{code="2xx",server="` + up.URL + `",upstream="default"}`: 5,
	} {
		if got, ok := m[series]; !ok || got != want {
			t.Errorf("%s is %v (there: %v), want %v", series, got, ok, want)
		}
	}
	for _, name := range []string{"go_goroutines", "process_open_fds", "process_resident_memory_bytes", "gateway_overhead_seconds_count"} {
		if m[name] <= 0 {
			t.Errorf("%s is %v, want more than 0", name, m[name])
		}
	}
}

// Rows J3 and S44: no label takes what a client chooses.
func TestSeriesDoNotGrowWithWhatClientsChoose(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+"upstream: "+up.URL+`
rules:
  - { name: key, key: header.X-Key, limit: 1/365d, missing: skip }
  - { name: query, key: query.q, limit: 1000000/365d, missing: skip }
`)
	send := func(i int) {
		method := fmt.Sprintf("ODD%d", i)
		path := fmt.Sprintf("/%d/%x?q=%d", i, i*i, i)
		header := []string{fmt.Sprintf("X-Key: k%d", i), fmt.Sprintf("User-Agent: u%d", i), fmt.Sprintf("Host: h%d.example", i)}
		for range 2 { // passes, then is refused
			if _, err := g.try(method, path, header...); err != nil {
				t.Error(err)
			}
		}
	}
	send(-1)
	series := func() int {
		n := 0
		for line := range strings.SplitSeq(g.control("GET", "/metrics").body, "\n") {
			if strings.HasPrefix(line, "gateway_") {
				n++
			}
		}
		return n
	}
	before, n := series(), often(1000, 50_000)
	for i := range n {
		send(i)
	}
	got := series()
	if got != before {
		t.Errorf("%d series after %d odd requests, want %d as before", got, 2*n, before)
	}
	if keys := g.metrics()[`gateway_rule_keys{rule="key"}`]; keys != float64(n+1) {
		t.Errorf("%v keys, want %d", keys, n+1)
	}
	score(t, "S44", "%d series before and %d after %d odd methods, paths, hosts and keys", before, got, 2*n)
}

// What the file no longer names has no series, however much it has counted.
func TestSeriesOfWhatIsRemovedGo(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	file := func(upstream, route, rule string) string {
		return ports + "upstreams: { " + upstream + ": " + up.URL + " }\nroutes: [{ match: " + route + "/**, upstream: " + upstream + " }]\n" +
			"rules: [{ name: " + rule + ", limit: 2/h }]\n"
	}
	g := serve(t, file("old-pool", "/old-route", "old-rule"))
	g.statuses(5, 1, "/old-route/x", nil)
	if text := g.control("GET", "/metrics").body; strings.Count(text, "old-pool") == 0 || strings.Count(text, "old-route") == 0 || strings.Count(text, "old-rule") == 0 {
		t.Fatalf("what there is has no series:\n%s", text)
	}
	g.reload(file("new-pool", "/new-route", "new-rule"))
	text := g.control("GET", "/metrics").body
	for line := range strings.Lines(text) {
		if strings.Contains(line, "old-") {
			t.Errorf("still there: %s", line)
		}
	}
	// Those of what is new are there before it has counted anything.
	for _, want := range []string{
		`gateway_rule_decisions_total{result="allowed",rule="new-rule",tier=""} 0`, `gateway_rule_decisions_total{result="rejected",rule="new-rule",tier=""} 0`,
		`gateway_rule_units_total{rule="new-rule"} 0`, `gateway_rule_near_limit_total{rule="new-rule"} 0`, `gateway_rule_keys{rule="new-rule"} 0`,
		`gateway_requests_in_flight{route="/new-route/**"} 0`, `gateway_request_duration_seconds_count{route="/new-route/**"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

// An address that is hidden from the admin listener by its default.
func TestAdminOffListensNowhere(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, "listen: 127.0.0.1:0\nadmin: off\nupstream: "+up.URL+"\nrules: []\n")
	if g.admin != "" {
		t.Errorf("admin listens on %s, want nowhere", g.admin)
	}
	if a := g.get("/"); a.status != 200 {
		t.Errorf("status %d, want 200", a.status)
	}
}

// A slow request for the metrics must not be able to hold the listener for ever.
func TestAdminCutsSlowHeads(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, listening("127.0.0.1:0", up.URL, 5))
	c, err := net.Dial("tcp", g.admin)
	do(t, err)
	defer c.Close()
	io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
	c.SetDeadline(time.Now().Add(patience))
	start := time.Now()
	io.Copy(io.Discard, c)
	if d := time.Since(start); d > 40*time.Second {
		t.Errorf("an unfinished head was kept for %v, want 10 s", d)
	}
}
