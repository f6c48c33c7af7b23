package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestRunWithoutAFile(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := launch(t, []string{"run", "--upstream", up.URL, "--limit", "3/365d", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"})
	t.Cleanup(g.stop)
	g.awaitServing()
	if n, refusal := g.passes("/", 5); n != 3 || refusal.of("per-ip").q != 3 {
		t.Errorf("%d pass, refused under %v; want 3, under per-ip", n, refusal.policies())
	}
	if a := g.control("POST", "/reload"); a.status != 422 || !strings.Contains(a.body, "no file") {
		t.Errorf("POST /reload: %d %q, want 422: there is no file", a.status, a.body)
	}
	g.signal(syscall.SIGHUP)
	eventually(t, "it says that there is no file", func() bool { return len(g.logged("SIGHUP without a file to reload")) == 1 })
	if a := g.get("/"); a.status != 429 {
		t.Errorf("status %d after SIGHUP, want 429 as before", a.status)
	}
}

func TestRunFromStdin(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := launch(t, []string{"run", "-c", "-"}, func(cmd *exec.Cmd) {
		cmd.Stdin = strings.NewReader(listening("127.0.0.1:0", up.URL, 2))
	})
	t.Cleanup(g.stop)
	g.awaitServing()
	if n, _ := g.passes("/", 5); n != 2 {
		t.Errorf("%d pass, want 2", n)
	}
}

func TestRunFindsItsFile(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	write(t, dir+"/gateway.yaml", listening("127.0.0.1:0", up.URL, 2))
	write(t, dir+"/other.yaml", listening("127.0.0.1:0", up.URL, 3))
	for env, want := range map[string]int{"": 2, "other.yaml": 3} {
		g := launch(t, []string{"run"}, func(cmd *exec.Cmd) {
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GATEWAY_CONFIG="+env)
		})
		t.Cleanup(g.stop)
		g.awaitServing()
		if n, _ := g.passes("/", 5); n != want {
			t.Errorf("GATEWAY_CONFIG=%s: %d pass, want %d", env, n, want)
		}
	}
}

func TestSIGHUPReloads(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, listening("127.0.0.1:0", up.URL, 2))
	n := 0
	hup := func(result ...string) {
		t.Helper()
		g.signal(syscall.SIGHUP)
		n++
		eventually(t, fmt.Sprintf("SIGHUP %d ends as one of %q", n, result), func() bool {
			total := 0
			for _, msg := range result {
				total += len(g.logged(msg))
			}
			return total >= n
		})
	}
	const unchanged, refused = "configuration unchanged", "configuration refused; the running settings are unchanged"
	hup(unchanged)
	hup(unchanged)
	n = 0
	g.save("rules: [\n")
	hup(refused) // by the save, or by the signal
	hup(refused) // asked again, it is said again
	g.save(listening("127.0.0.1:0", up.URL, 7))
	g.signal(syscall.SIGHUP)
	eventually(t, "the good file is active", func() bool { return g.get("/").of("a").q == 7 })
}

func TestPortInUseAtStart(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	first := serve(t, listening("127.0.0.1:0", up.URL, 2))
	path := t.TempDir() + "/gateway.yaml"
	for name, text := range map[string]string{
		"public": listening(first.addr, up.URL, 2),
		"admin":  strings.Replace(listening("127.0.0.1:0", up.URL, 2), "admin: 127.0.0.1:0", "admin: "+first.admin, 1),
	} {
		write(t, path, text)
		g := launch(t, []string{"run", "-c", path})
		if code := g.exit(); code != 1 {
			t.Errorf("%s: exit code %d, want 1", name, code)
		}
		if text := g.errs.String(); !strings.Contains(text, "gateway: "+path+":") || !strings.Contains(text, "address already in use") {
			t.Errorf("%s: stderr %q, want the place and that the address is in use", name, text)
		}
	}
	if a := first.get("/"); a.status != 200 {
		t.Errorf("the first gateway answers %d, want 200", a.status)
	}
}
