package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gateway/proxy/certs/acmetest"
)

// places are where a gateway with TLS listens in tests, in the place of 443 and 80.
type places struct{ secure, plain int }

func newPlaces(t testing.TB) places { return places{freePort(t), freePort(t)} }

// file is a configuration with certificates of the CA for domains.
func (p places) file(ca *acmetest.CA, storage, upstream string, domains ...string) string {
	return fmt.Sprintf(`listen: 127.0.0.1:%d
admin: 127.0.0.1:0
tls:
  domains: [%s]
  ca: %s
  ca_root: %s
  storage: %s
  redirect: 127.0.0.1:%d
upstream: %s
rules:
  - { name: a, key: global, limit: 1000/365d }
`, p.secure, strings.Join(domains, ", "), ca.URL, ca.RootFile, storage, p.plain, upstream)
}

func (p places) ca(t testing.TB, change ...func(*acmetest.Options)) *acmetest.CA {
	o := acmetest.Options{HTTPPort: p.plain, TLSPort: p.secure}
	for _, c := range change {
		c(&o)
	}
	return acmetest.New(t, o)
}

// https returns a client that finds every name here and believes pool, or anything
// if that is nil.
func (p places) https(t testing.TB, name string, pool *x509.CertPool) *http.Client {
	tr := &http.Transport{
		TLSClientConfig:   &tls.Config{ServerName: name, RootCAs: pool, InsecureSkipVerify: pool == nil},
		ForceAttemptHTTP2: true, DisableKeepAlives: true,
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// asks sends a request for a name by https.
func (p places) asks(t testing.TB, name string, pool *x509.CertPool) (answer, error) {
	return request(p.https(t, name, pool), "GET", fmt.Sprintf("https://127.0.0.1:%d/", p.secure), "Host: "+name)
}

// await waits until a name is served with a certificate of the pool.
func (p places) await(t testing.TB, name string, pool *x509.CertPool) answer {
	t.Helper()
	var a answer
	eventually(t, name+" has a certificate", func() bool {
		var err error
		a, err = p.asks(t, name, pool)
		return err == nil
	})
	return a
}

// Cases T01 and T02 with the program as it is shipped.
func TestTLSByItself(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Forwarded-Proto"), " ", r.Proto)
	})
	p := newPlaces(t)
	ca := p.ca(t)
	storage := filepath.Join(t.TempDir(), "storage")
	text := strings.Replace(p.file(ca, storage, up.URL, "api.internal"), "1000/365d", "1/1h", 1)
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, text)
	start := func() *instance {
		g := launch(t, []string{"run", "-c", path})
		g.path = path
		g.awaitServing()
		return g
	}
	g := start()
	if a := p.await(t, "api.internal", ca.Pool()); a.status != 200 || !strings.HasPrefix(a.body, "https ") {
		t.Errorf("%d %q, want 200 and that the upstream hears of https", a.status, a.body)
	}
	if a, _ := p.asks(t, "api.internal", ca.Pool()); a.status != 429 {
		t.Errorf("%d, want 429: the limit is used up", a.status)
	}
	expiry := g.metrics()[`gateway_tls_certificate_expiry_timestamp_seconds{domain="api.internal"}`]
	if days := time.Until(time.Unix(int64(expiry), 0)).Hours() / 24; days < 89 || days > 91 {
		t.Errorf("the metric says that the certificate ends in %.1f days, want 90", days)
	}

	if s := g.status(); len(s.Certificates) != 1 || s.Certificates[0].Domain != "api.internal" || s.Certificates[0].Expires == nil ||
		s.Certificates[0].Expires.Unix() != int64(expiry) {
		t.Errorf("the status has %+v, want what the metric says", s.Certificates)
	}
	if out, err := g.command("status"); err != nil || !strings.Contains(out, "api.internal") || !strings.Contains(out, "in 89 days") {
		t.Errorf("gateway status: %v\n%s", err, out)
	}

	// A challenge of a gateway that shares the storage, while the limit is used up.
	challenges, err := filepath.Glob(filepath.Join(storage, "acme", "*"))
	do(t, err)
	if len(challenges) != 1 {
		t.Fatalf("storage has %v", challenges)
	}
	do(t, os.MkdirAll(filepath.Join(challenges[0], "challenge_tokens"), 0o700))
	write(t, filepath.Join(challenges[0], "challenge_tokens", "api.internal.json"),
		`{"type": "http-01", "token": "live", "keyAuthorization": "live.thumb", "identifier": {"type": "dns", "value": "api.internal"}}`)
	before := up.total()
	plain := fmt.Sprintf("http://127.0.0.1:%d", p.plain)
	for range 5 {
		a, err := request(g.client, "GET", plain+"/.well-known/acme-challenge/live", "Host: api.internal")
		if err != nil || a.status != 200 || a.body != "live.thumb" {
			t.Errorf("a live token: %d %q, %v; want 200 and the key text", a.status, a.body, err)
		}
	}
	for _, c := range []struct {
		method, path, host string
		status             int
		location           string
	}{
		{"GET", "/.well-known/acme-challenge/other", "api.internal", 404, ""},
		{"GET", "/.well-known/acme-challenge/live", "other.internal", 404, ""},
		{"POST", "/a?b=c", fmt.Sprintf("api.internal:%d", p.plain), 308, "https://api.internal/a?b=c"},
		{"GET", "/", "evil.example", 404, ""},
	} {
		a, err := request(g.client, c.method, plain+c.path, "Host: "+c.host)
		if err != nil || a.status != c.status || a.header.Get("Location") != c.location {
			t.Errorf("%s %s at %s: %d to %q, %v; want %d to %q", c.method, c.path, c.host, a.status, a.header.Get("Location"), err, c.status, c.location)
		}
	}
	if n := up.total(); n != before {
		t.Errorf("%d plain requests reached the upstream", n-before)
	}
	if n := g.metrics()[`gateway_rule_decisions_total{result="rejected",rule="a",tier=""}`]; n != 1 {
		t.Errorf("%v refusals, want 1: plain requests are no rule's business", n)
	}

	// Starts and crashes, and reloads that change nothing of it.
	for range 8 {
		g.cmd.Process.Kill()
		<-g.exited
		g = start()
		if _, err := p.asks(t, "api.internal", ca.Pool()); err != nil {
			t.Errorf("right after a start: %v", err)
		}
	}
	for i := range 20 {
		g.save(text + strings.Repeat("#\n", i+1))
		if a := g.control("POST", "/reload"); a.status != 200 {
			t.Errorf("reload: %d %s", a.status, a.body)
		}
	}
	if _, err := p.asks(t, "api.internal", ca.Pool()); err != nil {
		t.Errorf("after reloads: %v", err)
	}
	g.stop()
	if n := ca.Orders(); n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
}

