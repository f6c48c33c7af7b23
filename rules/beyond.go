package rules

import "slices"

// Reads are the attributes of a request that a rule looks at, for whoever has no
// more of it than a line in a log. Whatever is looked at in several ways is in each.
type Reads struct {
	// Match decide whether the rule applies.
	Match []Attribute
	// Key make its key, Instead what stands in for one that is missing.
	Key, Instead []Attribute
	// Tiers decide which numbers a client falls under, Cost what a request takes.
	Tiers, Cost []Attribute
}

// Reads returns the attributes that the rule looks at.
func (r *Rule) Reads() Reads {
	reads := Reads{Match: r.match.reads(nil), Key: slices.Clone(r.recipe.parts)}
	if a, ok := r.recipe.missing.Attribute(); ok {
		reads.Instead = append(reads.Instead, a)
	}
	for _, p := range r.Tiers {
		for i := range p.group.Members {
			reads.Tiers = append(reads.Tiers, p.group.Members[i].Attribute)
		}
	}
	for i := range r.costs.list {
		reads.Cost = r.costs.list[i].Pattern.reads(reads.Cost)
	}
	return reads
}

// ExemptReads and BlockReads return what the file's exempt and block look at.
func (s *Set) ExemptReads() []Attribute { return s.File.Exempt.bind(s.File.groupSet()).reads(nil) }

// BlockReads is for block what ExemptReads is for exempt.
func (s *Set) BlockReads() []Attribute { return s.File.Block.bind(s.File.groupSet()).reads(nil) }

// groupSet returns the groups of f by name.
func (f *File) groupSet() groupSet {
	groups := make(groupSet, len(f.Groups))
	for i := range f.Groups {
		groups[f.Groups[i].Name] = &f.Groups[i]
	}
	return groups
}

// reads appends what m looks at.
func (m *Match) reads(list []Attribute) []Attribute {
	if m == nil {
		return list
	}
	for i := range m.Any {
		c := &m.Any[i]
		list = c.Pattern.reads(list)
		for _, p := range c.Paths {
			list = p.reads(list)
		}
		if len(c.Hosts) > 0 {
			list = append(list, Attribute{kind: kindHost})
		}
		if !c.IP.Empty() {
			list = append(list, Attribute{kind: kindIP})
		}
		for _, is := range c.Values {
			list = append(list, is.Attribute)
		}
		for _, g := range c.Groups {
			if g.group == nil {
				continue
			}
			for i := range g.group.Members {
				list = append(list, g.group.Members[i].Attribute)
			}
		}
		list = c.Not.reads(list)
	}
	return list
}

// reads appends what p looks at beside method and path.
func (p *Pattern) reads(list []Attribute) []Attribute {
	if p != nil && p.host != nil {
		list = append(list, Attribute{kind: kindHost})
	}
	return list
}

// Beyond reports whether the rule looks at more of a request than address, method,
// host and path: what a line of the access log shows.
func (r *Rule) Beyond() bool { return r.beyond }

func (r *Rule) looksBeyond() bool {
	beyond := func(a Attribute) bool { return a.ClientChosen() || a.kind > kindBasic }
	if slices.ContainsFunc(r.recipe.parts, beyond) {
		return true
	}
	reads := r.Reads()
	return slices.ContainsFunc(reads.Match, beyond) || slices.ContainsFunc(reads.Tiers, beyond) || slices.ContainsFunc(reads.Cost, beyond)
}
