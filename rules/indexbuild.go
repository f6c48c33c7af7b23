package rules

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// builder makes the places of an index.
type builder struct {
	ways []way
	// few is how many ways are not told apart any further: to ask them all takes no
	// longer. A split must spare a request so many.
	few int
	// copies is how often a way may yet be put in a second place and further. Ways
	// that would take more stay where every request meets them.
	copies int
	pauses pauses
	key    [1]string // scratch
	steps  pathMaker
}

const (
	// fewWays serves best by measurement.
	fewWays = 8
	// mostSplits is how many splits may lie above one another.
	mostSplits = 32
)

// fill puts ways into n, told apart by whatever does so best. used are the axes
// of the splits above.
func (b *builder) fill(n *place, ways []uint32, used []axis) {
	b.pauses.step()
	a, ok := axis{}, false
	if len(ways) > b.few && len(used) < mostSplits {
		a, ok = b.best(ways, used)
	}
	if !ok {
		n.here = slices.Clip(ways)
		return
	}
	used = append(slices.Clip(used), a)
	n.here = nil
	n.by = &split{axis: a}
	var rest []uint32
	switch a.kind {
	case axisPath:
		rest = b.byPath(n.by, ways, used)
	case axisAddr:
		rest = b.byAddr(n.by, ways, used)
	default:
		rest = b.byKey(n.by, ways, used)
	}
	b.fill(&n.by.rest, rest, used)
}

// spread says how well an axis tells ways apart.
type spread struct {
	placed  int            // ways that have keys
	under   map[string]int // how many of them there are under each
	crowded int            // the most under one
}

// best returns the axis that leaves the fewest ways to ask, if one leaves few
// enough.
func (b *builder) best(ways []uint32, used []axis) (axis, bool) {
	spreads := map[axis]*spread{}
	for i, n := range ways {
		b.pauses.step()
		b.ways[n].axes(&b.key, func(a axis, keys []string) {
			if slices.Contains(used, a) {
				return
			}
			s := spreads[a]
			if s == nil {
				s = &spread{under: make(map[string]int, len(ways)-i)}
				spreads[a] = s
			}
			s.placed++
			for _, key := range keys {
				s.under[key]++
				s.crowded = max(s.crowded, s.under[key])
			}
		})
	}
	var best axis
	least, found := len(ways)-b.few, false
	for a, s := range spreads {
		left := len(ways) - s.placed + s.crowded
		if left < least || left == least && (!found || a.before(best)) {
			best, least, found = a, left, true
		}
	}
	return best, found
}

// before orders axes that serve equally well.
func (a axis) before(b axis) bool {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.attr.kind, b.attr.kind), strings.Compare(a.attr.name, b.attr.name)) < 0
}

// axes calls do with every axis w has keys for, and with keys by which it can be
// told how many ways share one. one is scratch for it.
func (w *way) axes(one *[1]string, do func(axis, []string)) {
	if w.clause == nil {
		return
	}
	if p := w.pattern(); p != nil && !p.anywhere() {
		text := p.text[max(0, strings.IndexByte(p.text, '/')):]
		if p.re != nil {
			text = joined(p.segs)
		}
		one[0] = text
		do(axis{kind: axisPath}, one[:])
	}
	if !w.clause.IP.Empty() {
		do(axis{kind: axisAddr}, []string{w.clause.IP.spans[0].from.String()})
	}
	if methods := w.clause.methods(); len(methods) > 0 {
		do(axis{kind: axisMethod}, methods)
	}
	if exact, below, ok := hostKeys(w.clause.hosts()); ok {
		do(axis{kind: axisHost}, append(exact, below...))
	}
	for i := range w.clause.Values {
		if is := &w.clause.Values[i]; is.Attribute.kind != kindJWT && !slices.ContainsFunc(w.clause.Values[:i], is.same) {
			if keys := is.keys(); keys != nil {
				do(axis{kind: axisValue, attr: is.Attribute}, keys)
			}
		}
	}
}

// pattern returns the pattern that the path of a request must meet, or nil.
func (w *way) pattern() *Pattern {
	if w.path == nil && w.clause != nil {
		return w.clause.Pattern
	}
	return w.path
}

// same reports whether other is about the same attribute.
func (is *Is) same(other Is) bool { return is.Attribute == other.Attribute }

