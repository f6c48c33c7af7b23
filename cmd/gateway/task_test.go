package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// taskFile is testdata/task.yaml, what people really need to say, with the
// upstreams of the test in the place of its own, without its certificate (which is
// tested against a CA elsewhere), and such that a test can come from any address.
func taskFile(t testing.TB, api, exports string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/task.yaml")
	do(t, err)
	text := string(data)
	for _, change := range [][2]string{
		{"listen: :443\n", ports + "trusted_proxies: [127.0.0.1]\n"},
		{"tls:\n  domains: [api.example.com]\n  email: ops@example.com\n", ""},
		{"[http://10.0.0.1:8080, http://10.0.0.2:8080]", "[" + api + "]"},
		{"[http://10.0.1.1:8080, http://10.0.1.2:8080]", "[" + exports + "]"},
	} {
		if strings.Count(text, change[0]) != 1 {
			t.Fatalf("testdata/task.yaml has no %q", change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	return text
}

// serveTask serves the task file, with one premium key.
func serveTask(t testing.TB, api, exports string) *instance {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "premium-keys.txt"), "premium\n")
	write(t, filepath.Join(dir, "gateway.yaml"), taskFile(t, api, exports))
	return serveFileAt(t, filepath.Join(dir, "gateway.yaml"))
}

// addresses makes up clients, each with an address of its own.
type addresses struct{ n atomic.Int64 }

func (a *addresses) next() string {
	n := a.n.Add(1)
	return fmt.Sprintf("X-Forwarded-For: 198.18.%d.%d", n/250, 1+n%250)
}

func TestTaskFileIsGoodAsItStands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, err := os.ReadFile("testdata/task.yaml")
	do(t, err)
	write(t, filepath.Join(dir, "gateway.yaml"), string(data))
	write(t, filepath.Join(dir, "premium-keys.txt"), "premium\n")
	out, err := exec.Command(binary, "check", "-c", filepath.Join(dir, "gateway.yaml")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "is good: 2 upstreams, 2 routes, 4 rules.") {
		t.Errorf("gateway check: %v\n%s", err, out)
	}
}

func TestTaskFileLimitsAddressesAndKeys(t *testing.T) {
	t.Parallel()
	g := serveTask(t, newUpstream(t, nil).URL, newUpstream(t, nil).URL)
	var from addresses
	for _, tt := range []struct {
		what   string
		header func(i int) []string
		sent   int
		burst  int
		rate   float64 // units a second that come back meanwhile
		rule   string
		size   int64
	}{
		{"one address, 100/m", func(int) []string { return []string{"X-API-Key: premium", "X-Forwarded-For: 192.0.2.1"} }, 150, 100, 100.0 / 60, "per-ip", 100},
		{"a key, 10/s with a burst of 20", func(int) []string { return []string{"X-API-Key: free", from.next()} }, 60, 20, 10, "per-key", 20},
		// After the first line, which took from the same counter.
		{"a premium key, 100/s with a burst of 200", func(int) []string { return []string{"X-API-Key: premium", from.next()} }, 500, 0, 100, "per-key", 200},
	} {
		start := time.Now()
		counts := g.statuses(tt.sent, 8, "/", tt.header)
		most := tt.burst + int(time.Since(start).Seconds()*tt.rate) + 1
		if tt.burst == 0 {
			tt.burst, most = 100, 200+int(time.Since(start).Seconds()*tt.rate)+1
		}
		if n := counts[200]; n < tt.burst || n > most || n+counts[429] != tt.sent {
			t.Errorf("%s: %v; want %d to %d to pass", tt.what, counts, tt.burst, most)
		}
		if p := g.get("/", tt.header(0)...).of(tt.rule); p.q != tt.size {
			t.Errorf("%s: policy %+v, want q=%d", tt.what, p, tt.size)
		}
	}

	// A search costs 10 of a key's 20.
	if p := g.get("/search", "X-API-Key: seeker", from.next()).of("per-key"); p.remaining != 10 {
		t.Errorf("after a search %d are left of 20, want 10", p.remaining)
	}
	// /healthz is for nobody's account.
	for range 300 {
		a := g.get("/healthz", "X-Forwarded-For: 192.0.2.1")
		if a.status != 200 || a.header.Get("RateLimit") != "" {
			t.Fatalf("/healthz: %d %v", a.status, a.header)
		}
	}
}

func TestTaskFileLetsFiveWrongPasswordsThrough(t *testing.T) {
	t.Parallel()
	up := newLogins(t)
	close(up.hold)
	g := serveTask(t, up.URL, newUpstream(t, nil).URL)
	var from addresses
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if _, err := g.login("ann", fmt.Sprint("guess ", i), from.next()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := up.wrong.Load(); n != 5 {
		t.Errorf("%d of 50 wrong passwords reached the upstream, want 5", n)
	}
	// A right one gives its place back: four wrong ones, any number of right ones, a
	// fifth wrong one; then nothing.
	for i, step := range []struct {
		password string
		want     int
	}{
		{"1", 401}, {"2", 401}, {"3", 401}, {"4", 401}, {"right", 200}, {"right", 200}, {"right", 200}, {"5", 401}, {"6", 429}, {"right", 429},
	} {
		a, err := g.login("bob", step.password, from.next())
		do(t, err)
		if a.status != step.want {
			t.Errorf("step %d, %q: %d, want %d", i, step.password, a.status, step.want)
		}
	}
}

func TestTaskFileRefusesTheTwentyFirstExport(t *testing.T) {
	t.Parallel()
	api, exports := newUpstream(t, nil), newGate(t, "done")
	// Its checks of health would be held as well.
	dir := t.TempDir()
	text := strings.ReplaceAll(taskFile(t, api.URL, exports.URL), "    health: /healthz\n", "")
	write(t, filepath.Join(dir, "premium-keys.txt"), "premium\n")
	write(t, filepath.Join(dir, "gateway.yaml"), text)
	g := serveFileAt(t, filepath.Join(dir, "gateway.yaml"))
	var from addresses
	export := func(key string) (answer, error) { return g.try("GET", "/exports/1", "X-API-Key: "+key, from.next()) }
	wait := exports.hold(t, 20, "done", func() (answer, error) { return export("premium") })
	a, err := export("premium")
	do(t, err)
	if a.status != 429 || !strings.Contains(a.body, `"violated-policies":["exports"]`) {
		t.Errorf("the 21st: %d %s", a.status, a.body)
	}
	other := exports.hold(t, 1, "done", func() (answer, error) { return export("other") })
	close(exports.open)
	if n := wait() + other(); n != 21 {
		t.Errorf("%d finished, want 21", n)
	}
	eventually(t, "a place is free again", func() bool {
		a, err := export("premium")
		do(t, err)
		return a.status == 200
	})
	if n := api.total(); n != 0 {
		t.Errorf("the api saw %d exports", n)
	}
}
