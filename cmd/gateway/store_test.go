package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gateway/limit/redis/redistest"
)

// storeOf is a store in a file. Its timeout is long, so that a busy machine is not
// taken for one that is away.
func storeOf(s *redistest.Server, more string) string {
	return fmt.Sprintf("store: { redis: { url: \"redis://%s\", replicas: 2, timeout: 5s%s } }\n", s.Addr, more)
}

// counters returns the names of counters in a store.
func counters(s *redistest.Server) []string {
	return slices.DeleteFunc(s.Keys(), func(name string) bool { return strings.HasSuffix(name, "}") }) // of a probe
}

// serveStored runs a gateway on a file with rules that a store counts.
func serveStored(t testing.TB, up *upstream, store, rules string) *instance {
	t.Helper()
	return serve(t, ports+"upstream: "+up.URL+"\n"+store+"rules:\n"+rules)
}

const tenAnHour = "  - { name: a, key: header.X-Key, missing: reject, limit: 10/h }\n"

// S08: gateways that share a store admit one limit together, however many there
// are; those that do not admit one each.
func TestGatewaysOfOneStoreAdmitOneLimit(t *testing.T) {
	t.Parallel()
	server, up := redistest.Start(t), newUpstream(t, nil)
	passed := func(key string, gateways ...*instance) (n int) {
		for i := range 40 {
			if gateways[i%len(gateways)].get("/", "X-Key: "+key).status == 200 {
				n++
			}
		}
		return n
	}
	a, b := serveStored(t, up, storeOf(server, ""), tenAnHour), serveStored(t, up, storeOf(server, ""), tenAnHour)
	if n := passed("one", a, b); n != 10 {
		t.Errorf("%d of 40 passed two gateways of one store, want 10", n)
	}
	c := serveStored(t, up, storeOf(server, ""), tenAnHour)
	if n := passed("one", a, b, c); n != 0 {
		t.Errorf("%d more passed with a third gateway, want none", n)
	}
	if n := passed("two", a, b, c); n != 10 {
		t.Errorf("%d of 40 passed three gateways of one store, want 10", n)
	}
	other := serveStored(t, up, storeOf(server, ", prefix: other"), tenAnHour)
	if n := passed("one", other); n != 10 {
		t.Errorf("%d of 40 passed under another prefix, want 10", n)
	}
	alone := "  - { name: a, key: header.X-Key, missing: reject, limit: 10/h, store: memory }\n"
	d, e := serveStored(t, up, storeOf(server, ""), alone), serveStored(t, up, storeOf(server, ""), alone)
	if n := passed("one", d, e); n != 20 {
		t.Errorf("%d of 40 passed two gateways that count for themselves, want 20", n)
	}
	if said := d.logged("serving")[0]["counters"].(string); !strings.Contains(said, "shared by 2") {
		t.Errorf("the gateway says its counters are in %q", said)
	}
}

// C18: a rule's name is its counters' name, in a store as in memory: one rule on two
// paths is one counter, and two rules with equal numbers are two.
func TestARuleOnTwoPathsIsOneCounterInBothStores(t *testing.T) {
	t.Parallel()
	server, up := redistest.Start(t), newUpstream(t, nil)
	for _, store := range []string{"", storeOf(server, "")} {
		g := serveStored(t, up, store, `  - { name: both, match: [/a, /b], limit: 10/h }
  - { name: c, match: /c, limit: 10/h }
  - { name: d, match: /d, limit: 10/h }
`)
		ask := func(path string) (passed int) {
			for range 12 {
				if g.get(path).status == 200 {
					passed++
				}
			}
			return passed
		}
		for _, want := range []struct {
			path string
			n    int
		}{{"/a", 10}, {"/b", 0}, {"/c", 10}, {"/d", 10}} {
			if n := ask(want.path); n != want.n {
				t.Errorf("store %q: %d of 12 passed on %s, want %d", store, n, want.path, want.n)
			}
		}
	}
}

