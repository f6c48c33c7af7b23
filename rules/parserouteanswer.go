package rules

import (
	"net/url"
	"slices"
	"strings"
)

// rewrite reads the path that an upstream gets instead of the client's.
func (p *parser) rewrite(v *node, r *RouteSpec) {
	text, ok := p.text(v, "rewrite")
	if !ok {
		return
	}
	t := parseTemplate(text)
	e := p.captured(t, r.Match)
	switch {
	case text == "" || text[0] != '/':
		e = &TextError{Len: len(text), Msg: `the path does not begin with "/"`, Hint: "write /" + text}
	case e == nil:
		e = plainPath(t)
	}
	if e != nil {
		p.failText(v, "rewrite", e)
		return
	}
	r.Rewrite = t
}

// captured checks that each pattern of a match has what the placeholders name.
func (p *parser) captured(t Template, m *Match) *TextError {
	off := 0
	for _, part := range t.parts {
		if !part.place {
			off += len(part.text)
			continue
		}
		e := &TextError{Off: off, Len: len(part.text) + len("{}")}
		off += e.Len
		name, ok := strings.CutPrefix(part.text, "path.")
		if !ok || badName(name) >= 0 {
			e.Msg, e.Hint = "unknown placeholder {"+part.text+"}", "use {path.<name>}, or {path.rest} for what ** takes"
			return e
		}
		switch without, all := m.Captures(name); {
		case all, name == restName && m.endsOpen(&without):
		case name == restName:
			e.Msg, e.Hint = "{path.rest} is what ** takes, and the route has no match that ends in it", "write a match like /old/**"
			if without != "" {
				e.Msg, e.Hint = "{path.rest} is what ** takes, and pattern "+quote(without)+" does not end in it", "end each pattern in **"
			}
			return e
		case without == "":
			e.Msg, e.Hint = "the route has no match with :"+name+" in it", "write a match with /:"+name+" in it"
			return e
		default:
			e.Msg, e.Hint = "pattern "+quote(without)+" has no :"+name, "put :"+name+" into each pattern"
			return e
		}
	}
	return nil
}

// endsOpen reports whether every alternative of m ends in "**" or has a segment
// of its name; if not, without is the pattern that does neither.
func (m *Match) endsOpen(without *string) bool {
	if m == nil {
		return false
	}
	for i := range m.Any {
		paths := m.Any[i].paths()
		if len(paths) == 0 {
			*without = ""
			return false
		}
		for _, p := range paths {
			if (!p.rest || p.re != nil) && !slices.Contains(p.names, restName) {
				*without = p.text
				return false
			}
		}
	}
	return true
}

// plainPath checks the text around the placeholders of a path.
func plainPath(t Template) *TextError {
	text := t.text
	for _, stand := range []string{"", "x"} { // what placeholders may come to
		path := t.fill(func(string) string { return stand })
		if i := strings.IndexAny(path, "?#{}<>\\^`\"| \t"); i >= 0 {
			at := max(0, strings.IndexByte(text, path[i]))
			switch path[i] {
			case '?':
				return &TextError{Off: at, Len: len(text) - at, Msg: "a path has no query", Hint: "leave it out: the client's query stays as it is"}
			case '{', '}':
				return &TextError{Off: at, Len: 1, Msg: "a brace that begins no placeholder", Hint: "write {path.<name>}"}
			}
			return &TextError{Off: at, Len: 1, Msg: "a path holds no " + quote(path[i:i+1]), Hint: "write it " + escapePath(path[i:i+1])}
		}
		switch folded, err := ReadPath(path); {
		case err != nil:
			return &TextError{Len: len(text), Msg: err.Error()}
		case folded.Dots:
			return &TextError{Len: len(text), Msg: "a dot segment", Hint: "write the path without it"}
		}
	}
	return nil
}

// ownAnswer reads what the gateway itself answers on a route.
func (p *parser) ownAnswer(c *section, r *RouteSpec, where string) {
	if v := c.get("redirect"); v != nil {
		p.redirect(v, r, where)
	}
	if v := c.get("respond"); v != nil {
		p.respond(v, r, where)
	}
}

var redirects = []int64{301, 302, 303, 307, 308}

// redirect reads where clients are sent.
func (p *parser) redirect(n *node, r *RouteSpec, where string) {
	c := p.section(n, partRedirect, "redirect", " in redirect"+strings.Replace(where, " in ", " of ", 1))
	c.check()
	to := &Redirect{Status: 308}
	r.Redirect = to
	if v := c.get("status"); v != nil {
		if status, ok := p.whole(v, "status", 100, 599); ok && !slices.Contains(redirects, status) {
			p.failAt(v, "use 301, 302, 303, 307 or 308", "status %d: no redirect", status)
		} else if ok {
			to.Status = int(status)
		}
	}
	v := c.get("to")
	if v == nil {
		if c.lacks("to") {
			p.failAt(n, "add to: /new", "no to in redirect%s", strings.Replace(where, " in ", " of ", 1))
		}
		return
	}
	text, ok := p.text(v, "to")
	if !ok {
		return
	}
	to.To = parseTemplate(text)
	e := target(text)
	if e == nil {
		e = p.captured(to.To, r.Match)
	}
	if e != nil {
		p.failText(v, "to", e)
	}
}

// target checks where a redirect leads. The host must be written out: were it
// put together of what a client sent, anybody could make links to this gateway
// that lead anywhere.
func target(text string) *TextError {
	all := &TextError{Len: len(text)}
	plain := parseTemplate(text).fill(func(string) string { return "x" })
	if i := strings.IndexFunc(plain, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", r) }); i >= 0 {
		all.Msg, all.Hint = "a URL holds no "+quote(string([]rune(plain[i:])[0])), "write it as a percent code"
		return all
	}
	if strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") {
		return nil
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		all.Msg, all.Hint = "neither a path nor a URL", "write /path or https://host/path"
		return all
	}
	host := rest[:strings.IndexAny(rest+"/", "/?#")]
	if at := strings.IndexByte(host, '{'); at >= 0 {
		return &TextError{
			Off: len(scheme) + len("://") + at, Len: len(host) - at, Msg: "the host of a redirect cannot be filled in",
			Hint: "write it out: else anybody could make links to this gateway that lead anywhere",
		}
	}
	if u, err := url.Parse(plain); err != nil || u.Hostname() == "" || u.User != nil {
		all.Msg, all.Hint = "not a URL", "write https://host/path"
		return all
	}
	return nil
}

// respond reads a fixed answer.
func (p *parser) respond(n *node, r *RouteSpec, where string) {
	where = " in respond" + strings.Replace(where, " in ", " of ", 1)
	c := p.section(n, partRespond, "respond", where)
	c.check()
	a := &Respond{Status: 200}
	r.Respond = a
	if v := c.get("status"); v != nil {
		if status, ok := p.whole(v, "status", 200, 599); ok {
			a.Status = int(status)
		}
	}
	if v := c.get("body"); v != nil {
		if text, ok := p.longText(v, "body", "text"); ok {
			a.Body, a.ContentType = text, "text/plain; charset=utf-8"
			if text != "" && (a.Status == 204 || a.Status == 205 || a.Status == 304) {
				p.failAt(v, "remove it", "body with status %d, which has none", a.Status)
			}
		}
	}
	if v := c.get("content_type"); v != nil {
		if text, ok := p.text(v, "content_type"); ok {
			p.contentType(v, text, c.has("body"), "no type is sent without one", &a.ContentType)
		}
	}
}
