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

	shared bool // an overflow counter
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
// flight which may come back any moment: nobody knows when, so a second. They
// come back as if all had been taken with the last of them, so those of a window
// that is over, or that have refilled, shorten nothing. st is the State of h under g.
func (g *generation) soften(r *Result, h home, st State, now Instant, n int64) {
	if h.side == nil || h.side.reserved <= 0 || r.Wait <= time.Second {
		return
	}
	st, _ = g.take(st, h.list, now, 0)
	at := h.side.since
	if b, ok := g.nums.Bucket.(slidingLog); ok && now.Sub(at) < time.Duration(b.w) {
		at = st.At // without its list a State has all its units there
	}
	st = g.nums.Bucket.Adjust(st, at, h.side.reserved)
	if _, without := g.nums.Bucket.Take(st, now, n); without.OK {
		r.Wait = time.Second
	}
}

// put stores st. When it is another life of the key, older requests have nothing
// in flight in it.
func (h home) put(st State) {
	if h.side != nil && st.Born != h.st.Born {
		h.side.reserved = 0
	}
	*h.st = st
}

// giveBack settles what a claim has taken from h: n of its units come back, if
// that is more than none, and those it had reserved are reserved no longer. It
// returns how many came back, or n if that is less than none.
func (g *generation) giveBack(h home, c *Claim, now Instant, n int64) int64 {
	if h.side != nil && c.taken.reserved {
		h.side.reserved -= c.N
	}
	if n > 0 && !c.taken.canceled && g.nums.Refunds != nil && !g.refund(h, now, n) {
		return 0 // as much has come back as may in a period: this counts
	}
	*h.st, _ = g.take(*h.st, h.list, now, 0)
	if n > 0 {
		if g.queue != nil {
			return g.giveTurnBack(h, c, now, n)
		}
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

// gives returns how many units the loss of h, whose State is st under g, gives
// away: what it has in use, and what it could not have refunded. all says that
// it is at its limit.
func (g *generation) gives(st State, h home, now Instant) (n int64, all bool) {
	_, full := g.nums.Bucket.Take(State{}, now, 0)
	st, r := g.take(st, h.list, now, 0)
	n = full.Remaining - r.Remaining
	all = r.Remaining == 0 || g.queue != nil && st.Used > g.queue.burst // somebody waits
	if h.side != nil && g.nums.Refunds != nil {
		_, full = g.nums.Refunds.Take(State{}, now, 0)
		_, left := g.nums.Refunds.Take(h.side.refunds, now, 0)
		n += full.Remaining - left.Remaining
	}
	return n, all
}

// overflow is a counter that clients share for whom a full Table has no place.
// It has the rule's own numbers, so that all of them together stay bounded.
type overflow struct {
	mu     sync.Mutex // taken after all shard locks of a request, in the order of the tables
	latest Instant
	seq    uint64
	state  State
	list   stamps
	side   side
	first  [minRing]stamp // where the list begins
}

// overflows is how many such counters a Table has.
const overflows = 8

func (t *Table) overflow(d Digest) *overflow {
	all := t.spill.Load()
	if all == nil {
		all = new([overflows]overflow)
		for i := range all {
			all[i].state.Gen = t.newest.Load().num
			all[i].list.ring = all[i].first[:]
		}
		if !t.spill.CompareAndSwap(nil, all) {
			all = t.spill.Load()
		}
	}
	return &all[d.Lo%overflows]
}

func (o *overflow) home(listed bool) home {
	h := home{st: &o.state, side: &o.side, shared: true}
	if listed {
		h.list = &o.list
	}
	return h
}