// S01: without its store a rule does what its fail says: it starts, answers at once,
// says so twice, and counts in the store as soon as that is there.
func TestWithoutItsStoreARuleDoesWhatItsFailSays(t *testing.T) {
	t.Parallel()
	server, up := redistest.Start(t), newUpstream(t, nil)
	server.Kill()
	text := storeOf(server, "")
	g := serveStored(t, up, text, `  - { name: open, match: /open, limit: 10/h, fail: open }
  - { name: closed, match: /closed, limit: 10/h, fail: closed }
  - { name: local, match: /local, limit: 10/h }
  - { name: half, match: /half, concurrency: 3, dry_run: true, fail: closed }
`)
	open := g.statuses(100, 4, "/open", nil)
	closed := g.statuses(100, 4, "/closed", nil)
	local := g.statuses(100, 4, "/local", nil)
	if open[200] != 100 || closed[503] != 100 || local[200] != 5 || local[429] != 95 {
		t.Errorf("open %v, want 100 times 200; closed %v, want 100 times 503; local %v, want 5 times 200, a half of 10", open, closed, local)
	}
	if n := g.statuses(20, 1, "/half", nil)[200]; n != 20 {
		t.Errorf("a dry run without its store refused %d of 20", 20-n)
	}
	if a := g.get("/open"); a.header.Get("Ratelimit") != "" || a.header.Get("Ratelimit-Policy") != "" {
		t.Errorf("a rule that let pass unseen says %v", a.header)
	}
	if a := g.get("/closed"); a.retryAfter(t) < time.Second {
		t.Errorf("503 without a Retry-After: %v", a.header)
	}
	m := g.metrics()
	if m["gateway_store_up"] != 0 || m[`gateway_rule_decisions_total{result="failed_open",rule="open",tier=""}`] != 101 ||
		m[`gateway_rule_decisions_total{result="failed_closed",rule="closed",tier=""}`] != 101 {
		t.Errorf("the metrics say %v", m)
	}
	if page := g.control("GET", "/").body; !strings.Contains(page, "away; rules do what their fail says") || !strings.Contains(page, "shared by 2") {
		t.Errorf("the status page does not say that the store is away:\n%s", page)
	}
	server.Restart()
	eventually(t, "the store is up", func() bool { return g.metrics()["gateway_store_up"] == 1 })
	for _, path := range []string{"/open", "/closed", "/local"} {
		if n := g.statuses(20, 1, path, nil)[200]; n != 10 {
			t.Errorf("%s: %d of 20 passed once the store was there, want 10", path, n)
		}
	}
	if lines := len(g.logged("the store cannot be reached: rules do what their fail says", "the store is lost: rules do what their fail says", "the store is back")); lines != 2 {
		t.Errorf("%d lines in the log about the store, want 2", lines)
	}
	server.Kill()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, ports+"upstream: "+up.URL+"\n"+text+"rules:\n  - { name: a, limit: 10/s }\n")
	if out, err := exec.Command(binary, "check", "-c", path).CombinedOutput(); err != nil || !strings.Contains(string(out), "cannot be reached") {
		t.Errorf("check says, with %v:\n%s", err, out)
	}
}

// S34: while the store is killed, hangs, is a replica, forgets its scripts, under
// load, no client gets anything but its answer.
func TestNoClientNoticesThatTheStoreIsAway(t *testing.T) {
	t.Parallel()
	server, up := redistest.Start(t), newUpstream(t, nil)
	g := serveStored(t, up, fmt.Sprintf("store: { redis: { url: \"redis://%s\", replicas: 2 } }\n", server.Addr), `  - { name: many, limit: 100000000/s }
  - { name: slots, concurrency: 1000 }
  - { name: answers, limit: 100000000/s, count: { status: 5xx } }
`)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var asked atomic.Int64
	var mu sync.Mutex
	odd := map[int]int{}
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				a, err := g.try("GET", "/")
				asked.Add(1)
				if err != nil || a.status != 200 {
					mu.Lock()
					odd[a.status]++
					mu.Unlock()
				}
			}
		})
	}
	isUp := func(want float64) func() bool {
		return func() bool { return g.metrics()["gateway_store_up"] == want }
	}
	for _, fault := range []struct {
		name       string
		begin, end func()
	}{
		{"kill -9", server.Kill, server.Restart},
		{"hang", server.Hang, server.Resume},
		{"READONLY", func() { server.Do("REPLICAOF", "127.0.0.1", "1") }, func() { server.Do("REPLICAOF", "NO", "ONE") }},
		{"OOM", func() { server.Do("CONFIG", "SET", "maxmemory", "1") }, func() { server.Do("CONFIG", "SET", "maxmemory", "0") }},
	} {
		fault.begin()
		eventually(t, fault.name+": the store is away", isUp(0))
		before := asked.Load()
		eventually(t, fault.name+": requests go on", func() bool { return asked.Load() > before+100 })
		fault.end()
		eventually(t, fault.name+": the store is back", isUp(1))
	}
	for range 20 {
		server.Do("SCRIPT", "FLUSH")
	}
	close(stop)
	wg.Wait()
	if len(odd) > 0 {
		t.Errorf("of %d answers these were odd, by status: %v", asked.Load(), odd)
	}
	score(t, "S34", "%d of %d requests failed by a store that was killed, hung, a replica, full", len(odd), asked.Load())
	eventually(t, "no slot is held", func() bool { return g.metrics()["gateway_store_leases"] == 0 })
}

