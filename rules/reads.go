package rules

import "slices"

// HeadersRead returns the canonical names of the headers that some rule, group,
// route, balance or match reads; sorted, each once. What the rules have read must reach the
// upstream, whatever a client names in Connection.
func (s *Set) HeadersRead() []string {
	names := s.namesRead(kindHeader, true)
	for k, headers := range map[kind][]string{
		kindCookie: {"Cookie"}, kindBasic: {"Authorization"}, kindJWT: {"Authorization"}, kindBody: {"Content-Encoding", "Content-Type"},
	} {
		if len(s.namesRead(k, true)) > 0 {
			names = append(names, headers...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// QueryKeys returns the names of the query parameters that some rule is keyed
// on, or that make a client belong to a group; sorted, each once. Their values are somebody's key and not for a log.
func (s *Set) QueryKeys() []string { return s.namesRead(kindQuery, false) }

// namesRead returns the names of the attributes of kind k that keys and groups
// use and, if wanted, matches.
func (s *Set) namesRead(k kind, matches bool) []string {
	var names []string
	note := func(a Attribute) {
		if a.kind == k && (len(names) == 0 || names[len(names)-1] != a.name) { // thousands of rules may read the same
			names = append(names, a.name)
		}
	}
	var look func(m *Match)
	look = func(m *Match) {
		if m == nil || !matches {
			return
		}
		for _, c := range m.Any {
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
		note(r.recipe.missing.attr)
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
	slices.Sort(names)
	return slices.Compact(names)
}
