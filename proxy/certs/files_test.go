package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gateway/rules"
)

// pairs is a tls setting with certificates of these names from a folder.
func pairs(dir string, bases ...string) string {
	var list []string
	for _, b := range bases {
		list = append(list, fmt.Sprintf("{ cert: %q, key: %q }", filepath.Join(dir, b+".pem"), filepath.Join(dir, b+".key")))
	}
	return "tls: { certificates: [" + strings.Join(list, ", ") + `], redirect: "127.0.0.1:PLAIN" }`
}

func TestCertificateIsPickedByName(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAuthority(t)
	a.write(dir, "first", "first.example.com")
	a.write(dir, "api", "api.example.com", "API2.example.com")
	a.write(dir, "wild", "*.example.com")
	cert, key := a.pem(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, false)
	save(t, filepath.Join(dir, "ip.pem"), cert)
	save(t, filepath.Join(dir, "ip.key"), key)
	s := newSite(t)
	s.mustApply(pairs(dir, "first", "wild", "api"))
	for name, want := range map[string]string{
		"first.example.com": "first.example.com",
		"api.example.com":   "api.example.com",
		"API.Example.Com":   "api.example.com",
		"api2.example.com":  "api.example.com",
		"www.example.com":   "*.example.com",
		"":                  "first.example.com", // names nothing: the first
	} {
		leaf := s.leaf(name)
		if leaf == nil || leaf.DNSNames[0] != want {
			t.Errorf("%q gets %v, want that of %s", name, leaf, want)
		}
	}
	for _, name := range []string{"example.com", "a.b.example.com", "example.org"} {
		if _, err := s.dial(name); alert(err) != "tls: unrecognized name" {
			t.Errorf("%s: %v, want the alert unrecognized_name", name, err)
		}
	}
	s.mustApply(pairs(dir, "first", "ip"))
	if leaf := s.leaf(""); leaf == nil || len(leaf.IPAddresses) != 1 {
		t.Errorf("who comes to 127.0.0.1 and names nothing gets %v, want the certificate for 127.0.0.1", leaf)
	}
}

func TestClientGetsTheKindOfKeyItCanUse(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAuthority(t)
	for base, rsaKey := range map[string]bool{"ec": false, "rsa": true} {
		cert, key := a.pem(&x509.Certificate{DNSNames: []string{"api.example.com"}}, rsaKey)
		save(t, filepath.Join(dir, base+".pem"), cert)
		save(t, filepath.Join(dir, base+".key"), key)
	}
	s := newSite(t)
	s.mustApply(pairs(dir, "ec", "rsa"))
	for _, c := range []struct {
		suite uint16
		want  x509.PublicKeyAlgorithm
	}{
		{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, x509.ECDSA}, {tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, x509.RSA},
	} {
		state, err := s.dial("api.example.com", func(t *tls.Config) { t.MaxVersion, t.CipherSuites = tls.VersionTLS12, []uint16{c.suite} })
		if err != nil {
			t.Errorf("%s: %v", tls.CipherSuiteName(c.suite), err)
		} else if got := state.PeerCertificates[0].PublicKeyAlgorithm; got != c.want {
			t.Errorf("%s: a key of %v, want %v", tls.CipherSuiteName(c.suite), got, c.want)
		}
	}
}

func TestNewFilesAreServedWithoutAReload(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAuthority(t)
	a.write(dir, "api", "api.example.com")
	s := newSite(t)
	s.m.look = 20 * time.Millisecond
	s.mustApply(pairs(dir, "api"))
	first := s.leaf("api.example.com")

	// The certificate comes first, and for a while has no key that fits.
	cert, key := a.pem(&x509.Certificate{DNSNames: []string{"api.example.com", "new.example.com"}}, false)
	replace(t, filepath.Join(dir, "api.pem"), cert)
	eventually(t, "a word on the pair that does not fit", func() bool { return len(s.log.with("certificate not replaced; the one before is kept")) > 0 })
	if leaf := s.leaf("api.example.com"); leaf == nil || !leaf.Equal(first) {
		t.Error("the old pair is not kept")
	}
	if !s.m.Stale() {
		t.Error("a reload that is asked for would not read the files again")
	}
	replace(t, filepath.Join(dir, "api.key"), key)
	eventually(t, "the new certificate", func() bool { return s.leaf("new.example.com") != nil })
	if leaf := s.leaf("api.example.com"); leaf == nil || leaf.Equal(first) {
		t.Error("the old certificate is served beside the new one")
	}
	if s.m.Stale() {
		t.Error("stale after the new files are in force")
	}
	if n := len(s.log.with("certificate replaced")); n != 1 {
		t.Errorf("%d lines say that it was replaced, want 1", n)
	}

	// Rubbish is said once, however often it is looked at, and again when it changes.
	said := len(s.log.with("certificate not replaced; the one before is kept"))
	for i, rubbish := range []string{"rubbish", "other rubbish"} {
		replace(t, filepath.Join(dir, "api.pem"), []byte(rubbish))
		eventually(t, "a word on it", func() bool {
			return len(s.log.with("certificate not replaced; the one before is kept")) > said+i
		})
		looks := make(chan struct{})
		time.AfterFunc(15*s.m.look, func() { close(looks) })
		<-looks
		if n := len(s.log.with("certificate not replaced; the one before is kept")); n != said+i+1 {
			t.Errorf("%d lines for one change, want 1", n-said-i)
		}
	}
	os.Remove(filepath.Join(dir, "api.pem"))
	if s.leaf("new.example.com") == nil {
		t.Error("the certificate is gone with its file")
	}
}

