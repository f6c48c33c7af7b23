package limit

import "sync/atomic"

// Numbers are what a rule says of one Table at one time. They are comparable:
// equal Numbers decide alike.
type Numbers struct {
	Bucket Bucket
	// Carry is the most units in use that a State brings along from older
	// numbers: the burst for a bucket, whose part of a unit is dropped too (in
	// the limit's favour). 0 means that a State brings all of them, as windows
	// and slots do.
	Carry int64
	// Slots says that what is taken is in use until it is given back, as requests
	// in progress are: such a State is never forgotten to make room.
	Slots bool
	// Refunds, unless nil, bounds what is given back: as much as it admits.
	Refunds Bucket
	// Penalty is what repeated refusals earn.
	Penalty Penalty
}

// generation is one set of Numbers of a Table, in force from an instant on. The
// generations of a Table form a list from old to new; whoever holds an old one
// can walk to the newest, and the collector frees what nobody holds.
type generation struct {
	num  uint32
	at   Instant // when it took over from the one before
	nums Numbers
	next atomic.Pointer[generation]

	token *tokenBucket // that of nums.Bucket, if it is one: the usual case, without the interface
	queue *queue       // the same of one that lets requests wait
	makes bool         // a check may have to make more than a place for its key
}

func newGeneration(num uint32, at Instant, nums Numbers) *generation {
	g := &generation{num: num, at: at, nums: nums}
	g.makes = g.listed() || nums.Refunds != nil || nums.Penalty.After != nil
	switch b := nums.Bucket.(type) {
	case tokenBucket:
		g.token = &b
	case gcra:
		g.token = &b.tokenBucket
	case queue:
		g.queue = &b
	}
	return g
}

// listed says that the instants of all units are in a list, which no edit of the
// numbers changes.
func (g *generation) listed() bool {
	_, ok := g.nums.Bucket.(slidingLog)
	return ok
}

// carry converts s, a State of g, to the newest numbers. Units used stay used:
// s is brought up to each swap with the numbers before it, and goes on with
// those after it. forgiven says that some numbers held less than was used, so
// that what older Grants took is no longer in s.
func (g *generation) carry(s State) (_ State, newest *generation, forgiven bool) {
	for next := g.next.Load(); next != nil; next = g.next.Load() {
		if !g.listed() {
			s, _ = g.nums.Bucket.Take(s, next.at, 0)
		}
		if c := next.nums.Carry; c > 0 {
			s.Rem = 0
			if s.Used > c {
				s.Used, forgiven = c, true
			}
		}
		g = next
	}
	s.Gen = g.num
	return s, g, forgiven
}

// worth returns how many of n units that were taken under g at the instant at
// can still be given back under the numbers of generation to: those that have
// not refilled whole before the swap. What does not refill is worth itself, in the
// window or the entry it was taken in. Rounding up like carry is safe for any
// number of Grants: with x(t) the whole units come back in time t, a State has
// Σn - x(T) in use since it was last empty T ago, and x(T) is at most the sum of
// the x(Δ) of Grants since then, so what all of them give back is at most that.
func (g *generation) worth(at Instant, n int64, to uint32) (int64, Instant) {
	for g.num < to && (g.token != nil || g.queue != nil) {
		next := g.next.Load()
		if next == nil {
			break
		}
		s, _ := g.nums.Bucket.Take(State{}, at, 0)
		s.Used = n // it may be more than g holds, when older numbers held more
		s, _ = g.nums.Bucket.Take(s, next.at, 0)
		n = s.Used
		if g.nums.Carry > 0 {
			at = max(at, next.at)
		}
		g = next
	}
	return n, at
}