// Case T01.
func TestUnwritableStorageKeepsTheGatewayFromStarting(t *testing.T) {
	t.Parallel()
	p := newPlaces(t)
	ca := p.ca(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "")
	path := filepath.Join(dir, "gateway.yaml")
	write(t, path, p.file(ca, filepath.Join(dir, "file", "storage"), "http://localhost:1", "api.internal"))
	for range 10 {
		g := launch(t, []string{"run", "-c", path})
		if code := g.exit(); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		want := path + ":7:12: storage \"" + filepath.Join(dir, "file", "storage") + "\" cannot be written: not a directory"
		if text := g.errs.String(); !strings.HasPrefix(text, want) || !strings.Contains(text, "certificates must be kept") {
			t.Errorf("stderr %q, want %q and why", text, want)
		}
	}
	if n := ca.Orders(); n != 0 {
		t.Errorf("%d orders, want 0", n)
	}
}

// keyPair writes a certificate that signs itself, for names, until a time.
func keyPair(t testing.TB, dir, base string, until time.Time, names ...string) {
	t.Helper()
	cert, key := selfSigned(t, until, names...)
	write(t, filepath.Join(dir, base+".pem"), cert)
	write(t, filepath.Join(dir, base+".key"), key)
}

// TLS comes, changes and goes with the file, on the address that is open; what is
// wrong with it changes nothing.
func TestTLSReloadsLive(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	later := time.Now().Add(1000 * time.Hour)
	keyPair(t, dir, "one", later, "one.example.com")
	keyPair(t, dir, "two", later, "two.example.com")
	p := newPlaces(t)
	addr := fmt.Sprintf("127.0.0.1:%d", p.secure)
	base := "listen: " + addr + "\nadmin: 127.0.0.1:0\nupstream: " + up.URL + "\nrules: []\n"
	with := func(cert, key string) string {
		return base + fmt.Sprintf("tls: { redirect: false, certificates: [{ cert: %s.pem, key: %s.key }] }\n", cert, key)
	}
	path := filepath.Join(dir, "gateway.yaml")
	write(t, path, base)
	g := serveFileAt(t, path)
	g.addr = addr
	if a := g.get("/"); a.status != 200 {
		t.Fatalf("plain: %d", a.status)
	}
	serves := func(name string, want bool) {
		t.Helper()
		if _, err := p.asks(t, name, nil); (err == nil) != want {
			t.Errorf("%s: %v, want it served: %v", name, err, want)
		}
	}
	reloads := func(text string, status int, want string) {
		t.Helper()
		g.save(text)
		if a := g.control("POST", "/reload"); a.status != status || !strings.Contains(a.body, want) {
			t.Errorf("got %d %q, want %d and %q", a.status, a.body, status, want)
		}
	}
	reloads(with("one", "one"), 200, "settings tls")
	serves("one.example.com", true)
	serves("two.example.com", false)
	g.client.CloseIdleConnections()
	if a, err := g.try("GET", "/"); err != nil || a.status != 400 {
		t.Errorf("plain on an address with TLS: %d, %v; want 400", a.status, err)
	}
	reloads(with("one", "two"), 422, "gateway.yaml:5:62: key ")
	serves("one.example.com", true)
	reloads(with("two", "two"), 200, "settings tls")
	serves("one.example.com", false)
	serves("two.example.com", true)

	// The file stays, what it names changes: at once when a reload is asked for.
	cert, key := selfSigned(t, later, "three.example.com")
	write(t, filepath.Join(dir, "two.pem"), cert)
	write(t, filepath.Join(dir, "two.key"), key)
	if a := g.control("POST", "/reload"); a.status != 200 || !strings.Contains(a.body, "changed: files of tls") && !strings.Contains(a.body, "unchanged") {
		t.Errorf("got %d %q", a.status, a.body) // unchanged if the watch was quicker
	}
	serves("three.example.com", true)

	reloads(base, 200, "settings tls")
	if a := g.get("/"); a.status != 200 {
		t.Errorf("plain again: %d", a.status)
	}
}

func TestCheckLooksAtCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keyPair(t, dir, "good", time.Now().Add(1000*time.Hour), "a.example.com")
	keyPair(t, dir, "other", time.Now().Add(1000*time.Hour), "a.example.com")
	keyPair(t, dir, "old", time.Now().Add(-time.Hour), "a.example.com")
	path := filepath.Join(dir, "gateway.yaml")
	for _, c := range []struct {
		cert, key string
		strict    bool
		code      int
		want      string
	}{
		{"good", "good", true, 0, ""},
		{"good", "other", false, 1, path + ":3:46: key \"" + filepath.Join(dir, "other.key") + "\": private key does not match public key"},
		{"old", "old", false, 0, path + ":3:31: warning: cert \"" + filepath.Join(dir, "old.pem") + "\" has expired on "},
		{"old", "old", true, 1, "has expired on "},
	} {
		write(t, path, fmt.Sprintf("upstream: http://localhost:1\nrules: [{ name: a, limit: 1/s }]\ntls: { certificates: [ {cert: %s.pem, key: %s.key} ] }\n", c.cert, c.key))
		args := []string{"check", "-c", path}
		if c.strict {
			args = append(args, "--strict")
		}
		g := launch(t, args)
		if code := g.exit(); code != c.code || !strings.Contains(g.errs.String(), c.want) {
			t.Errorf("%v with %s and %s: exit code %d, stderr %q; want %d and %q", args, c.cert, c.key, code, g.errs, c.code, c.want)
		}
	}
}
