package peers

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gateway/rules"
)

// traefik imports a dynamic configuration of Traefik.
type traefik struct {
	importer
	middlewares *rules.Tree
	routers     []*router
}

// router chooses requests, in the order of priority.
type router struct {
	name        string
	line        int
	priority    int64
	match       match
	err         error // its rule has no equal
	middlewares []string
}

// Traefik imports rateLimit and inFlightReq of a dynamic configuration in YAML.
func Traefik(s Source) (*Result, error) {
	root, err := rules.ReadTree(s.Name, s.Data)
	if err != nil {
		return nil, err
	}
	t := &traefik{importer: importer{program: "traefik", source: s}, middlewares: root.Get("http", "middlewares")}
	if root.Get("http") == nil {
		t.note(s.Name, 1, "no http: this is no dynamic configuration of Traefik in YAML")
	}
	t.readRouters(root.Get("http", "routers"))
	if t.middlewares != nil {
		for _, name := range t.middlewares.Names {
			t.middleware(name, t.middlewares.Get(name))
		}
	}
	return t.result()
}

func (t *traefik) readRouters(list *rules.Tree) {
	if list == nil {
		return
	}
	for _, name := range list.Names {
		one := list.Get(name)
		r := &router{name: name, line: one.Line}
		if rule := one.Get("rule"); rule != nil {
			r.line, r.priority = rule.Line, int64(len(rule.Text))
			r.match, r.err = routerMatch(rule.Text)
		} else {
			r.match = everything()
		}
		if p := one.Get("priority"); p != nil {
			if n, err := strconv.ParseInt(p.Text, 10, 64); err == nil && n != 0 {
				r.priority = n
			}
		}
		if list := one.Get("middlewares"); list != nil {
			for _, m := range list.List {
				r.middlewares = append(r.middlewares, t.chained(m.Text, 0)...)
			}
		}
		t.routers = append(t.routers, r)
	}
	slices.SortStableFunc(t.routers, func(a, b *router) int { return cmp.Compare(b.priority, a.priority) })
}

// chained returns the middlewares that a name stands for: itself, or those of a chain.
func (t *traefik) chained(name string, depth int) []string {
	name, _, _ = strings.Cut(name, "@")
	chain := t.middlewares.Get(name, "chain", "middlewares")
	if chain == nil || depth > 10 {
		return []string{name}
	}
	var all []string
	for _, m := range chain.List {
		if all = append(all, t.chained(m.Text, depth+1)...); len(all) > maxRules {
			return all[:maxRules]
		}
	}
	return all
}

// middleware makes a rule of a middleware that limits.
func (t *traefik) middleware(name string, m *rules.Tree) {
	var r *imported
	switch limit, slots := m.Get("rateLimit"), m.Get("inFlightReq"); {
	case limit != nil:
		r = t.rateLimit(name, limit)
	case slots != nil:
		r = t.inFlight(name, slots)
	}
	if r == nil {
		return
	}
	where, used, ok := t.where(name, r)
	if !ok {
		return
	}
	if used > 1 {
		r.comment("Traefik, which counts in its memory, counts each of the %d routers that use it by itself; here they count together", used)
	}
	r.match = where
	t.add(name, r)
}

// where returns which requests go through a middleware, and by how many routers.
func (t *traefik) where(name string, r *imported) (match, int, bool) {
	var all match
	used := 0
	for i, ro := range t.routers {
		if !slices.Contains(ro.middlewares, name) {
			continue
		}
		used++
		if ro.err != nil {
			t.note(t.source.Name, ro.line, "router %s: %v: what it leads through %s is not limited", ro.name, ro.err, name)
			continue
		}
		var others match
		for _, other := range t.routers[:i] {
			switch {
			case slices.Contains(other.middlewares, name):
			case other.err != nil:
				r.comment("it also applies to what router %s takes: %v", other.name, other.err)
			default:
				others = append(others, other.match...)
			}
		}
		if all = append(all, ro.match.without(others)...); len(all) > maxClauses {
			t.note(t.source.Name, r.line, "middleware %s: too many conditions for one rule", name)
			return nil, used, false
		}
	}
	switch {
	case used == 0:
		r.comment("no router of this file uses it: it applies to every request")
		return everything(), 0, true
	case len(all) == 0:
		return nil, used, false // which is noted
	}
	return all, used, true
}

