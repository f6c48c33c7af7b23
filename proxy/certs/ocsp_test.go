package certs

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"
)

func TestOCSPIsStapledToCertificatesOfFiles(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAuthority(t)
	var asked atomic.Int64
	responder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, _ := io.ReadAll(r.Body)
		q, err := ocsp.ParseRequest(body)
		if err != nil {
			t.Error(err)
			return
		}
		now := time.Now()
		answer, err := ocsp.CreateResponse(a.cert, a.cert, ocsp.Response{
			Status: ocsp.Good, SerialNumber: q.SerialNumber, ThisUpdate: now.Add(-time.Minute), NextUpdate: now.Add(24 * time.Hour), IssuerHash: crypto.SHA1,
		}, a.key)
		if err != nil {
			t.Error(err)
		}
		w.Write(answer)
	}))
	t.Cleanup(responder.Close)
	cert, key := a.pem(&x509.Certificate{DNSNames: []string{"api.example.com"}, OCSPServer: []string{responder.URL}}, false)
	chain := append(cert, pemOf(a.cert)...)
	save(t, filepath.Join(dir, "api.pem"), chain)
	save(t, filepath.Join(dir, "api.key"), key)
	a.write(dir, "plain", "plain.example.com")
	s := newSite(t)
	s.mustApply(pairs(dir, "api", "plain"))
	if s.leaf("api.example.com") == nil {
		t.Error("no certificate before there is a staple")
	}
	var state tls.ConnectionState
	eventually(t, "a staple", func() bool {
		var err error
		if state, err = s.dial("api.example.com"); err != nil {
			t.Fatal(err)
		}
		return len(state.OCSPResponse) > 0
	})
	if r, err := ocsp.ParseResponseForCert(state.OCSPResponse, state.PeerCertificates[0], a.cert); err != nil || r.Status != ocsp.Good {
		t.Errorf("the staple is %v, %v", r, err)
	}
	s.mustApply(pairs(dir, "plain", "api")) // moved in the file, the same files
	s.mustApply(pairs(dir, "plain"))
	if s.leaf("api.example.com") != nil {
		t.Error("a certificate that was removed is served from the cache of staples")
	}
	eventually(t, "nothing is left in the cache", func() bool {
		return len(s.m.cache.Load().AllMatchingCertificates("api.example.com")) == 0
	})
}

// A responder that does not answer keeps nobody waiting.
func TestSilentResponderDelaysNothing(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAuthority(t)
	release := make(chan struct{})
	responder := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(responder.Close)
	t.Cleanup(func() { close(release) })
	cert, key := a.pem(&x509.Certificate{DNSNames: []string{"api.example.com"}, OCSPServer: []string{responder.URL}}, false)
	save(t, filepath.Join(dir, "api.pem"), append(cert, pemOf(a.cert)...))
	save(t, filepath.Join(dir, "api.key"), key)
	s := newSite(t)
	s.mustApply(pairs(dir, "api"))
	if s.leaf("api.example.com") == nil {
		t.Error("no certificate")
	}
	s.stop()
}
