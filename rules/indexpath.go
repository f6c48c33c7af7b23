package rules

import "strings"

// pathNode is a place in a tree of path patterns: each step down is a segment.
type pathNode struct {
	text  table[*pathNode] // text
	one   *pathNode        // "*" and ":name"
	globs []globStep       // text with "*" in it
	end   *place           // patterns that end here
	deep  *place           // patterns that end here in "**"
	loose bool             // of the root: paths are looked up in their loose form
}

type globStep struct {
	glob Glob
	next *pathNode
}

// find appends what is found under the request's path.
func (p *pathNode) find(f *Facts, found []uint32) []uint32 {
	path := f.pathFor(p.loose)
	if path == "" || path[0] != '/' {
		return found
	}
	return p.walk(f, path[1:], found)
}

// walk appends what is found below p under the rest of a path. No place is met
// twice, for each is reached by one way down.
func (p *pathNode) walk(f *Facts, rest string, found []uint32) []uint32 {
	for {
		if p.deep != nil {
			found = p.deep.find(f, found)
		}
		if rest == "" {
			if p.end != nil {
				found = p.end.find(f, found)
			}
			return found
		}
		var seg string
		seg, rest, _ = strings.Cut(rest, "/")
		for i := range p.globs {
			if g := &p.globs[i]; g.glob.matches(seg) {
				found = g.next.walk(f, rest, found)
			}
		}
		next, ok := p.text.get(seg)
		switch {
		case ok && p.one != nil:
			found = p.one.walk(f, rest, found)
		case p.one != nil:
			next = p.one
		case !ok:
			return found
		}
		p = next
	}
}

// pathMaker makes what a tree consists of, some at a time: there are many, and all
// live as long as the tree.
type pathMaker struct {
	nodes  []pathNode
	places []place
	ways   []uint32
}

const madeAhead = 64

func (m *pathMaker) node() *pathNode {
	if len(m.nodes) == 0 {
		m.nodes = make([]pathNode, madeAhead)
	}
	n := &m.nodes[0]
	m.nodes = m.nodes[1:]
	return n
}

// place returns a place with one way.
func (m *pathMaker) place(way uint32) *place {
	if len(m.places) == 0 {
		m.places, m.ways = make([]place, madeAhead), make([]uint32, madeAhead)
	}
	n := &m.places[0]
	n.here = m.ways[:1:1]
	n.here[0] = way
	m.places, m.ways = m.places[1:], m.ways[1:]
	return n
}

// step returns the place that s leads to, made if need be.
func (p *pathNode) step(m *pathMaker, s *segment) *pathNode {
	switch s.kind {
	case segText:
		next, ok := p.text.get(s.text)
		if !ok {
			next = m.node()
			p.text.put(s.text, next)
		}
		return next
	case segGlob:
		for i := range p.globs {
			if p.globs[i].glob.text == s.glob.text {
				return p.globs[i].next
			}
		}
		next := m.node()
		p.globs = append(p.globs, globStep{*s.glob, next})
		return next
	}
	if p.one == nil {
		p.one = m.node()
	}
	return p.one
}

// add puts way n under a pattern.
func (p *pathNode) add(m *pathMaker, pattern *Pattern, n uint32) {
	for i := range pattern.segs {
		p = p.step(m, &pattern.segs[i])
	}
	at := &p.end
	if pattern.rest {
		at = &p.deep
	}
	if *at == nil {
		*at = m.place(n)
		return
	}
	(*at).here = append((*at).here, n)
}

// each calls do with every node of the tree.
func (p *pathNode) each(do func(*place)) {
	if p == nil {
		return
	}
	for _, n := range [2]*place{p.end, p.deep} {
		if n != nil {
			do(n)
		}
	}
	p.one.each(do)
	for i := range p.globs {
		p.globs[i].next.each(do)
	}
	p.text.each(func(next *pathNode) { next.each(do) })
}

// allWays appends all ways of the tree.
func (p *pathNode) allWays(found []uint32) []uint32 {
	p.each(func(n *place) { found = n.all(found) })
	return found
}
