package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gateway/limit"
	"gateway/rules"
)

// A gateway that is restarted over and over under load lets through what one that
// stays would: with every algorithm exactly the limit, and not one request more.
func TestARestartUnderLoadKeepsLevels(t *testing.T) {
	t.Parallel()
	var hits sync.Map // path -> *atomic.Int64
	up := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		n, _ := hits.LoadOrStore(r.URL.Path, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	})
	const limit, restarts = 150, 6
	dir := t.TempDir()
	window, _ := farFromEdge()
	text := ports + "upstream: " + up.URL + "\nstate: " + dir + "/levels\nrules:\n"
	algorithms := []string{"token_bucket", "gcra", "fixed_window", "sliding_window", "sliding_window_log"}
	for _, a := range algorithms {
		period := window
		if a == "token_bucket" || a == "gcra" {
			period = "365d"
		}
		text += fmt.Sprintf("  - { name: %s, match: /%s, algorithm: %s, limit: %d/%s }\n", a, a, a, limit, period)
	}
	text += fmt.Sprintf("  - { name: count, match: /count, count: { status: 2xx }, limit: %d/365d }\n", limit)
	paths := append(algorithms, "count")
	write(t, dir+"/gateway.yaml", text)
	for i := range restarts {
		g := serveFileAt(t, dir+"/gateway.yaml")
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var sent atomic.Int64
		for w := range 4 {
			wg.Go(func() {
				for j := w; ; j++ {
					select {
					case <-stop:
						return
					default:
					}
					g.try("GET", "/"+paths[j%len(paths)]) // fails once the gateway is gone
					sent.Add(1)
				}
			})
		}
		atLeast := int64(len(paths) * limit / 4)
		if i == restarts-1 {
			atLeast = int64(len(paths) * limit * 2)
		}
		eventually(t, "some load", func() bool { return sent.Load() > atLeast })
		g.signal(syscall.SIGTERM)
		if code := g.exit(); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		close(stop)
		wg.Wait()
		if i > 0 {
			if got := g.logged("levels of the last run go on"); len(got) != 1 || got[0]["keys"] == 0.0 {
				t.Errorf("start %d: %v", i, got)
			}
		}
	}
	extra := int64(0)
	for _, p := range paths {
		n, _ := hits.Load("/" + p)
		got := n.(*atomic.Int64).Load()
		if got != limit {
			t.Errorf("%s: %d passed over %d restarts, want %d", p, got, restarts-1, limit)
		}
		extra += got - limit
	}
	t.Logf("%d extra of %d permits", extra, len(paths)*limit)
}

const oneRule = "rules: [{ name: all, key: header.X-Key, limit: 5/365d }]\n"

// stateIn writes a configuration to dir that keeps its levels there, and returns its path.
func stateIn(t *testing.T, dir, up string) string {
	t.Helper()
	path := dir + "/gateway.yaml"
	write(t, path, ports+"upstream: "+up+"\nstate: levels\n"+oneRule)
	return path
}

func TestTheFileOfLevelsIsNobodyElsesAndHoldsNoKey(t *testing.T) {
	t.Parallel()
	const canary = "s3cr3t-of-a-client"
	up := newUpstream(t, nil)
	dir := t.TempDir()
	path := stateIn(t, dir, up.URL)
	g := serveFileAt(t, path)
	g.get("/", "X-Key: "+canary)
	g.stop()
	info, err := os.Stat(dir + "/levels")
	do(t, err)
	data, err := os.ReadFile(dir + "/levels")
	do(t, err)
	if info.Mode() != 0o600 || bytes.Contains(data, []byte(canary)) {
		t.Errorf("mode %v, the key is in it: %v", info.Mode(), bytes.Contains(data, []byte(canary)))
	}
	entries, err := os.ReadDir(dir)
	do(t, err)
	if len(entries) != 2 {
		t.Errorf("the folder holds %v, want the configuration and the levels", entries)
	}
	g = serveFileAt(t, path)
	if n, _ := g.passes("/", 10, "X-Key: "+canary); n != 4 {
		t.Errorf("%d of the 4 that are left passed", n)
	}
}

// Whoever is killed goes on where it was at its last write.
func TestAKilledGatewayGoesOnWhereItWroteLast(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	path := stateIn(t, dir, up.URL)
	g := launch(t, []string{"run", "-c", path})
	g.awaitServing()
	g.passes("/", 10, "X-Key: a")
	eventually(t, "the levels are written while it runs", func() bool {
		_, err := os.Stat(dir + "/levels")
		return err == nil
	})
	g.signal(syscall.SIGKILL)
	<-g.exited
	write(t, dir+"/.levels.new", "half a file") // as it may have left
	g = serveFileAt(t, path)
	if n, _ := g.passes("/", 10, "X-Key: a"); n != 0 {
		t.Errorf("%d passed of a client that had nothing left", n)
	}
}

