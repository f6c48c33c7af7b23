package rules

import "strings"

// upstream reads the shorthand: one URL, or a list of them.
func (p *parser) upstream(n *node) {
	u := defaultUpstream()
	u.Name, u.Pos = "default", p.posOf(n)
	if n.shape == mapping {
		p.failAt(n, "write it under upstreams: with a name", "upstream must be a URL or a list of them, not a map")
		return
	}
	u.Servers = p.servers(n, "upstream")
	p.file.Upstreams = append(p.file.Upstreams, u)
}

// upstreams reads the pools by name.
func (p *parser) upstreams(n *node) {
	if n.shape != mapping {
		p.wrongShape(n, "upstreams", "a map of names")
		return
	}
	if len(n.keys) == 0 {
		p.failAt(n, "", "upstreams is empty")
	}
	for i, key := range n.keys {
		u := defaultUpstream()
		u.Name, u.Pos = key.text, p.posOf(key)
		if !upstreamName().MatchString(key.text) {
			p.failAt(key, "a name is 1 to 63 letters, digits, -, _ and .", "upstream name %s: not a name", quote(key.text))
		}
		value, what := n.items[i], "upstream "+quote(key.text)
		switch {
		case value.isNull():
			p.failAt(key, "write its URL after it", "%s has no value", what)
		case value.shape == mapping:
			p.pool(value, what, &u)
		case value.shape != broken:
			u.Servers = p.servers(value, what)
		}
		p.file.Upstreams = append(p.file.Upstreams, u)
	}
}

// pool reads a pool written as a map.
func (p *parser) pool(n *node, what string, u *Upstream) {
	c := p.section(n, partUpstream, what, " in "+what)
	c.check()
	if v := c.get("servers"); v != nil {
		u.Servers = p.servers(v, "servers")
	} else if c.lacks("servers") {
		p.failAt(n, "add servers: [http://…]", "no servers in %s", what)
	}
	if v := c.get("balance"); v != nil {
		p.balance(v, u)
	}
	if v := c.get("health"); v != nil {
		u.Health = p.health(v)
	}
	if v := c.get("timeout"); v != nil {
		p.duration(v, "timeout", &u.Timeout)
	}
	if v := c.get("connect_timeout"); v != nil {
		p.duration(v, "connect_timeout", &u.ConnectTimeout)
	}
	if v := c.get("idle_timeout"); v != nil {
		p.duration(v, "idle_timeout", &u.IdleTimeout)
	}
	if v := c.get("host"); v != nil {
		p.oneOf(v, "host", hosts, &u.Host)
	}
	if v := c.get("transport"); v != nil {
		p.oneOf(v, "transport", transports, &u.Transport)
	}
	p.reach(c, u)
}

// servers reads a URL or a list of them.
func (p *parser) servers(n *node, what string) []Server {
	var servers []Server
	seen := map[string]bool{}
	if n.shape == sequence && len(n.items) == 0 {
		p.failAt(n, "", "%s: a list without a server", what)
	}
	const most = 10_000
	if len(n.items) > most && n.shape == sequence {
		p.failAt(n, "", "%s: a list of %d servers; the most is %d", what, len(n.items), most)
		return nil
	}
	backups := 0
	for _, item := range p.oneOrMore(n, what) {
		server := Server{Weight: 1}
		if item.shape == mapping {
			item = p.serverMap(item, &server)
		}
		if item == nil {
			continue
		}
		text, ok := p.textLike(item, what, "a URL")
		if !ok {
			continue
		}
		u, err := parseServer(text)
		if err != nil {
			p.failServer(item, what, text, err)
			continue
		}
		if seen[u.String()] {
			p.failAt(item, "remove one", "server %s is named twice", quote(text))
			continue
		}
		seen[u.String()] = true
		server.URL, server.Socket = u, socketOf(u)
		p.show(item)
		if server.Backup {
			backups++
		}
		servers = append(servers, server)
	}
	if backups > 0 && backups == len(servers) {
		p.failAt(n, "at least one server must not be a backup", "%s: every server is a backup", what)
	}
	return servers
}

// serverMap reads {url, weight, backup} and returns the value of url.
func (p *parser) serverMap(n *node, s *Server) *node {
	c := p.section(n, partServer, "a server", " in a server")
	c.check()
	if c.lacks("url") {
		p.failAt(n, "add url: http://…", "no url in a server")
	}
	if v := c.get("weight"); v != nil {
		if weight, ok := p.whole(v, "weight", 1, maxWeight); ok {
			s.Weight = int(weight)
		}
	}
	if v := c.get("backup"); v != nil {
		s.Backup = p.boolean(v, "backup")
	}
	return c.get("url")
}

// failServer reports a bad URL. What may hold a password is not repeated.
func (p *parser) failServer(n *node, what, text string, err *TextError) {
	if !strings.Contains(text, "@") {
		p.failText(n, what, err)
		return
	}
	msg, hint := n.origin.hide(what+": "+err.Msg, err.Hint)
	p.fail(n.line(), n.col(), 1, hint, "%s", msg).excerpt = ""
}
