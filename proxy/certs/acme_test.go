package certs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gateway/proxy/certs/acmetest"
)

// acme is a tls setting for domains of a CA, with its storage in a folder.
func acme(ca *acmetest.CA, storage string, domains ...string) string {
	return fmt.Sprintf("tls: { domains: [%s], ca: %q, ca_root: %q, storage: %q, redirect: \"127.0.0.1:PLAIN\", email: ops@example.com }",
		strings.Join(domains, ", "), ca.URL, ca.RootFile, storage)
}

// withCA returns a site and a CA that finds it. change changes the options.
func withCA(t *testing.T, change func(*acmetest.Options)) (*site, *acmetest.CA) {
	t.Helper()
	s := newSite(t)
	o := acmetest.Options{HTTPPort: s.plain, TLSPort: s.secure}
	if change != nil {
		change(&o)
	}
	return s, acmetest.New(t, o)
}

func TestCertificateIsObtainedByEitherChallenge(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*acmetest.Options){
		"HTTP-01":     func(o *acmetest.Options) { o.TLSPort = 0 },
		"TLS-ALPN-01": func(o *acmetest.Options) { o.HTTPPort = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			apiName := unique("api")
			wwwName := unique("www")
			t.Parallel()
			s, ca := withCA(t, change)
			s.mustApply(acme(ca, t.TempDir(), apiName, wwwName))
			api := s.awaits(apiName, ca.Pool())
			www := s.awaits(wwwName, ca.Pool())
			if api.DNSNames[0] != apiName || www.DNSNames[0] != wwwName {
				t.Errorf("certificates for %v and %v", api.DNSNames, www.DNSNames)
			}
			if got := len(s.log.with("certificate obtained")); got != 2 {
				t.Errorf("%d lines that say so, want 2", got)
			}
		})
	}
}

func TestWithoutARedirectTLSALPNIsEnough(t *testing.T) {
	apiName := unique("api")
	t.Parallel()
	s, ca := withCA(t, nil)
	s.mustApply(strings.Replace(acme(ca, t.TempDir(), apiName), `"127.0.0.1:PLAIN"`, "false", 1))
	s.awaits(apiName, ca.Pool())
	if n := ca.Validations(); n != 1 {
		t.Errorf("%d validations, want 1: HTTP-01 has no place to come in", n)
	}
}

func TestClientAuthenticationDoesNotKeepTheCAOut(t *testing.T) {
	apiName := unique("api")
	t.Parallel()
	s, ca := withCA(t, func(o *acmetest.Options) { o.HTTPPort = 0 }) // TLS-ALPN-01 alone
	clients := newAuthority(t)
	s.mustApply(strings.Replace(acme(ca, t.TempDir(), apiName), "tls: {", fmt.Sprintf("tls: { client_ca: %q,", clients.file()), 1))
	eventually(t, "the certificate", func() bool { return len(s.log.with("certificate obtained")) == 1 })
	if _, err := s.dial(apiName); err == nil {
		t.Error("a client without a certificate got in")
	}
}

// Case T01.
func TestTenStartsAreOneOrder(t *testing.T) {
	apiName := unique("api")
	t.Parallel()
	s, ca := withCA(t, nil)
	storage := t.TempDir()
	s.mustApply(acme(ca, storage, apiName))
	first := s.awaits(apiName, ca.Pool())
	for range 9 {
		s.stop()
		s = newSite(t, s.secure, s.plain)
		s.mustApply(acme(ca, storage, apiName))
		if leaf := s.leaf(apiName); leaf == nil || !leaf.Equal(first) { // from the first handshake on
			t.Fatalf("after a start the certificate is %v", leaf)
		}
	}
	if n := ca.Orders(); n != 1 {
		t.Errorf("%d orders in ten starts, want 1", n)
	}
}

// Case T01.
func TestReloadsThatChangeNothingOrderNothing(t *testing.T) {
	apiName := unique("api")
	t.Parallel()
	s, ca := withCA(t, nil)
	text := acme(ca, t.TempDir(), apiName)
	s.mustApply(text)
	s.awaits(apiName, ca.Pool())
	config := s.m.current.Load().config
	for i := range 20 {
		s.mustApply(text + strings.Repeat("\n", i))
		if s.leaf(apiName) == nil {
			t.Fatal("no certificate after a reload")
		}
	}
	if n := ca.Orders(); n != 1 {
		t.Errorf("%d orders after 20 reloads, want 1", n)
	}
	if s.m.current.Load().config != config {
		t.Error("a reload that changed nothing made another tls.Config: sessions are not resumed")
	}
}