func TestAFileOfLevelsThatCannotBeUsedIsTold(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	path := stateIn(t, dir, up.URL)
	g := serveFileAt(t, path)
	g.passes("/", 10, "X-Key: a")
	g.stop()
	good, err := os.ReadFile(dir + "/levels")
	do(t, err)
	newer := bytes.Replace(good[:len(good)-sha256.Size], []byte("levels 2"), []byte("levels 9"), 1)
	sum := sha256.Sum256(newer)
	flipped := bytes.Clone(good)
	flipped[len(good)/2] ^= 4
	for what, c := range map[string]struct {
		data []byte
		want string
	}{
		"flipped": {flipped, "damaged or cut off"},
		"cut":     {good[:len(good)-7], "damaged or cut off"},
		"empty":   {[]byte{}, "damaged or cut off"},
		"foreign": {[]byte("SQLite format 3\x00 and so on and on and on and on and on and on"), "no levels of a gateway"},
		"newer":   {append(newer, sum[:]...), "another version"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := stateIn(t, dir, up.URL)
			do(t, os.WriteFile(dir+"/levels", c.data, 0o600))
			g := serveFileAt(t, path)
			lines := g.logged("levels of the last run cannot be used: every client starts afresh")
			if len(lines) != 1 || !strings.Contains(lines[0]["err"].(string), c.want) || lines[0]["file"] != dir+"/levels" {
				t.Errorf("logged %v, want %q", lines, c.want)
			}
			if n, _ := g.passes("/", 10, "X-Key: a"); n != 5 {
				t.Errorf("%d passed, want the 5 of a fresh start", n)
			}
			g.stop()
			g = serveFileAt(t, path) // it has been written anew
			if n, _ := g.passes("/", 10, "X-Key: a"); n != 0 {
				t.Errorf("%d passed after the next restart", n)
			}
		})
	}
}

// A folder cannot be written as a file is, and is no place to begin without a word.
func TestAFolderForLevelsIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := stateIn(t, dir, "http://127.0.0.1:1")
	do(t, os.Mkdir(dir+"/levels", 0o755))
	out, err := exec.Command(binary, "run", "-c", path).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), `levels": it is no file`) || !strings.Contains(string(out), "name a file that the gateway may write") {
		t.Errorf("%v, want exit code 1: %s", err, out)
	}
}

// A clock that was an hour ahead in the last run gives nothing away and locks nobody out.
func TestLevelsOfALaterClock(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	const text = "rules: [{ name: all, key: header.X-Key, limit: 5/m }]\n"
	f, err := rules.Parse("gateway.yaml", []byte("upstream: "+up.URL+"\n"+text))
	do(t, err)
	set, err := f.Compile(nil)
	do(t, err)
	later := limit.InstantOf(time.Now().Add(time.Hour))
	set.Activate(later)
	facts := &rules.Facts{Method: "GET", Host: "a", Path: "/", RawPath: "/", Client: netip.MustParseAddr("127.0.0.1"), Header: http.Header{"X-Key": {"a"}}}
	hits := set.Match(facts, nil)
	claims := make([]limit.Claim, 1)
	hits[0].Claim(&claims[0])
	claims[0].N = 5
	(&limit.Limiter{}).Acquire(context.Background(), later, claims)
	file, err := os.Create(dir + "/levels")
	do(t, err)
	_, err = set.WriteLevels(file, later)
	do(t, err)
	do(t, file.Close())
	write(t, dir+"/gateway.yaml", ports+"upstream: "+up.URL+"\nstate: levels\n"+text)
	g := serveFileAt(t, dir+"/gateway.yaml")
	if n := len(g.logged("the clock is behind that of the last run: no time counts as gone by since")); n != 1 {
		t.Errorf("said %d times", n)
	}
	// One unit comes back in 12 s; a busy machine may take longer than that to start.
	n, a := g.passes("/", 10, "X-Key: a")
	if n > 4 || a.status != 429 || a.retryAfter(t) > 12*time.Second {
		t.Errorf("%d passed, then %d with Retry-After %v", n, a.status, a.retryAfter(t))
	}
}

func TestAStateThatCannotBeWrittenIsAnErrorWithItsPlace(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	write(t, dir+"/file", "")
	for state, want := range map[string]string{
		dir + "/file/levels": "gateway.yaml:4:8: state ", "/proc/levels": "gateway.yaml:4:8: state ",
	} {
		path := t.TempDir() + "/gateway.yaml"
		write(t, path, ports+"upstream: "+up.URL+"\nstate: "+state+"\n"+oneRule)
		g := launch(t, []string{"run", "-c", path})
		if code := g.exit(); code != 1 || !strings.Contains(g.errs.String(), want) || !strings.Contains(g.errs.String(), "name a file that the gateway may write") {
			t.Errorf("%s: exit code %d\n%s", state, code, g.errs)
		}
	}
}

