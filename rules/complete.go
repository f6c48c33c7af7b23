package rules

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// completer makes of a file's tree one that says all settings in force.
type completer struct {
	file     *File
	harmless map[*node]bool // values of variables that can be shown
	secret   map[*node]bool // values that cannot
	mask     bool           // they are masked
}

// complete returns the tree of the whole file.
func (c *completer) complete(root *node) *node {
	top := c.copy(root, "")
	if short := top.named("upstream"); short != top {
		top.remove("upstream")
		pool := &node{shape: mapping}
		pool.put("servers", short)
		pools := &node{shape: mapping}
		pools.put(c.file.Upstreams[0].Name, pool)
		top.put("upstreams", pools)
	}
	if top.key("routes") == nil {
		route := &node{shape: mapping}
		route.put("upstream", presetNode(c.file.Routes[0].Upstream))
		top.put("routes", &node{shape: sequence, items: []*node{route}})
	}
	if pools := top.named("upstreams"); pools != top {
		for i, pool := range pools.items {
			if pool.shape != mapping {
				pools.items[i] = &node{shape: mapping}
				pools.items[i].put("servers", pool)
			}
			c.pool(pools.items[i])
		}
	}
	c.fill(top, partFile)
	c.dependent(top)
	return top
}

// copy returns a copy of n, the value of the setting in, in which what must not be
// shown is masked.
func (c *completer) copy(n *node, in string) *node {
	m := *n
	m.keys, m.items = slices.Clone(n.keys), make([]*node, len(n.items))
	if c.mask && c.secret[n] {
		m.text, m.origin, m.word = masked, nil, wordText
	}
	if m.origin != nil && c.harmless[n] {
		m.origin = nil
	}
	for i, item := range n.items {
		if n.shape != mapping {
			m.items[i] = c.copy(item, in)
			continue
		}
		name := n.keys[i].text
		if m.items[i] = c.copy(item, name); c.mask && (in == "set" || in == "headers" || in != "upstreams" && isAttribute(name)) && c.sensitive(name) {
			mask(m.items[i])
		}
	}
	return &m
}

// isAttribute reports whether a setting of a match or a group is of what a client
// writes.
func isAttribute(name string) bool {
	family, _, dotted := strings.Cut(name, ".")
	return dotted && slices.Contains([]string{"header", "query", "cookie", "body", "basic"}, family)
}

// redacted are the headers whose values are no one's business.
var redacted = []string{"Authorization", "Cookie", "Set-Cookie", "Proxy-Authorization", "X-Api-Key"}

// secretName finds the names of headers and parameters that hold a secret by what
// they are called.
var secretName = lazily(`(?i)(?:token|secret|passw|api-?key|credential|(?:^|[.-])auth(?:-|$))`)

// sensitive reports whether the value of a header, or of an attribute, of that name
// may be a secret of clients or servers: one that is usually one, a cookie, or what
// some rule is keyed on.
func (c *completer) sensitive(name string) bool {
	if secretName().MatchString(name) || slices.Contains(redacted, http.CanonicalHeaderKey(strings.TrimPrefix(name, "header."))) {
		return true
	}
	if strings.HasPrefix(name, "cookie.") {
		return true
	}
	if strings.EqualFold(name, "query.key") {
		return true
	}
	a, err := ParseAttribute(name)
	return err == nil && a.ClientChosen() && slices.ContainsFunc(c.file.Rules, func(r RuleSpec) bool { return slices.Contains(r.Key, a) })
}

// mask hides the texts below n, but for what is no secret: a hash, or where
// values come from.
func mask(n *node) {
	switch {
	case n.shape == sequence:
		for _, item := range n.items {
			mask(item)
		}
	case n.shape == scalar && n.origin == nil && !strings.HasPrefix(n.text, hashPrefix):
		n.text, n.word = masked, wordText
	}
}

// pool writes the short forms of a pool out.
func (c *completer) pool(pool *node) {
	if servers := pool.named("servers"); servers != pool {
		if servers.shape != sequence {
			servers = &node{shape: sequence, items: []*node{servers}}
		}
		for i, server := range servers.items {
			if server.shape != mapping {
				servers.items[i] = &node{shape: mapping}
				servers.items[i].put("url", server)
			}
		}
		pool.put("servers", servers)
	}
	if health := pool.named("health"); health != pool && health.shape != mapping {
		long := &node{shape: mapping}
		long.put("path", health)
		pool.put("health", long)
	}
}

// fill adds to n, of part p, the presets it does not have; and so on below it.
func (c *completer) fill(n *node, p part) {
	if n.shape != mapping {
		return
	}
	without := without(n, p)
	for _, d := range presets[p] {
		if n.key(d.name) == nil && !slices.Contains(without, d.name) {
			n.put(d.name, presetNode(d.text))
		}
	}
	for name, of := range inside[p] {
		if v := n.named(name); v != n {
			c.fill(v, of)
		}
	}
	for name, of := range items[p] {
		if list := n.named(name); list != n {
			for _, item := range list.items {
				c.fill(item, of)
			}
		}
	}
	n.sort(p)
}

// without returns the presets that do not go with what else n has.
func without(n *node, p part) []string {
	switch {
	case p == partRule && n.key("concurrency") != nil:
		return []string{"algorithm", "cost"}
	case p == partCost && n.key("header") == nil: // the cost of patterns
		return []string{"reserve", "max"}
	}
	return nil
}

