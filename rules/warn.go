package rules

import (
	"fmt"
	"slices"
	"time"
)

// warnings adds what can be used but is seldom meant. It is called on a file
// without errors.
func (p *parser) warnings() {
	p.index()
	p.warnProxies()
	p.warnRoutes()
	p.warnGroups()
	for _, n := range p.insecure {
		p.warnAt(n, "name its authority in ca", "insecure: whoever is between the gateway and the server can pass for the server")
	}
	p.warnTLS()
	for _, key := range p.idleTLS {
		p.warnAt(key, "remove it, or add domains", "%s in tls without domains: no certificate is ordered", key.text)
	}
	if p.file.Timeouts.ReadHeader == 0 {
		p.warnAt(p.top.value("timeouts").named("read_header"), "", "read_header 0: slow clients hold connections for ever")
	}
	if m := p.file.Exempt; m != nil && m.Everything() {
		p.warnAt(p.top.value("exempt"), "", "exempt matches every request: no rule applies to anything")
	}
	if p.file.JWT != nil && !p.claimed {
		p.warnAt(p.top.key("jwt"), "name a claim: key: jwt.sub", "jwt: nothing asks for a claim, so no token is verified")
	}
	if most := int64(10 << 20); p.file.BodyLimit > most {
		p.warnAt(p.top.value("body_limit"), "", "body_limit %s: so much of each body waits in memory; more than %s is seldom needed to find a field",
			sizeText(p.file.BodyLimit), sizeText(most))
	}
	if len(p.file.Rules) == 0 {
		p.warnAt(p.top.value("rules"), "", "no rules: every request passes")
	}
	var pauses pauses
	for i := range p.file.Rules {
		pauses.step()
		r := &p.file.Rules[i]
		p.rule = r.Name
		p.warnRule(r)
		p.rule = ""
	}
}

// index makes the indexes of the file's rules and routes.
func (p *parser) index() {
	f := p.file
	rules, routes := make([]*Match, len(f.Rules)), make([]*Match, len(f.Routes))
	for i := range rules {
		rules[i] = f.Rules[i].Match
	}
	for i := range routes {
		routes[i] = f.Routes[i].Match
	}
	f.byRule, f.byRoute = newIndex(rules), newIndex(routes)
	const enough = 8
	for i := range f.Rules {
		if r := &f.Rules[i]; r.Match == nil && len(p.always) < enough {
			p.always = append(p.always, r)
		}
	}
}

func (p *parser) warnAt(n *node, hint, format string, args ...any) {
	msg, hint := n.origin.hide(fmt.Sprintf(format, args...), hint)
	p.warn(p.posOf(n), p.width(n), hint, "%s", msg)
}

func (p *parser) warnProxies() {
	v4, v6 := p.file.TrustedProxies.Covers()
	if v4 || v6 {
		p.warnAt(p.top.value("trusted_proxies"), "list only your own proxies",
			"trusted_proxies takes in every address: any client can choose the address it is counted by")
	}
	if p.file.TrustedProxies.Empty() {
		for _, n := range p.ofProxies {
			p.warnAt(n, "name your proxies in trusted_proxies; the client's address is then ip",
				"%s: dropped from every request, since trusted_proxies is empty", n.text)
		}
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
		p.owners = p.file.byRoute.mayCover(r.Match, &p.asked, p.owners)
		for _, j := range p.owners {
			if j >= i {
				break
			}
			if earlier := &p.file.Routes[j]; p.covers(earlier.Match, r.Match, false) {
				p.warn(r.Pos, 1, "put it before that one", "this route is never reached: the one at %s takes all its requests", earlier.Pos)
				break
			}
		}
	}
	p.warnPriority()
	if v := p.top.value("routes"); v != nil && !catchAll {
		p.warnAt(p.top.key("routes"), "a last route without match takes the rest", "no route takes everything: other requests are answered 404")
	}
	for _, u := range p.file.Upstreams {
		if !used[u.Name] {
			p.warn(u.Pos, len(u.Name), "", "no route leads to upstream %s", quote(u.Name))
		}
	}
}