func TestDomainsComeAndGoWithTheFile(t *testing.T) {
	aName := unique("a")
	bName := unique("b")
	t.Parallel()
	s, ca := withCA(t, nil)
	storage := t.TempDir()
	s.mustApply(acme(ca, storage, aName))
	a := s.awaits(aName, ca.Pool())
	s.mustApply(acme(ca, storage, aName, bName))
	if leaf := s.leaf(aName); leaf == nil || !leaf.Equal(a) {
		t.Error("a lost its certificate when b came")
	}
	s.awaits(bName, ca.Pool())
	s.mustApply(acme(ca, storage, bName))
	if s.leaf(aName) != nil {
		t.Error("a is served after it was removed")
	}
	if _, ok := s.m.Expiries()[aName]; ok {
		t.Error("a is still in the metrics")
	}
	s.mustApply("")
	if s.m.Expiries() != nil {
		t.Error("there are certificates without tls")
	}
	s.mustApply(acme(ca, storage, aName, bName))
	if leaf := s.leaf(aName); leaf == nil || !leaf.Equal(a) {
		t.Error("a does not have its certificate again")
	}
	if n := ca.Orders(); n != 2 {
		t.Errorf("%d orders, want 2", n)
	}
}

func TestAnotherCATakesOverWhenItHasIssued(t *testing.T) {
	apiName := unique("api")
	t.Parallel()
	s, one := withCA(t, nil)
	two := acmetest.New(t, acmetest.Options{HTTPPort: s.plain, TLSPort: s.secure, Down: true})
	storage := t.TempDir()
	s.mustApply(acme(one, storage, apiName))
	s.awaits(apiName, one.Pool())
	s.mustApply(acme(two, storage, apiName))
	eventually(t, "the second CA is missed", func() bool { return len(s.log.with("certificate not obtained")) > 0 })
	s.awaits(apiName, one.Pool()) // what there is serves on
	two.Start()
	s.awaits(apiName, two.Pool())
	if one.Orders() != 1 || two.Orders() != 1 {
		t.Errorf("%d and %d orders, want one each", one.Orders(), two.Orders())
	}
}

func TestRenewalHappensByItself(t *testing.T) {
	apiName := unique("api")
	t.Parallel()
	s := newSite(t)
	s.m.renew = 100 * time.Millisecond
	ca := acmetest.New(t, acmetest.Options{HTTPPort: s.plain, TLSPort: s.secure, Validity: 12 * time.Second})
	s.mustApply(acme(ca, t.TempDir(), apiName))
	first := s.awaits(apiName, ca.Pool())
	eventually(t, "another certificate", func() bool {
		leaf := s.leaf(apiName)
		if leaf == nil {
			t.Fatal("no certificate for a moment")
		}
		return !leaf.Equal(first)
	})
	if len(s.log.with("certificate renewed")) == 0 {
		t.Error("no line says so")
	}
}

// What the CA saw fail is not tried again at once, whoever else does well and however
// often the gateway is started. Case T01.
func TestNameThatFailsIsTriedSeldom(t *testing.T) {
	goodName := unique("good")
	lostName := unique("lost")
	t.Parallel()
	s, ca := withCA(t, func(o *acmetest.Options) {
		o.Lost = func(domain string) bool { return domain == lostName }
	})
	storage := t.TempDir()
	text := acme(ca, storage, goodName, lostName)
	s.mustApply(text)
	s.awaits(goodName, ca.Pool())
	eventually(t, "the failure", func() bool { return len(s.log.with("certificate not obtained")) == 1 })
	line := s.log.with("certificate not obtained")[0]
	if next, err := time.Parse(time.RFC3339, line["next"].(string)); err != nil || line["domain"] != lostName ||
		time.Until(next) > 5*time.Minute || time.Until(next) < 3*time.Minute {
		t.Errorf("%v; want another try in five minutes", line)
	}
	for range 9 {
		s.stop()
		s = newSite(t, s.secure, s.plain)
		s.mustApply(text)
		if s.leaf(goodName) == nil {
			t.Fatal("good is not served")
		}
		eventually(t, "a word on lost", func() bool {
			return len(s.log.with("certificate not obtained"))+
				len(s.log.with("a certificate was not obtained shortly before this start; the CA is not asked yet")) == 1
		})
	}
	// Good: one validation. Lost: two attempts in the hour, each by both challenges.
	if n := ca.Validations(); n > 1+2*perHour {
		t.Errorf("%d validations in ten starts, want at most %d", n, 1+2*perHour)
	}
}

// Row S38.
func TestRandomNamesOrderNothing(t *testing.T) {
	apiName := unique("api")
	t.Parallel()
	s, ca := withCA(t, nil)
	storage := t.TempDir()
	s.mustApply(acme(ca, storage, apiName))
	s.awaits(apiName, ca.Pool())
	before := files(t, storage)
	refused := 0
	for range 1000 {
		name := fmt.Sprintf("%x.%s", rand.Uint64(), apiName)
		if _, err := s.dial(name); alert(err) == "tls: unrecognized name" {
			refused++
		} else {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := ca.Orders(); n != 1 || refused != 1000 {
		t.Errorf("%d orders and %d of 1000 refused, want 1 and all", n, refused)
	}
	if after := files(t, storage); len(after) != len(before) {
		t.Errorf("storage has grown from %d to %d files", len(before), len(after))
	}
	t.Attr("S38", fmt.Sprintf("%d orders for 1000 handshakes with random names", ca.Orders()-1))
}

// files returns the files and folders below dir with their modes.
func files(t testing.TB, dir string) map[string]os.FileMode {
	t.Helper()
	all := map[string]os.FileMode{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && path != dir {
			all[path] = info.Mode()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
