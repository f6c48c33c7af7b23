package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// slowly makes the rates of a file so slow that none of the requests of a test is
// decided by how long it took: a unit takes a minute.
var slowly = strings.NewReplacer("rate=100r/m", "rate=1r/m", "rate=10r/s", "rate=1r/m", "rate=100r/s", "rate=1r/m", "rate=1r/s", "rate=1r/m", "rate=5r/m", "rate=1r/m")

// runNginx runs nginx on a configuration, whose places it fills in, until the test
// ends, and returns its address.
func runNginx(t *testing.T, dir, upstream string) string {
	t.Helper()
	socket := filepath.Join(dir, "nginx.sock")
	text, err := os.ReadFile(filepath.Join(dir, "nginx.conf"))
	do(t, err)
	own := strings.NewReplacer(
		"worker_processes auto;", "worker_processes 1;\ndaemon off;\npid "+dir+"/pid;\nerror_log stderr warn;\n",
		"http {", "http {\naccess_log off;\nclient_body_temp_path "+dir+"/body;\nproxy_temp_path "+dir+"/proxy;\nfastcgi_temp_path "+dir+"/fastcgi;\nuwsgi_temp_path "+dir+"/uwsgi;\nscgi_temp_path "+dir+"/scgi;",
		"listen 80;", "listen unix:"+dir+"/plain.sock;",
		"listen 443 ssl;", "listen unix:"+socket+";\nset_real_ip_from unix:;",
		"server 127.0.0.1:8080;", "server "+upstream+";",
		"limit_req_zone $jwt_claim_sub zone=subject:10m rate=1r/m;", "", // of the paid nginx
		"limit_req zone=subject burst=5 delay=2;", "",
	)
	config := filepath.Join(dir, "own.conf")
	write(t, config, own.Replace(string(text)))
	cmd := exec.Command("nginx", "-e", "stderr", "-p", dir, "-c", config)
	var errs output
	cmd.Stderr = &errs
	do(t, cmd.Start())
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) // of which it tells its worker, as it would not when killed
		<-ended
		if t.Failed() {
			t.Logf("stderr of nginx:\n%s", lastLines(errs.String(), 20))
		}
	})
	eventually(t, "nginx listens", func() bool {
		select {
		case <-ended:
			t.Fatalf("nginx ended:\n%s", errs.String())
		default:
		}
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "unix:" + socket
}

// The rules that are imported decide a sequence of requests, one by one, as nginx
// itself does, which runs beside them.
func TestImportedRulesDecideAsNginxDoes(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var held []chan struct{}
	release := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range held {
			close(c)
		}
		held = nil
	}
	arrived := make(chan struct{}, 100)
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/slow") {
			c := make(chan struct{})
			mu.Lock()
			held = append(held, c)
			mu.Unlock()
			arrived <- struct{}{}
			<-c
		}
	})
	dir := t.TempDir()
	text, err := os.ReadFile("../../rules/peers/testdata/api.nginx.conf")
	do(t, err)
	write(t, filepath.Join(dir, "nginx.conf"), slowly.Replace(string(text)))
	do(t, os.Mkdir(filepath.Join(dir, "maps"), 0o755))
	do(t, os.CopyFS(filepath.Join(dir, "maps"), os.DirFS("../../rules/peers/testdata/maps")))

	imported, err := exec.Command(binary, "import", "nginx", filepath.Join(dir, "nginx.conf")).Output()
	do(t, err)
	ours := strings.Replace(string(imported), "http://localhost:3000", up.URL, 1)
	ours = strings.Replace(ours, "trusted_proxies: [", "trusted_proxies: [127.0.0.1, ", 1)
	g := serve(t, ports+"log: { access: off }\n"+ours)
	theirs := newClientOf(runNginx(t, dir, strings.TrimPrefix(up.URL, "http://")))

	ask := func(client *http.Client, addr, method, path string, header ...string) int {
		req, err := http.NewRequest(method, "http://"+addr+path, nil)
		do(t, err)
		req.Host = "api.example.com"
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			req.Header.Set(name, value)
		}
		res, err := client.Do(req)
		do(t, err)
		res.Body.Close()
		return res.StatusCode
	}
	refused := 0
	// both sends a request to both, so many times, from an address with a key.
	both := func(times int, method, path, from, key string) {
		t.Helper()
		header := []string{"X-Forwarded-For: " + from}
		if key != "" {
			header = append(header, "X-API-Key: "+key)
		}
		for i := range times {
			want := ask(theirs, "nginx", method, path, header...)
			got := ask(g.client, g.addr, method, path, header...)
			if got == 429 {
				refused++
			}
			if (got == 429) != (want == 429 || want == 503) || got != 429 && got != 200 {
				t.Fatalf("%s %s from %s with key %q, %d: %d, with nginx %d", method, path, from, key, i+1, got, want)
			}
		}
	}
	both(104, "GET", "/", "198.51.100.1", "")
	both(3, "GET", "/healthz", "198.51.100.1", "")
	both(2, "GET", "/searching/deep", "198.51.100.1", "k0")
	both(24, "GET", "/a", "198.51.100.2", "k1")              // the free plan
	both(24, "GET", "/exports/1", "198.51.100.3", "k2")      // the same elsewhere
	both(24, "GET", "/exports/1", "198.51.100.2", "k1")      // which has used it up
	both(40, "GET", "/a", "198.51.100.4", "sk_live_paid_1")  // the paid plan has more
	both(65, "GET", "/a", "198.51.100.4", "sk_live_paid_1")  // than its address
	both(105, "GET", "/b", "198.51.100.5", "sk_live_paid_1") // and in the end less than another
	both(8, "POST", "/login", "198.51.100.6", "")
	both(3, "GET", "/reports/7", "198.51.100.7", "")
	both(5, "GET", "/reports/7", "192.0.2.7", "")   // the office
	both(3, "GET", "/reports/7", "192.0.2.200", "") // but not all of it
	both(5, "GET", "/a", "2001:db8::1", "")
	both(4, "GET", "/search/a.pdf", "198.51.100.9", "k9") // another location, whose limit is a dry run
	if refused < 30 {
		t.Errorf("only %d requests were refused: that shows little", refused)
	}

	// Twenty exports of a key in progress, at each; the next is refused by both.
	const slow = "/exports/slow"
	var wg sync.WaitGroup
	defer wg.Wait()
	defer release()
	for i := range 20 {
		header := []string{"X-Forwarded-For: 198.51.100.8", "X-API-Key: k8"}
		for _, one := range []struct {
			client *http.Client
			addr   string
		}{{theirs, "nginx"}, {g.client, g.addr}} {
			wg.Go(func() {
				if status := ask(one.client, one.addr, "GET", slow, header...); status != 200 {
					t.Errorf("export %d at %s: %d", i+1, one.addr, status)
				}
			})
			<-arrived
		}
	}
	for _, one := range []struct {
		client *http.Client
		addr   string
	}{{theirs, "nginx"}, {g.client, g.addr}} {
		if status := ask(one.client, one.addr, "GET", "/exports/more", "X-Forwarded-For: 198.51.100.8", "X-API-Key: k8"); status != 429 {
			t.Errorf("an export beside twenty at %s: %d, want 429", one.addr, status)
		}
	}
}

// newClientOf returns a client that speaks to a unix socket, whatever the host.
func newClientOf(addr string) *http.Client {
	socket := strings.TrimPrefix(addr, "unix:")
	c := newClient()
	c.Transport = &http.Transport{MaxIdleConnsPerHost: 50, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	return c
}