// C10, S36: a gateway that is killed leaves no key that lasts; the slots that it held
// are free within a minute.
func TestAKilledGatewayLeavesNothingThatLasts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var inside atomic.Int64
	release := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			inside.Add(1)
			<-release
		}
	})
	t.Cleanup(func() { close(release) })
	rules := `  - { name: slots, match: /slow, concurrency: 5 }
  - { name: b, limit: 1000/m }
  - { name: c, limit: 1000/m, algorithm: fixed_window }
  - { name: d, limit: 1000/m, algorithm: sliding_window, count: { status: 200 } }
  - { name: e, limit: 1000/m, algorithm: sliding_window_log }
`
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, ports+"upstream: "+up.URL+"\n"+storeOf(server, "")+"rules:\n"+rules)
	keys, lasting := 0, 0
	for i := range often(3, 50) {
		g := launch(t, []string{"run", "-c", path})
		g.awaitServing()
		var wg sync.WaitGroup
		if i == 0 {
			for range 5 {
				wg.Go(func() { g.try("GET", "/slow") })
			}
			eventually(t, "five are in progress", func() bool { return inside.Load() == 5 })
			if a := g.get("/slow"); a.status != 429 {
				t.Errorf("a sixth: %d, want 429", a.status)
			}
		}
		for range 4 {
			wg.Go(func() {
				for range 20 {
					g.try("GET", "/")
				}
			})
		}
		seen := up.total()
		eventually(t, "it is under load", func() bool { return up.total() > seen+5 })
		g.cmd.Process.Kill()
		<-g.exited
		wg.Wait()
		for _, name := range server.Keys() {
			keys++
			if server.Do("PTTL", name) == "-1" {
				lasting++
				t.Errorf("%s has no time to live", name)
			}
			if strings.Contains(name, ":slots:") {
				last, err := strconv.ParseFloat(strings.Split(server.Do("ZRANGE", name, "-1", "-1", "WITHSCORES"), "\n")[1], 64)
				if ends := time.UnixMicro(int64(last)); err != nil || time.Until(ends) > time.Minute {
					t.Errorf("a slot of a gateway that was killed is held until %v", ends)
				}
			}
		}
	}
	score(t, "S36", "%d of %d keys without TTL after gateways were killed", lasting, keys)
}

// A client that asks again when it has its answer finds its slot, and what its
// answer gave back.
func TestWhatAnAnswerGivesBackIsThereForTheNextRequest(t *testing.T) {
	t.Parallel()
	server, up := redistest.Start(t), newUpstream(t, nil)
	g := serveStored(t, up, storeOf(server, ""), `  - { name: one, concurrency: 1 }
  - { name: errors, limit: 1/h, count: { status: 5xx } }
`)
	for i := range 100 {
		if a := g.get("/"); a.status != 200 {
			t.Fatalf("request %d: %d %s", i, a.status, a.body)
		}
	}
	if names := counters(server); len(names) > 1 { // the bucket that is full again may stay for its second
		t.Errorf("these keys are left: %v", names)
	}
}

