package limit

import (
	"fmt"
	"time"
)

// Penalty is what repeated refusals earn. The zero Penalty is none. It is
// comparable.
type Penalty struct {
	// After admits the refusals that go unpunished: the first it has no room for
	// begins a block. nil is no penalty.
	After Bucket
	// Block is how long the first block takes; each further one takes twice as long
	// as the one before, up to Max. Each Max without a refusal, counted from the end
	// of the last block, takes one doubling back.
	Block, Max time.Duration
}

// NewPenalty returns the Penalty of more than refusals in per. refusals and per are
// bound as for NewTokenBucket, block is at least 1 ns and max at least block; both
// are at most 366 days. Anything else is ErrNumbers.
func NewPenalty(refusals int64, per, block, max time.Duration) (Penalty, error) {
	after, err := NewTokenBucket(refusals, per, refusals)
	if err != nil {
		return Penalty{}, err
	}
	if block < 1 || max < block || max > maxPeriod {
		return Penalty{}, fmt.Errorf("%w: blocks of %v to %v", ErrNumbers, block, max)
	}
	return Penalty{After: after, Block: block, Max: max}, nil
}

// record is what is remembered of a key's refusals.
type record struct {
	// The State of Penalty.After, and the generation it was counted under.
	at   Instant
	used int64
	rem  uint64
	gen  uint32

	level uint32  // how often the next block is doubled
	until Instant // end of the last block
	quiet Instant // the last refusal, or the end of the last block; then so many whole Max later
}

// refusals returns what r has counted, as far as the numbers of g hold it.
func (r *record) refusals(g *generation) State {
	s := State{At: r.at, Used: r.used, Rem: r.rem}
	if r.gen != g.num { // a part of a refusal is of other parts now
		_, full := g.nums.Penalty.After.Take(State{}, r.at, 0)
		s.Used, s.Rem = min(s.Used, full.Remaining), 0
	}
	return s
}

// calm returns the doublings that are left at now, and the instant from which the
// next one is to go.
func (r *record) calm(p *Penalty, now Instant) (level uint32, quiet Instant) {
	if r.level == 0 || now < r.quiet {
		return r.level, r.quiet
	}
	n := min(int64(now.Sub(r.quiet)/p.Max), int64(r.level))
	return r.level - uint32(n), r.quiet.Add(time.Duration(n) * p.Max)
}

// refused counts a refusal at now. It returns how long the block takes that this
// one begins, or 0.
func (r *record) refused(g *generation, now Instant) time.Duration {
	p := &g.nums.Penalty
	s, took := p.After.Take(r.refusals(g), now, 1)
	r.at, r.used, r.rem, r.gen = s.At, s.Used, s.Rem, g.num
	r.level, _ = r.calm(p, now)
	if r.quiet = max(r.quiet, now); took.OK {
		return 0
	}
	d := p.Block
	for range r.level {
		d = min(2*d, p.Max)
	}
	if d < p.Max {
		r.level++
	}
	r.until = now.Add(d)
	r.quiet = r.until
	return d
}

// blocks says that a block is in force.
func (r *record) blocks(g *generation, now Instant) bool {
	return now < r.until && g.nums.Penalty.After != nil
}

// clean says that nothing of r is worth remembering.
func (r *record) clean(g *generation, now Instant) bool {
	if g.nums.Penalty.After == nil {
		return true
	}
	level, _ := r.calm(&g.nums.Penalty, now)
	return now >= r.until && level == 0 && g.nums.Penalty.After.Idle(r.refusals(g), now)
}

// clean says that nothing of the record at place i is worth remembering.
func (s *shard) clean(i int, g *generation, now Instant) bool {
	records := s.records()
	return records == nil || records[i].clean(g, now)
}

// weight is what the loss of r gives away.
func (r *record) weight(g *generation, now Instant) int64 {
	if r.clean(g, now) {
		return 0
	}
	s, _ := g.nums.Penalty.After.Take(r.refusals(g), now, 0)
	return s.Used + int64(r.level)
}

// punish counts the refusals of a request that is not to go on. One that is blocked
// counts nowhere.
func punish(claims []Claim, now Instant, v *Verdict) {
	for i := range claims {
		if c := &claims[i]; c.Blocked && c.Mode == Enforce {
			return
		}
	}
	for i := range claims {
		if c := &claims[i]; c.Mode == Enforce && !c.Result.OK {
			if c.punish(now); c.Blocked {
				v.refuse(c.Result.Wait)
			}
		}
	}
}

// punishable says that a refusal of c counts. Who is not remembered has none behind him, and
// those who share a counter are not punished for each other.
func (c *Claim) punishable() bool {
	return c.gen.nums.Penalty.After != nil && !c.Blocked && c.taken.found && c.over == nil && !c.taken.deferred
}

// punish counts a refusal of c. Without memory for that nobody is punished; the limit
// holds all the same.
func (c *Claim) punish(now Instant) {
	if !c.punishable() {
		return
	}
	records := c.s.records()
	if records == nil {
		return
	}
	c.Table.budget.change()
	if d := records[c.place].refused(c.gen, c.at); d > 0 {
		wait := longer(c.Result.Wait, d+max(0, c.at.Sub(now)))
		c.Blocked, c.Result = true, Result{Wait: wait, Reset: max(0, wait)}
	}
}

// block answers for a key that is blocked, to the end of that or until there is
// room, if that is later.
func (c *Claim) block(h home, until, now Instant) {
	wait := until.Sub(now)
	if c.ask(h, now); !c.Result.OK {
		wait = longer(wait, c.Result.Wait)
	}
	c.Blocked, c.Result = true, Result{Wait: wait, Reset: max(0, wait)}
}