// systemd names a folder, and an image does.
func TestTheStateDirectoryKeepsLevelsByItself(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	path := dir + "/gateway.yaml"
	write(t, path, ports+"upstream: "+up.URL+"\n"+oneRule)
	in := func(state string) func(*exec.Cmd) {
		return func(c *exec.Cmd) { c.Env = append(c.Env, "STATE_DIRECTORY="+state) }
	}
	for _, want := range []int{5, 0} {
		g := serveFileAt(t, path, in(dir+"/state:/nowhere"))
		if n, _ := g.passes("/", 10, "X-Key: a"); n != want {
			t.Errorf("%d passed, want %d", n, want)
		}
		g.stop()
	}
	// One that cannot be written to keeps nobody from serving.
	g := serveFileAt(t, path, in("/proc/nowhere"))
	g.get("/")
	g.stop()
	if n := len(g.logged("levels cannot be kept: after a restart clients are where they were before, or start afresh")); n != 1 {
		t.Errorf("said %d times that levels cannot be kept", n)
	}
	write(t, path, ports+"state: off\nupstream: "+up.URL+"\n"+oneRule)
	g = serveFileAt(t, path, in(dir+"/state"))
	if n, _ := g.passes("/", 10, "X-Key: a"); n != 5 {
		t.Errorf("state: off: %d passed, want 5", n)
	}
}

func TestAChangeOfStateNeedsARestart(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	g := serveFileAt(t, stateIn(t, dir, up.URL))
	for text, want := range map[string]string{
		ports + "upstream: " + up.URL + "\nstate: other\n" + oneRule: "gateway.yaml:4:8: state has changed: that needs a restart",
		ports + "upstream: " + up.URL + "\n" + oneRule:               "gateway.yaml:1:1: state has changed: that needs a restart",
	} {
		g.save(text)
		if a := g.control("POST", "/reload"); a.status != 422 || !strings.Contains(a.body, want) {
			t.Errorf("%d %s, want %q", a.status, a.body, want)
		}
	}
}

// Two gateways never write the same file; who waits for the other to end takes over.
func TestASecondGatewayLeavesTheFileToTheFirst(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	path := stateIn(t, dir, up.URL)
	first := serveFileAt(t, path)
	first.get("/", "X-Key: a")
	first.stop() // so that there is a file
	first = serveFileAt(t, path)
	first.passes("/", 10, "X-Key: a")
	second := serveFileAt(t, path)
	if lines := second.logged("levels of the last run cannot be used: every client starts afresh"); len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0]["err"]), "another gateway") {
		t.Errorf("logged %v", lines)
	}
	second.get("/", "X-Key: b")
	second.stop()
	first.stop()
	third := serveFileAt(t, path)
	if n, _ := third.passes("/", 10, "X-Key: a"); n != 0 {
		t.Errorf("%d passed: the second has written over what the first kept", n)
	}
	third.stop()
}

// What cannot be written is said once, and once more when it can.
func TestFailingWritesOfLevelsAreSaidOnce(t *testing.T) {
	f, err := rules.Parse("gateway.yaml", []byte("upstream: http://127.0.0.1:1\n"+oneRule))
	do(t, err)
	set, err := f.Compile(nil)
	do(t, err)
	var said bytes.Buffer
	dir := filepath.Join(t.TempDir(), "later")
	decide := func() {
		facts := &rules.Facts{Method: "GET", Host: "a", Path: "/", RawPath: "/", Client: netip.MustParseAddr("127.0.0.1"), Header: http.Header{"X-Key": {"a"}}}
		claims := make([]limit.Claim, 1)
		set.Match(facts, nil)[0].Claim(&claims[0])
		(&limit.Limiter{}).Acquire(context.Background(), limit.InstantOf(time.Now()), claims)
	}
	l := levels{
		path: dir + "/levels", log: slog.New(slog.NewTextHandler(&said, nil)), now: func() limit.Instant { return limit.InstantOf(time.Now()) },
		set: func() *rules.Set { return set },
	}
	set.Activate(l.now())
	for range 3 {
		decide()
		l.save()
	}
	do(t, os.Mkdir(dir, 0o755))
	for range 3 {
		decide()
		l.save()
	}
	if text := said.String(); strings.Count(text, "levels cannot be kept") != 1 || strings.Count(text, "levels are kept again") != 1 {
		t.Errorf("said\n%s", text)
	}
	before, err := os.Stat(dir + "/levels")
	do(t, err)
	l.save() // nothing was decided since
	after, err := os.Stat(dir + "/levels")
	do(t, err)
	if !os.SameFile(before, after) {
		t.Error("written although nothing was decided")
	}
	l.mine.Close()
}
