package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestStormOfSavesEndsInTheLastOne(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, versioned(up.URL, 0))
	drain(g)
	before := g.metrics()
	o := observe(g)
	start := time.Now()
	const saves = 100
	for v := 1; v <= saves; v++ {
		g.save(versioned(up.URL, v))
		time.Sleep(30 * time.Millisecond) // the pace of the storm
	}
	eventually(t, "the last save is active", func() bool { return o.version.Load() == saves })
	took := time.Since(start)
	o.finish(t)
	n := len(g.logged("configuration reloaded"))
	if most := int(took/(100*time.Millisecond)) + 1; n > most {
		t.Errorf("%d reloads in %v, want at most one each 100 ms", n, took)
	}
	flat(t, g, before)
	score(t, "S32", "%d saves in %v, %d reloads, 0 of %d requests failed or saw a mixed list", saves, took.Round(time.Millisecond), n, o.sent.Load())
}

func TestReloadOnRequestAHundredTimesLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, versioned(up.URL, 0))
	drain(g)
	before := g.metrics()
	o := observe(g)
	for v := 1; v <= 100; v++ {
		g.save(versioned(up.URL, v))
		if a := g.control("POST", "/reload"); a.status != 200 {
			t.Fatalf("reload %d: %d %s", v, a.status, a.body)
		}
		if got, err := versionOf(g.get("/")); err != nil || got != v {
			t.Fatalf("version %d after reload %d was answered (%v)", got, v, err)
		}
	}
	o.finish(t)
	flat(t, g, before)
	score(t, "S32", "100 reloads asked for, goroutines and files as before")
}

// What the kernel does not tell is found by looking every 3 s.
func TestFolderExchangedAsAWholeIsSeenByPolling(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	root := t.TempDir()
	place := func(v int) {
		dir := filepath.Join(root, fmt.Sprintf("v%d", v))
		do(t, os.Mkdir(dir, 0o755))
		write(t, filepath.Join(dir, "gateway.yaml"), versioned(up.URL, v))
		do(t, os.Symlink(dir, filepath.Join(root, "link")))
		do(t, os.Rename(filepath.Join(root, "link"), filepath.Join(root, "current")))
	}
	place(0)
	g := serveFileAt(t, filepath.Join(root, "current", "gateway.yaml"))
	drain(g)
	o := observe(g)
	for v := 1; v <= 3; v++ {
		place(v)
		start := time.Now()
		eventually(t, "the new folder's file is active", func() bool { return int(o.version.Load()) == v })
		took := time.Since(start)
		t.Logf("seen after %v", took)
		if took > 15*time.Second { // 5 s, and room for a machine that is busy
			t.Errorf("took %v, want 5 s", took)
		}
	}
	o.finish(t)
}

func TestSaveWithoutAChangeDoesNothing(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, versioned(up.URL, 0))
	info, err := os.Stat(g.path)
	do(t, err)
	for range 3 {
		do(t, os.Chtimes(g.path, time.Now(), time.Now()))
		do(t, os.Chmod(g.path, info.Mode()^0o040))
		g.save(versioned(up.URL, 0))
		write(t, g.path, versioned(up.URL, 0))
	}
	// Asking waits until the file has settled, so all of that has been looked at.
	if a := g.control("POST", "/reload"); a.status != 200 || len(a.body) < 9 || a.body[:9] != "unchanged" {
		t.Errorf("reload: %d %q, want 200 and unchanged", a.status, a.body)
	}
	g.save(versioned(up.URL, 1))
	eventually(t, "a change is active", func() bool { v, _ := versionOf(g.get("/")); return v == 1 })
	eventually(t, "the log says so", func() bool { return len(g.logged("configuration reloaded")) > 0 })
	if n := len(g.logged("configuration reloaded")); n != 1 {
		t.Errorf("%d reloads, want 1: that of the change", n)
	}
}
