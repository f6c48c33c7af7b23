package limit

// What a check needs memory for is made before it is decided, without the locks for
// which others wait: room for a new key, a longer list, what stands beside a State.

// want is what a claim needs before it is decided.
type want struct {
	room   bool // in its shard
	beside has  // its slot
	ring   int  // places of its list
}

// needy returns a claim that needs something before v, the verdict so far, is
// carried out, and what; or nil.
func needy(claims []Claim, v *Verdict) (*Claim, want) {
	for i := range claims {
		c := &claims[i]
		var w want
		switch {
		case c.Result.OK && v.OK:
			w = c.needs()
		case !c.Result.OK && v.OK == (c.Mode == DryRun):
			w.beside = c.lacking(c.gen.nums.Penalty.After != nil && c.punishable(), hasRecords)
		}
		if w != (want{}) {
			return c, w
		}
	}
	return nil, want{}
}

// needs is what the claim, which has room, needs before its take is stored.
func (c *Claim) needs() (w want) {
	if c.s == nil || c.taken.deferred || !c.taken.found && !c.remembers() {
		return want{}
	}
	w.beside = c.lacking(c.Pending || c.gen.nums.Refunds != nil, hasSides)
	if q := c.gen.queue; q != nil && q.leaky && c.taken.found { // which may still refuse it, see queueUp
		w.beside |= c.lacking(c.gen.nums.Penalty.After != nil, hasRecords)
	}
	if w.room = c.cramped(); w.room {
		return w
	}
	if c.Table.listed {
		w.ring = c.needsRing()
	}
	return w
}

// lacking returns what, if the claim is to have it and its shard has not.
func (c *Claim) lacking(is bool, what has) has {
	if !is || c.s == nil || c.s.has&what != 0 || c.lacks.beside {
		return 0
	}
	return what
}

// needsRing returns how many places a new ring of the key's list must have; 0 for none.
func (c *Claim) needsRing() int {
	n := minRing
	switch {
	case c.N == 0:
		return 0
	case c.taken.found:
		l := &c.s.more.lists[c.place]
		if n = l.grown(c.at); n == len(l.ring) {
			return 0
		}
	case c.s.full() || c.Table.keys.Load() >= c.Table.maxKeys.Load():
		return 0 // it will hardly get a place
	}
	if n == len(c.ring) {
		return 0
	}
	return n
}

// supply makes what a claim needs. The caller holds no lock, and has to look again.
func (c *Claim) supply(w want) {
	switch {
	case w.room:
		c.lacks.room = !c.Table.grow(c.Key, w.beside)
	case w.beside != 0:
		c.lacks.beside = !c.Table.furnish(c.Key, w.beside)
	case w.ring > 0:
		c.ring = make([]stamp, w.ring)
	}
}

// takeRing returns a ring of n places: the one that was made for it, as a rule.
func (c *Claim) takeRing(n int) []stamp {
	if r := c.ring; len(r) == n {
		c.ring = nil
		return r
	}
	return make([]stamp, n)
}