// dependent fills in what depends on other settings, as it has been understood.
func (c *completer) dependent(top *node) {
	add := func(n *node, p part, name, text string) {
		if n.shape == mapping && n.key(name) == nil {
			n.put(name, presetNode(text))
			n.sort(p)
		}
	}
	add(top, partFile, "listen", c.file.Listen[0].Addr)
	add(top, partFile, "state", cmp.Or(c.file.State.Path, "off"))
	if tls := top.named("tls"); tls != top {
		if tls.key("domains") != nil {
			add(tls, partTLS, "ca", "production")
		}
		if tls.key("client_ca") != nil {
			add(tls, partTLS, "client_auth", c.file.TLS.ClientAuth)
		}
	}
	for i, pool := range top.named("upstreams").items {
		if health := pool.named("health"); health != pool {
			add(health, partHealth, "timeout", durationText(c.file.Upstreams[i].Health.Timeout))
		}
	}
	for i, route := range top.named("routes").items {
		spec := &c.file.Routes[i]
		if spec.Upstream != "" {
			add(route, partRoute, "upstream", spec.Upstream)
		}
		if respond := route.named("respond"); spec.Respond != nil && spec.Respond.ContentType != "" {
			add(respond, partRespond, "content_type", spec.Respond.ContentType)
		}
	}
	for i, rule := range top.named("rules").items {
		spec := &c.file.Rules[i]
		add(rule, partRule, "max_keys", strconv.FormatInt(spec.MaxKeys, 10))
		c.burst(rule, partRule, &spec.PlanSpec, add)
		if penalty := rule.named("penalty"); penalty != rule {
			add(penalty, partPenalty, "max", durationText(spec.Penalty.Max))
		}
		if trial := rule.named("candidate"); trial != rule {
			c.burst(trial, partTrial, spec.Candidate, add)
		}
		if tiers := rule.named("tiers"); tiers != rule {
			for j, tier := range tiers.items {
				c.burst(tier, partTier, &spec.Tiers[j].PlanSpec, add)
			}
		}
		if reject := rule.named("reject"); reject != rule && spec.Reject.Body != "" {
			add(reject, partReject, "content_type", spec.Reject.ContentType)
		}
	}
	if reject := top.named("reject"); c.file.Reject.Body != "" {
		add(reject, partReject, "content_type", c.file.Reject.ContentType)
	}
	if admin := top.named("admin"); admin.shape == mapping {
		add(admin, partAdmin, "listen", c.file.Admin.Addr)
	}
}

func (c *completer) burst(n *node, p part, spec *PlanSpec, add func(*node, part, string, string)) {
	if spec.Burst > 0 {
		add(n, p, "burst", strconv.FormatInt(spec.Burst, 10))
	}
}

// put sets a setting of n, a map.
func (n *node) put(name string, value *node) {
	for i, key := range n.keys {
		if key.text == name {
			n.items[i] = value
			return
		}
	}
	n.keys = append(n.keys, &node{shape: scalar, text: name})
	n.items = append(n.items, value)
}

// remove takes a setting out of n.
func (n *node) remove(name string) {
	for i, key := range n.keys {
		if key.text == name {
			n.keys, n.items = slices.Delete(n.keys, i, i+1), slices.Delete(n.items, i, i+1)
			return
		}
	}
}

// sort brings the settings of n, of part p, into the usual order.
func (n *node) sort(p part) {
	order := make([]int, len(n.keys))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return p.rank(n.keys[a].text) - p.rank(n.keys[b].text) })
	keys, values := slices.Clone(n.keys), slices.Clone(n.items)
	for i, from := range order {
		n.keys[i], n.items[i] = keys[from], values[from]
	}
}

// Settings returns all settings of the file that are in force, those with their
// defaults too, as the text of a file: in YAML, or in JSON, which is YAML as well.
// Read with the same Outside, of which only Env is asked for, it means what f
// means; what it includes is in it. But a secret that is written in the file, and values that may be secrets
// of clients, are ***; a secret that comes from elsewhere is named by its place.
// What a variable stands for is shown where it is a number, a duration or the
// like, and otherwise the variable is.
func (f *File) Settings(o Outside, asJSON bool) ([]byte, error) { return f.all(o, asJSON, true) }

// all returns all settings; unless mask, the secrets written in the file too.
func (f *File) all(o Outside, asJSON, mask bool) ([]byte, error) {
	include := func(pattern string) []Included { return f.listed[pattern] }
	s, text := readSource(Outside{Env: o.Env, Include: include}, f.Name, f.data)
	file := Defaults()
	p := &parser{source: s, file: &file, used: map[string]bool{}}
	s.harmless, p.blind = map[*node]bool{}, map[*node]bool{}
	root := s.tree(text)
	if root != nil {
		p.read(root)
	}
	if len(s.errs) > 0 { // the file was good once: a variable has gone
		return nil, s.errors()
	}
	c := completer{file: &file, harmless: s.harmless, secret: p.blind, mask: mask}
	var e emitter
	if tree := c.complete(root); asJSON {
		e.json(tree, "")
	} else {
		e.block(tree, "")
	}
	return []byte(e.b.String()), nil
}
