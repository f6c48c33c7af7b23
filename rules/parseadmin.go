package rules

import "strings"

// minToken is the least length of a token that nobody guesses.
const minToken = 16

// admin reads an address, off, or {listen, token}.
func (p *parser) admin(n *node) {
	at, needed := n, true
	p.file.Admin.Pos = p.posOf(n)
	if n.shape == mapping {
		c := p.section(n, partAdmin, "admin", " in admin")
		c.check()
		if v := c.get("token"); v != nil {
			p.file.Admin.Token = p.secret(v, "token")
			p.token(v)
		}
		needed = c.lacks("token")
		if at = c.get("listen"); at == nil {
			p.apart(n)
			return
		}
	}
	text, ok := p.textLike(at, "admin", "an address like 127.0.0.1:9900")
	if !ok {
		return
	}
	if text == "off" {
		p.file.Admin = Admin{Off: true, Pos: p.posOf(at)}
		return
	}
	addr, err := parseAddress(text)
	switch {
	case err != nil && at.word == wordBool:
		p.failAt(at, "write an address, or off", "admin %s: not an address", quote(text))
	case err != nil && digitsOnly().MatchString(text):
		p.failAt(at, "write 127.0.0.1:"+text, "admin %s: a port alone", quote(text))
	case err != nil:
		p.failText(at, "admin", err)
	case strings.HasPrefix(addr, "systemd:"):
		p.failAt(at, "use 127.0.0.1:9900, or unix: and a path", "admin %s: the admin listener binds its own address", quote(text))
	case !loopback(addr) && needed:
		p.failAt(at, `write { listen: "`+addr+`", token: { file: … } }, or 127.0.0.1:9900`, "admin %s: other machines reach it; that needs a token", quote(text))
	default:
		p.show(at)
		p.file.Admin.Addr, p.file.Admin.Pos = addr, p.posOf(at)
		p.apart(at)
	}
}

// apart reports that the admin listener, which is set at n, has the address of a
// public one.
func (p *parser) apart(n *node) {
	addr := p.file.Admin.Addr
	for _, l := range p.file.Listen {
		if l.Addr == addr && !strings.HasSuffix(addr, ":0") { // port 0 is any free one
			p.failAt(n, "use another address", "admin %s: the public listener at %s has this address", quote(addr), l.Pos)
		}
	}
	if t := p.file.TLS; t != nil && t.Redirect != nil && overlap(t.Redirect.Addr, addr) {
		p.failAt(n, "use another port", "admin %s: with tls, requests to %s are sent to https", quote(addr), t.Redirect.Addr)
	}
}

// token checks that the admin token, which n names, can be sent in a header and
// not be guessed.
func (p *parser) token(n *node) {
	token := p.file.Admin.Token
	switch text := token.Reveal(); {
	case !token.IsSet():
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		p.failAt(n, "make one with: openssl rand -hex 32", "token holds a space, a line break or what is not ASCII")
	case len(text) < minToken:
		p.warnAt(n, "make one with: openssl rand -hex 32", "token is shorter than %d characters: it can be guessed", minToken)
	}
}
