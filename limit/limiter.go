package limit

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// Mode says what a Claim may do.
type Mode uint8

const (
	// Enforce is the mode of a live rule: without room the request is refused.
	Enforce Mode = iota
	// DryRun counts like Enforce on requests that all enforced claims admit, and
	// never changes the outcome.
	DryRun
)

// Claim is what one request wants of one Table. The caller fills in the fields
// up to Tag; Acquire fills in Result.
type Claim struct {
	// Table holds the rule's States. The claims of one request name different Tables.
	Table *Table
	// Gen is the generation of numbers of the caller's rule list. In memory the
	// newest generation decides, whatever Gen says: a lowered limit holds at once,
	// also for requests that began before it.
	Gen uint32
	// Mode is Enforce or DryRun.
	Mode Mode
	// Tag is the caller's own; Acquire does not look at it.
	Tag int32
	// Key is the digest of the key the rule found in the request.
	Key Digest
	// N is the number of units, 0 or more.
	N int64

	// Result is what the Table said: whether this claim had room and what is
	// left. When another claim refused the request nothing was taken, and
	// Remaining is what was there before.
	Result Result

	s      *shard
	gen    *generation
	next   State
	at     Instant // of the take: now, or what the shard had already seen
	loses  int64   // units given away when the key at place makes room
	place  int32
	found  bool
	stored bool
}

// Verdict is the decision on a whole request.
type Verdict struct {
	// OK says that every enforced claim had room, and all were taken.
	OK bool
	// Full says that a claim had room but its Table had none for a new key: the
	// request is refused because memory is full. Its claim's Result is not OK
	// and has no Wait.
	Full bool
	// Wait is the longest Wait among the claims that refused, or Never.
	Wait time.Duration
}

// Limiter decides requests in this process. The zero value is ready; it is safe
// for concurrent use.
type Limiter struct{}

// Acquire takes all claims at the instant now, or none when an enforced one has
// no room. The decision is atomic: all States are computed and stored under the
// locks of all their shards. It sorts claims in place and keeps them until
// Grant.Done; it allocates nothing but what new keys need. The context is for
// stores that wait; memory does not. Acquire panics on a negative N, on two
// claims of one Table, and on Tables of different Budgets.
func (l *Limiter) Acquire(_ context.Context, now Instant, claims []Claim) (Grant, Verdict) {
	sortClaims(claims)
	v := Verdict{OK: true}
	for i := range claims {
		c := &claims[i]
		c.look(now)
		if !c.Result.OK && c.Mode == Enforce {
			v.OK = false
			v.Wait = longer(v.Wait, c.Result.Wait)
		}
	}
	if v.OK {
		v.Full = !reserve(claims)
		v.OK = !v.Full
	}
	for i := range claims {
		c := &claims[i]
		switch {
		case v.OK:
			c.store()
		case c.Result.OK:
			c.Result = c.peek(now)
		}
		if c.s != nil {
			c.s.mu.Unlock()
			c.s = nil
		}
	}
	if !v.OK {
		return Grant{}, v
	}
	return Grant{claims: claims}, v
}

// sortClaims brings claims into the order in which locks are taken, and refuses
// what would deadlock before the first lock.
func sortClaims(claims []Claim) {
	sorted := true
	for i := range claims {
		if claims[i].N < 0 {
			panic("limit: claim of a negative number of units")
		}
		sorted = sorted && (i == 0 || claims[i-1].Table.seq < claims[i].Table.seq)
	}
	if !sorted {
		slices.SortFunc(claims, func(a, b Claim) int { return cmp.Compare(a.Table.seq, b.Table.seq) })
	}
	for i := 1; i < len(claims); i++ {
		if claims[i].Table.seq == claims[i-1].Table.seq || claims[i].Table.budget != claims[0].Table.budget {
			panic("limit: two claims of one table, or tables of different budgets, in one request")
		}
	}
}

