package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gateway/proxy"
	"gateway/rules"
)

// patience is how long tests wait for what takes a moment.
const patience = 90 * time.Second

// site is a public side as the gateway has it: a Manager, and doors that serve "ok".
type site struct {
	t             testing.TB
	m             *Manager
	doors         *proxy.Doors
	secure, plain int // ports
	log           *journal
	stopped       bool
}

// newSite returns a site on free ports, or on given ones, that has no file yet. It is
// stopped when the test ends.
func newSite(t testing.TB, ports ...int) *site {
	t.Helper()
	s := &site{t: t, log: &journal{}}
	if len(ports) == 0 {
		ports = []int{freePort(t), freePort(t)}
	}
	s.secure, s.plain = ports[0], ports[1]
	s.m = New(slog.New(slog.NewJSONHandler(s.log, nil)))
	s.doors = proxy.NewDoors(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }), nil)
	t.Cleanup(s.stop)
	return s
}

func (s *site) stop() {
	if s.stopped {
		return
	}
	s.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.doors.Shutdown(ctx, nil)
	s.m.Close()
	if s.t.Failed() {
		s.t.Logf("log:\n%s", s.log)
	}
}

// apply puts a tls setting in force; SECURE and PLAIN in it are the ports.
func (s *site) apply(text string) error {
	f, err := rules.Parse("gateway.yaml", []byte(s.file(text)))
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := s.m.Prepare(f)
	if err != nil {
		return err
	}
	addrs := []proxy.Address{{Addr: addrOf(s.secure), Secure: f.TLS != nil}}
	if f.TLS != nil && f.TLS.Redirect != nil {
		addrs = append(addrs, proxy.Address{Addr: f.TLS.Redirect.Addr, Handler: s.m.Redirect()})
	}
	o, err := s.doors.Prepare(addrs)
	if err != nil {
		s.t.Fatal(err)
	}
	s.m.Commit(c, o.At)
	o.Commit(proxy.DoorSettings{ReadHeader: patience, HeaderBytes: 80 << 10, TLS: c.Config()})
	return nil
}

func (s *site) file(text string) string {
	text = strings.NewReplacer("SECURE", fmt.Sprint(s.secure), "PLAIN", fmt.Sprint(s.plain)).Replace(text)
	return text + fmt.Sprintf("\nlisten: 127.0.0.1:%d\nupstream: http://localhost:1\nrules: []\n", s.secure)
}

func (s *site) mustApply(text string) {
	s.t.Helper()
	if err := s.apply(text); err != nil {
		s.t.Fatal(err)
	}
}

// dial makes a handshake for a name, with an HTTP client's protocols.
func (s *site) dial(name string, change ...func(*tls.Config)) (tls.ConnectionState, error) {
	c := &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}
	for _, f := range change {
		f(c)
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: c}
	conn, err := dialer.Dial("tcp", addrOf(s.secure))
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	// In TLS 1.3 the server's refusal of a client certificate comes after the handshake.
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name)
	answer, err := io.ReadAll(conn)
	if err == nil && !bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
		err = fmt.Errorf("answered %q", answer)
	}
	return conn.(*tls.Conn).ConnectionState(), err
}

// leaf returns the certificate that a handshake for the name gets, or nil.
func (s *site) leaf(name string) *x509.Certificate {
	state, err := s.dial(name)
	if err != nil {
		return nil
	}
	return state.PeerCertificates[0]
}

// awaits waits until a name has a certificate by a pool, and returns it.
func (s *site) awaits(name string, pool *x509.CertPool) *x509.Certificate {
	s.t.Helper()
	var leaf *x509.Certificate
	eventually(s.t, "a good certificate for "+name, func() bool {
		state, err := s.dial(name, func(c *tls.Config) { c.InsecureSkipVerify, c.RootCAs = false, pool })
		if err == nil {
			leaf = state.PeerCertificates[0]
		}
		return err == nil
	})
	return leaf
}

var uniques atomic.Int64

// unique returns a name that no other test has: certmagic knows challenges by name,
// for the whole process.
func unique(base string) string { return fmt.Sprintf("%s%d.internal", base, uniques.Add(1)) }

func addrOf(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

var portsTaken atomic.Int64

// freePort returns a port that nobody listens on, and that the kernel gives to nobody
// who asks for any.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + (os.Getpid()*61+int(portsTaken.Add(1)))%20_000
		if ln, err := net.Listen("tcp", addrOf(port)); err == nil {
			ln.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// journal keeps log lines.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

// String returns all of it.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

// with returns the lines that have this message.
func (j *journal) with(msg string) []map[string]any {
	var found []map[string]any
	for line := range strings.Lines(j.String()) {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) == nil && m["msg"] == msg {
			found = append(found, m)
		}
	}
	return found
}

// authority issues certificates for tests.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, next: 1}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	a.cert, _ = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "an authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, a.key.Public(), nil)
	return a
}

// sign makes a certificate of a template, valid for a year from an hour ago unless it
// says otherwise, and returns it with its PEM.
func (a *authority) sign(c *x509.Certificate, key any, parent *x509.Certificate) (*x509.Certificate, []byte) {
	a.t.Helper()
	a.next++
	c.SerialNumber = big.NewInt(a.next)
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(365 * 24 * time.Hour)
	}
	if c.NotBefore.IsZero() {
		c.NotBefore = time.Now().Add(-time.Hour)
	}
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return signed, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// pem returns a certificate of a template, with its key.
func (a *authority) pem(c *x509.Certificate, rsaKey bool) (cert, key []byte) {
	a.t.Helper()
	var private any
	var public any
	var err error
	if rsaKey {
		var k *rsa.PrivateKey
		k, err = rsa.GenerateKey(rand.Reader, 2048)
		private, public = k, &k.PublicKey
	} else {
		var k *ecdsa.PrivateKey
		k, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		private, public = k, &k.PublicKey
	}
	if err != nil {
		a.t.Fatal(err)
	}
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	_, cert = a.sign(c, public, a.cert)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// write writes a certificate for the names to dir/base.pem and dir/base.key.
func (a *authority) write(dir, base string, names ...string) {
	a.t.Helper()
	cert, key := a.pem(&x509.Certificate{DNSNames: names}, false)
	save(a.t, filepath.Join(dir, base+".pem"), cert)
	save(a.t, filepath.Join(dir, base+".key"), key)
}

// file writes the authority itself to a file.
func (a *authority) file() string {
	path := filepath.Join(a.t.TempDir(), "authority.pem")
	save(a.t, path, pemOf(a.cert))
	return path
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func save(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace is save in one step, so that nobody sees half of it.
func replace(t testing.TB, path string, data []byte) {
	t.Helper()
	save(t, path+".new", data)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// alert returns the TLS alert that ended a handshake, or "".
func alert(err error) string {
	if a, ok := errors.AsType[tls.AlertError](err); ok {
		return a.Error()
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return op.Err.Error()
	}
	return ""
}
