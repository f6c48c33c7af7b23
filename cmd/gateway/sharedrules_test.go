package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"gateway/limit/redis/redistest"
)

// A key that earns a block at one gateway is blocked at all, with the same answer,
// until it is freed at any of them.
func TestAPenaltyIsOfAllGatewaysOfAStore(t *testing.T) {
	t.Parallel()
	server, up := redistest.Start(t), newUpstream(t, nil)
	rules := "  - { name: strict, limit: 1/d, penalty: { after: 2/d, block: 100d } }\n  - { name: beside, limit: 100/d }\n"
	a, b := serveStored(t, up, storeOf(server, ""), rules), serveStored(t, up, storeOf(server, ""), rules)
	for i, want := range []struct {
		status int
		kind   string
	}{
		{200, "ok"}, {429, "quota-exceeded"}, {429, "quota-exceeded"}, {429, "abnormal-usage-detected"}, {429, "abnormal-usage-detected"},
	} {
		g := []*instance{a, b}[i%2]
		got := g.get("/")
		if got.status != want.status || !strings.Contains(got.body, want.kind) {
			t.Errorf("request %d: %d %s, want %v", i, got.status, got.body, want)
		}
		if i > 2 {
			if wait := got.retryAfter(t); wait > 100*24*time.Hour || wait < 99*24*time.Hour {
				t.Errorf("request %d: a wait of %v, want 100 days", i, wait)
			}
			if said := got.header.Get("RateLimit"); !strings.HasPrefix(said, `"strict";r=0;t=`) {
				t.Errorf("request %d: RateLimit %s", i, said)
			}
		}
	}
	out, err := a.command("keys", "show", "strict", "127.0.0.1")
	if err != nil || !strings.Contains(out, "is blocked until") || !strings.Contains(out, "0 of 1 left") {
		t.Errorf("keys show, with %v:\n%s", err, out)
	}
	count := func(result string) float64 {
		name := `gateway_rule_decisions_total{result="` + result + `",rule="strict",tier=""}`
		return a.metrics()[name] + b.metrics()[name]
	}
	if count("allowed") != 1 || count("rejected") != 2 || count("blocked") != 2 {
		t.Errorf("%v allowed, %v rejected, %v blocked, want 1, 2, 2", count("allowed"), count("rejected"), count("blocked"))
	}
	if out, err = b.command("keys", "reset", "strict", "127.0.0.1"); err != nil || strings.Contains(out, "blocked") {
		t.Errorf("keys reset, with %v:\n%s", err, out)
	}
	if got := b.get("/"); got.status != 200 {
		t.Errorf("after a reset: %d", got.status)
	}
	eventually(t, "the other gateway has heard of it", func() bool { return strings.Contains(a.get("/").body, "quota-exceeded") })
}

// Failed logins, told by the body and by the answer, earn a block at all gateways:
// with units that are given back, keys in bodies, and a dry run beside.
func TestAPenaltyOnFailedLoginsIsOfAllGatewaysOfAStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	rules := `  - { name: login, match: POST /login, key: body.username, missing: reject, limit: 3/d, count: { status: 401 }, penalty: { after: 2/d, block: 50d } }
  - { name: trial, match: POST /login, key: body.username, missing: reject, limit: 1/d, dry_run: true, penalty: { after: 1/d, block: 50d } }
`
	a, b := serveStored(t, up, storeOf(server, ""), rules), serveStored(t, up, storeOf(server, ""), rules)
	for i, want := range []int{401, 401, 401, 429, 429, 429, 429} {
		g := []*instance{a, b}[i%2]
		got, err := g.post("/login", "application/json", `{"username":"ann"}`)
		if err != nil || got.status != want || strings.Contains(got.body, "abnormal-usage") != (i > 4) {
			t.Errorf("request %d: %d %s, %v; want %d", i, got.status, got.body, err, want)
		}
	}
	if got, err := b.post("/login", "application/json", `{"username":"eve"}`); err != nil || got.status != 401 {
		t.Errorf("another name: %d, %v", got.status, err)
	}
	if up.total() != 4 {
		t.Errorf("%d logins came through, want 4", up.total())
	}
	for _, name := range counters(server) {
		if server.Do("PTTL", name) == "-1" {
			t.Errorf("%s has no time to live", name)
		}
	}
}

