package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// activated makes the process one that systemd starts with these sockets.
func activated(names string, sockets ...*os.File) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.ExtraFiles = sockets
		c.Env = append(c.Env, "LISTEN_FDS="+strconv.Itoa(len(sockets)), "LISTEN_FDNAMES="+names)
		// LISTEN_PID is the process' own, which only the process can know.
		c.Args = append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, c.Path}, c.Args[1:]...)
		c.Path = "/bin/sh"
	}
}

// held returns a TCP socket that is bound and listening and on which nobody accepts.
func held(t testing.TB) (*os.File, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	do(t, err)
	defer ln.Close()
	f, err := ln.(*net.TCPListener).File()
	do(t, err)
	t.Cleanup(func() { f.Close() })
	return f, ln.Addr().String()
}

func TestSocketsOfSystemdAreServedUnderTheirNames(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	one, addr := held(t)
	two, other := held(t)
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, "listen: systemd:http\nadmin: 127.0.0.1:0\nupstream: "+up.URL+"\nrules: []\n")
	g := serveFileAt(t, path, activated("http:http", one, two))
	for _, a := range []string{addr, other} {
		if got, err := request(g.client, "GET", "http://"+a+"/"); err != nil || got.status != 200 {
			t.Errorf("%s: %v %v, want 200", a, got.status, err)
		}
	}

	// A name that was not passed refuses the reload, and the old ones serve on.
	g.save("listen: systemd:https\nadmin: 127.0.0.1:0\nupstream: " + up.URL + "\nrules: []\n")
	a := g.control("POST", "/reload")
	if a.status != 422 || !strings.Contains(a.body, "gateway.yaml:1:9: cannot listen on systemd:https: systemd has passed no socket of that name; it has passed http") {
		t.Errorf("reload: %d %s", a.status, a.body)
	}
	if got, err := request(newClient(), "GET", "http://"+addr+"/"); err != nil || got.status != 200 {
		t.Errorf("after a refused reload: %v %v, want 200", got.status, err)
	}

	// Left out and named again, the socket serves as before: it was bound all the time.
	g.save("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstream: " + up.URL + "\nrules: []\n")
	do(t, g.control("POST", "/reload").want(200))
	waits := make(chan answer, 1)
	go func() {
		got, _ := request(newClient(), "GET", "http://"+addr+"/waits")
		waits <- got
	}()
	g.save("listen: systemd:http\nadmin: 127.0.0.1:0\nupstream: " + up.URL + "\nrules: []\n# again\n")
	do(t, g.control("POST", "/reload").want(200))
	do(t, (<-waits).want(200))
}

func TestSocketThatNoListenNamesIsToldOf(t *testing.T) {
	t.Parallel()
	f, _ := held(t)
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, ports+"upstream: http://127.0.0.1:1\nrules: []\n")
	g := serveFileAt(t, path, activated("web", f))
	eventually(t, "the warning", func() bool {
		lines := g.logged("systemd has bound a socket that no listen names; who connects there waits")
		return len(lines) == 1 && lines[0]["socket"] == "web" && lines[0]["write"] == "listen: systemd:web"
	})
}

// With the socket held by systemd a restart refuses and drops nothing.
func TestRestartWithASocketUnitLosesNoConnection(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	f, addr := held(t)
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, "listen: systemd:http\nadmin: 127.0.0.1:0\nupstream: "+up.URL+"\nrules: []\n")
	g := serveFileAt(t, path, activated("http", f))

	var sent atomic.Int64
	l := flow(500, func() error {
		c := newClient() // a connection of its own
		defer c.CloseIdleConnections()
		a, err := request(c, "GET", "http://"+addr+"/")
		sent.Add(1)
		if err != nil {
			return err
		}
		return a.want(200)
	})
	for range 3 {
		before := sent.Load()
		eventually(t, "traffic", func() bool { return sent.Load() >= before+100 })
		g.stop()
		g = serveFileAt(t, path, activated("http", f))
	}
	before := sent.Load()
	eventually(t, "traffic", func() bool { return sent.Load() >= before+100 })
	l.finish(t)
	t.Logf("%d requests, each on a connection of its own, over 3 restarts", sent.Load())
}

func TestUnixSockets(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	public, private := filepath.Join(dir, "gw.sock"), filepath.Join(dir, "admin.sock")
	path := filepath.Join(dir, "gateway.yaml")
	write(t, path, "listen: unix:"+public+"\nadmin: unix:"+private+"\ntrusted_proxies: [127.0.0.1]\nupstream: "+up.URL+
		"\nrules:\n  - name: per-ip\n    limit: 2/h\n")
	g := launch(t, []string{"run", "-c", path})
	g.awaitServing()
	if g.addr != "unix:"+public || g.admin != "unix:"+private {
		t.Errorf("serving on %s and %s", g.addr, g.admin)
	}
	for file, want := range map[string]os.FileMode{public: 0o666, private: 0o660} {
		info, err := os.Stat(file)
		do(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", file, info.Mode().Perm(), want)
		}
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", public)
		},
	}}
	defer client.CloseIdleConnections()
	// The peer counts as 127.0.0.1, so a trusted one may say who the client is.
	for i, want := range []int{200, 200, 429} {
		a, err := request(client, "GET", "http://api.example.com/", "X-Forwarded-For: 192.0.2.7")
		do(t, err)
		if a.status != want {
			t.Errorf("request %d: %d, want %d", i, a.status, want)
		}
	}
	a, err := request(client, "GET", "http://api.example.com/", "X-Forwarded-For: 192.0.2.8")
	do(t, err)
	do(t, a.want(200))

	for _, args := range [][]string{{"healthcheck"}, {"reload"}} {
		if out, err := exec.Command(binary, append(args, "-c", path)...).CombinedOutput(); err != nil {
			t.Errorf("gateway %v: %v %s", args, err, out)
		}
	}

	// A second gateway does not take the socket of one that runs.
	second := launch(t, []string{"run", "-c", path})
	if code := second.exit(); code != 1 || !strings.Contains(second.errs.String(), "address already in use") {
		t.Errorf("a second one: exit %d, %s", code, second.errs)
	}

	// One that was killed leaves its socket behind; the next one replaces it.
	g.signal(syscall.SIGKILL)
	<-g.exited
	if _, err := os.Stat(public); err != nil {
		t.Fatal(err)
	}
	next := launch(t, []string{"run", "-c", path})
	t.Cleanup(next.stop)
	next.awaitServing()
	a, err = request(client, "GET", "http://api.example.com/")
	do(t, err)
	do(t, a.want(200))

	// A file that is no socket is not replaced.
	other := filepath.Join(dir, "precious")
	write(t, other, "precious")
	next.path = path
	next.save("listen: unix:" + other + "\nadmin: unix:" + private + "\nupstream: " + up.URL + "\nrules: []\n")
	out, err := exec.Command(binary, "reload", "-c", path).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "cannot listen on unix:"+other+": address already in use") {
		t.Errorf("reload: %v %s", err, out)
	}
	if text, _ := os.ReadFile(other); string(text) != "precious" {
		t.Errorf("the file holds %q", text)
	}
}
