package rules

// Group is a named set of clients: a client is in it if any of its Members says
// so. It is immutable.
type Group struct {
	// Name is its name in the file, and as a tier in headers and metrics.
	Name string
	// Members say who is in it, each by one attribute; at least one, and no
	// attribute twice.
	Members []Members
	// Pos is where its name stands.
	Pos Pos
}

// Members are the clients whose requests have one of some values in an attribute.
type Members struct {
	// Attribute is what is looked at.
	Attribute Attribute
	// File holds the values, one a line, unless its Path is "".
	File FilePath

	values *valueSet // nil until the file has been read
}

// Has reports whether the client that sent the request is in the group.
func (g *Group) Has(f *Facts) bool {
	for i := range g.Members {
		if m := &g.Members[i]; m.values.holds(f, m.Attribute) {
			return true
		}
	}
	return false
}

// Size returns how many values are listed in the group.
func (g *Group) Size() int {
	n := 0
	for i := range g.Members {
		n += g.Members[i].values.listed
	}
	return n
}

// of returns the values that the group lists for an attribute, or nil. All of an
// address counts as ip, however many of its bits make a key.
func (g *Group) of(a Attribute) *valueSet {
	for i := range g.Members {
		if m := &g.Members[i]; m.Attribute == a || m.Attribute.IsIP() && a.IsIP() {
			return m.values
		}
	}
	return nil
}

// lists reports whether the group lists values of an attribute.
func (g *Group) lists(a Attribute) bool {
	for i := range g.Members {
		if m := &g.Members[i]; m.Attribute == a || m.Attribute.IsIP() && a.IsIP() {
			return true
		}
	}
	return false
}

// same reports whether both groups list the same values in the same words.
func (g *Group) same(h *Group) bool {
	if len(g.Members) != len(h.Members) {
		return false
	}
	for i := range g.Members {
		a, b := &g.Members[i], &h.Members[i]
		if a.Attribute != b.Attribute || a.values != b.values && a.values.sum != b.values.sum {
			return false
		}
	}
	return true
}

// groupSet are the groups of a list by name.
type groupSet map[string]*Group

// named returns the groups of these names, all of which exist.
func (g groupSet) named(names []string) []*Group {
	list := make([]*Group, len(names))
	for i, name := range names {
		list[i] = g[name]
	}
	return list
}
