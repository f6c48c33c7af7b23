package rules

import (
	"fmt"
	"slices"
	"time"
)

// warnings adds what can be used but is seldom meant. It is called on a file
// without errors.
func (p *parser) warnings() {
	p.warnProxies()
	p.warnRoutes()
	for _, n := range p.insecure {
		p.warnAt(n, "name its authority in ca", "insecure: whoever is between the gateway and the server can pass for the server")
	}
	p.warnTLS()
	for _, key := range p.idleTLS {
		p.warnAt(key, "remove it, or add domains", "%s in tls without domains: no certificate is ordered", key.text)
	}
	if p.file.Timeouts.ReadHeader == 0 {
		p.warnAt(p.top.values["timeouts"].named("read_header"), "", "read_header 0: slow clients hold connections for ever")
	}
	if m := p.file.Exempt; m != nil && m.Everything() {
		p.warnAt(p.top.values["exempt"], "", "exempt matches every request: no rule applies to anything")
	}
	if len(p.file.Rules) == 0 {
		p.warnAt(p.top.values["rules"], "", "no rules: every request passes")
	}
	for i := range p.file.Rules {
		r := &p.file.Rules[i]
		p.rule = r.Name
		p.warnRule(r)
		p.rule = ""
	}
}

func (p *parser) warnAt(n *node, hint, format string, args ...any) {
	p.warn(p.posOf(n), p.width(n), hint, format, args...)
}

func (p *parser) warnProxies() {
	v4, v6 := p.file.TrustedProxies.Covers()
	if v4 || v6 {
		p.warnAt(p.top.values["trusted_proxies"], "list only your own proxies",
			"trusted_proxies takes in every address: any client can choose the address it is counted by")
	}
	if !p.file.TrustedProxies.Empty() || slices.ContainsFunc(p.file.Listen, func(l Listen) bool { return !l.private() }) {
		return
	}
	for i := range p.file.Rules {
		if r := &p.file.Rules[i]; r.byAddress() {
			p.rule = r.Name
			p.warn(r.KeyPos, 1, "name the proxy in trusted_proxies",
				"key ip, while every listener is private and trusted_proxies is empty: behind a load balancer all clients would share one counter")
			p.rule = ""
			return
		}
	}
}

func (p *parser) warnRoutes() {
	used := map[string]bool{}
	catchAll := false
	for i, r := range p.file.Routes {
		used[r.Upstream] = true
		catchAll = catchAll || r.Match.Everything()
		for _, earlier := range p.file.Routes[:i] {
			if p.covers(earlier.Match, r.Match, false) {
				p.warn(r.Pos, 1, "put it before that one", "this route is never reached: the one at %s takes all its requests", earlier.Pos)
				break
			}
		}
	}
	if v := p.top.values["routes"]; v != nil && !catchAll {
		p.warnAt(p.top.keys["routes"], "a last route without match takes the rest", "no route takes everything: other requests are answered 404")
	}
	for _, u := range p.file.Upstreams {
		if !used[u.Name] {
			p.warn(u.Pos, len(u.Name), "", "no route leads to upstream %s", quote(u.Name))
		}
	}
}

// covers reports whether every request that n takes is taken by m too. A very
// large file gets fewer warnings rather than slow ones: once much has been
// compared the answer is tired.
func (p *parser) covers(m, n *Match, tired bool) bool {
	const most = 1_000_000
	if p.compared > most {
		return tired
	}
	work := (1 + m.alternatives()) * (1 + n.alternatives())
	if p.compared += work; p.compared > most {
		return tired
	}
	return m.Covers(n)
}

// alternatives returns how many patterns, hosts and values m has, about.
func (m *Match) alternatives() int {
	if m == nil {
		return 0
	}
	n := len(m.Any)
	for _, c := range m.Any {
		n += len(c.Paths) + len(c.Methods) + len(c.Hosts)
		for _, is := range c.Values {
			n += len(is.Globs)
		}
	}
	return n
}

