package rules

import "slices"

// index finds those of a list of matches that take a request, in a time that
// hardly grows with those that do not. A request is looked up by what it has: its
// path, its host, its address, the value of a header. What is found there is
// asked in full all the same, so that the index decides nothing: it may find too
// much and must never find too little. It is immutable and safe for concurrent
// use.
type index struct {
	matches []*Match
	ways    []way
	root    place
}

// way is one of the ways in which a match is met: one of its clauses and, if that
// names paths, one of those. The number of a way is its place in the list, so
// that ways in the order of their numbers are in that of the file.
type way struct {
	owner  int32    // the place of its match in the list
	clause *Clause  // nil takes every request
	path   *Pattern // one of clause.Paths, or nil
}

// newIndex returns the index of matches; a nil one takes every request.
func newIndex(matches []*Match) *index { return newIndexOf(matches, fewWays) }

// indexOf returns the index of the matches of list: made, if that is of these
// very matches, or a new one.
func indexOf[T any](list []T, match func(T) *Match, made *index) *index {
	matches := make([]*Match, len(list))
	for i, e := range list {
		matches[i] = match(e)
	}
	if made != nil && slices.Equal(made.matches, matches) {
		return made
	}
	return newIndex(matches)
}

// newIndexOf is newIndex with a choice of how many ways are told apart.
func newIndexOf(matches []*Match, few int) *index {
	x := &index{matches: matches, ways: make([]way, 0, len(matches))}
	for owner, m := range matches {
		x.add(int32(owner), m)
	}
	all := make([]uint32, len(x.ways))
	for i := range all {
		all[i] = uint32(i)
	}
	b := builder{ways: x.ways, few: few, copies: 16*len(all) + 4096}
	b.fill(&x.root, all, nil)
	return x
}

// add adds the ways of a match.
func (x *index) add(owner int32, m *Match) {
	if m == nil {
		x.ways = append(x.ways, way{owner: owner})
		return
	}
	for i := range m.Any {
		c := &m.Any[i]
		if len(c.Paths) == 0 {
			x.ways = append(x.ways, way{owner: owner, clause: c})
		}
		for _, p := range c.Paths {
			x.ways = append(x.ways, way{owner: owner, clause: c, path: p})
		}
	}
}

// find returns the numbers of all ways that might take the request, ascending and
// each once. They are in scratch memory of f until the next find or first.
func (x *index) find(f *Facts) []uint32 { return x.findWith(f, &f.found) }

// findWith is find with another scratch memory.
func (x *index) findWith(f *Facts, scratch *[]uint32) []uint32 {
	found := x.root.find(f, (*scratch)[:0])
	*scratch = found
	return sorted(found)
}

// sorted sorts numbers in place and drops those that come again.
func sorted(numbers []uint32) []uint32 {
	if !slices.IsSorted(numbers) {
		slices.Sort(numbers)
	}
	return slices.Compact(numbers)
}

// first returns the first match that takes the request, or -1.
func (x *index) first(f *Facts) int { return x.firstWith(f, &f.found) }

// firstWith is first with another scratch memory.
func (x *index) firstWith(f *Facts, scratch *[]uint32) int {
	for _, n := range x.findWith(f, scratch) {
		if w := &x.ways[n]; w.matches(f) {
			return int(w.owner)
		}
	}
	return -1
}

// matches reports whether w takes the request.
func (w *way) matches(f *Facts) bool {
	return w.clause == nil || (w.path == nil || w.path.Matches(f)) && w.clause.matchesBeside(f)
}

// capture returns the segment of that name in the path of a request that w took,
// or "". A nil way has none.
func (w *way) capture(f *Facts, name string) string {
	if w == nil || w.clause == nil {
		return ""
	}
	for _, p := range [2]*Pattern{w.clause.Pattern, w.path} {
		if p == nil {
			continue
		}
		if seg, ok := p.capture(f.pathFor(p.loose), name); ok {
			return seg
		}
	}
	return ""
}