// A month of the calendar is one month for all gateways, and what clients are told
// of it is the same.
func TestACalendarIsOfAllGatewaysOfAStore(t *testing.T) {
	t.Parallel()
	server, up := redistest.Start(t), newUpstream(t, nil)
	zone := quietZone(time.Now())
	rules := "  - { name: quota, limit: 10/month, algorithm: fixed_window, calendar: { zone: " + zone + " }, candidate: { limit: 4/month } }\n"
	a, b := serveStored(t, up, storeOf(server, ""), rules), serveStored(t, up, storeOf(server, ""), rules)
	loc, err := time.LoadLocation(zone)
	do(t, err)
	now := time.Now().In(loc)
	end := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, loc)
	passed := 0
	for i := range 40 {
		got := []*instance{a, b}[i%2].get("/")
		if got.status == 200 {
			passed++
			continue
		}
		if wait := got.retryAfter(t); (wait - time.Until(end)).Abs() > time.Minute {
			t.Errorf("request %d: a wait of %v, want %v", i, wait, time.Until(end))
		}
	}
	if passed != 10 {
		t.Errorf("%d of 40 passed, want 10", passed)
	}
	series := `gateway_rule_decisions_total{result="candidate_rejected",rule="quota",tier=""}`
	if n := a.metrics()[series] + b.metrics()[series]; n != 36 {
		t.Errorf("the candidate would have refused %v of 40, want 36", n)
	}
}

// quietZone returns a time zone in which no month ends within hours of now.
func quietZone(now time.Time) string {
	if now.UTC().Add(-6*time.Hour).Month() == now.UTC().Add(6*time.Hour).Month() {
		return "UTC"
	}
	return "Pacific/Kiritimati" // 14 hours ahead
}

// With state a restart keeps what this process counts by itself, and takes nothing
// twice of what the store counts; also while the store is away.
func TestAStateAndAStoreKeepWhatIsTheirs(t *testing.T) {
	t.Parallel()
	server, up := redistest.Start(t), newUpstream(t, nil)
	dir := t.TempDir()
	path := dir + "/gateway.yaml"
	write(t, path, ports+"upstream: "+up.URL+"\nstate: levels\n"+storeOf(server, "")+`rules:
  - { name: shared, match: /shared, limit: 10/365d }
  - { name: here, match: /here, limit: 10/365d, store: memory }
  - { name: strict, match: /strict, limit: 1/365d, penalty: { after: 2/365d, block: 100d } }
`)
	start := func() *instance { return serveFileAt(t, path) }
	stop := func(g *instance) {
		g.signal(syscall.SIGTERM)
		if code := g.exit(); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
	}
	ask := func(g *instance, target string, n int) (passed int) {
		return g.statuses(n, 1, target, nil)[200]
	}
	g := start()
	if a, b := ask(g, "/shared", 4), ask(g, "/here", 4); a != 4 || b != 4 {
		t.Fatalf("%d and %d of 4 passed at first", a, b)
	}
	ask(g, "/strict", 4)
	stop(g)
	g = start()
	eventually(t, "the store is there", func() bool { return g.metrics()["gateway_store_up"] == 1 })
	if a, b := ask(g, "/shared", 10), ask(g, "/here", 10); a != 6 || b != 6 {
		t.Errorf("%d and %d passed after a restart, want 6 and 6", a, b)
	}
	if got := g.get("/strict"); got.status != 429 || !strings.Contains(got.body, "abnormal-usage") {
		t.Errorf("a block after a restart: %d %s", got.status, got.body)
	}
	// Without the store a half of the limit is counted here, and kept too.
	server.Kill()
	eventually(t, "the store is away", func() bool { g.get("/strict"); g.get("/shared?x"); return g.metrics()["gateway_store_up"] == 0 })
	left := 5 - ask(g, "/shared", 10)
	if left < 0 {
		t.Errorf("%d more than a half of 10 passed without the store", -left)
	}
	stop(g)
	g = start()
	if n := ask(g, "/shared", 10) + ask(g, "/here", 10); n != 0 {
		t.Errorf("%d passed after a restart without the store, want none", n)
	}
	server.Restart()
	eventually(t, "the store is back", func() bool { return g.metrics()["gateway_store_up"] == 1 })
	if n := ask(g, "/shared", 20); n != 10 { // which forgot when it was killed
		t.Errorf("%d passed once the store was back, empty, want 10", n)
	}
	if n := ask(g, "/here", 5); n != 0 {
		t.Errorf("%d passed of a rule of this process, want none", n)
	}
}