func TestFilesThatCannotBeUsedAreErrorsWithTheirPlace(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAuthority(t)
	a.write(dir, "one", "one.example.com")
	a.write(dir, "two", "two.example.com")
	save(t, filepath.Join(dir, "empty.pem"), nil)
	save(t, filepath.Join(dir, "text.pem"), []byte("hello\n"))
	for _, c := range []struct{ text, at, msg string }{
		{"tls: { certificates: [{ cert: DIR/one.pem, key: DIR/two.key }] }", "1:55", "private key does not match public key"},
		{"tls: { certificates: [{ cert: DIR/none.pem, key: DIR/one.key }] }", "1:31", "no such file"},
		{"tls: { certificates: [{ cert: DIR/empty.pem, key: DIR/one.key }] }", "1:31", "the file is empty"},
		{"tls: { certificates: [{ cert: DIR/text.pem, key: DIR/one.key }] }", "1:31", "no certificate in it"},
		{"tls: { certificates: [{ cert: DIR/one.key, key: DIR/one.pem }] }", "1:31", "no certificate in it"},
		{"tls: { certificates: [{ cert: DIR, key: DIR/one.pem }] }", "1:31", "not a file"},
		{"tls: { certificates: [{ cert: DIR/one.pem, key: DIR/one.key }], client_ca: DIR/text.pem }", "1:", `client_ca "`},
		{"tls: { domains: [a.internal], ca: https://ca.internal/, storage: DIR/s, ca_root: DIR/none.pem }", "1:", `ca_root "`},
	} {
		s := newSite(t)
		err := s.apply(strings.ReplaceAll(c.text, "DIR", dir))
		list, ok := err.(rules.ErrorList)
		if !ok || len(list) != 1 || !strings.Contains(list[0].Msg, c.msg) || list[0].Pos.Line != 1 || list[0].Pos.Col == 0 {
			t.Errorf("%s: %v, want %s", c.text, err, c.msg)
		}
		if s.m.current.Load() != nil || s.m.cache.Load() != nil {
			t.Errorf("%s: something has begun", c.text)
		}
	}
}

func TestDoubtsAboutFiles(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAuthority(t)
	now := time.Now()
	for base, c := range map[string]*x509.Certificate{
		"expired": {DNSNames: []string{"a.example.com"}, NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(-24 * time.Hour)},
		"early":   {DNSNames: []string{"a.example.com"}, NotBefore: now.Add(24 * time.Hour)},
		"good":    {DNSNames: []string{"a.example.com"}},
	} {
		cert, key := a.pem(c, false)
		save(t, filepath.Join(dir, base+".pem"), cert)
		save(t, filepath.Join(dir, base+".key"), key)
	}
	for base, want := range map[string]string{"expired": "has expired", "early": "is not valid before", "good": ""} {
		f, err := rules.Parse("gateway.yaml", []byte(newSite(t).file(pairs(dir, base))))
		if err != nil {
			t.Fatal(err)
		}
		doubts, err := Files(f)
		switch {
		case err != nil:
			t.Errorf("%s: %v", base, err)
		case want == "" && len(doubts) > 0 || want != "" && (len(doubts) != 1 || !strings.Contains(doubts[0].Msg, want) || !doubts[0].Warning):
			t.Errorf("%s: %v, want %q", base, doubts, want)
		}
	}
	// It is served all the same: better than nothing.
	s := newSite(t)
	s.mustApply(pairs(dir, "expired"))
	if s.leaf("a.example.com") == nil {
		t.Error("an expired certificate is not served")
	}
	eventually(t, "a word on it", func() bool { return len(s.log.with("certificate has expired")) == 1 })
}

func TestExpiriesAreOfEachName(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAuthority(t)
	late, early := time.Now().Add(100*24*time.Hour).Truncate(time.Second), time.Now().Add(50*24*time.Hour).Truncate(time.Second)
	for base, c := range map[string]*x509.Certificate{
		"late":  {DNSNames: []string{"a.example.com", "b.example.com"}, NotAfter: late},
		"early": {DNSNames: []string{"b.example.com"}, NotAfter: early},
	} {
		cert, key := a.pem(c, false)
		save(t, filepath.Join(dir, base+".pem"), cert)
		save(t, filepath.Join(dir, base+".key"), key)
	}
	s := newSite(t)
	s.mustApply(pairs(dir, "late", "early"))
	got := s.m.Expiries()
	if len(got) != 2 || !got["a.example.com"].Equal(late) || !got["b.example.com"].Equal(early) {
		t.Errorf("expiries %v, want a at %v and b at %v", got, late, early)
	}
}
