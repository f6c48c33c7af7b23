package rules

import (
	"net"
	"slices"
	"strings"
)

// Directories of the CA that the words of `ca` stand for.
const (
	productionCA = "https://acme-v02.api.letsencrypt.org/directory"
	stagingCA    = "https://acme-staging-v02.api.letsencrypt.org/directory"
)

// TLS says how the public side is encrypted. It has Domains or Certificates, or
// both.
type TLS struct {
	// Domains are the host names that a certificate is ordered for, in lower case,
	// each once.
	Domains []string
	// Email is the contact of the account with the CA; or "".
	Email string
	// CA is the URL of the CA's ACME directory; CAPublic says that it is one of
	// the words, whose CA issues for public names only.
	CA       string
	CAPublic bool
	// CARoot holds the authorities by which the CA's own certificate is checked
	// instead of the system's.
	CARoot FilePath
	// Storage is the folder that holds keys, certificates and the account; ""
	// leaves the choice to the environment.
	Storage FilePath
	// Redirect is the address from which plain requests are sent to https; nil is
	// none. ACME's HTTP-01 challenges are answered there.
	Redirect *Listen
	// Certificates are pairs of files, in the order of the file.
	Certificates []CertificateFiles
	// ClientCA holds the authorities that clients' certificates must be from; ""
	// asks no client for one. ClientAuth is then "require", or "request", which
	// lets clients without one in.
	ClientCA   FilePath
	ClientAuth string
	// MinVersion is "1.2" or "1.3".
	MinVersion string
	// Pos is where the setting begins.
	Pos Pos
}

// CertificateFiles are the files of one certificate and its key, in PEM.
type CertificateFiles struct{ Cert, Key FilePath }

// Equal reports whether t and u mean the same, wherever in the file they stand.
// What the files hold is not looked at. Both may be nil.
func (t *TLS) Equal(u *TLS) bool {
	if t == nil || u == nil {
		return t == u
	}
	same := func(a, b CertificateFiles) bool { return a.Cert.Path == b.Cert.Path && a.Key.Path == b.Key.Path }
	return slices.Equal(t.Domains, u.Domains) && t.Email == u.Email && t.CA == u.CA &&
		t.CARoot.Path == u.CARoot.Path && t.Storage.Path == u.Storage.Path &&
		t.Redirect.address() == u.Redirect.address() &&
		slices.EqualFunc(t.Certificates, u.Certificates, same) &&
		t.ClientCA.Path == u.ClientCA.Path && t.ClientAuth == u.ClientAuth && t.MinVersion == u.MinVersion
}

func (l *Listen) address() string {
	if l == nil {
		return ""
	}
	return l.Addr
}

// httpPort is the port on which browsers and CAs speak plain HTTP.
const httpPort = "80"

// Secure reports whether l, one of f.Listen, speaks TLS: with `tls` every address
// does but port 80, on which nobody speaks it, systemd's socket of the name http, and
// unix sockets.
func (f *File) Secure(l Listen) bool {
	return f.TLS != nil && !strings.HasPrefix(l.Addr, "unix:") && portOf(l.Addr) != httpPort && l.Addr != "systemd:http"
}

// overlap reports whether two addresses cannot both be listened on.
func overlap(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	every := func(host string) bool { return host == "" || host == "0.0.0.0" || host == "::" }
	return portA == portB && portA != "0" && (hostA == hostB || every(hostA) || every(hostB))
}
