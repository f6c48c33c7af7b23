package rules

import "slices"

// Everything reports whether m takes every request.
func (m *Match) Everything() bool { return m.Covers(nil) }

// Captures reports whether every alternative of m names a segment of its path
// so. If one does not, it returns what is written there: a pattern, or "" for
// an alternative without a path.
func (m *Match) Captures(name string) (without string, ok bool) {
	if m == nil {
		return "", false
	}
	for i := range m.Any {
		c := &m.Any[i]
		if c.Pattern != nil && slices.Contains(c.Pattern.names, name) {
			continue
		}
		if c.Pattern != nil && len(c.Paths) == 0 {
			return c.Pattern.text, false
		}
		if len(c.Paths) == 0 {
			return "", false
		}
		for _, p := range c.Paths {
			if !slices.Contains(p.names, name) {
				return p.text, false
			}
		}
	}
	return "", true
}

// naming returns the patterns of m that name a segment of their path so.
func (m *Match) naming(name string) []*Pattern {
	if m == nil {
		return nil
	}
	var list []*Pattern
	for i := range m.Any {
		c := &m.Any[i]
		for _, p := range append(slices.Clip(c.Paths), c.Pattern) {
			if p != nil && slices.Contains(p.names, name) {
				list = append(list, p)
			}
		}
	}
	return list
}

// OnlyGET reports whether m takes no other method than GET and HEAD.
func (m *Match) OnlyGET() bool {
	return m != nil && allIn(m.Any, func(c Clause) bool {
		return allIn(c.methods(), func(name string) bool { return methodCovers("GET", name) })
	})
}

// Never says why m can take no request at all, if that is plain to see; else it
// is empty.
func (m *Match) Never() string {
	if m == nil {
		return ""
	}
	why := "no alternative is given"
	for i := range m.Any {
		if why = m.Any[i].never(); why == "" {
			return ""
		}
	}
	return why
}

// never says why c can take no request.
func (c *Clause) never() string {
	if c.Not != nil {
		const most = 100_000 // of comparisons; a larger match is not looked through
		rest := *c
		rest.Not = nil
		alone := &Match{Any: []Clause{rest}}
		if (1+c.Not.alternatives())*(1+alone.alternatives()) < most && c.Not.Covers(alone) {
			return "its not takes all that the rest of it takes"
		}
	}
	p := c.Pattern
	if p == nil {
		return ""
	}
	if p.method != "" && len(c.Methods) > 0 && !slices.ContainsFunc(c.Methods, func(m string) bool {
		return methodCovers(m, p.method) || methodCovers(p.method, m)
	}) {
		return "its methods exclude each other"
	}
	if p.plain != "" && len(c.Paths) > 0 && !slices.ContainsFunc(c.Paths, func(q *Pattern) bool {
		return q.matchesPath(p.plain)
	}) {
		return "its paths exclude each other"
	}
	return ""
}

// Covers reports whether every request that n takes is taken by m too. It says
// no when it cannot tell.
func (m *Match) Covers(n *Match) bool {
	if m == nil {
		return true
	}
	if n == nil {
		n = &Match{Any: []Clause{{}}}
	}
	for i := range n.Any {
		if !slices.ContainsFunc(m.Any, func(c Clause) bool { return c.covers(&n.Any[i]) }) {
			return false
		}
	}
	return true
}

// covers reports whether every request that d takes is taken by c too.
func (c *Clause) covers(d *Clause) bool {
	return c.coversMethods(d) && c.coversHosts(d) && c.coversPaths(d) && c.coversIP(d) && c.coversValues(d) &&
		c.coversGroups(d) && c.coversNot(d)
}

// methods returns the methods c names; none is any.
func (c *Clause) methods() []string {
	if c.Pattern != nil && c.Pattern.method != "" {
		return []string{c.Pattern.method}
	}
	return c.Methods
}

// hosts returns the hosts c names; none is any.
func (c *Clause) hosts() []Glob {
	if c.Pattern != nil && c.Pattern.host != nil {
		return []Glob{*c.Pattern.host}
	}
	return c.Hosts
}

// paths returns the patterns of which a path must match one; none is any path.
func (c *Clause) paths() []*Pattern {
	if c.Pattern != nil {
		return []*Pattern{c.Pattern}
	}
	return c.Paths
}

func (c *Clause) coversMethods(d *Clause) bool {
	within := func(want []string) bool {
		return len(want) == 0 || allIn(d.methods(), func(m string) bool {
			return slices.ContainsFunc(want, func(w string) bool { return methodCovers(w, m) })
		})
	}
	return within(c.methods()) && within(c.Methods)
}

func (c *Clause) coversHosts(d *Clause) bool {
	within := func(want []Glob) bool {
		return len(want) == 0 || slices.ContainsFunc(want, Glob.any) || allIn(d.hosts(), func(h Glob) bool {
			return slices.ContainsFunc(want, func(w Glob) bool { return w.covers(h) })
		})
	}
	return within(c.hosts()) && within(c.Hosts)
}

func (c *Clause) coversPaths(d *Clause) bool {
	within := func(want []*Pattern) bool {
		return len(want) == 0 || slices.ContainsFunc(want, (*Pattern).anyPath) || allIn(d.paths(), func(p *Pattern) bool {
			return slices.ContainsFunc(want, func(w *Pattern) bool { return w.coversPath(p) })
		})
	}
	return within(c.paths()) && within(c.Paths)
}

func (c *Clause) coversIP(d *Clause) bool {
	if c.IP.Empty() {
		return true
	}
	if v4, v6 := c.IP.Covers(); v4 && v6 {
		return true
	}
	return !d.IP.Empty() && c.IP.ContainsAll(d.IP)
}

func (c *Clause) coversValues(d *Clause) bool {
	for _, want := range c.Values {
		if !slices.ContainsFunc(d.Values, want.covers) {
			return false
		}
	}
	return true
}

func (c *Clause) coversGroups(d *Clause) bool {
	return len(c.Groups) == 0 || allIn(d.Groups, func(g InGroup) bool {
		return slices.ContainsFunc(c.Groups, func(w InGroup) bool { return w.Name == g.Name })
	})
}

// coversNot reports whether d excludes whatever c does.
func (c *Clause) coversNot(d *Clause) bool {
	return c.Not == nil || d.Not != nil && d.Not.Covers(c.Not)
}

// covers reports whether every request that other takes is taken by is too.
func (is Is) covers(other Is) bool {
	return is.Attribute == other.Attribute && allIn(other.Globs, func(g Glob) bool {
		return slices.ContainsFunc(is.Globs, func(w Glob) bool { return w.covers(g) })
	})
}

// allIn reports whether list has elements and all of them are good. A list
// without elements stands for anything there is.
func allIn[T any](list []T, good func(T) bool) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(e T) bool { return !good(e) })
}
