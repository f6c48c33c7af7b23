package rules

import (
	"cmp"
	"strings"
)

// moreSpecific orders two patterns, before them the one that is more specific
// (negative: p is). Their paths decide segment by segment: text is more specific
// than text with a "*", that than "*" and ":name", those than "**"; and a path
// that ends more than one that goes on in "**". Of two alike the one with a method
// is more specific (HEAD more than GET, which takes both); then the one with a
// host, an exact one more than one with a "*", of which the longer one is.
func (p *Pattern) moreSpecific(q *Pattern) int {
	for i := range max(len(p.segs), len(q.segs)) + 1 {
		if a, b := p.rank(i), q.rank(i); a != b {
			return cmp.Compare(b, a)
		}
	}
	return cmp.Or(
		cmp.Compare(methodRank(q.method), methodRank(p.method)),
		cmp.Compare(hostRank(q.host), hostRank(p.host)),
	)
}

// rank says how specific p is in segment i of a path: the more the higher.
func (p *Pattern) rank(i int) int {
	if i >= len(p.segs) {
		if p.rest {
			return 0
		}
		return 4 // the path ends
	}
	switch p.segs[i].kind {
	case segText:
		return 3
	case segGlob:
		return 2
	}
	return 1
}

func methodRank(method string) int {
	switch method {
	case "":
		return 0
	case "HEAD":
		return 2
	}
	return 1
}

func hostRank(host *Glob) int {
	switch {
	case host == nil:
		return -1
	case host.exact():
		return maxHost + 1
	}
	return len(host.text) - strings.Count(host.text, "*")
}

// meets reports whether some request is taken by p and by q.
func (p *Pattern) meets(q *Pattern) bool {
	return methodsMeet(p.method, q.method) && (p.host == nil || q.host == nil || p.host.meets(q.host)) && p.meetsPath(q)
}

// methodsMeet reports whether matches of two methods, "" being any, take one in
// common.
func methodsMeet(a, b string) bool {
	return a == "" || b == "" || methodCovers(a, b) || methodCovers(b, a)
}

// meetsPath reports whether some path is taken by p and by q.
func (p *Pattern) meetsPath(q *Pattern) bool {
	if len(p.segs) > len(q.segs) {
		p, q = q, p
	}
	if len(p.segs) < len(q.segs) && !p.rest {
		return false
	}
	for i := range p.segs {
		if !p.segs[i].meets(&q.segs[i]) {
			return false
		}
	}
	return true
}

// meets reports whether some segment is taken by s and by t.
func (s *segment) meets(t *segment) bool {
	switch {
	case s.kind == segOne || s.kind == segName || t.kind == segOne || t.kind == segName:
		return true
	case s.kind == segText:
		return t.matches(s.text)
	case t.kind == segText:
		return s.matches(t.text)
	}
	return s.glob.meets(t.glob)
}

// meets reports whether some text is taken by g and by h.
func (g *Glob) meets(h *Glob) bool {
	switch {
	case g.exact():
		return h.matches(g.text)
	case h.exact():
		return g.matches(h.text)
	}
	// Of two with stars, a text that begins with the longer of the beginnings, ends
	// with the longer of the ends and holds all else in between is taken by both.
	a, b := g.parts, h.parts
	begin := strings.HasPrefix(a[0], b[0]) || strings.HasPrefix(b[0], a[0])
	x, y := a[len(a)-1], b[len(b)-1]
	return begin && (strings.HasSuffix(x, y) || strings.HasSuffix(y, x))
}

// meets reports whether some request is taken by m and by p. It says yes when it
// cannot tell.
func (m *Match) meets(p *Pattern) bool {
	if m == nil {
		return true
	}
	for i := range m.Any {
		if m.Any[i].meets(p) {
			return true
		}
	}
	return false
}

func (c *Clause) meets(p *Pattern) bool {
	if c.Pattern != nil && !c.Pattern.meets(p) {
		return false
	}
	some := func(n int, meets func(i int) bool) bool {
		for i := range n {
			if meets(i) {
				return true
			}
		}
		return n == 0
	}
	return some(len(c.Methods), func(i int) bool { return methodsMeet(c.Methods[i], p.method) }) &&
		some(len(c.Paths), func(i int) bool { return c.Paths[i].meetsPath(p) }) &&
		some(len(c.Hosts), func(i int) bool { return p.host == nil || c.Hosts[i].meets(p.host) }) &&
		(c.Not == nil || !c.Not.Covers(&Match{Any: []Clause{{Pattern: p}}}))
}
