package peers

import (
	"slices"
	"strings"
)

// size is how many clauses there are in m, all in all.
func (m match) size() int {
	n := len(m)
	for _, c := range m {
		n += c.not.size()
	}
	return n
}

// simple returns a match that takes the same requests as m, without what cannot
// matter in it.
func (m match) simple() match {
	all := make(match, 0, len(m))
	for _, c := range m {
		s := clause{conds: c.conds}
		for _, n := range c.not {
			if !c.apart(n) {
				s.not = append(s.not, n.within(c))
			}
		}
		s.not = s.not.joined().least()
		all = append(all, s)
	}
	return all.joined().least()
}

// within returns n without the conditions that hold wherever c does.
func (n clause) within(c clause) clause {
	rest := clause{not: n.not}
	for _, one := range n.conds {
		if !slices.ContainsFunc(c.conds, one.equal) {
			rest.conds = append(rest.conds, one)
		}
	}
	if len(rest.conds) == 0 && len(rest.not) == 0 {
		return n // it takes all that c does, which our own language will say
	}
	return rest
}

// least leaves out the clauses that others cover.
func (m match) least() match {
	var kept match
	for i, c := range m {
		if !slices.ContainsFunc(m[:i], func(d clause) bool { return d.covers(c) }) &&
			!slices.ContainsFunc(m[i+1:], func(d clause) bool { return d.covers(c) && !c.covers(d) }) {
			kept = append(kept, c)
		}
	}
	return kept
}

// joined makes one of clauses that differ in the values of one condition.
func (m match) joined() match {
	var all match
	for _, c := range m {
		if !slices.ContainsFunc(all, func(d clause) bool { return d.join(c) }) {
			all = append(all, clause{conds: slices.Clone(c.conds), not: c.not})
		}
	}
	return all
}

// join adds the values of d to those of c, if the clauses differ in one condition.
func (c clause) join(d clause) bool {
	if len(c.conds) != len(d.conds) || !c.not.equal(d.not) {
		return false
	}
	differs := -1
	for i := range c.conds {
		switch a, b := c.conds[i], d.conds[i]; {
		case a.equal(b):
		case differs >= 0 || a.field != b.field || a.regexp || b.regexp:
			return false
		default:
			differs = i
		}
	}
	if differs < 0 {
		return true
	}
	one := &c.conds[differs]
	values := slices.Clone(one.values)
	for _, v := range d.conds[differs].values {
		if !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	one.values = values
	return true
}

func (c cond) equal(d cond) bool {
	return c.field == d.field && c.regexp == d.regexp && slices.Equal(c.values, d.values)
}

func (c clause) equal(d clause) bool {
	return slices.EqualFunc(c.conds, d.conds, cond.equal) && c.not.equal(d.not)
}

func (m match) equal(n match) bool { return slices.EqualFunc(m, n, clause.equal) }

// apart reports whether no request that c takes can be taken by n, for what is plain
// to see: other paths, or a value that is wanted there and that n wants to be missing.
func (c clause) apart(n clause) bool {
	for _, one := range n.conds {
		for _, have := range c.conds {
			if one.field == "path" && have.field == "path" && one.path() && have.path() && !overlap(have.values[0], one.values[0]) {
				return true
			}
		}
	}
	return len(n.conds) == 0 && len(n.not) == 1 && len(n.not[0].not) == 0 && len(n.not[0].conds) == 1 &&
		slices.ContainsFunc(c.conds, func(have cond) bool {
			missing := n.not[0].conds[0]
			return have.field == missing.field && slices.Equal(missing.values, []string{"*"})
		})
}

// covers reports whether c takes all that d does, where that is plain to see.
func (c clause) covers(d clause) bool {
	for _, one := range c.conds {
		if !slices.ContainsFunc(d.conds, func(have cond) bool {
			return one.equal(have) || one.field == "path" && have.field == "path" && one.path() && have.path() && within(have.values[0], one.values[0])
		}) {
			return false
		}
	}
	for _, n := range c.not {
		if !d.apart(n) && !slices.ContainsFunc(d.not, n.equal) {
			return false
		}
	}
	return true
}

// path reports whether c is of one path, or of all that begin so.
func (c cond) path() bool {
	if len(c.values) != 1 || c.regexp {
		return false
	}
	text, _ := cutPath(c.values[0])
	return !strings.Contains(text, "*")
}

// cutPath splits a path pattern into what is plain and how it goes on: "", "*/**" for
// any text, "/**" for segments.
func cutPath(p string) (text, rest string) {
	for _, rest := range []string{"*/**", "/**"} {
		if text, ok := strings.CutSuffix(p, rest); ok {
			return text, rest
		}
	}
	return p, ""
}

// overlap reports whether two path patterns may take the same path.
func overlap(p, q string) bool {
	a, more := cutPath(p)
	b, also := cutPath(q)
	return a == b || more != "" && strings.HasPrefix(b, a) || also != "" && strings.HasPrefix(a, b)
}

// within reports whether all paths that p takes are taken by q.
func within(p, q string) bool {
	a, more := cutPath(p)
	b, rest := cutPath(q)
	switch rest {
	case "":
		return p == q
	case "*/**":
		return strings.HasPrefix(a, b)
	}
	return a == b && more != "*/**" || strings.HasPrefix(a, b+"/")
}