// keys returns the values that is wants, or nil when one holds a wildcard.
func (is *Is) keys() []string {
	keys := make([]string, 0, len(is.Globs))
	for _, g := range is.Globs {
		if !g.exact() {
			return nil
		}
		keys = append(keys, g.text)
	}
	return keys
}

// hostKeys returns the hosts that globs take: exact ones, and of those like
// "*.example.com" what follows the star. It is false when there are others, or
// none.
func hostKeys(globs []Glob) (exact, below []string, ok bool) {
	for i := range globs {
		switch g := &globs[i]; {
		case g.exact():
			exact = append(exact, g.text)
		case len(g.parts) == 2 && g.parts[0] == "" && strings.HasPrefix(g.parts[1], "."):
			below = append(below, g.parts[1])
		default:
			return nil, nil, false
		}
	}
	return exact, below, len(globs) > 0
}

// take takes copies for a way of that many keys, or reports false.
func (b *builder) take(keys int) bool {
	if keys == 0 || keys-1 > b.copies {
		return false
	}
	b.copies -= keys - 1
	return true
}

// byPath puts the ways that name a path into a tree of paths and returns the
// others.
func (b *builder) byPath(s *split, ways []uint32, used []axis) (rest []uint32) {
	s.paths = &pathNode{}
	for _, n := range ways {
		b.pauses.step()
		if p := b.ways[n].pattern(); p != nil && !p.anywhere() {
			s.paths.add(&b.steps, p, n)
			s.paths.loose = p.loose // all of one index are, or none
		} else {
			rest = append(rest, n)
		}
	}
	s.paths.each(func(n *place) { b.fill(n, n.here, used) })
	return rest
}

// byAddr puts the ways that name addresses under their prefixes and returns the
// others.
func (b *builder) byAddr(s *split, ways []uint32, used []axis) (rest []uint32) {
	s.addrs = &addrIndex{}
	for _, n := range ways {
		var prefixes []netip.Prefix
		if c := b.ways[n].clause; c != nil {
			for _, span := range c.IP.spans {
				if prefixes = append(prefixes, span.prefixes()...); len(prefixes) > b.copies {
					break
				}
			}
		}
		if !b.take(len(prefixes)) {
			rest = append(rest, n)
			continue
		}
		for _, p := range prefixes {
			s.addrs.add(p, n)
		}
	}
	s.addrs.sort()
	for i := range s.addrs.prefixes {
		n := s.addrs.prefixes[i].next
		b.fill(n, n.here, used)
	}
	return rest
}

// byKey puts the ways that have keys under them and returns the others.
func (b *builder) byKey(s *split, ways []uint32, used []axis) (rest []uint32) {
	var under table[*place]
	below := suffixes{}
	for _, n := range ways {
		b.pauses.step()
		exact, wild := b.ways[n].keys(s.axis)
		if !b.take(len(exact) + len(wild)) {
			rest = append(rest, n)
			continue
		}
		for _, key := range exact {
			addWay(&under, key, n)
		}
		for _, key := range wild {
			addWay(&below.names, key, n)
			below.dots = max(below.dots, strings.Count(key, "."))
		}
	}
	fill := func(n *place) { b.fill(n, n.here, used) }
	under.each(fill)
	s.keys = under
	if below.dots > 0 {
		below.names.each(fill)
		s.below = &below
	}
	return rest
}

// keys returns the keys of w for an axis of texts, each once.
func (w *way) keys(a axis) (exact, below []string) {
	if w.clause == nil {
		return nil, nil
	}
	switch a.kind {
	case axisHost:
		exact, below, _ = hostKeys(w.clause.hosts())
	case axisMethod:
		for _, m := range w.clause.methods() {
			if exact = append(exact, m); m == "GET" {
				exact = append(exact, "HEAD")
			}
		}
	case axisValue:
		if i := slices.IndexFunc(w.clause.Values, func(is Is) bool { return is.Attribute == a.attr }); i >= 0 {
			exact = w.clause.Values[i].keys()
		}
	}
	return distinct(exact), distinct(below)
}

// distinct returns texts sorted, each once.
func distinct(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// addWay puts way n under key.
func addWay(t *table[*place], key string, n uint32) {
	at, ok := t.get(key)
	if !ok {
		at = &place{}
		t.put(key, at)
	}
	at.here = append(at.here, n)
}