// K07: whatever a client's key is, the store sees a digest of it.
func TestTheStoreSeesDigestsOfKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "hunter2-password")
	server.Password = "hunter2-password"
	up := newUpstream(t, nil)
	secretFile := filepath.Join(t.TempDir(), "password")
	write(t, secretFile, server.Password+"\n")
	do(t, os.Chmod(secretFile, 0o600))
	g := serveStored(t, up, storeOf(server, fmt.Sprintf(", password: { file: %q }", secretFile)), "  - { name: a, key: header.Authorization, missing: reject, limit: 5/m }\n")
	values := []string{"Bearer s3cret-{braces}", "Bearer s3cret-\xff", "Bearer s3cret-e\u0301", "Bearer s3cret-\u00e9", "Bearer s3cret , comma", "Bearer s3cret-" + strings.Repeat("x", 8<<10)}
	for i := range often(200, 10_000) {
		values = append(values, "Bearer s3cret-"+strconv.Itoa(i)+strings.Repeat("y", 4<<10))
	}
	counts := g.statuses(len(values), 4, "/", func(i int) []string { return []string{"Authorization: " + values[i]} })
	if counts[200] != len(values) {
		t.Errorf("answers %v to %d keys, want 200 for each", counts, len(values))
	}
	if a := g.get("/", "Authorization: "+strings.Repeat("z", 500<<10)); a.status != 431 {
		t.Errorf("a header of 500 KiB: %d, want 431", a.status)
	}
	names := counters(server)
	if len(names) != len(values) {
		t.Errorf("%d keys in the store for %d values", len(names), len(values))
	}
	for _, name := range names {
		if len(name) >= 128 || strings.Contains(name, "s3cret") || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Fatalf("a key is called %q", name)
		}
	}
	shown := g.out.String() + g.errs.String()
	for _, path := range []string{"/metrics", "/config", "/status", "/"} {
		shown += g.control("GET", path).body
	}
	if out, err := g.command("config", "-c", g.path); err == nil {
		shown += out
	}
	for _, secret := range []string{"s3cret", "hunter2"} {
		if strings.Contains(shown, secret) {
			t.Errorf("%q is shown", secret)
		}
	}
}

// Another store needs a restart: the file is refused, and the gateway goes on.
func TestAnotherStoreNeedsARestart(t *testing.T) {
	t.Parallel()
	server, up := redistest.Start(t), newUpstream(t, nil)
	g := serveStored(t, up, storeOf(server, ""), tenAnHour)
	for _, store := range []string{"", storeOf(server, ", prefix: other"), storeOf(server, ", password: elsewhere")} {
		a := g.control("POST", "/reload")
		g.save(ports + "upstream: " + up.URL + "\n" + store + "rules:\n" + tenAnHour)
		eventually(t, "the change is refused", func() bool {
			a = g.control("POST", "/reload")
			return a.status == 422
		})
		if !strings.Contains(a.body, "store has changed: that needs a restart") || strings.Contains(a.body, "elsewhere") {
			t.Errorf("a change of the store is refused with:\n%s", a.body)
		}
	}
	g.save(ports + "upstream: " + up.URL + "\n" + storeOf(server, "") + "rules:\n" + strings.ReplaceAll(tenAnHour, "10/h", "3/h"))
	eventually(t, "another limit is taken", func() bool { return g.control("POST", "/reload").status == 200 })
	passed := 0
	for range 10 {
		if g.get("/", "X-Key: a").status == 200 {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("%d of 10 passed, want 3", passed)
	}
}

// A key is found, freed and shown in the store as in memory.
func TestKeysCommandLooksIntoTheStore(t *testing.T) {
	t.Parallel()
	server, up := redistest.Start(t), newUpstream(t, nil)
	a, b := serveStored(t, up, storeOf(server, ""), tenAnHour), serveStored(t, up, storeOf(server, ""), tenAnHour)
	for range 12 {
		a.get("/", "X-Key: one")
	}
	out, err := b.command("keys", "show", "a", "one")
	if err != nil || !strings.Contains(out, "0 ") {
		t.Errorf("the other gateway shows, with %v:\n%s", err, out)
	}
	if out, err = a.command("keys", "reset", "a", "one"); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if codes := []int{a.get("/", "X-Key: one").status, b.get("/", "X-Key: one").status}; slices.Contains(codes, 429) {
		t.Errorf("after a reset: %v", codes)
	}
}

// A candidate of a rule is counted for all gateways together, too.
func TestACandidateIsCountedInTheStore(t *testing.T) {
	t.Parallel()
	server, up := redistest.Start(t), newUpstream(t, nil)
	rules := "  - { name: a, limit: 1000/h, candidate: { limit: 10/h } }\n  - { name: s, concurrency: 100, candidate: { concurrency: 50 } }\n"
	a, b := serveStored(t, up, storeOf(server, ""), rules), serveStored(t, up, storeOf(server, ""), rules)
	for i := range 30 {
		g := []*instance{a, b}[i%2]
		if code := g.get("/").status; code != 200 {
			t.Fatalf("request %d: %d", i, code)
		}
	}
	series := `gateway_rule_decisions_total{result="candidate_rejected",rule="a",tier=""}`
	if n := a.metrics()[series] + b.metrics()[series]; n != 20 {
		t.Errorf("the candidate would have refused %v of 30, want 20", n)
	}
	if n := a.metrics()[`gateway_rule_decisions_total{result="candidate_rejected",rule="s",tier=""}`]; n != 0 {
		t.Errorf("the candidate of slots would have refused %v, want none", n)
	}
}
