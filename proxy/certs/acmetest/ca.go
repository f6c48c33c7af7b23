// Package acmetest runs a certificate authority for tests: pebble, the test server of
// Let's Encrypt, in this process, with a DNS in which every name is this machine. It
// is part of no binary.
//
//	ca := acmetest.New(t, acmetest.Options{HTTPPort: 5002, TLSPort: 5001})
//
// ca.URL is what `ca` is set to, and ca.RootFile what `ca_root` is. Challenges are
// asked for at the ports of the options, where a real one asks at 80 and 443.
package acmetest

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
)

// Options say how the CA behaves. The zero value is one that has an easy day, but
// that it finds nobody at the ports.
type Options struct {
	// HTTPPort and TLSPort are where it asks for challenges; 0 is where nobody is.
	HTTPPort, TLSPort int
	// BadNonces is how many percent of good nonces it refuses, 0 to 99.
	BadNonces int
	// Reuse is how many percent of orders need no validation if there was one already.
	Reuse int
	// Validity is how long its certificates last; 0 is 90 days.
	Validity time.Duration
	// Down says that it does not run yet; Start starts it.
	Down bool
	// Lost says whether the DNS knows no such name; nil knows them all.
	Lost func(domain string) bool
}

// CA is a certificate authority that runs until the test ends. Its methods may be
// called at any time.
type CA struct {
	// URL is that of its directory; the same for its life.
	URL string
	// RootFile is a file with the authority of its own certificate.
	RootFile string

	t      testing.TB
	o      Options
	addr   string
	dns    string
	orders atomic.Int64
	tries  atomic.Int64

	mu     sync.Mutex
	server *httptest.Server // nil while it is down
	issuer *ca.CAImpl
}

// New runs a CA. It fails the test if it cannot.
func New(t testing.TB, o Options) *CA {
	t.Helper()
	c := &CA{t: t, o: o}
	c.dns = newDNS(t, func(name string) bool { return o.Lost == nil || !o.Lost(name) })
	ln := listen(t, "127.0.0.1:0")
	c.addr = ln.Addr().String()
	c.URL = "https://" + c.addr + wfe.DirectoryPath
	c.serve(ln)
	c.RootFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(c.RootFile, pemOf(c.server.Certificate()), 0o600); err != nil {
		t.Fatal(err)
	}
	if o.Down {
		c.Stop()
	}
	t.Cleanup(c.Stop)
	return c
}

// Stop takes it down: connections are refused. What it knew of accounts and orders
// is lost, as pebble's state is.
func (c *CA) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		c.server.CloseClientConnections()
		c.server.Close()
		c.server = nil
	}
}

// Start brings it up again at the same URL, with a new authority.
func (c *CA) Start() {
	c.t.Helper()
	c.serve(listen(c.t, c.addr))
}

// Orders returns how many orders it has accepted.
func (c *CA) Orders() int { return int(c.orders.Load()) }

// Validations returns how often it was asked to validate a challenge.
func (c *CA) Validations() int { return int(c.tries.Load()) }

// Pool returns the authority of the certificates it issues as it runs now.
func (c *CA) Pool() *x509.CertPool {
	c.mu.Lock()
	defer c.mu.Unlock()
	pool := x509.NewCertPool()
	pool.AddCert(c.issuer.GetRootCert(0).Cert)
	return pool
}

// environment guards the variables that pebble reads when it is made.
var environment sync.Mutex

func (c *CA) serve(ln net.Listener) {
	environment.Lock()
	defer environment.Unlock()
	for name, value := range map[string]string{
		"PEBBLE_WFE_NONCEREJECT": strconv.Itoa(c.o.BadNonces), "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_AUTHZREUSE": strconv.Itoa(c.o.Reuse),
	} {
		old, had := os.LookupEnv(name)
		os.Setenv(name, value)
		defer func() {
			if os.Unsetenv(name); had {
				os.Setenv(name, old)
			}
		}()
	}
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	validity := c.o.Validity
	if validity == 0 {
		validity = 90 * 24 * time.Hour
	}
	issuer := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{
		"default": {Description: "for a while", ValidityPeriod: uint64(validity / time.Second)},
	})
	checker := va.New(quiet, nobodyIfZero(c.t, c.o.HTTPPort), nobodyIfZero(c.t, c.o.TLSPort), false, c.dns, store)
	front := wfe.New(quiet, store, checker, issuer, []string{"acmetest.invalid"}, false, false, 0, 0)
	handler := front.Handler()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &status{ResponseWriter: w}
		handler.ServeHTTP(answer, r)
		switch {
		case r.URL.Path == "/order-plz" && answer.code == http.StatusCreated:
			c.orders.Add(1)
		case strings.HasPrefix(r.URL.Path, "/chalZ/") && answer.code == http.StatusOK:
			c.tries.Add(1)
		}
	}))
	server.Config.ErrorLog = quiet
	server.Listener.Close()
	server.Listener = ln
	server.StartTLS()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.issuer = server, issuer
}

// status notes the status of an answer.
type status struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (s *status) WriteHeader(code int) {
	if s.code == 0 {
		s.code = code
	}
	s.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (s *status) Write(p []byte) (int, error) {
	if s.code == 0 {
		s.code = http.StatusOK
	}
	return s.ResponseWriter.Write(p)
}

// nobodyIfZero returns the port, or one at which nobody listens.
func nobodyIfZero(t testing.TB, port int) int {
	if port != 0 {
		return port
	}
	ln := listen(t, "127.0.0.1:0")
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

func listen(t testing.TB, addr string) net.Listener {
	t.Helper()
	var ln net.Listener
	var err error
	for range 200 { // somebody else may have it for a moment
		if ln, err = net.Listen("tcp", addr); err == nil {
			return ln
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal(err)
	return nil
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
