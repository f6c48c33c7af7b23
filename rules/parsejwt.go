package rules

import (
	"crypto/sha256"
	"path/filepath"
)

// jwt reads how tokens are verified.
func (p *parser) jwt(n *node) {
	c := p.section(n, partJWT, "jwt", " in jwt")
	c.check()
	j := &JWT{}
	for _, name := range settings[partJWT] {
		switch {
		case !c.has(name):
		case j.Setting != "":
			p.failAt(c.key(name), "keep one of the two; a jwks_file may hold keys of several kinds", "%s with %s in jwt", name, j.Setting)
			return
		default:
			j.Setting = name
		}
	}
	v := c.get(j.Setting)
	switch {
	case v == nil:
		if j.Setting == "" && n.shape == mapping && !n.partial && len(c.meant) == 0 {
			p.failAt(n, "write { jwks_file: keys.json }, { public_key_file: key.pem } or { secret: { file: … } }", "jwt: verified with what?")
		}
		return
	case j.Setting == "secret":
		j.Source = p.secret(v, "secret")
	default:
		j.Source = p.keyFile(v, j.Setting)
	}
	if j.Source.IsSet() && p.tokenKeys(j, v) {
		p.file.JWT = j
	}
}

// keyFile reads the file that v names.
func (p *parser) keyFile(v *node, what string) Secret {
	text, ok := p.textLike(v, what, "the path of a file")
	if !ok {
		return Secret{}
	}
	if text == "" {
		p.failAt(v, "", "%s is empty", what)
		return Secret{}
	}
	s := Secret{Source: "file", Pos: p.posOf(v), from: text}
	if !filepath.IsAbs(text) {
		s.from = filepath.Join(p.folder(), text)
	}
	if p.blind != nil {
		p.secretFiles = append(p.secretFiles, s.from)
		return Secret{}
	}
	value, _, err := s.read(p.outside)
	if err != nil {
		hint := err.Hint
		if hint != "" {
			hint = "put the keys into it"
		}
		p.failAt(v, hint, "%s %s: %s", what, quote(text), err.Msg)
		return Secret{}
	}
	s.value = &value
	return s
}

// tokenKeys reports whether keys can be made of what the source of j holds.
func (p *parser) tokenKeys(j *JWT, v *node) bool {
	text := j.Source.Reveal()
	j.sum = sha256.Sum256([]byte(j.Setting + "\x00" + text))
	_, err := j.keys()
	if err == nil {
		if j.Setting == "secret" && len(text) < goodSecret {
			p.warnAt(v, "openssl rand -hex 32 prints a good one", "the secret of jwt has %d bytes: below %d it can be guessed from a token", len(text), goodSecret)
		}
		return true
	}
	what := j.Setting
	if v.shape == scalar && what != "secret" {
		what += " " + quote(v.written())
	}
	p.failAt(v, err.Hint, "%s: %s", what, err.Msg)
	return false
}

// looksAt notes that something looks at an attribute, at n, and reports one that is a
// claim in a file that does not say how tokens are verified.
func (p *parser) looksAt(n *node, a Attribute) {
	if a.ofProxy() {
		p.ofProxies = append(p.ofProxies, n)
	}
	if a.kind != kindJWT {
		return
	}
	p.claimed = true
	if p.top.lacks("jwt") {
		p.failAt(n, "add jwt: { jwks_file: keys.json }, or public_key_file or secret", "%s, in a file without jwt: no token is verified", a)
	}
}
