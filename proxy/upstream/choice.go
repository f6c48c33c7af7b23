package upstream

import "sort"

// choice says which servers requests go to, as far as active checks decide. It
// is made anew at each change and never changed.
type choice struct {
	first  tier // what takes the requests
	second tier // backups, for when all of first are out
	panic  bool // checks are ignored: fewer than half are up
	dead   bool // checks say that every server is down
}

// tier is a list of servers and their shares.
type tier struct {
	servers []*Server
	upto    []int64 // sums of the weights; nil when all are equal
	total   int64
	stride  int64 // from one turn to the next; coprime to total
}

// choose makes the choice from what checks have found. Where fewer than half of
// the servers that are no backups are up, all of those get requests; where none
// is, backups do, and the same holds for them.
func choose(servers []*Server) *choice {
	var main, mainUp, spare, spareUp []*Server
	for _, s := range servers {
		list, up := &main, &mainUp
		if s.backup {
			list, up = &spare, &spareUp
		}
		*list = append(*list, s)
		if !s.down.Load() {
			*up = append(*up, s)
		}
	}
	c := &choice{dead: len(mainUp)+len(spareUp) == 0}
	switch {
	case len(mainUp) > 0 && 2*len(mainUp) >= len(main):
		c.first, c.second = newTier(mainUp), newTier(spareUp)
	case len(mainUp) > 0:
		c.first, c.second, c.panic = newTier(main), newTier(spareUp), true
	case len(spareUp) > 0 && 2*len(spareUp) >= len(spare):
		c.first = newTier(spareUp)
	case len(spareUp) > 0:
		c.first, c.panic = newTier(spare), true
	default:
		c.first, c.second, c.panic = newTier(main), newTier(spare), true
	}
	return c
}

func newTier(servers []*Server) tier {
	t := tier{servers: servers, stride: 1}
	if len(servers) == 0 {
		return t
	}
	unit, equal := servers[0].weight, true
	for _, s := range servers {
		unit, equal = gcd(unit, s.weight), equal && s.weight == servers[0].weight
	}
	if equal {
		t.total = int64(len(servers))
		return t
	}
	t.upto = make([]int64, len(servers))
	for i, s := range servers {
		t.total += s.weight / unit
		t.upto[i] = t.total
	}
	// About the golden section of the whole: turns of one server lie far apart.
	for t.stride = max(1, t.total*618/1000); gcd(t.stride, t.total) != 1; t.stride++ {
	}
	return t
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// at returns the index of the server whose share i falls into, 0 <= i < total.
func (t *tier) at(i int64) int {
	if t.upto == nil {
		return int(i)
	}
	return sort.Search(len(t.upto), func(k int) bool { return i < t.upto[k] })
}

// turn returns the index of the server whose turn number n is. Of total turns
// in a row each server has as many as its weight says.
func (t *tier) turn(n uint64) int {
	return t.at(int64(n%uint64(t.total)) * t.stride % t.total)
}