func (t *traefik) rateLimit(name string, m *rules.Tree) *imported {
	r := &imported{file: t.source.Name, line: m.Line, from: "middleware " + name + ": rateLimit"}
	average, burst, period := int64(0), int64(1), time.Second
	for _, setting := range m.Names {
		v := m.Get(setting)
		err := error(nil)
		switch setting {
		case "average":
			average, err = strconv.ParseInt(v.Text, 10, 64)
		case "burst":
			burst, err = strconv.ParseInt(v.Text, 10, 64)
		case "period":
			period, err = span(v.Text)
		case "sourceCriterion":
			t.criterion(r, v)
		case "redis":
			t.note(t.source.Name, v.Line, "middleware %s: its counters are in Redis; see store of our file", name)
		}
		if err != nil {
			t.note(t.source.Name, v.Line, "middleware %s: %s %q is not understood", name, setting, v.Text)
			return nil
		}
	}
	if average == 0 {
		t.note(t.source.Name, m.Line, "middleware %s: average 0 is no limit", name)
		return nil
	}
	text, ok := rate{average, period}.text()
	if !ok {
		t.note(t.source.Name, m.Line, "middleware %s: %d in %v is no rate", name, average, period)
		return nil
	}
	r.limit, r.burst = text, min(max(burst, 1), 1e15)
	t.defaultKey(r, m.Get("sourceCriterion"), "ip")
	// Traefik holds a request back that comes up to half of what a unit takes too early.
	wait := 500 * time.Millisecond
	if perSecond := float64(average) / period.Seconds(); perSecond >= 1 && perSecond < 1e9 {
		wait = time.Second / time.Duration(int64(perSecond)*2)
	}
	if accepts("limit: " + text + ", max_wait: " + wait.String()) {
		r.maxWait = wait.String()
	} else {
		r.comment("Traefik holds back, for up to %v, what comes that much too early; ours is refused and told when to come again", wait)
	}
	return r
}

func (t *traefik) inFlight(name string, m *rules.Tree) *imported {
	r := &imported{file: t.source.Name, line: m.Line, from: "middleware " + name + ": inFlightReq"}
	amount := m.Get("amount")
	if amount == nil {
		t.note(t.source.Name, m.Line, "middleware %s: inFlightReq without an amount", name)
		return nil
	}
	n, err := strconv.ParseInt(amount.Text, 10, 64)
	if err != nil || n < 1 || n > 1e15 {
		t.note(t.source.Name, amount.Line, "middleware %s: amount %q: at least one request must be allowed; to refuse all, use block", name, amount.Text)
		return nil
	}
	r.concurrency = n
	if c := m.Get("sourceCriterion"); c != nil {
		t.criterion(r, c)
	}
	t.defaultKey(r, m.Get("sourceCriterion"), "host")
	return r
}

// defaultKey sets the key of a limit whose criterion says nothing.
func (t *traefik) defaultKey(r *imported, from *rules.Tree, attribute string) {
	if len(r.key) == 0 {
		r.key = []string{attribute}
	}
	if r.key[0] == "ip" && from.Get("ipStrategy", "ipv6Subnet") == nil {
		r.comment("Traefik counts each IPv6 address by itself, ours each /64 (ipv6_prefix)")
	}
}

// criterion reads a sourceCriterion.
func (t *traefik) criterion(r *imported, c *rules.Tree) {
	header, strategy := c.Get("requestHeaderName"), c.Get("ipStrategy")
	switch {
	case header != nil && header.Text != "":
		r.key, r.missing = []string{"header." + headerName(header.Text)}, "global"
		r.comment("missing: Traefik counts all requests without the header together")
	case c.Get("requestHost") != nil && c.Get("requestHost").Text == "true":
		r.key = []string{"host"}
	default:
		r.key = []string{"ip"}
	}
	if depth := strategy.Get("depth"); depth != nil && depth.Text != "0" {
		r.comment("depth %s: the client's address is the one before that many proxies: name them in trusted_proxies", depth.Text)
	}
	if excluded := strategy.Get("excludedIPs"); excluded != nil {
		r.comment("excludedIPs: these are proxies: name them in trusted_proxies")
	}
	if bits := strategy.Get("ipv6Subnet"); bits != nil && bits.Text != "64" {
		n, err := strconv.Atoi(bits.Text)
		if err != nil || n < 1 || n > 128 {
			t.note(t.source.Name, bits.Line, "ipv6Subnet %q is not understood", bits.Text)
			return
		}
		r.comment("ipv6Subnet %d: set ipv6_prefix, which is for all rules", n)
	}
}

// span reads a duration: Go's, or a number of seconds.
func span(text string) (time.Duration, error) {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	d, err := rules.ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("no time")
	}
	return d, err
}
