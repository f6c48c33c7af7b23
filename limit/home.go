package limit

import (
	"sync"
	"time"
)

// home is where the State of a claim lives: in a shard, or in an overflow
// counter. Its lock is held.
type home struct {
	st   *State
	list *stamps // nil but for a sliding log
	side *side   // nil where nothing is reserved or refunded
}

// take asks g for n units of the State in h, without storing anything.
func (g *generation) take(st State, list *stamps, now Instant, n int64) (State, Result) {
	if list != nil {
		if b, ok := g.nums.Bucket.(slidingLog); ok {
			return b.takeFrom(list, st, now, n)
		}
	}
	return g.nums.Bucket.Take(st, now, n)
}

// adjust gives back or charges in h, whose State has been brought up to now.
func (g *generation) adjust(h home, at Instant, n int64) {
	if b, ok := g.nums.Bucket.(slidingLog); ok && h.list != nil {
		*h.st = b.adjustIn(h.list, *h.st, at, n)
		return
	}
	*h.st = g.nums.Bucket.Adjust(*h.st, at, n)
}

// idle says that nothing of a key is worth remembering.
func (g *generation) idle(st State, sd *side, now Instant) bool {
	if !g.nums.Bucket.Idle(st, now) {
		return false
	}
	return sd == nil || sd.reserved <= 0 && (g.nums.Refunds == nil || g.nums.Refunds.Idle(sd.refunds, now))
}

// soften shortens the wait of a refusal that only holds because of units in
// flight which may come back any moment: nobody knows when, so a second.
func (g *generation) soften(r *Result, st State, reserved int64, now Instant, n int64) {
	if r.Wait <= time.Second {
		return
	}
	st.Used = max(0, st.Used-reserved)
	if _, without := g.nums.Bucket.Take(st, now, n); without.OK {
		r.Wait = time.Second
	}
}

// giveBack settles what a claim has taken from h: n of its units come back, or
// -n more are charged, and those it had reserved are reserved no longer. It
// returns how many came back.
func (g *generation) giveBack(h home, c *Claim, now Instant, n int64) int64 {
	if h.side != nil && c.Pending {
		h.side.reserved = max(0, h.side.reserved-c.N)
	}
	if n > 0 && g.nums.Refunds != nil && !g.refund(h, now, n) {
		return 0 // as much has come back as may in a period: this counts
	}
	*h.st, _ = g.take(*h.st, h.list, now, 0)
	switch {
	case n < 0:
		g.adjust(h, now, n)
	case n > 0:
		if worth, at := c.gen.worth(c.at, n, g.num); worth > 0 {
			g.adjust(h, at, worth)
		}
	}
	return n
}

// refund says whether n units more may come back in this period.
func (g *generation) refund(h home, now Instant, n int64) bool {
	if h.side == nil {
		return false
	}
	next, r := g.nums.Refunds.Take(h.side.refunds, now, n)
	if r.OK {
		h.side.refunds = next
	}
	return r.OK
}

// overflow is a counter that clients share for whom a full Table has no place.
// It has the rule's own numbers, so that all of them together stay bounded.
type overflow struct {
	mu     sync.Mutex // taken after all shard locks of a request, in the order of the tables
	latest Instant
	state  State
	list   stamps
	side   side
}

// overflows is how many such counters a Table has.
const overflows = 8

func (t *Table) overflow(d Digest) *overflow {
	all := t.spill.Load()
	if all == nil {
		all = new([overflows]overflow)
		for i := range all {
			all[i].state.Gen = t.newest.Load().num
		}
		if !t.spill.CompareAndSwap(nil, all) {
			all = t.spill.Load()
		}
	}
	return &all[d.Lo%overflows]
}

// addSides gives s what requests in flight need beside their States, if wanted
// and not there yet. It is counted even when the budget is used up: it comes
// once for a shard.
func (t *Table) addSides(s *shard, wanted bool) {
	if wanted && s.sides == nil {
		s.sides = make([]side, len(s.keys))
		t.account(int64(len(s.keys)) * sideBytes)
	}
}

// remember adds a take to a list. Without memory for one entry more it joins the
// newest.
func (t *Table) remember(l *stamps, at Instant, n int64) {
	more := int64(l.grown(at)-len(l.ring)) * stampBytes
	if more > 0 && l.n > 0 {
		if !t.budget.take(more) {
			l.merge(at, n)
			return
		}
		t.budget.give(more) // the caller accounts for what the ring has become
	}
	l.push(at, n)
}

func (o *overflow) home(listed bool) home {
	h := home{st: &o.state, side: &o.side}
	if listed {
		h.list = &o.list
	}
	return h
}
