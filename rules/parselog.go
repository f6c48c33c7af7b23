package rules

import (
	"net/http"
	"slices"
	"strings"
)

func (p *parser) log(n *node) {
	c := p.section(n, partLog, "log", " in log")
	c.check()
	l := &p.file.Log
	if v := c.get("level"); v != nil {
		p.oneOf(v, "level", logLevels, &l.Level)
	}
	if v := c.get("format"); v != nil {
		p.oneOf(v, "format", logFormats, &l.Format)
	}
	if v := c.get("access"); v != nil {
		p.oneOf(v, "access", logAccess, &l.Access)
	}
	if v := c.get("redact"); v != nil {
		for _, item := range p.oneOrMore(v, "redact") {
			p.redact(item)
		}
	}
}

// redact reads one thing that the access log is not to hold.
func (p *parser) redact(n *node) {
	text, ok := p.textLike(n, "redact", "an attribute like query.session")
	if !ok {
		return
	}
	a, err := ParseAttribute(text)
	switch {
	case err != nil:
		p.failText(n, "redact", err)
	case slices.Contains(p.file.Log.Redact, a):
		p.failAt(n, "remove one", "redact %s: it is there twice", quote(text))
	case a.kind == kindQuery && strings.Contains(a.name, "*"):
		p.failAt(n, "name each of them: query.session", "redact %s: a star is no wildcard here, and would hide nothing", quote(text))
	case a.kind == kindQuery, a.kind == kindPathName, a == referer, a == userAgent:
		p.file.Log.Redact = append(p.file.Log.Redact, a)
		p.redacted = append(p.redacted, n)
	case a.kind == kindHeader || a.kind == kindCookie || a.named():
		p.warnAt(n, "remove it", "redact %s: no line of the access log holds it", quote(text))
	default:
		p.failAt(n, "write query.<name>, path.<name>, header.Referer or header.User-Agent", "redact %s: it cannot be left out of the access log", quote(text))
	}
}

// The headers of a request that a line of the access log may hold.
var (
	referer   = Attribute{kind: kindHeader, name: http.CanonicalHeaderKey("referer")}
	userAgent = Attribute{kind: kindHeader, name: http.CanonicalHeaderKey("user-agent")}
)

// redactable reports a path.<name> to redact that no route and no rule names.
func (p *parser) redactable() {
	for i, a := range p.file.Log.Redact {
		if name := a.PathName(); name != "" && len(p.file.naming(name)) == 0 && !p.top.has("include") {
			p.failAt(p.redacted[i], "write a match with /:"+name+" in it", "redact path.%s: no route and no rule has a match with :%s in it", name, name)
		}
	}
}
