package rules

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// parseTLS parses a file with these lines at its top.
func parseTLS(t *testing.T, lines string) *File {
	t.Helper()
	f, err := Parse("dir/gateway.yaml", []byte(lines+"\nupstream: http://localhost:3000\nrules: []\n"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestOneLineOfTLSIsEnough(t *testing.T) {
	f := parseTLS(t, "tls: { domains: [API.Example.com, www.example.com], email: ops@example.com }")
	want := &TLS{
		Domains: []string{"api.example.com", "www.example.com"}, Email: "ops@example.com",
		CA: "https://acme-v02.api.letsencrypt.org/directory", CAPublic: true,
		Redirect: &Listen{Addr: ":80"}, MinVersion: "1.2",
	}
	if diff := cmp.Diff(want, f.TLS, cmpopts.IgnoreTypes(Pos{}), cmpopts.IgnoreUnexported(FilePath{})); diff != "" {
		t.Errorf("tls (-want +got):\n%s", diff)
	}
	if len(f.Listen) != 1 || f.Listen[0].Addr != ":443" || !f.Secure(f.Listen[0]) {
		t.Errorf("listens on %+v, want :443 alone, secure", f.Listen)
	}
}

func TestAllOfTLS(t *testing.T) {
	f := parseTLS(t, `
listen: [":8443", "127.0.0.1:8444"]
tls:
  domains: api.internal
  ca: https://ca.internal/acme/directory
  ca_root: root.pem
  storage: /var/lib/certs
  redirect: ":8080"
  certificates:
    - { cert: a.pem, key: a.key }
    - { cert: /b.pem, key: /b.key }
  client_ca: clients.pem
  client_auth: request
  min_version: 1.3
`)
	type pair struct{ cert, key string }
	got := f.TLS
	var pairs []pair
	for _, c := range got.Certificates {
		pairs = append(pairs, pair{c.Cert.Path, c.Key.Path})
	}
	if diff := cmp.Diff([]pair{{"dir/a.pem", "dir/a.key"}, {"/b.pem", "/b.key"}}, pairs, cmp.AllowUnexported(pair{})); diff != "" {
		t.Errorf("certificates (-want +got):\n%s", diff)
	}
	for what, is := range map[string]bool{
		"domains":     len(got.Domains) == 1 && got.Domains[0] == "api.internal",
		"ca":          got.CA == "https://ca.internal/acme/directory" && !got.CAPublic,
		"ca_root":     got.CARoot.Path == "dir/root.pem",
		"storage":     got.Storage.Path == "/var/lib/certs",
		"redirect":    got.Redirect.Addr == ":8080",
		"client_ca":   got.ClientCA.Path == "dir/clients.pem" && got.ClientAuth == "request",
		"min_version": got.MinVersion == "1.3",
		"listen":      f.Secure(f.Listen[0]) && f.Secure(f.Listen[1]),
	} {
		if !is {
			t.Errorf("%s is not as written: %+v", what, got)
		}
	}
	if ca := parseTLS(t, "tls: { domains: [a.example.com], client_ca: c.pem }").TLS; ca.ClientAuth != "require" {
		t.Errorf("client_auth is %q unless given, want require", ca.ClientAuth)
	}
	if ca := parseTLS(t, "tls: { domains: [a.example.com], ca: staging }").TLS; !strings.Contains(ca.CA, "staging") || !ca.CAPublic {
		t.Errorf("ca staging is %+v", ca)
	}
}

// Port 80 is the one on which nobody speaks TLS.
func TestWithoutARedirectPort80StaysPlain(t *testing.T) {
	f := parseTLS(t, `listen: [":443", ":80", "127.0.0.1:8080"]`+"\ntls: { domains: [a.example.com], redirect: false }")
	for i, want := range []bool{true, false, true} {
		if got := f.Secure(f.Listen[i]); got != want {
			t.Errorf("%s: secure %v, want %v", f.Listen[i].Addr, got, want)
		}
	}
	if f.TLS.Redirect != nil {
		t.Error("there is a redirect all the same")
	}
	f = parseTLS(t, `listen: ["systemd:http", "systemd:https", "unix:/run/gateway.sock"]`+"\ntls: { domains: [a.example.com], redirect: false }")
	for i, want := range []bool{false, true, false} {
		if got := f.Secure(f.Listen[i]); got != want {
			t.Errorf("%s: secure %v, want %v", f.Listen[i].Addr, got, want)
		}
	}
	if f := parseTLS(t, "listen: systemd:https\ntls: { domains: [a.example.com], redirect: \"systemd:http\" }"); f.TLS.Redirect.Addr != "systemd:http" {
		t.Errorf("redirect is %+v", f.TLS.Redirect)
	}
	plain := parseTLS(t, `listen: ":443"`)
	if plain.TLS != nil || plain.Secure(plain.Listen[0]) {
		t.Error("without tls port 443 is secure")
	}
}

func TestTLSIsEqualWhateverItsPlace(t *testing.T) {
	const one = "tls: { domains: [a.example.com], certificates: [{ cert: a.pem, key: a.key }] }"
	a, b := parseTLS(t, one), parseTLS(t, "\n\n"+one)
	if !a.TLS.Equal(b.TLS) {
		t.Error("the same tls on another line is another")
	}
	for _, other := range []string{
		"tls: { domains: [b.example.com], certificates: [{ cert: a.pem, key: a.key }] }",
		"tls: { domains: [a.example.com], certificates: [{ cert: a.pem, key: b.key }] }",
		"tls: { domains: [a.example.com], certificates: [{ cert: a.pem, key: a.key }], redirect: false }",
		`tls: { domains: [a.example.com], certificates: [{ cert: a.pem, key: a.key }], redirect: ":81" }`,
		"tls: { domains: [a.example.com], certificates: [{ cert: a.pem, key: a.key }], min_version: 1.3 }",
		"tls: { domains: [a.example.com], certificates: [{ cert: a.pem, key: a.key }], client_ca: a.pem }",
		"tls: { domains: [a.example.com], certificates: [{ cert: a.pem, key: a.key }], storage: here }",
		"tls: { domains: [a.example.com], certificates: [{ cert: a.pem, key: a.key }], ca: staging }",
		"tls: { domains: [a.example.com], certificates: [{ cert: a.pem, key: a.key }], email: a@example.com }",
		"tls: { domains: [a.example.com] }",
		"",
	} {
		if a.TLS.Equal(parseTLS(t, other).TLS) {
			t.Errorf("equal to %q", other)
		}
	}
}

func TestSettingsOfTLSThatNothingNeedsAreWarnedOf(t *testing.T) {
	f := parseTLS(t, "tls: { certificates: [{ cert: a.pem, key: a.key }], email: a@example.com, storage: here }")
	var got []string
	for _, w := range f.Warnings {
		if strings.Contains(w.Msg, "tls") {
			got = append(got, w.Msg)
		}
	}
	want := []string{
		"email in tls without domains: no certificate is ordered",
		"storage in tls without domains: no certificate is ordered",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestARedirectToWhereNobodyListensIsWarnedOf(t *testing.T) {
	for lines, want := range map[string]bool{
		`listen: ":8080"` + "\ntls: { domains: [a.example.com] }":                      true,
		"tls: { domains: [a.example.com] }":                                            false,
		`listen: [":8443", ":443"]` + "\ntls: { domains: [a.example.com] }":            false,
		`listen: ":8443"` + "\ntls: { domains: [a.example.com], redirect: \":8080\" }": false,
		`listen: ":8443"` + "\ntls: { domains: [a.example.com], redirect: false }":     false,
	} {
		got := false
		for _, w := range parseTLS(t, lines).Warnings {
			got = got || w.Pos.Line == 1 && strings.Contains(w.Msg, "nothing listens there")
		}
		if got != want {
			t.Errorf("%s: warned %v, want %v", lines, got, want)
		}
	}
}

func TestOverlappingAddresses(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{":80", ":80", true}, {":80", "127.0.0.1:80", true}, {"[::]:80", "127.0.0.1:80", true}, {"0.0.0.0:80", "127.0.0.1:80", true},
		{"127.0.0.1:80", "127.0.0.2:80", false}, {":80", ":443", false}, {"127.0.0.1:0", "127.0.0.1:0", false},
	} {
		if got := overlap(c.a, c.b); got != c.want || overlap(c.b, c.a) != c.want {
			t.Errorf("overlap(%s, %s) = %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
