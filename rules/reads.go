package rules

import "slices"

// HeadersRead returns the canonical names of the headers that some rule, group,
// route, balance or match reads; sorted, each once. What the rules have read must reach the
// upstream, whatever a client names in Connection.
func (s *Set) HeadersRead() []string {
	var names []string
	for _, a := range s.attributesRead(true) {
		switch a.kind {
		case kindHeader:
			names = append(names, a.name)
		case kindCookie:
			names = append(names, "Cookie")
		case kindBasic, kindJWT:
			names = append(names, "Authorization")
		case kindBody:
			names = append(names, "Content-Encoding", "Content-Type")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// QueryKeys returns the names of the query parameters that some rule is keyed
// on, or that make a client belong to a group; sorted, each once. Their values are somebody's key and not for a log.
func (s *Set) QueryKeys() []string { return s.namesRead(kindQuery, false) }

// namesRead returns the names of the attributes of kind k that keys and groups use
// and, if wanted, matches; sorted, each once.
func (s *Set) namesRead(k kind, matches bool) []string {
	var names []string
	for _, a := range s.attributesRead(matches) {
		if a.kind == k {
			names = append(names, a.name)
		}
	}
	slices.Sort(names)
	return names
}

// attributesRead returns the attributes that keys and groups use and, if wanted,
// matches; each once, in no order.
func (s *Set) attributesRead(matches bool) []Attribute {
	var list []Attribute
	seen := map[Attribute]bool{}
	note := func(a Attribute) {
		if len(list) > 0 && list[len(list)-1] == a || seen[a] { // thousands of rules may read the same
			return
		}
		list, seen[a] = append(list, a), true
	}
	var look func(m *Match)
	look = func(m *Match) {
		if m == nil || !matches {
			return
		}
		for i := range m.Any {
			c := &m.Any[i]
			for _, is := range c.Values {
				note(is.Attribute)
			}
			look(c.Not)
		}
	}
	for _, g := range s.File.Groups {
		for _, m := range g.Members {
			note(m.Attribute)
		}
	}
	var pauses pauses
	for _, r := range s.Rules {
		pauses.step()
		for _, a := range r.recipe.parts {
			note(a)
		}
		if a := r.recipe.missing.attr; a.kind != kindNone {
			note(a)
		}
		look(r.match)
	}
	for _, r := range s.Routes {
		look(r.Match)
		if r.hash != nil {
			note(r.hash.parts[0])
		}
	}
	look(s.File.Exempt)
	look(s.File.Block)
	return list
}