func (p *parser) warnRule(r *RuleSpec) {
	chosen := slices.ContainsFunc(r.Key, Attribute.ClientChosen)
	global := !slices.ContainsFunc(r.Key, func(a Attribute) bool { return !a.IsGlobal() })
	shorter := func(o *RuleSpec) bool { return o.Algorithm != concurrency && o.Rate.Period < time.Hour }
	p.warnAlgorithm(r)
	if r.Rate.Period >= time.Hour && !r.BurstGiven && r.Rate.Permits > 1 && !p.covered(r, shorter) {
		p.warn(r.LimitPos, len(r.Limit), "add a burst, or a rule with a shorter period",
			"all %d of %s may come in one second: a long period without burst, and no shorter rule on the same requests", r.Rate.Permits, r.Limit)
	}
	if chosen && !p.covered(r, func(o *RuleSpec) bool { return o.bounds() }) {
		p.warn(r.KeyPos, 1, "add a rule with key: ip",
			"the client chooses %s, so it can have as many counters as it likes: no rule with key ip or global is on the same requests", NewRecipe(r.Key, r.Missing, 0))
	}
	if chosen && r.Missing.Skips() && !p.covered(r, func(o *RuleSpec) bool { return !o.skips() }) {
		p.warn(r.KeyPos, 1, "add a rule for them, or use missing: ip",
			"missing: skip, and no other rule is on the same requests: without %s they are not limited at all", NewRecipe(r.Key, r.Missing, 0))
	}
	if global && !p.covered(r, func(o *RuleSpec) bool { return o.perClient() }) {
		p.warn(r.KeyPos, 1, "add a rule with key: ip", "one counter for all clients, and no rule per client on the same requests: who hammers takes all")
	}
}

// warnAlgorithm says where another algorithm would serve better.
func (p *parser) warnAlgorithm(r *RuleSpec) {
	const most, memory = 10_000, 256 << 20
	width := len(r.Limit)
	switch n := r.Rate.Permits; {
	case r.Algorithm == slidingWindow && n < 20:
		p.warn(r.LimitPos, width, "use sliding_window_log, which is exact",
			"sliding_window with a limit of %d: the estimate is coarse below 20", n)
	case r.Algorithm == slidingLog && n > most:
		p.warn(r.LimitPos, width, "use sliding_window, which needs no more than any other algorithm",
			"sliding_window_log with a limit of %d remembers each of them: %s for each client at its limit", n, roughSize(16*float64(n)))
	case r.Algorithm == slidingLog && 16*float64(n)*float64(r.MaxKeys) > memory:
		p.warn(r.LimitPos, width, "lower max_keys, or use sliding_window",
			"sliding_window_log remembers each request: %s when %d clients are at their limit (max_memory bounds it)", roughSize(16*float64(n)*float64(r.MaxKeys)), r.MaxKeys)
	}
	if r.Fail == "closed" && r.Match.Everything() {
		p.warn(r.Pos, 1, "leave it out, or give the rule a match",
			"fail: closed on a rule for every request: when its memory is full, clients not seen before are refused")
	}
}

// roughSize writes a number of bytes as one says it.
func roughSize(n float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	for len(units) > 1 && n >= 1000 {
		n, units = n/1000, units[1:]
	}
	return fmt.Sprintf("%.3g %s", n, units[0])
}

// covered reports whether another rule that is good, and enforced, applies to
// all requests r applies to.
func (p *parser) covered(r *RuleSpec, good func(*RuleSpec) bool) bool {
	for i := range p.file.Rules {
		o := &p.file.Rules[i]
		if o.Name != r.Name && !o.DryRun && good(o) && p.covers(o.Match, r.Match, true) {
			return true
		}
	}
	return false
}

// byAddress reports whether an address alone says who shares a counter.
func (r *RuleSpec) byAddress() bool { return len(r.Key) == 1 && r.Key[0].IsIP() }

// bounds reports whether a client cannot get out of the rule's counter by what it
// writes into a request.
func (r *RuleSpec) bounds() bool {
	return !slices.ContainsFunc(r.Key, func(a Attribute) bool { return !a.IsIP() && !a.IsGlobal() })
}

// perClient reports whether the key tells clients apart.
func (r *RuleSpec) perClient() bool {
	return slices.ContainsFunc(r.Key, func(a Attribute) bool { return a.IsIP() || a.ClientChosen() })
}

// skips reports whether some requests pass the rule by for want of a key.
func (r *RuleSpec) skips() bool {
	return r.Missing.Skips() && slices.ContainsFunc(r.Key, Attribute.ClientChosen)
}
