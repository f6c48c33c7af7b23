package rules

import (
	"slices"
)

// Match says which requests: those that any of its clauses takes. A nil *Match
// takes every request; one without clauses takes none. It is immutable once it
// is in use.
type Match struct {
	Any []Clause
}

// Clause takes a request if all that is set in it does. The zero Clause takes
// every request.
type Clause struct {
	Pattern *Pattern   // of a match that is written as a pattern
	Paths   []*Pattern // any of; made by ParsePathPattern
	Methods []string   // any of; made by ParseMethod; GET takes HEAD too
	Hosts   []Glob     // any of; made by ParseHostGlob
	IP      Prefixes   // unless it is empty
	Values  []Is       // all of
	Groups  []InGroup  // any of
	Not     *Match     // none of its alternatives; nil is no such thing
}

// InGroup wants the client to be in a group.
type InGroup struct {
	Name  string
	group *Group // nil until Compile binds it
}

// Is wants an attribute to have one of some values.
type Is struct {
	Attribute Attribute // a header, a cookie, a query parameter, a user name or a claim
	Globs     []Glob    // any of; made by ParseGlob
}

// Matches reports whether m takes the request.
func (m *Match) Matches(f *Facts) bool {
	if m == nil {
		return true
	}
	for i := range m.Any {
		if m.Any[i].matches(f) {
			return true
		}
	}
	return false
}

// matches reports whether c takes the request.
func (c *Clause) matches(f *Facts) bool {
	return (len(c.Paths) == 0 || c.path(f) != nil) && c.matchesBeside(f)
}

// matchesBeside reports whether c, but for its Paths, takes the request; what
// costs least is asked first.
func (c *Clause) matchesBeside(f *Facts) bool {
	if c.Pattern != nil && !c.Pattern.Matches(f) {
		return false
	}
	if len(c.Methods) > 0 && !slices.ContainsFunc(c.Methods, func(m string) bool { return methodCovers(m, f.Method) }) {
		return false
	}
	if len(c.Hosts) > 0 && !matchesAny(c.Hosts, f.Host) {
		return false
	}
	if !c.IP.Empty() && !c.IP.Contains(f.Client) {
		return false
	}
	if !c.has(f, askedFirst) {
		return false
	}
	if len(c.Groups) > 0 && !slices.ContainsFunc(c.Groups, func(g InGroup) bool { return g.group.Has(f) }) {
		return false
	}
	return (c.Not == nil || !c.Not.Matches(f)) && c.has(f, askedOfToken) && c.has(f, askedLast)
}

// turn says when a value that a clause wants is asked for.
type turn uint8

const (
	askedFirst   turn = iota
	askedOfToken      // when all else holds, since to verify a token takes long
	askedLast         // values of the query, so that who writes them first or last makes no difference to a request with a broken one
)

// turn says when a is asked for.
func (a Attribute) turn() turn {
	switch a.kind {
	case kindJWT:
		return askedOfToken
	case kindQuery:
		return askedLast
	}
	return askedFirst
}

// has reports whether the request has the values that c wants and asks for at that
// turn.
func (c *Clause) has(f *Facts, at turn) bool {
	for i := range c.Values {
		if is := &c.Values[i]; is.Attribute.turn() == at && !is.matches(f) {
			return false
		}
	}
	return true
}

// bind returns m with the groups that it names: m itself when it names none.
func (m *Match) bind(groups groupSet) *Match {
	if m == nil || !slices.ContainsFunc(m.Any, Clause.namesGroups) {
		return m
	}
	bound := &Match{Any: slices.Clone(m.Any)}
	for i := range bound.Any {
		c := &bound.Any[i]
		c.Not = c.Not.bind(groups)
		c.Groups = slices.Clone(c.Groups)
		for j := range c.Groups {
			c.Groups[j].group = groups[c.Groups[j].Name]
		}
	}
	return bound
}

// namesGroups reports whether c, or what it excludes, names a group.
func (c Clause) namesGroups() bool {
	return len(c.Groups) > 0 || c.Not != nil && slices.ContainsFunc(c.Not.Any, Clause.namesGroups)
}

// path returns the first of c.Paths that takes the request, or nil.
func (c *Clause) path(f *Facts) *Pattern {
	for _, p := range c.Paths {
		if p.Matches(f) {
			return p
		}
	}
	return nil
}

// matches reports whether the request has the attribute with one of the values.
func (is *Is) matches(f *Facts) bool {
	if lines := f.Header[is.Attribute.name]; is.Attribute.kind == kindHeader && len(lines) == 1 {
		return !isBlank(lines[0]) && matchesAny(is.Globs, lines[0])
	}
	value, ok := f.appendChosen(f.value[:0], is.Attribute)
	f.value = value
	return ok && matchesAny(is.Globs, string(value))
}

// matchesAny reports whether one of globs takes s.
func matchesAny(globs []Glob, s string) bool {
	for i := range globs {
		if globs[i].matches(s) {
			return true
		}
	}
	return false
}

// capture returns the segment of that name in the path of a request that m
// took, as the first alternative that took it has it; "" if that one has no
// such name.
func (m *Match) capture(f *Facts, name string) string {
	if m == nil {
		return ""
	}
	for i := range m.Any {
		c := &m.Any[i]
		if !c.matches(f) {
			continue
		}
		for _, p := range []*Pattern{c.Pattern, c.path(f)} {
			if p == nil {
				continue
			}
			if seg, ok := p.capture(f.pathFor(p.loose), name); ok {
				return seg
			}
		}
		return ""
	}
	return ""
}