// look locks the claim's shard and computes what the take would do.
func (c *Claim) look(now Instant) {
	t := c.Table
	c.s, c.place, c.loses, c.found, c.stored, c.next = t.lock(c.Key), 0, 0, false, false, State{}
	if c.s == nil {
		c.at = max(now, Instant(t.latest.Load()))
	} else {
		c.at = max(now, c.s.latest)
		c.s.latest = c.at
		var i int
		if i, c.found = c.s.find(c.Key); c.found {
			c.next = c.s.states[i]
		}
		c.place = int32(i)
	}
	g := t.newest.Load()
	if c.found && c.next.Gen != g.num {
		c.next, g = t.convert(c.next)
	}
	c.gen = g
	c.next, c.Result = g.nums.Bucket.Take(c.next, c.at, c.N)
	c.next.Gen = g.num
	c.Result.countFrom(now, c.at)
}

// peek says what is there without taking anything.
func (c *Claim) peek(now Instant) Result {
	var st State
	if c.s != nil && c.found {
		st = c.s.states[c.place]
		st, c.gen, _ = c.Table.generation(st.Gen).carry(st)
	}
	_, r := c.gen.nums.Bucket.Take(st, c.at, 0)
	r.countFrom(now, c.at)
	return r
}

// reserve finds a place for every claim that will store a new key. When there
// is none for an enforced one it returns false and has reserved nothing.
func reserve(claims []Claim) bool {
	for i := range claims {
		c := &claims[i]
		if c.reserve() || c.Mode != Enforce {
			continue
		}
		c.Result = Result{}
		for j := range i {
			if p := &claims[j]; p.stored && !p.found && p.place == free {
				p.Table.keys.Add(-1)
			}
		}
		return false
	}
	return true
}

// free as the place of a claim says that its shard has room for the key; any
// other place of a key that is not found is that of the key it replaces.
const free = -1

func (c *Claim) reserve() bool {
	if !c.Result.OK || c.found {
		c.stored = c.Result.OK
		return true
	}
	t := c.Table
	if c.gen.nums.Bucket.Idle(c.next, c.at) {
		return true // took nothing: nothing to remember
	}
	if c.s == nil {
		return false
	}
	if t.keys.Add(1) <= t.maxKeys.Load() {
		if s := t.makeRoom(c.s, c.Key); s != nil {
			c.s, c.place, c.stored = s, free, true
			return true
		}
	}
	t.keys.Add(-1)
	var i int
	i, c.loses = t.victim(c.s, c.Key, c.at)
	c.place, c.stored = int32(i), i >= 0
	return i >= 0
}

// store writes the State that look computed.
func (c *Claim) store() {
	switch {
	case !c.stored:
		return
	case c.found:
		c.s.states[c.place] = c.next
		return
	case c.place != free:
		if t := c.Table; c.loses > 0 {
			t.evictions.Add(1)
			t.evictedUnits.Add(c.loses)
		}
		c.s.remove(int(c.place))
	}
	c.next.Born = c.Table.born.Add(1)
	c.s.put(c.Key, c.next)
}

// Outcome says what a request's end means for one of its claims: how many of
// its units are given back, or, when negative, how many more are charged.
type Outcome func(*Claim) int64

// Grant is what an admitted request holds. It refers to the Tables it took
// from, whatever becomes of the rule list meanwhile. Settle it with Done; a
// Grant that is dropped keeps everything it took. The zero Grant holds nothing.
type Grant struct {
	claims  []Claim
	settled uint32
}

// Done settles the Grant at now: once, whoever calls first; further calls do
// nothing. A nil Outcome keeps everything. It gives back in units, to the State
// they were taken from and to no other, and never more than is still owed.
func (g *Grant) Done(now Instant, o Outcome) {
	if !atomic.CompareAndSwapUint32(&g.settled, 0, 1) {
		return
	}
	claims := g.claims
	g.claims = nil
	if o == nil {
		return
	}
	for i := range claims {
		c := &claims[i]
		if !c.Result.OK {
			continue // a dry run that had no room
		}
		if n := min(o(c), c.N); n < 0 || n > 0 && c.stored {
			c.Table.settle(c, now, n)
		}
	}
}
