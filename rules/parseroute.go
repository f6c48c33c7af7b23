package rules

import "strconv"

// routes reads the list of routes.
func (p *parser) routes(n *node) {
	items := p.list(n, "routes")
	if n.shape == sequence && len(n.items) == 0 {
		p.failAt(n, "remove it, or add - upstream: …", "routes is empty: no request would go anywhere")
	}
	var names []string
	known := map[string]bool{}
	for _, u := range p.file.Upstreams {
		names, known[u.Name] = append(names, u.Name), true
	}
	for i, item := range items {
		where := " in route " + strconv.Itoa(i+1)
		c := p.section(item, partRoute, "a route", where)
		c.check()
		if item.shape != mapping {
			continue
		}
		r := RouteSpec{Name: "/**", Pos: p.posOf(item)}
		if v := c.get("match"); v != nil {
			r.Match, r.Name = p.match(v, "match"), matchText(v)
			if v.shape == sequence && len(v.items) == 0 {
				p.failAt(v, "leave it out to take every request", "match: an empty list matches nothing")
			}
		}
		if v := c.get("priority"); v != nil {
			p.priority(v, &r.Priority)
		}
		if v := c.get("max_body"); v != nil {
			p.size(v, "max_body", &r.MaxBody, 1, 1<<50)
		}
		if v := c.get("headers"); v != nil {
			p.routeHeaders(v, &r, where)
		}
		p.ownAnswer(c, &r, where)
		if p.answersItself(c, where) {
			p.file.Routes = append(p.file.Routes, r)
			continue
		}
		p.routePath(c, &r, where)
		if v := c.get("timeout"); v != nil {
			if p.duration(v, "timeout", &r.Timeout); r.Timeout == 0 {
				r.Timeout = -1 // none, where not to say it is the upstream's
			}
		}
		p.routeUpstream(c, &r, where, names, known)
		p.file.Routes = append(p.file.Routes, r)
	}
}

// answersItself reports whether the gateway itself answers a route, and reports
// what makes no sense then.
func (p *parser) answersItself(c *section, where string) bool {
	answer := ""
	for _, name := range []string{"redirect", "respond"} {
		switch {
		case !c.has(name):
		case answer != "":
			p.failAt(c.key(name), "remove one", "%s beside %s%s: a route has one answer", name, answer, where)
		default:
			answer = name
		}
	}
	if answer == "" {
		return false
	}
	if c.has("upstream") {
		p.failAt(c.key("upstream"), "remove one", "upstream beside %s%s: a route has one answer", answer, where)
	}
	for _, name := range []string{"strip_prefix", "rewrite", "timeout"} {
		if c.has(name) {
			p.failAt(c.key(name), "remove it", "%s beside %s%s: nothing goes to an upstream", name, answer, where)
		}
	}
	if v := c.get("headers"); v != nil {
		if key := v.key("request"); key != nil {
			p.failAt(key, "remove it", "headers of the request beside %s%s: nothing goes to an upstream", answer, where)
		}
	}
	return true
}

// routePath reads what path the upstream gets.
func (p *parser) routePath(c *section, r *RouteSpec, where string) {
	if v := c.get("strip_prefix"); v != nil {
		p.stripPrefix(v, r)
	}
	if v := c.get("rewrite"); v != nil {
		if c.has("strip_prefix") {
			p.failAt(c.key("rewrite"), "write the path that is left as {path.rest}", "rewrite beside strip_prefix%s", where)
		}
		p.rewrite(v, r)
	}
}

// routeUpstream reads the name of a route's pool. Where there is only one pool
// it need not be named.
func (p *parser) routeUpstream(c *section, r *RouteSpec, where string, names []string, known map[string]bool) {
	if !c.has("upstream") {
		p.homeless = p.homeless || len(names) == 0
		if len(names) == 1 {
			r.Upstream = names[0]
		} else if len(names) > 1 && c.lacks("upstream") {
			p.failAt(c.node, "add upstream: "+list(names[:min(3, len(names))]), "no upstream%s", where)
		}
		return
	}
	v := c.get("upstream")
	if v == nil {
		return
	}
	text, ok := p.text(v, "upstream")
	if !ok {
		return
	}
	r.Upstream = text
	if !known[text] && !p.incomplete {
		hint := didYouMean(text, names[:min(100, len(names))])
		if _, err := parseServer(text); err == nil {
			hint = "give the URL a name under upstreams: and write the name here"
		}
		p.failAt(v, hint, "unknown upstream %s%s", quote(text), where)
	}
}

// stripPrefix reads a path without wildcards.
func (p *parser) stripPrefix(v *node, r *RouteSpec) {
	text, ok := p.text(v, "strip_prefix")
	if !ok {
		return
	}
	normal, err := NormalPath(text)
	switch {
	case text == "" || text[0] != '/':
		p.failAt(v, "write /"+text, "strip_prefix %s: must begin with /", quote(text))
	case err != nil:
		p.failAt(v, "", "strip_prefix %s: %v", quote(text), err)
	case normal == "/":
		p.failAt(v, "remove it", "strip_prefix %s cuts nothing", quote(text))
	case hasWildcard(text):
		p.failAt(v, "write a plain path, like /api", "strip_prefix %s: a prefix takes no *, : or ?", quote(text))
	default:
		r.StripPrefix = normal
	}
}

func hasWildcard(path string) bool {
	for i, c := range path {
		if c == '*' || c == '?' || c == '#' || c == ':' && path[i-1] == '/' {
			return true
		}
	}
	return false
}
