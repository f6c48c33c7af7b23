package rules

import (
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// tls reads how the public side is encrypted.
func (p *parser) tls(n *node) {
	c := p.section(n, partTLS, "tls", " in tls")
	c.check()
	t := &TLS{CA: productionCA, CAPublic: true, MinVersion: "1.2", Pos: p.posOf(n), Redirect: &Listen{Addr: ":" + httpPort, Pos: p.posOf(n)}}
	p.file.TLS = t
	if v := c.get("ca"); v != nil {
		p.certificateAuthority(v, t)
	}
	if v := c.get("domains"); v != nil {
		p.domains(v, t)
	}
	if v := c.get("certificates"); v != nil {
		p.certificates(v, t)
	}
	if c.lacks("domains") && c.lacks("certificates") {
		p.failAt(p.top.key("tls"), "add domains: [api.example.com], or certificates:", "tls without domains or certificates")
	}
	if v := c.get("email"); v != nil {
		p.email(v, t)
	}
	for _, f := range []struct {
		name string
		to   *FilePath
	}{{"ca_root", &t.CARoot}, {"client_ca", &t.ClientCA}, {"storage", &t.Storage}} {
		if v := c.get(f.name); v != nil {
			*f.to = p.filePath(v, f.name)
		}
	}
	if c.has("ca_root") && t.CAPublic {
		p.failAt(c.key("ca_root"), "name its directory: ca: https://ca.internal/acme/directory", "ca_root without a CA of your own in ca")
	}
	if v := c.get("redirect"); v != nil {
		p.redirectFrom(v, t)
	}
	if v := c.get("min_version"); v != nil {
		p.oneOf(v, "min_version", tlsVersions, &t.MinVersion)
	}
	p.clients(c, t)
	p.idle(c, t)
}

// idle warns of what a file without domains has no use for.
func (p *parser) idle(c *section, t *TLS) {
	if c.has("domains") || len(t.Certificates) == 0 {
		return
	}
	for _, name := range []string{"email", "ca", "ca_root", "storage"} {
		if key := c.key(name); key != nil {
			p.idleTLS = append(p.idleTLS, key)
		}
	}
}

func (p *parser) clients(c *section, t *TLS) {
	if v := c.get("client_auth"); v != nil {
		p.oneOf(v, "client_auth", clientAuths, &t.ClientAuth)
		if c.lacks("client_ca") {
			p.failAt(c.key("client_auth"), "add client_ca: with the authorities of your clients", "client_auth without client_ca")
		}
	} else if t.ClientCA.Path != "" {
		t.ClientAuth = "require"
	}
}

// certificateAuthority reads one of the words, or the URL of a directory.
func (p *parser) certificateAuthority(n *node, t *TLS) {
	text, ok := p.textLike(n, "ca", "production, staging or the URL of an ACME directory")
	if !ok {
		return
	}
	switch text {
	case "production":
		return
	case "staging":
		t.CA = stagingCA
		return
	}
	u, err := url.Parse(text)
	switch {
	case !strings.Contains(text, "://"):
		p.failAt(n, didYouMean(text, []string{"production", "staging"}), "ca %s: must be production, staging or the URL of an ACME directory", quote(text))
	case err != nil:
		p.failAt(n, "", "ca %s: not a URL: %s", quote(text), urlFault(err))
	case u.Scheme != "https":
		p.failAt(n, "write https://", "ca %s: a CA is spoken to over https", quote(text))
	case u.Hostname() == "" || u.User != nil || u.Fragment != "":
		p.failAt(n, "write it like https://ca.internal/acme/directory", "ca %s: not the URL of an ACME directory", quote(text))
	default:
		t.CA, t.CAPublic = text, false
	}
}

func (p *parser) domains(n *node, t *TLS) {
	if n.shape == sequence && len(n.items) == 0 {
		p.failAt(n, "name your hosts: [api.example.com]", "domains is empty")
	}
	first := map[string]Pos{}
	for _, item := range p.oneOrMore(n, "domains") {
		text, ok := p.textLike(item, "domains", "a host name like api.example.com")
		if !ok {
			continue
		}
		name, err := parseDomain(text, t.CAPublic)
		if err != nil {
			p.failText(item, "domain", err)
			continue
		}
		if pos, twice := first[name]; twice {
			p.failAt(item, "remove one", "domain %s is there twice; the first is at %s", quote(text), pos)
			continue
		}
		first[name] = p.posOf(item)
		t.Domains = append(t.Domains, name)
	}
}

var domainName = lazily(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// parseDomain reads the name of a host that a certificate can be ordered for;
// public says that the CA is one that the whole world believes.
func parseDomain(text string, public bool) (string, *TextError) {
	name := strings.ToLower(text)
	host, _, _ := strings.Cut(name, ":")
	_, notIP := netip.ParseAddr(strings.Trim(name, "[]"))
	switch {
	case strings.Contains(name, "*"):
		return "", whole(text, "a wildcard needs a DNS challenge, which the gateway does not do", "name each host, or give the certificate with certificates:")
	case notIP == nil:
		return "", whole(text, "an IP address; a certificate is ordered for a name", "give the certificate with certificates:")
	case strings.Contains(name, "://"):
		_, host, _ = strings.Cut(name, "://")
		host, _, _ = strings.Cut(host, "/")
		return "", whole(text, "a URL; a domain is a host name alone", "write "+host)
	case host != name && domainName().MatchString(host):
		return "", whole(text, "a domain has no port", "write "+host)
	case strings.HasSuffix(name, ".") && domainName().MatchString(name[:len(name)-1]):
		return "", whole(text, "a dot at its end", "write "+name[:len(name)-1])
	case strings.ContainsFunc(name, func(r rune) bool { return r > '~' }):
		return "", whole(text, "not in ASCII", "write it as DNS has it: xn--…")
	case !domainName().MatchString(name) || len(name) > 253:
		return "", whole(text, "not a host name", "write it like api.example.com")
	case public && !isPublicName(name):
		return "", whole(text, "no public CA issues for this name", "name your own CA in ca, or give the certificate with certificates:")
	}
	return name, nil
}

// isPublicName reports whether the name can be one of the public DNS.
func isPublicName(name string) bool {
	reserved := []string{"localhost", "local", "internal", "test", "invalid", "onion", "home.arpa"} // RFC 6761 and the like
	return strings.Contains(name, ".") && !slices.ContainsFunc(reserved, func(top string) bool { return strings.HasSuffix(name, "."+top) })
}

func (p *parser) email(n *node, t *TLS) {
	text, ok := p.textLike(n, "email", "an address like ops@example.com")
	if !ok {
		return
	}
	if a, err := mail.ParseAddress(text); err != nil || a.Address != text {
		p.failAt(n, "write it like ops@example.com", "email %s: not an e-mail address", quote(text))
		return
	}
	t.Email = text
}

// redirectFrom reads true, false, or the address that stands for port 80.
func (p *parser) redirectFrom(n *node, t *TLS) {
	if n.shape == scalar && n.word != wordText && n.word != wordQuoted {
		if !p.boolean(n, "redirect") {
			t.Redirect = nil
		}
		return
	}
	text, ok := p.textLike(n, "redirect", "true, false or an address like :80")
	if !ok {
		return
	}
	addr, err := parseAddress(text)
	if err != nil {
		p.failAt(n, "write true, false or an address like :80", "redirect %s: %s", quote(text), err.Msg)
		return
	}
	t.Redirect = &Listen{Addr: addr, Pos: p.posOf(n)}
}

func (p *parser) certificates(n *node, t *TLS) {
	if n.shape == sequence && len(n.items) == 0 {
		p.failAt(n, "add { cert: api.pem, key: api.key }", "certificates is empty")
	}
	for _, item := range p.list(n, "certificates") {
		c := p.section(item, partCertificate, "a certificate", " in a certificate")
		c.check()
		var pair CertificateFiles
		for _, f := range []struct {
			name string
			to   *FilePath
		}{{"cert", &pair.Cert}, {"key", &pair.Key}} {
			if v := c.get(f.name); v != nil {
				*f.to = p.filePath(v, f.name)
			} else if c.lacks(f.name) {
				p.failAt(item, "add "+f.name+": and the path of its file, in PEM", "a certificate without %s", f.name)
			}
		}
		t.Certificates = append(t.Certificates, pair)
	}
}

// listening gives the addresses their default, and reports those that the
// redirect to https needs.
func (p *parser) listening() {
	t := p.file.TLS
	if t == nil {
		return
	}
	if !p.top.has("listen") {
		p.file.Listen = []Listen{{Addr: ":443"}}
	}
	if len(p.file.Listen) > 0 && !slices.ContainsFunc(p.file.Listen, p.file.Secure) {
		p.failAt(p.top.key("listen"), `add ":443"`, "tls, but no address in listen speaks it")
	}
	if t.Redirect == nil {
		return
	}
	for i, item := range p.listens {
		if l := p.file.Listen[i]; overlap(l.Addr, t.Redirect.Addr) {
			p.failAt(item, "leave it out, or say redirect: false in tls", "listen %s: with tls, requests to %s are sent to https", quote(item.text), t.Redirect.Addr)
		}
	}
}

// warnTLS warns of a redirect to where nobody listens. An address other than :80
// is one that something else leads to, which then sees to port 443 as well.
func (p *parser) warnTLS() {
	t := p.file.TLS
	if t == nil || t.Redirect == nil || portOf(t.Redirect.Addr) != httpPort {
		return
	}
	if !slices.ContainsFunc(p.file.Listen, func(l Listen) bool { return portOf(l.Addr) == "443" || strings.HasPrefix(l.Addr, "systemd:") }) {
		p.warnAt(p.top.value("listen"), `add ":443" to listen`, "requests to %s are sent to https, port 443, and nothing listens there", t.Redirect.Addr)
	}
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}
