package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gateway/rules"
)

// authority signs certificates for one test and keeps them as files in a folder.
type authority struct {
	t      testing.TB
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

func newAuthority(t testing.TB, name string) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) write(name, kind string, der []byte) {
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// sign makes name.pem and name.key for a DNS name, and returns the pair.
func (a *authority) sign(name string) tls.Certificate {
	a.t.Helper()
	key := newKey(a.t)
	a.serial++
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", der)
	a.write(name+".key", "PRIVATE KEY", private)
	pair, err := tls.LoadX509KeyPair(filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key"))
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

// spec reads a pool with one https server and this tls, in the authority's folder.
func (a *authority) spec(server, tls string) *rules.Upstream {
	a.t.Helper()
	f, err := rules.Parse(filepath.Join(a.dir, "gateway.yaml"), []byte(
		"upstreams: { api: { servers: "+server+", health: /, retries: 0, tls: "+tls+" } }\nrules: []\n"))
	if err != nil {
		a.t.Fatal(err)
	}
	return &f.Upstreams[0]
}

// secure starts an https server that says which name was asked for and who asks.
func secure(t testing.TB, config *tls.Config) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			who = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		io.WriteString(w, r.TLS.ServerName+" "+who+" "+r.Proto)
	}))
	s.TLS = config
	s.EnableHTTP2 = true
	s.Config.ErrorLog = discard
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestTLSToServers(t *testing.T) {
	ours, other := newAuthority(t, "ours"), newAuthority(t, "other")
	pair := ours.sign("app.test")
	ours.sign("gateway")
	clients := x509.NewCertPool()
	clients.AddCert(ours.cert)
	plain := secure(t, &tls.Config{Certificates: []tls.Certificate{pair}})
	strict := secure(t, &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert})
	for _, tt := range []struct {
		name   string
		server *httptest.Server
		tls    string
		want   string // "" is 502
	}{
		{"own authority and name", plain, "{ ca: ca.pem, server_name: app.test }", "app.test nobody HTTP/2.0"},
		{"the URL's name, which the certificate has not", plain, "{ ca: ca.pem }", ""},
		{"another name", plain, "{ ca: ca.pem, server_name: other.test }", ""},
		{"another authority", plain, "{ ca: " + other.dir + "/ca.pem, server_name: app.test }", ""},
		{"the system's authorities", plain, "{ server_name: app.test }", ""},
		{"insecure", plain, "{ insecure: true }", " nobody HTTP/2.0"}, // no SNI for an address
		{"insecure with a name", plain, "{ insecure: true, server_name: x.test }", "x.test nobody HTTP/2.0"},
		{"client certificate", strict, "{ ca: ca.pem, server_name: app.test, cert: gateway.pem, key: gateway.key }", "app.test gateway HTTP/2.0"},
		{"no client certificate", strict, "{ ca: ca.pem, server_name: app.test }", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(t, ours.spec(tt.server.URL, tt.tls))
			d := &door{}
			gw := gateway(t, p, d)
			res, body := get(t, client(t), gw.URL)
			if good := tt.want != ""; good != (res.StatusCode == 200) || good && body != tt.want || !good && res.StatusCode != 502 {
				t.Errorf("got %d %q, want %q; failed with %v", res.StatusCode, body, tt.want, d.failures())
			}
			if err := p.check(t.Context(), p.servers[0]); (err == nil) != (tt.want != "") {
				t.Errorf("check: %v", err)
			}
		})
	}
}

func TestFilesOfTLSThatCannotBeUsed(t *testing.T) {
	a := newAuthority(t, "ours")
	a.sign("one")
	a.sign("two")
	for name, text := range map[string]string{"empty": "", "text": "hello\n"} {
		if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for tls, want := range map[string][]string{
		"{ ca: nowhere.pem }":             {`2:52: ca "DIR/nowhere.pem": no such file or directory`},
		"{ ca: . }":                       {`2:52: ca "DIR": not a file`},
		"{ ca: empty }":                   {`2:52: ca "DIR/empty": the file is empty`},
		"{ ca: text }":                    {`2:52: ca "DIR/text": no certificate in it`},
		"{ ca: one.key }":                 {`2:52: ca "DIR/one.key": no certificate in it`},
		"{ cert: one.pem, key: two.key }": {`2:68: key "DIR/two.key": private key does not match public key`},
		"{ cert: one.key, key: one.key }": {`2:54: cert "DIR/one.key": no certificate in it`},
		"{ cert: one.pem, key: one.pem }": {`2:68: key "DIR/one.pem": found a certificate rather than a key in the PEM for the private key`},
		"{ cert: one.pem, key: text }":    {`2:68: key "DIR/text": failed to find any PEM data in key input`},
		"{ ca: x, cert: y, key: z, server_name: a.test}": {
			`2:52: ca "DIR/x": no such file or directory`, `2:61: cert "DIR/y": no such file or directory`, `2:69: key "DIR/z": no such file or directory`,
		},
	} {
		f, err := rules.Parse(filepath.Join(a.dir, "gateway.yaml"), []byte("rules: []\nupstreams: { api: { servers: https://a, tls: "+tls+" } }\n"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(&f.Upstreams[0], Options{})
		list, ok := err.(rules.ErrorList)
		if p != nil || !ok {
			t.Errorf("%s: got %v, want a list", tls, err)
			continue
		}
		for i, line := range list.Lines() {
			got := strings.ReplaceAll(strings.TrimPrefix(line, filepath.Join(a.dir, "gateway.yaml:")), a.dir, "DIR")
			if len(list) != len(want) || got != want[i] {
				t.Errorf("%s: got %q, want %q", tls, got, want)
			}
		}
	}
}

func TestAChangedFileMakesAnotherPool(t *testing.T) {
	a := newAuthority(t, "ours")
	a.sign("gateway")
	read := func() *rules.Upstream {
		return a.spec("https://a", "{ ca: ca.pem, cert: gateway.pem, key: gateway.key }")
	}
	p := newPool(t, read())
	if !p.Equal(read()) {
		t.Error("another pool with the same files")
	}
	a.sign("gateway") // renewed
	if p.Equal(read()) {
		t.Error("the same pool with a renewed certificate")
	}
	if again := newPool(t, read()); !again.Equal(read()) {
		t.Error("another pool with the same files")
	}
	if err := os.Remove(filepath.Join(a.dir, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	if p.Equal(read()) {
		t.Error("the same pool without its file")
	}
}

func TestWebSocketOverTLSWithHTTP2AtTheServer(t *testing.T) {
	a := newAuthority(t, "ours")
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Proto != "HTTP/1.1" {
			t.Errorf("a handshake over %s", r.Proto)
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{a.sign("app.test")}}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	gw := gateway(t, newPool(t, a.spec(s.URL, "{ ca: ca.pem, server_name: app.test }")), &door{})
	req, _ := http.NewRequest("GET", gw.URL, nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	res, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if read(t, res); res.StatusCode != http.StatusTeapot {
		t.Errorf("got %d", res.StatusCode)
	}
}
