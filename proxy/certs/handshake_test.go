package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
)

// clientPair returns a certificate of the authority for a client.
func clientPair(t *testing.T, a *authority) tls.Certificate {
	t.Helper()
	cert, key := a.pem(&x509.Certificate{DNSNames: []string{"a client"}}, false)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func TestClientsNeedACertificateOfTheirAuthority(t *testing.T) {
	t.Parallel()
	dir, a, clients := t.TempDir(), newAuthority(t), newAuthority(t)
	a.write(dir, "api", "api.example.com")
	s := newSite(t)
	with := func(c tls.Certificate) func(*tls.Config) {
		return func(t *tls.Config) { t.Certificates = []tls.Certificate{c} }
	}
	known, stranger := with(clientPair(t, clients)), with(clientPair(t, newAuthority(t)))
	none := func(*tls.Config) {}
	for _, c := range []struct {
		auth                  string
		known, stranger, none bool
	}{
		{"", true, false, false}, // require is the default
		{"client_auth: require,", true, false, false},
		{"client_auth: request,", true, false, true}, // none is fine, a wrong one is not
	} {
		s.mustApply(strings.Replace(pairs(dir, "api"), "tls: {", fmt.Sprintf("tls: { client_ca: %q, %s", clients.file(), c.auth), 1))
		for who, row := range map[string]struct {
			change func(*tls.Config)
			want   bool
		}{"known": {known, c.known}, "stranger": {stranger, c.stranger}, "none": {none, c.none}} {
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				_, err := s.dial("api.example.com", row.change, func(t *tls.Config) { t.MaxVersion = version })
				if got := err == nil; got != row.want {
					t.Errorf("%q, %s, %s: in %v (%v), want %v", c.auth, who, tls.VersionName(version), got, err, row.want)
				}
			}
		}
	}
}

// A session of before must not get around authorities of now.
func TestSessionsEndWithTheirClientAuthority(t *testing.T) {
	t.Parallel()
	dir, a, one, two := t.TempDir(), newAuthority(t), newAuthority(t), newAuthority(t)
	a.write(dir, "api", "api.example.com")
	s := newSite(t)
	need := func(clients *authority) string {
		return strings.Replace(pairs(dir, "api"), "tls: {", fmt.Sprintf("tls: { client_ca: %q,", clients.file()), 1)
	}
	s.mustApply(need(one))
	sessions := tls.NewLRUClientSessionCache(10)
	pair := clientPair(t, one)
	dial := func() (tls.ConnectionState, error) {
		return s.dial("api.example.com", func(c *tls.Config) {
			c.ClientSessionCache, c.Certificates = sessions, []tls.Certificate{pair}
		})
	}
	if _, err := dial(); err != nil {
		t.Fatal(err)
	}
	if state, err := dial(); err != nil || !state.DidResume {
		t.Fatalf("the session was not resumed: %v", err)
	}
	s.mustApply(need(two))
	if state, err := dial(); err == nil {
		t.Errorf("in with a certificate of the old authority; resumed %v", state.DidResume)
	}
}

func TestOldProtocolsAreRefused(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAuthority(t)
	a.write(dir, "api", "api.example.com")
	s := newSite(t)
	for _, c := range []struct {
		setting string
		least   uint16
	}{{"", tls.VersionTLS12}, {"min_version: 1.2,", tls.VersionTLS12}, {"min_version: 1.3,", tls.VersionTLS13}} {
		s.mustApply(strings.Replace(pairs(dir, "api"), "tls: {", "tls: { "+c.setting, 1))
		for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13} {
			_, err := s.dial("api.example.com", func(t *tls.Config) { t.MinVersion, t.MaxVersion = version, version })
			if got, want := err == nil, version >= c.least; got != want {
				t.Errorf("%q: %s spoken: %v (%v), want %v", c.setting, tls.VersionName(version), got, err, want)
			}
		}
	}
}

func TestOnlySuitesWithoutKnownFaultsAreSpoken(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAuthority(t)
	for base, rsaKey := range map[string]bool{"ec": false, "rsa": true} {
		cert, key := a.pem(&x509.Certificate{DNSNames: []string{"api.example.com"}}, rsaKey)
		save(t, dir+"/"+base+".pem", cert)
		save(t, dir+"/"+base+".key", key)
	}
	s := newSite(t)
	s.mustApply(pairs(dir, "ec", "rsa"))
	spoken := 0
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if suite.SupportedVersions[0] == tls.VersionTLS13 {
			continue // Go chooses there, and all are good
		}
		_, err := s.dial("api.example.com", func(t *tls.Config) { t.MaxVersion, t.CipherSuites = tls.VersionTLS12, []uint16{suite.ID} })
		good := !suite.Insecure && !strings.Contains(suite.Name, "_CBC_") && strings.Contains(suite.Name, "_ECDHE_")
		if got := err == nil; got != good {
			t.Errorf("%s spoken: %v (%v), want %v", suite.Name, got, err, good)
		}
		if err == nil {
			spoken++
		}
	}
	if spoken != len(aead) {
		t.Errorf("%d suites are spoken, want %d", spoken, len(aead))
	}
}
