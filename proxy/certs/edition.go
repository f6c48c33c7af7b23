package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"

	"gateway/rules"
)

// challengeProtocol is what a CA negotiates in a TLS-ALPN-01 challenge (RFC 8737).
const challengeProtocol = "acme-tls/1"

// edition is one version of `tls`. It is immutable but for the book, which follows
// the files, and for what Commit adds before the first handshake.
type edition struct {
	m       *Manager
	spec    *rules.TLS
	domains map[string]bool
	where   challengePlaces
	clients [sha256.Size]byte // sums of client_ca and ca_root
	roots   [sha256.Size]byte

	config *tls.Config
	book   atomic.Pointer[book]

	// With domains only.
	storage *storage
	caPool  *x509.CertPool
	acme    *certmagic.Config
	offline *certmagic.Config // the same, but that it asks nobody anything
	issuer  *certmagic.ACMEIssuer
	tries   histories
}

// challengePlaces are the addresses at which challenges come in; "" is none.
type challengePlaces struct{ http, alpn string }

func placesOf(f *rules.File) challengePlaces {
	var p challengePlaces
	for _, l := range f.Listen {
		switch {
		case f.Secure(l) && p.alpn == "":
			p.alpn = l.Addr
		case !f.Secure(l) && !strings.HasPrefix(l.Addr, "unix:"):
			p.http = l.Addr
		}
	}
	if f.TLS.Redirect != nil {
		p.http = f.TLS.Redirect.Addr
	}
	return p
}

// aead are the suites of TLS 1.2 whose encryption nobody has found fault with. Those
// of TLS 1.3 are all of that kind.
var aead = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// makeConfig makes the tls.Config of the edition.
func (ed *edition) makeConfig(clients *x509.CertPool) {
	least := uint16(tls.VersionTLS12)
	if ed.spec.MinVersion == "1.3" {
		least = tls.VersionTLS13
	}
	c := &tls.Config{
		MinVersion: least, CipherSuites: aead,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: ed.certificate,
		ClientCAs:      clients,
	}
	switch ed.spec.ClientAuth {
	case "require":
		c.ClientAuth = tls.RequireAndVerifyClientCert
	case "request":
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	if len(ed.domains) > 0 {
		// A CA has no client certificate to show, and nothing follows its handshake.
		challenge := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{challengeProtocol}, GetCertificate: ed.answer}
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if isChallenge(hello) {
				return challenge, nil
			}
			return nil, nil
		}
	}
	ed.config = c
}

func isChallenge(hello *tls.ClientHelloInfo) bool {
	return len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == challengeProtocol
}

// answer returns the certificate that a CA wants to see in a challenge of its own.
func (ed *edition) answer(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if !ed.domains[strings.ToLower(hello.ServerName)] {
		return nil, nil // which ends the handshake
	}
	return ed.acme.GetCertificate(hello)
}

// certificate returns the certificate for a handshake; none ends it with the alert
// unrecognized_name.
func (ed *edition) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	now := time.Now()
	name := strings.TrimSuffix(strings.ToLower(hello.ServerName), ".")
	b := ed.book.Load()
	var managed *tls.Certificate
	if ed.domains[name] {
		if managed = ed.managed(name); managed != nil && !now.After(managed.Leaf.NotAfter) {
			return managed, nil
		}
	}
	found := b.named(name)
	if name == "" {
		if found = b.unnamed(hello); len(found) == 0 && len(ed.spec.Domains) > 0 {
			return ed.managed(ed.spec.Domains[0]), nil
		}
	}
	if e := choose(found, hello, now); e != nil {
		return ed.m.stapled(e), nil
	}
	return managed, nil
}

// managed returns the newest certificate of the CA for a domain, or nil.
func (ed *edition) managed(domain string) *tls.Certificate {
	if c := ed.newest(domain); c != nil {
		return &c.Certificate
	}
	return nil
}

func (ed *edition) newest(domain string) *certmagic.Certificate {
	cache := ed.m.cache.Load()
	if cache == nil {
		return nil
	}
	var best *certmagic.Certificate
	for _, c := range cache.AllMatchingCertificates(domain) {
		if !c.HasTag(fromFile) && c.Leaf != nil && (best == nil || c.Leaf.NotBefore.After(best.Leaf.NotBefore)) {
			best = &c
		}
	}
	return best
}

// knows reports whether there may be a certificate for the host.
func (ed *edition) knows(host string) bool {
	return ed.domains[host] || ed.book.Load().named(strings.Trim(host, "[]")) != nil
}

// manage makes what certmagic needs for the domains. at returns the address really
// listened on for one of the file.
func (ed *edition) manage(at func(string) string) {
	if len(ed.domains) == 0 {
		return
	}
	c := certmagic.Config{
		Storage: ed.storage, Logger: ed.m.zap,
		DisableStorageCheck: true, // we look before each order, not only before the first
		OnEvent:             ed.m.event,
		ShouldEmitFunc:      func(name string) bool { return name != "tls_get_certificate" }, // each handshake
		OCSP:                certmagic.OCSPConfig{HTTPProxy: http.ProxyFromEnvironment},      // with it, an answer has 30 s
	}
	cache := ed.m.openCache()
	ed.acme = certmagic.New(cache, c)
	host, alpnPort := split(at(ed.where.alpn))
	httpHost, httpPort := split(at(ed.where.http))
	if host == "" {
		host = httpHost
	}
	ed.issuer = certmagic.NewACMEIssuer(ed.acme, certmagic.ACMEIssuer{
		CA: ed.spec.CA, Email: ed.spec.Email, Agreed: true, TrustedRoots: ed.caPool, Logger: ed.m.zap,
		// Where it would listen if nobody did: so it finds us there.
		ListenHost: host, AltHTTPPort: httpPort, AltTLSALPNPort: alpnPort,
		DisableHTTPChallenge: ed.where.http == "", DisableTLSALPNChallenge: ed.where.alpn == "",
	})
	ed.acme.Issuers = []certmagic.Issuer{ed.issuer}
	c.OCSP.HTTPProxy = noProxy
	ed.offline = certmagic.New(cache, c)
	ed.offline.Issuers = ed.acme.Issuers
	ed.tries = histories{ed.storage, ed.issuer.IssuerKey()}
}

func split(addr string) (host string, port int) {
	host, text, _ := net.SplitHostPort(addr)
	port, _ = strconv.Atoi(text)
	return host, port
}
