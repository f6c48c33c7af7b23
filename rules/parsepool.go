package rules

import (
	"net/netip"
	"path/filepath"
	"slices"
	"time"
)

const (
	maxRetries = 10
	maxWeight  = 1000
	// minResolve is the least time between two look-ups of a name.
	minResolve = time.Second
)

// balance reads a word, or {hash: attribute}.
func (p *parser) balance(n *node, u *Upstream) {
	if n.shape != mapping {
		if n.shape == scalar && n.text == "hash" {
			p.failAt(n, "write { hash: ip }, or another attribute", "balance hash: of what?")
			return
		}
		p.oneOf(n, "balance", balances, &u.Balance)
		return
	}
	c := p.section(n, partBalance, "balance", " in balance")
	c.check()
	v := c.get("hash")
	if v == nil {
		if c.lacks("hash") {
			p.failAt(n, "write { hash: ip }, or another attribute", "no hash in balance")
		}
		return
	}
	text, ok := p.text(v, "hash")
	if !ok {
		return
	}
	a, err := ParseAttribute(text)
	switch {
	case err != nil:
		p.failText(v, "hash", err)
	case a.IsGlobal():
		p.failAt(v, "", "hash global: it is the same for every request, so one server would get them all")
	default:
		p.looksAt(v, a)
		u.Balance, u.Hash = "hash", a
		if p.hashes == nil {
			p.hashes = map[string]*node{}
		}
		p.hashes[u.Name] = v
	}
}

// hashNames reports a path.<name> that a pool hashes and that the match of a
// route to it does not have.
func (p *parser) hashNames() {
	pools := make(map[string]*Upstream, len(p.file.Upstreams))
	for i := range p.file.Upstreams {
		pools[p.file.Upstreams[i].Name] = &p.file.Upstreams[i]
	}
	for _, r := range p.file.Routes {
		u := pools[r.Upstream]
		if u == nil || u.Hash.PathName() == "" {
			continue
		}
		name := u.Hash.PathName()
		switch without, ok := r.Match.Captures(name); {
		case ok:
		case without == "":
			p.failAt(p.hashes[u.Name], "give it a match with /:"+name+" in it", "hash path.%s: the route at %s has no match with :%s in it", name, r.Pos, name)
		default:
			p.failAt(p.hashes[u.Name], "put :"+name+" into it", "hash path.%s: pattern %s of the route at %s has no :%s", name, quote(without), r.Pos, name)
		}
	}
}

// reach reads how a pool's servers are reached.
func (p *parser) reach(c *section, u *Upstream) {
	if v := c.get("retries"); v != nil {
		if n, ok := p.whole(v, "retries", 0, maxRetries); ok {
			u.Retries = int(n)
		}
	}
	if v := c.get("max_conns"); v != nil {
		if n, ok := p.whole(v, "max_conns", 0, 1_000_000); ok {
			u.MaxConns = int(n)
		}
	}
	if v := c.get("resolve"); v != nil {
		p.duration(v, "resolve", &u.Resolve)
		if u.Resolve != 0 && u.Resolve < minResolve {
			p.failAt(v, "", "resolve %s: must be 0, or at least %v", quote(v.text), minResolve)
		}
	}
	if v := c.get("tls"); v != nil {
		p.upstreamTLS(v, &u.TLS)
		secure := func(s Server) bool { return s.URL.Scheme == "https" }
		if len(u.Servers) > 0 && !slices.ContainsFunc(u.Servers, secure) {
			p.failAt(c.key("tls"), "write https:// in its servers", "tls%s, which has no https server", c.where)
		}
	}
}

// upstreamTLS reads {ca, server_name, cert, key, insecure}.
func (p *parser) upstreamTLS(n *node, t *UpstreamTLS) {
	c := p.section(n, partUpstreamTLS, "tls", " in tls")
	c.check()
	for _, f := range []struct {
		name string
		to   *FilePath
	}{{"ca", &t.CA}, {"cert", &t.Cert}, {"key", &t.Key}} {
		if v := c.get(f.name); v != nil {
			*f.to = p.filePath(v, f.name)
		}
	}
	for _, pair := range [][2]string{{"cert", "key"}, {"key", "cert"}} {
		if c.has(pair[0]) && c.lacks(pair[1]) {
			p.failAt(c.key(pair[0]), "add "+pair[1]+":", "%s without %s", pair[0], pair[1])
		}
	}
	if v := c.get("server_name"); v != nil {
		if text, ok := p.textLike(v, "server_name", "a host name"); ok {
			if _, err := netip.ParseAddr(text); err != nil && !hostName().MatchString(text) {
				p.failAt(v, "", "server_name %s: neither a name nor an IP address", quote(text))
			}
			t.ServerName = text
		}
	}
	if v := c.get("insecure"); v != nil {
		t.Insecure = p.boolean(v, "insecure")
		if t.Insecure && c.has("ca") {
			p.failAt(v, "remove one of the two", "insecure with ca: no certificate would be checked against it")
		}
		if t.Insecure {
			p.insecure = append(p.insecure, v)
		}
	}
}

// filePath reads the path of another file. It does not look at that file.
func (p *parser) filePath(n *node, what string) FilePath {
	text, ok := p.textLike(n, what, "the path of a file")
	if !ok {
		return FilePath{}
	}
	if text == "" {
		p.failAt(n, "", "%s: no path", what)
		return FilePath{}
	}
	at := p.report(n.line(), n.col(), p.width(n), "", "")
	f := FilePath{Path: text, Pos: at.Pos, Len: at.Len, excerpt: at.excerpt, caret: at.caret}
	if !filepath.IsAbs(text) {
		f.Path = filepath.Join(p.folder(), text)
	}
	if n.origin != nil {
		f.origin = &origin{written: n.origin.written, text: f.Path, names: n.origin.names}
	}
	return f
}