// warnPriority says that a priority decides nothing where nothing is ever refused
// for overload. Once is enough.
func (p *parser) warnPriority() {
	if p.file.Overload.MaxInFlight > 0 {
		return
	}
	routes := p.top.value("routes")
	if routes == nil {
		return
	}
	for _, item := range routes.items {
		if key := item.key("priority"); key != nil && item.named("priority").text != Normal.String() {
			p.warnAt(key, "add overload: {max_in_flight: 1000}", "priority without overload: no request is ever refused for overload, whatever its priority")
			return
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
		n += len(c.Paths) + len(c.Methods) + len(c.Hosts) + len(c.Groups) + c.Not.alternatives()
		for _, is := range c.Values {
			n += len(is.Globs)
		}
	}
	return n
}

func (p *parser) warnRule(r *RuleSpec) {
	lacks := slices.ContainsFunc(r.Key, Attribute.MayLack)
	global := !slices.ContainsFunc(r.Key, func(a Attribute) bool { return !a.IsGlobal() })
	shorter := func(o *RuleSpec) bool {
		for s := range o.plans() {
			if s.Rate.Period >= time.Hour {
				return false
			}
		}
		return o.Algorithm != concurrency
	}
	for s := range r.plans() {
		p.warnAlgorithm(r, s)
		if s.Rate.Period >= time.Hour && !s.BurstGiven && r.Algorithm != leakyBucket && s.Rate.Permits > 1 && !p.covered(r, shorter) {
			hint := "add a burst, or a rule with a shorter period"
			if !hasBurst(r.Algorithm) {
				hint = "add a rule with a shorter period"
			}
			p.warn(s.LimitPos, len(s.Limit), hint,
				"all %d of %s may come in one second: a long period without burst, and no shorter rule on the same requests", s.Rate.Permits, s.Limit)
		}
	}
	p.warnCosts(r)
	if r.Fail == "closed" && r.Match.Everything() {
		p.warn(r.Pos, 1, "leave it out, or give the rule a match",
			"fail: closed on a rule for every request: when its memory is full, clients not seen before are refused")
	}
	if p.chooses(r) && !p.covered(r, func(o *RuleSpec) bool { return o.bounds() }) {
		p.warn(r.KeyPos, 1, "add a rule with key: ip",
			"the client chooses %s, so it can have as many counters as it likes: no rule with key ip or global is on the same requests", NewRecipe(r.Key, r.Missing, 0))
	}
	if lacks && r.Missing.Skips() && !p.covered(r, func(o *RuleSpec) bool { return !o.skips() }) {
		p.warn(r.KeyPos, 1, "add a rule for them, or use missing: ip",
			"missing: skip, and no other rule is on the same requests: without %s they are not limited at all", NewRecipe(r.Key, r.Missing, 0))
	}
	if stand, falls := r.Missing.Attribute(); r.Count != nil && falls && stand == (Attribute{kind: kindIP}) && slices.ContainsFunc(r.Key, Attribute.InBody) {
		p.warn(r.KeyPos, 1, "add missing: reject, or missing: skip where another rule counts them",
			"count with %s, and missing: ip: all who are behind one address share %s as soon as their requests come without it", NewRecipe(r.Key, r.Missing, 0), r.Limit)
	}
	if global && !p.covered(r, func(o *RuleSpec) bool { return o.perClient() }) {
		p.warn(r.KeyPos, 1, "add a rule with key: ip", "one counter for all clients, and no rule per client on the same requests: who hammers takes all")
	}
}

// warnCosts says which patterns of a cost no request of the rule meets.
func (p *parser) warnCosts(r *RuleSpec) {
	for i := range r.Costs {
		if c := &r.Costs[i]; !r.Match.meets(c.Pattern) {
			p.warn(c.Pos, len(c.Pattern.text), "remove it, or widen the match",
				"cost %s: the match of the rule takes no such request", quote(c.Pattern.text))
		}
	}
}

// warnAlgorithm says where another algorithm would serve better.
func (p *parser) warnAlgorithm(r *RuleSpec, s *PlanSpec) {
	const most, memory = 10_000, 256 << 20
	width := len(s.Limit)
	switch n := s.Rate.Permits; {
	case r.Algorithm == slidingWindow && n < 20:
		p.warn(s.LimitPos, width, "use sliding_window_log, which is exact",
			"sliding_window with a limit of %d: the estimate is coarse below 20", n)
	case r.Algorithm == slidingLog && n > most:
		p.warn(s.LimitPos, width, "use sliding_window, which needs no more than any other algorithm",
			"sliding_window_log with a limit of %d remembers each of them: %s for each client at its limit", n, roughSize(16*float64(n)))
	case r.Algorithm == slidingLog && 16*float64(n)*float64(r.MaxKeys) > memory:
		p.warn(s.LimitPos, width, "lower max_keys, or use sliding_window",
			"sliding_window_log remembers each request: %s when %d clients are at their limit (max_memory bounds it)", roughSize(16*float64(n)*float64(r.MaxKeys)), r.MaxKeys)
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
	for _, o := range p.always { // most files have one that will do
		if o.Name != r.Name && !o.DryRun && good(o) {
			return true
		}
	}
	p.owners = p.file.byRule.mayCover(r.Match, &p.asked, p.owners)
	for _, i := range p.owners {
		o := &p.file.Rules[i]
		if o.Name != r.Name && !o.DryRun && good(o) && p.covers(o.Match, r.Match, true) {
			return true
		}
	}
	return false
}

// chooses reports whether a client can have as many counters of the rule as it
// likes by what it writes into a request.
func (p *parser) chooses(r *RuleSpec) bool {
	free := func(a Attribute) bool {
		return a.ClientChosen() && !(a.ofProxy() && p.file.TrustedProxies.Empty()) && !slices.ContainsFunc(r.Known, func(name string) bool { return p.file.Groups[p.named[name]].lists(a) })
	}
	if slices.ContainsFunc(r.Key, free) {
		return true
	}
	instead, _ := r.Missing.Attribute()
	return len(r.Known) > 0 && instead.ClientChosen()
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
	return slices.ContainsFunc(r.Key, func(a Attribute) bool { return a.IsIP() || a.MayLack() })
}

// skips reports whether some requests pass the rule by for want of a key.
func (r *RuleSpec) skips() bool {
	return r.Missing.Skips() && (len(r.Known) > 0 || slices.ContainsFunc(r.Key, Attribute.MayLack))
}
