package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// farFromEdge returns a period of hours whose present window does not end within
// ten minutes, so that no test sees its edge.
func farFromEdge() (text string, period time.Duration) {
	for _, hours := range []int{1, 5, 7, 11} {
		period = time.Duration(hours) * time.Hour
		if period-time.Duration(time.Now().UnixNano())%period > 10*time.Minute {
			return fmt.Sprintf("%dh", hours), period
		}
	}
	panic("four windows end at once")
}

// reload saves text and has the gateway read it now.
func (g *instance) reload(text string) string {
	g.t.Helper()
	g.save(text)
	a := g.control("POST", "/reload")
	if a.status != 200 {
		g.t.Fatalf("reload: %d %s", a.status, a.body)
	}
	return a.body
}

// passes sends requests until one is refused, and returns how many passed and
// the refusal.
func (g *instance) passes(path string, most int, header ...string) (int, answer) {
	g.t.Helper()
	for n := range most + 1 {
		if a := g.get(path, header...); a.status != 200 {
			return n, a
		}
	}
	g.t.Fatalf("more than %d requests passed on %s", most, path)
	return 0, answer{}
}

// Case R06: what a reload does to the counters.
func TestReloadKeepsWhatWasUsed(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	hours, period := farFromEdge()
	file := func(a, b string, extra ...string) string {
		return ports + "upstream: " + up.URL + "\n" + strings.Join(extra, "\n") + "rules:\n" +
			"  - { name: " + a + ", match: /a, algorithm: fixed_window }\n" +
			"  - { name: b, match: /b, algorithm: fixed_window, limit: " + b + " }\n"
	}
	per := func(n int) string { return fmt.Sprintf("%d/%s", n, hours) }
	g := serve(t, file("a, limit: "+per(5), per(5)))
	check := func(step string, want int) answer {
		t.Helper()
		n, refusal := g.passes("/a", 10)
		if n != want || refusal.status != 429 {
			t.Errorf("%s: %d pass, then %d; want %d, then 429", step, n, refusal.status, want)
		}
		return refusal
	}
	check("at the start", 5)

	g.reload(file("a, limit: "+per(5), per(9)))
	check("only b changed", 0)

	for range 100 {
		if text := g.reload(file("a, limit: "+per(5), per(9))); !strings.HasPrefix(text, "unchanged") {
			t.Fatalf("a reload without a change: %q", text)
		}
	}
	check("100 reloads without a change", 0)

	if text := g.reload(file("a, limit: "+per(8), per(9))); !strings.Contains(text, "counters kept") {
		t.Errorf("the reload says %q, want that counters are kept", text)
	}
	check("5 → 8", 3)

	g.reload(file("a, limit: "+per(3), per(9)))
	refusal := check("8 → 3", 0)
	left := period - time.Duration(time.Now().UnixNano())%period
	if r := refusal.of("a"); r.remaining != 0 {
		t.Errorf("8 → 3: %d left, want 0", r.remaining)
	}
	if wait := refusal.retryAfter(t); wait < left || wait > left+2*time.Second+patience {
		t.Errorf("8 → 3: Retry-After %v, want the end of the window in %v", wait, left)
	}

	if text := g.reload(file("a2, limit: "+per(3), per(9))); !strings.Contains(text, `added "a2"`) || !strings.Contains(text, `removed "a"`) {
		t.Errorf("the reload says %q, want that a is removed and a2 added", text)
	}
	check("another name", 3)

	if text := g.reload(file("a2, limit: 3/1m", per(9))); !strings.Contains(text, "start afresh") {
		t.Errorf("the reload says %q, want that counters start afresh", text)
	}
	refusal = g.get("/a")
	for refusal.status == 200 { // at most one fresh start; a minute may end meanwhile
		refusal = g.get("/a")
	}
	if wait := refusal.retryAfter(t); wait > time.Minute || refusal.of("a2").w != 60 {
		t.Errorf("%s → 1m: Retry-After %v, window %d s; want the end of the minute", hours, wait, refusal.of("a2").w)
	}
}

func TestLoweredBucketNeverHoldsMoreThanItsNewSize(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	file := func(limit string) string {
		return ports + "upstream: " + up.URL + "\nrules:\n  - { name: a, key: header.X-Client, limit: " + limit + " }\n"
	}
	g := serve(t, file("100/365d"))
	for range 40 {
		g.get("/", "X-Client: some")
	}
	g.reload(file("10/365d")) // 40 used, of 10: none left
	if n, _ := g.passes("/", 10, "X-Client: some"); n != 0 {
		t.Errorf("%d pass after 100 → 10 with 40 used, want 0", n)
	}
	if n, _ := g.passes("/", 10, "X-Client: new"); n != 10 {
		t.Errorf("%d of a new client pass, want 10", n)
	}
	g.reload(file("12/365d")) // used stays used, capped at the burst of then
	if n, _ := g.passes("/", 10, "X-Client: some"); n != 2 {
		t.Errorf("%d pass after 10 → 12, want 2", n)
	}
	g.reload(file("12/1d"))
	if n, _ := g.passes("/", 10, "X-Client: some"); n != 0 {
		t.Errorf("%d pass after another period, want 0: a bucket keeps what was used", n)
	}
}
