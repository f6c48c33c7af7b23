package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// versioned is a file whose two rules both say which version it is: an answer
// whose limit headers do not agree was decided by a mixture of two files. The
// third rule never changes; a client that is drained there stays drained.
func versioned(upstream string, version int) string {
	return fmt.Sprintf(`%supstream: %s
rules:
  - { name: first, key: ip, limit: %[3]d/365d }
  - { name: drained, match: /drained, key: header.X-Client, limit: 2/365d }
  - { name: last, key: global, limit: %[3]d/365d }
`, ports, upstream, baseVersion+version)
}

// baseVersion is more than the requests of a test: nothing is refused there.
const baseVersion = 1_000_000

// versionOf returns the version of the file that decided a, and an error unless
// one and only one did.
func versionOf(a answer) (int, error) {
	list := a.policies()
	if len(list) < 2 {
		return 0, fmt.Errorf("%d policies in an answer %d: part of a list", len(list), a.status)
	}
	if f, l := a.of("first"), a.of("last"); f.q != l.q || f.q == 0 {
		return 0, fmt.Errorf("a mixed list: %v", list)
	}
	return int(a.of("first").q - baseVersion), nil
}

// savings are the ways files are saved. n is the number of the save.
var savings = []struct {
	name string
	save func(t testing.TB, path, text string, n int)
}{
	{"in place", func(t testing.TB, path, text string, _ int) { write(t, path, text) }},
	{"rename over", func(t testing.TB, path, text string, _ int) {
		write(t, path+".tmp", text)
		do(t, os.Rename(path+".tmp", path))
	}},
	{"vim", func(t testing.TB, path, text string, n int) { // backupcopy=no: backup, new file, backup away
		probe := filepath.Join(filepath.Dir(path), "4913")
		write(t, probe, "")
		do(t, os.Remove(probe))
		do(t, os.Rename(path, path+"~"))
		write(t, path, text)
		do(t, os.Remove(path+"~"))
	}},
	{"delete and create", func(t testing.TB, path, text string, _ int) {
		do(t, os.Remove(path))
		write(t, path, text)
	}},
	{"half, then the rest", func(t testing.TB, path, text string, n int) {
		f, err := os.Create(path)
		do(t, err)
		defer f.Close()
		cut := strings.LastIndex(text, "limit") + 7 + n%3 // within a line: half a limit would be another limit
		_, err = f.WriteString(text[:cut])
		do(t, err)
		time.Sleep(time.Duration(n%4) * 60 * time.Millisecond) // the writer is slow
		_, err = f.WriteString(text[cut:])
		do(t, err)
	}},
	{"cp", func(t testing.TB, path, text string, _ int) {
		write(t, path+".source", text)
		if out, err := exec.Command("cp", path+".source", path).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v: %s", err, out)
		}
	}},
	{"ConfigMap", saveConfigMap},
	{"link pointed elsewhere", func(t testing.TB, path, text string, n int) {
		target := fmt.Sprintf("%s.version%d", path, n)
		write(t, target, text)
		do(t, os.Symlink(target, path+".link"))
		do(t, os.Rename(path+".link", path))
	}},
}

// saveConfigMap exchanges the content the way a kubelet does: a new folder, and
// ..data pointed at it; the file's own name is never touched after the first time.
func saveConfigMap(t testing.TB, path, text string, n int) {
	dir := filepath.Dir(path)
	version := fmt.Sprintf("..version%d", n)
	do(t, os.Mkdir(filepath.Join(dir, version), 0o755))
	write(t, filepath.Join(dir, version, "gateway.yaml"), text)
	do(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
	do(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	if to, err := os.Readlink(path); err != nil || to != "..data/gateway.yaml" {
		do(t, os.Symlink("..data/gateway.yaml", path+".link"))
		do(t, os.Rename(path+".link", path))
	}
}

// observed is a gateway under load whose answers say which version of the file
// was in force.
type observed struct {
	*instance
	*load
	version atomic.Int64 // the newest that was seen
}

// observe sends about 200 requests a second to g until the test calls finish.
func observe(g *instance) *observed {
	o := &observed{instance: g}
	var n atomic.Int64
	o.load = flow(200, func() error {
		path, status := "/", 200
		if n.Add(1)%10 == 0 {
			path, status = "/drained", 429
		}
		a, err := g.try("GET", path, "X-Client: drained")
		if err != nil {
			return err
		}
		if err := a.want(status); err != nil {
			return err
		}
		v, err := versionOf(a)
		for old := o.version.Load(); old < int64(v); old = o.version.Load() {
			o.version.CompareAndSwap(old, int64(v))
		}
		return err
	})
	return o
}

// drain uses up what the client of observe may do on /drained.
func drain(g *instance) {
	g.t.Helper()
	for range 2 {
		if a := g.get("/drained", "X-Client: drained"); a.status != 200 {
			g.t.Fatalf("status %d, want 200", a.status)
		}
	}
}

func TestEverySaveIsActiveAtOnceUnderLoad(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, versioned(up.URL, 0))
	drain(g)
	before := g.metrics()
	o := observe(g)

	const each = 13
	var took []time.Duration
	version := 0
	for _, way := range savings {
		for range each {
			version++
			way.save(t, g.path, versioned(up.URL, version), version)
			saved := time.Now()
			eventually(t, fmt.Sprintf("save %d (%s) is active", version, way.name), func() bool { return int(o.version.Load()) == version })
			took = append(took, time.Since(saved))
		}
	}
	o.finish(t)

	slices.Sort(took)
	longest, quick := took[len(took)-1], 0
	for _, d := range took {
		if d <= 2*time.Second {
			quick++
		}
	}
	t.Logf("%d saves under %d requests: %d active within 2 s; median %v, longest %v", version, o.sent.Load(), quick, took[len(took)/2], longest)
	if took[len(took)/2] > 2*time.Second || longest > 10*time.Second { // 2 s each, and room for a machine that is busy
		t.Errorf("a save took %v to be active (median %v), want 2 s", longest, took[len(took)/2])
	}
	eventually(t, "the log says so", func() bool { return len(g.logged("configuration reloaded")) >= version })
	if n := len(g.logged("configuration reloaded")); n != version {
		t.Errorf("%d lines say that the file was reloaded, want one for each of %d saves", n, version)
	}

	// What was used is still used, through all the versions.
	a := g.get("/")
	used := int64(baseVersion+version) - a.of("last").remaining
	passed := int64(up.total())
	if used > passed || used < passed-int64(version)-2 { // a part of a unit may be forgiven at each reload
		t.Errorf("%d units are used after %d requests passed", used, passed)
	}
	flat(t, g, before)
	score(t, "S29", "%d of %d saves active on the built gateway, median %v, longest %v", len(took), version, took[len(took)/2].Round(time.Millisecond), longest.Round(time.Millisecond))
}

// flat fails unless the gateway has as many goroutines and open files as before.
func flat(t testing.TB, g *instance, before map[string]float64) {
	t.Helper()
	g.client.CloseIdleConnections()
	var now map[string]float64
	defer func() {
		t.Logf("goroutines %v → %v, open files %v → %v", before["go_goroutines"], now["go_goroutines"], before["process_open_fds"], now["process_open_fds"])
	}()
	eventually(t, "goroutines and open files are as before", func() bool {
		now = g.metrics()
		return now["go_goroutines"] <= before["go_goroutines"]+5 && now["process_open_fds"] <= before["process_open_fds"]+5
	})
}
