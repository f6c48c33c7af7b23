package limit

import (
	"cmp"
	"context"
	"math"
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
// up to Most; Acquire fills in Result and Blocked. A Claim may be used again once its Grant
// is settled, by filling in those fields anew; that is cheaper than to copy a new one.
type Claim struct {
	// Table holds the rule's States. The claims of one request name different Tables.
	Table *Table
	// Gen is the generation of numbers of the caller's rule list. In memory the
	// newest generation decides, whatever Gen says: a lowered limit holds at once,
	// also for requests that began before it.
	Gen uint32
	// Mode is Enforce or DryRun.
	Mode Mode
	// Closed says what happens to a key for which a full Table has no place: it
	// is refused. Otherwise it takes the place of the key whose loss gives away
	// the least, or shares a counter with all others that find no place.
	Closed bool
	// Pending says that the units are only used up when Done says so: a refusal
	// that is due to such units has a Wait of a second at most.
	Pending bool
	// Tag is the caller's own; Acquire does not look at it.
	Tag int32
	// Key is the digest of the key the rule found in the request.
	Key Digest
	// N is the number of units, 0 or more.
	N int64
	// Spare is how many units must be left over once the N are taken, for claims
	// that matter more; 0 or more.
	Spare int64
	// Most, unless nil, is how many units may be in use for this claim, 1 or more,
	// whatever the Table's newest numbers say: the plans of one rule that count
	// requests in progress share a State, so that a client that goes over to
	// another plan keeps its requests counted. It is read when the claim is
	// decided, so that a list that has lowered it holds at once. It is for Tables
	// of slots only.
	Most *atomic.Int64
	// Shared, unless nil, says how the claim is counted in the Limiter's Store. The
	// Table is then what counts while the store cannot be asked; unless the claim
	// is Closed, which is refused then, or Open, which passes.
	Shared *Shared
	// Open says that the claim passes when its store cannot be asked.
	Open bool

	// Fate says who decided the claim, Receipt what a store needs to settle it.
	Fate    Fate
	Receipt Receipt
	// Result is what the Table said: whether this claim had room and what is
	// left. When another claim refused the request nothing was taken, and
	// Remaining is what was there before.
	Result Result
	// Returned is how many of the N units came back in the end; negative when more
	// were charged. Grant.Done sets it.
	Returned int64
	// SettledAt and SettledSeq say when it was settled, as Verdict.At and Seq say it
	// of decisions; they are 0 as long as nothing in the Table has changed by that.
	SettledAt  Instant
	SettledSeq uint64

	s      *shard
	over   *overflow
	gen    *generation
	next   State
	at     Instant // of the take: now, or what the shard had already seen
	loses  int64   // units given away when the key at place makes room
	place  int32
	found  bool
	stored bool
	tight  bool // there is no memory for its shard to grow

	reserved bool // N counts among what its side says is in flight
	released bool
	deferred bool // slots that are not taken before the request leaves
	canceled bool // the request never left

	// Blocked says that the key is blocked for its refusals, or is from this one on;
	// its Result has nothing left, and waits for the end of that.
	Blocked bool
}

// Verdict is the decision on a whole request.
type Verdict struct {
	// OK says that every enforced claim had room, and all were taken.
	OK bool
	// Full says that a Closed claim had room but its Table had none for a new
	// key: the request is refused because memory is full. The claim's Result is
	// not OK and has no Wait.
	Full bool
	// Lost says that the store of a Closed claim could not be asked, and that the
	// request is refused for that.
	Lost bool
	// Wait is the longest Wait among the claims that refused, or Never. When OK it
	// is how long the request has to wait for its turn: it has what it asked for but
	// slots, which are to be asked for again, alone, when it leaves.
	Wait time.Duration
	// At is the instant at which it was decided: that of the caller, or the latest
	// that one of the Tables had already seen of these keys' neighbours. Seq numbers
	// the decisions and the settlements of all Tables of a Budget. Of two that have a
	// key in common the earlier one has the lower Seq and no later At; so whoever
	// takes them in the order of (At, Seq) repeats what was decided.
	At  Instant
	Seq uint64

	punishes bool // a claim that refused has a penalty
}

// refuse notes that a claim has no room.
func (v *Verdict) refuse(wait time.Duration) {
	if v.OK {
		v.OK, v.Wait = false, 0
	}
	v.Wait = longer(v.Wait, wait)
}

// Limiter decides requests: in this process, and in a Store that other gateways
// ask too. The zero value is ready; it is safe for concurrent use.
type Limiter struct {
	// Store counts the claims that are Shared. Without one their Tables do.
	Store Store

	turn time.Duration // what a request waits for anyway, elsewhere
}

// Acquire takes all claims at the instant now, or none when an enforced one has
// no room. The decision is atomic: all States are computed and stored under the
// locks of all their shards. It sorts claims in place and keeps them until
// Grant.Done; it allocates nothing but what new keys need. Claims that are Shared
// are asked for in the Store once all others had room; they are taken all or none
// too, and what was taken here goes back when the Store refuses. That waits as long
// as the Store does, whatever becomes of the context. Acquire panics on a negative N, on two
// claims of one Table, and on Tables of different Budgets.
func (l *Limiter) Acquire(_ context.Context, now Instant, claims []Claim) (Grant, Verdict) {
	if l.Store != nil && anyShared(claims) {
		return l.ask(now, claims, ToTake)
	}
	sortClaims(claims)
	v, fresh := look(claims, now, l.turn)
	for v.OK && fresh {
		c := cramped(claims)
		if c == nil {
			findPlaces(claims, now, &v)
			break
		}
		for i := range claims {
			claims[i].unlock()
		}
		c.tight = !c.Table.grow(c.Key)
		v, fresh = look(claims, now, l.turn)
	}
	if v.OK && v.Wait > 0 {
		queueUp(claims, now, &v)
	}
	if !v.OK && v.punishes {
		punish(claims, now, &v)
	}
	v.Seq = number(claims)
	for i := range claims {
		c := &claims[i]
		switch {
		case v.OK:
			c.store(now)
		case c.Result.OK:
			c.Result = c.peek(now)
		}
		c.unlock()
	}
	if !v.OK {
		return Grant{}, v
	}
	return Grant{claims: claims}, v
}

// Peek says what Acquire would say of claims at the instant now, and takes
// nothing: it is for a request that waits for more before it can ask, and need
// not wait when this much refuses it already. Each Result is that of Acquire. It
// does not look for places, so what it says yes to may still find memory full; and
// by the time of an Acquire others may have come first. Else it is like Acquire.
func (l *Limiter) Peek(now Instant, claims []Claim) Verdict {
	if l.Store != nil && anyShared(claims) {
		_, v := l.ask(now, claims, ToLook)
		return v
	}
	return l.peek(now, claims, false)
}

// Try is Peek for a request that goes no further when this refuses it, which then
// counts as a refusal.
func (l *Limiter) Try(now Instant, claims []Claim) Verdict {
	if l.Store != nil && anyShared(claims) {
		_, v := l.ask(now, claims, ToTry)
		return v
	}
	return l.peek(now, claims, true)
}

func (l *Limiter) peek(now Instant, claims []Claim, counts bool) Verdict {
	sortClaims(claims)
	v, _ := look(claims, now, l.turn)
	if counts && !v.OK && v.punishes {
		punish(claims, now, &v)
	}
	v.Seq = number(claims)
	for i := range claims {
		c := &claims[i]
		if !v.OK && c.Result.OK {
			c.Result = c.peek(now)
		}
		c.unlock()
	}
	return v
}

// look lets every claim look, of a request that has to wait for turn anyway. fresh says
// that one of them has room and no State yet.
func look(claims []Claim, now Instant, turn time.Duration) (v Verdict, fresh bool) {
	v.OK, v.At = true, now
	for i := range claims {
		claims[i].lock()
	}
	for i := range claims { // with all locks taken, so that the memory of all is waited for at once
		claims[i].seek()
	}
	for i := range claims {
		c := &claims[i]
		c.look(now)
		v.At = max(v.At, c.at)
	}
	for i := range claims {
		c := &claims[i]
		if c.at != v.At {
			c.seek()
			c.see(now, v.At) // a request is decided at one instant, by all of its claims
		}
		switch {
		case c.Result.OK:
			fresh = fresh || !c.found
			if c.Result.Wait > turn && c.Mode == Enforce {
				turn = c.Result.Wait
			}
		case c.Mode == Enforce:
			v.OK = false
			v.Wait = longer(v.Wait, c.Result.Wait)
			v.punishes = v.punishes || c.gen.nums.Penalty.After != nil
		}
	}
	if turn > 0 {
		putOffSlots(claims, turn, &v)
	}
	return v, fresh
}

// number returns the next number of a decision; all claims hold their locks.
func number(claims []Claim) uint64 {
	if len(claims) == 0 {
		return 0
	}
	return claims[0].Table.budget.decisions.Add(1)
}

// cramped returns a claim whose shard should grow before it gets its place, or nil.
func cramped(claims []Claim) *Claim {
	for i := range claims {
		if c := &claims[i]; c.cramped() {
			return c
		}
	}
	return nil
}

// unlock undoes the locks of look and share. It must be called once.
func (c *Claim) unlock() {
	if c.s != nil {
		c.s.mu.Unlock()
	}
	if c.over != nil && c.place == shared {
		c.over.mu.Unlock()
		c.place = 0
	}
}

// sortClaims brings claims into the order in which locks are taken, and refuses
// what would deadlock before the first lock.
func sortClaims(claims []Claim) {
	sorted := true
	for i := range claims {
		c := &claims[i]
		c.tight, c.Returned, c.SettledAt, c.SettledSeq, c.Fate = false, 0, 0, 0, Here
		if c.N < 0 {
			panic("limit: claim of a negative number of units")
		}
		if i > 0 {
			before := claims[i-1].Table
			if c.Table.budget != before.budget {
				panic("limit: tables of different budgets in one request")
			}
			sorted = sorted && before.seq < c.Table.seq
		}
	}
	if sorted {
		return
	}
	slices.SortFunc(claims, func(a, b Claim) int { return cmp.Compare(a.Table.seq, b.Table.seq) })
	for i := 1; i < len(claims); i++ {
		if claims[i].Table == claims[i-1].Table {
			panic("limit: two claims of one table in one request")
		}
	}
}

// lock locks the claim's shard.
func (c *Claim) lock() {
	c.s, c.over, c.place = c.Table.lock(c.Key), nil, 0
	c.found, c.stored, c.reserved, c.released, c.deferred, c.canceled = false, false, false, false, false, false
}

// seek finds the State of the claim's key in its locked shard.
func (c *Claim) seek() {
	c.next = State{}
	if s := c.s; s != nil {
		if i, found := s.find(c.Key); found {
			c.place, c.found, c.next = int32(i), true, s.states[i]
		}
	}
}

// look computes what the take would do at the instant now, or the latest that its
// neighbours have seen.
func (c *Claim) look(now Instant) {
	if c.s == nil {
		c.see(now, max(now, Instant(c.Table.latest.Load())))
		return
	}
	c.see(now, max(now, c.s.latest))
}

// see computes what the take would do at the instant at, once seek has found the State.
func (c *Claim) see(now, at Instant) {
	s := c.s
	c.at, c.stored, c.Blocked = at, false, false
	if s != nil {
		s.latest = at
	}
	if !c.found {
		c.ask(home{}, now)
		return
	}
	i := int(c.place)
	if g := c.Table.newest.Load(); g.token != nil && c.next.Gen == g.num && c.Spare == 0 && s.sides == nil && s.records == nil {
		// The usual case of ask, which does the same.
		c.gen = g
		g.token.take(&c.next, c.at, c.N, &c.Result)
		c.Result.countFrom(now, c.at)
	} else if s.records != nil && s.records[i].blocks(g, c.at) {
		c.block(s.homeAt(i), s.records[i].until, now)
	} else {
		c.ask(s.homeAt(i), now)
	}
	c.stored = c.Result.OK
}

// ask computes what the take from h, whose State is in c.next, would do.
func (c *Claim) ask(h home, now Instant) {
	g := c.Table.newest.Load()
	if h.st != nil && c.next.Gen != g.num {
		c.next, g = c.Table.convert(c.next)
	}
	c.gen = g
	var before State
	if c.Spare > 0 {
		before = c.next
	}
	if g.token != nil {
		g.token.take(&c.next, c.at, c.N, &c.Result)
	} else {
		c.next, c.Result = c.take(g, c.next, h.list, c.N)
	}
	if c.Spare > 0 && c.Result.OK && c.Result.Remaining < c.Spare {
		c.next, c.Result = c.take(g, before, h.list, c.N+c.Spare)
	}
	c.next.Gen = g.num
	if !g.nums.Slots { // whose second is a guess from whenever one asks
		c.Result.countFrom(now, c.at)
	}
	if !c.Result.OK && h.side != nil && h.side.reserved > 0 {
		if st, _, forgiven := c.Table.generation(h.st.Gen).carry(*h.st); !forgiven {
			g.soften(&c.Result, h, st, c.at, c.N)
		}
	}
}

// take asks for n units of st under g, or under what the claim has instead.
func (c *Claim) take(g *generation, st State, list *stamps, n int64) (State, Result) {
	if c.Most != nil {
		return concurrency{c.Most.Load()}.Take(st, c.at, n)
	}
	return g.take(st, list, c.at, n)
}

// home returns where the State of the claim lives; without a State yet its st is nil.
func (c *Claim) home() home {
	switch {
	case c.over != nil:
		return c.over.home(c.Table.listed)
	case c.s != nil && c.found:
		return c.s.homeAt(int(c.place))
	}
	return home{}
}

// peek says what is there without taking anything.
func (c *Claim) peek(now Instant) Result {
	var st State
	h := c.home()
	if h.st != nil {
		st, c.gen, _ = c.Table.generation(h.st.Gen).carry(*h.st)
	}
	var r Result
	if c.gen.token != nil {
		c.gen.token.take(&st, c.at, 0, &r)
	} else {
		_, r = c.take(c.gen, st, h.list, 0)
	}
	r.countFrom(now, c.at)
	return r
}

// findPlaces finds a place for every claim that will store a new key. When there
// is none for an enforced one the request is refused, and nothing is reserved.
func findPlaces(claims []Claim, now Instant, v *Verdict) {
	for i := range claims {
		c := &claims[i]
		switch c.findPlace() {
		case placed:
			continue
		case nowhere:
			c.Result = Result{}
			v.Full = v.Full || c.Mode == Enforce
		case crowded:
			c.share(now)
		}
		switch {
		case c.Mode != Enforce:
		case !c.Result.OK:
			v.refuse(c.Result.Wait)
		case v.OK:
			v.Wait = max(v.Wait, c.Result.Wait)
		}
	}
	for i := range claims {
		if c := &claims[i]; !v.OK {
			c.leavePlace()
		}
	}
}

// leavePlace gives back the place that was counted for a new key.
func (c *Claim) leavePlace() {
	if c.stored && !c.found && c.place == free {
		c.Table.keys.Add(-1)
		c.Table.release(c.Table.ring())
		c.stored = false
	}
}

// Where a State goes whose key has no place in its shard: to a free one that is
// counted already, or to the counter that is shared. Any other place is that of
// the key it replaces.
const (
	free   = -1
	shared = -2
)

// outlook is what findPlace found.
type outlook uint8

const (
	placed  outlook = iota // there is a place, or none is needed
	nowhere                // memory is full, and the claim is Closed
	crowded                // memory is full: share a counter with others
)

func (c *Claim) findPlace() outlook {
	if !c.Result.OK || c.found || c.deferred || !c.remembers() {
		return placed
	}
	t := c.Table
	if c.s != nil {
		if t.keys.Add(1) <= t.maxKeys.Load() && !c.s.full() && t.reserve(t.ring()) {
			c.place, c.stored = free, true
			return placed
		}
		t.keys.Add(-1)
		var i int
		if i, c.loses = t.victim(c.s, c.Key, c.at, c.Closed); i >= 0 {
			c.place, c.stored = int32(i), true
			return placed
		}
	}
	if c.Closed {
		return nowhere
	}
	return crowded
}

// remembers says that what the claim took of a new key must be stored. A take of
// nothing need not be.
func (c *Claim) remembers() bool {
	return c.Pending || !c.gen.nums.Bucket.Idle(c.next, c.at)
}

// cramped says that all the claim lacks is room in its shard, which may grow.
func (c *Claim) cramped() bool {
	return c.Result.OK && !c.found && !c.deferred && c.s != nil && !c.tight && c.s.full() &&
		c.remembers() && c.Table.keys.Load() < c.Table.maxKeys.Load()
}

// share asks the counter of those without a place, and keeps it locked.
func (c *Claim) share(now Instant) {
	o := c.Table.overflow(c.Key)
	o.mu.Lock()
	c.over, c.place = o, shared
	c.at = max(c.at, o.latest)
	o.latest = c.at
	c.next = o.state
	c.ask(o.home(c.Table.listed), now)
	c.stored = c.Result.OK
	c.Table.spilled.Add(1)
}

// store writes the State that look computed.
func (c *Claim) store(now Instant) {
	if !c.stored {
		if !c.Result.OK { // of a dry run
			c.punish(now)
		}
		return
	}
	t := c.Table
	switch {
	case c.over != nil:
		h := c.over.home(t.listed)
		h.put(c.next)
		c.note(h)
		return
	case c.found && c.s.sides == nil:
		c.s.states[c.place] = c.next
	case c.found:
		c.s.homeAt(int(c.place)).put(c.next)
	default:
		if c.place != free {
			if c.loses > 0 {
				t.evictions.Add(1)
				t.evictedUnits.Add(c.loses)
			}
			t.release(t.ringBytes(c.s.homeAt(int(c.place))) - t.ring())
			c.s.remove(int(c.place))
		}
		c.next.Born = t.born.Add(1)
		c.place = int32(c.s.put(c.Key, c.next))
		if t.listed {
			c.s.lists[c.place].ring = make([]stamp, minRing)
		}
	}
	if t.listed || c.Pending || c.gen.nums.Refunds != nil {
		if c.Pending || c.gen.nums.Refunds != nil {
			t.addSides(c.s)
		}
		c.note(c.s.homeAt(int(c.place)))
	}
}

// note writes what of the take is not in the State: its instant, and that it
// may come back.
func (c *Claim) note(h home) {
	if h.list != nil && c.N > 0 {
		c.Table.spare(h.list, c.at)
		h.list.push(c.at, c.N)
		h.st.At = h.list.newest().at
	}
	if h.side != nil && c.Pending {
		h.side.reserved += c.N
		h.side.since = c.at
		c.reserved = true
	}
}

// Outcome says what a request's end means for one of its claims: how many of
// its units are given back, or, when negative, how many more are charged.
type Outcome func(*Claim) int64

// Grant is what an admitted request holds. It refers to the Tables it took
// from, whatever becomes of the rule list meanwhile. Settle it with Done; a
// Grant that is dropped keeps everything it took. The zero Grant holds nothing.
type Grant struct {
	claims  []Claim
	store   Store
	settled uint32
}

// Done settles the Grant at now: once, whoever calls first; further calls do
// nothing. Slots of requests in progress always come back; of everything else a
// nil Outcome keeps all. It gives back in units, to the State they were taken
// from and to no other, and never more than is still owed.
func (g *Grant) Done(now Instant, o Outcome) { g.end(now, o, false) }

func (g *Grant) end(now Instant, o Outcome, canceled bool) {
	if !atomic.CompareAndSwapUint32(&g.settled, 0, 1) {
		return
	}
	claims := g.claims
	g.claims = nil
	for i := range claims {
		c := &claims[i]
		if !c.Result.OK || c.released {
			continue // a dry run that had no room, or what is back already
		}
		switch c.Fate {
		case Here:
		case There:
			g.settleThere(c, now, o, canceled)
			continue
		default:
			continue
		}
		n := int64(0)
		switch {
		case canceled:
			n, c.canceled = c.N, true
		case c.gen.nums.Slots:
			n = c.N
		case o != nil:
			n = max(-math.MaxInt64, min(o(c), c.N))
		}
		if n < 0 || c.stored && (n > 0 || c.Pending) {
			c.Returned = c.Table.settle(c, now, n)
		}
	}
}

// Split returns a Grant for each claim, in the order the claims are in now, so that
// each can be settled at an instant of its own; g holds nothing any more. It must not
// run at the same time as Done.
func (g *Grant) Split() []Grant {
	list := make([]Grant, len(g.claims))
	if atomic.CompareAndSwapUint32(&g.settled, 0, 1) {
		for i := range g.claims {
			list[i].claims = g.claims[i : i+1 : i+1]
		}
		g.claims = nil
	}
	return list
}

// Release gives back the slots that the Grant holds of t before its end, once;
// Done passes over them then. A Table of anything but requests in progress, or
// none of the Grant's, is left alone. It must not run at the same time as Done.
func (g *Grant) Release(t *Table, now Instant) {
	for i := range g.claims {
		c := &g.claims[i]
		if c.Table == t && c.Fate == There && c.Result.OK && !c.released {
			if c.Shared.Terms.Algorithm == Concurrency {
				c.released = true
				g.settleThere(c, now, nil, false)
			}
			continue
		}
		if c.Table == t && c.gen != nil && c.gen.nums.Slots && c.Result.OK && c.stored && !c.released {
			c.released = true
			c.Returned = t.settle(c, now, c.N)
		}
	}
}
