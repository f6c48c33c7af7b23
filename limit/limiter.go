package limit

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"
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

	s     *shard
	over  *overflow
	gen   *generation
	next  State
	at    Instant // of the take: now, or what the shard had already seen
	loses int64   // units given away when the key at place makes room
	ring  []stamp // made for the list of the key, which needs one
	asked Store   // that decided it, if its Fate is There
	place int32
	plain bool // it has room, and all that is to be done is to store next
	taken standing
	lacks lacks

	// Blocked says that the key is blocked for its refusals, or is from this one on;
	// its Result has nothing left, and waits for the end of that.
	Blocked bool
}

// standing is what has become of a claim so far.
type standing struct {
	found    bool // the Table has a State of the key
	stored   bool // the take is, or is to be, in the Table
	reserved bool // N counts among what its side says is in flight
	released bool
	deferred bool // slots that are not taken before the request leaves
	canceled bool // the request never left
}

// lacks is what there is no memory for.
type lacks struct {
	room   bool // for its shard to grow
	beside bool // for what should stand beside its slot
}

// Verdict is the decision on a whole request.
type Verdict struct {
	Ruling
	// Wait is the longest Wait among the claims that refused, or Never. When OK it
	// is how long the request has to wait for its turn: it has what it asked for but
	// slots, which are to be asked for again, alone, when it leaves.
	Wait time.Duration
	// At is the instant at which it was decided: that of the caller, or the latest
	// that one of the Tables had already seen of these keys' neighbours. Seq numbers
	// decisions and settlements, from 1 on. Of two that have a key in common the
	// earlier one has the lower Seq and no later At; so whoever takes them in the
	// order of (At, Seq) repeats what was decided. Of others several may have one Seq.
	At  Instant
	Seq uint64
}

// Ruling is the yes or no of a Verdict. It is a struct of its own so that a Verdict
// has four fields: the compiler keeps no more than that in registers. Nor do more
// than nine words come back from a call in them, and a Grant and a Verdict are nine.
// To copy through memory what was just written costs as much as a lock does.
type Ruling struct {
	// OK says that every enforced claim had room, and all were taken.
	OK bool
	// Full says that a Closed claim had room but its Table had none for a new
	// key: the request is refused because memory is full. The claim's Result is
	// not OK and has no Wait.
	Full bool
	// Lost says that the store of a Closed claim could not be asked, and that the
	// request is refused for that.
	Lost bool
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
	v, odd := look(claims, now, l.turn)
	if odd != 0 {
		v = l.special(claims, now, v, odd)
	}
	if !v.OK {
		for i := range claims {
			c := &claims[i]
			if c.Result.OK {
				c.Result = c.peek(now)
			}
			c.leave(v.Seq)
		}
		return Grant{}, v
	}
	for i := range claims {
		c := &claims[i]
		if i == 0 {
			c.Table.budget.change()
		}
		if c.plain {
			c.s.slots[c.place].st = c.next
			c.s.seq = v.Seq
			c.s.mu.Unlock()
			continue
		}
		c.store(now)
		c.leave(v.Seq)
	}
	return grantOf(claims), v
}

// oddity says what is not plain about a request.
type oddity uint8

const (
	makes    oddity = 1 << iota // something may have to be made before it is decided
	waits                       // it has room, and is to wait for its turn
	punishes                    // a claim that refused it has a penalty
)

// special goes on where something is odd: it makes what is needed, lets the request
// queue up, and counts what it is to be punished for.
func (l *Limiter) special(claims []Claim, now Instant, v Verdict, odd oddity) Verdict {
	for odd&makes != 0 {
		c, want := needy(claims, &v)
		if c == nil {
			if v.OK {
				findPlaces(claims, now, &v)
			}
			break
		}
		leave(claims)
		c.supply(want)
		v, odd = look(claims, now, l.turn)
	}
	if v.OK && v.Wait > 0 && queueUp(claims, now, &v) {
		odd |= punishes
	}
	if !v.OK && odd&punishes != 0 {
		punish(claims, now, &v)
	}
	return v
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
	v, odd := look(claims, now, l.turn)
	for odd&punishes != 0 && counts && !v.OK {
		c, want := needy(claims, &v)
		if c == nil {
			break
		}
		leave(claims)
		c.supply(want)
		v, odd = look(claims, now, l.turn)
	}
	if counts && !v.OK && odd&punishes != 0 {
		punish(claims, now, &v)
	}
	for i := range claims {
		c := &claims[i]
		if !v.OK && c.Result.OK {
			c.Result = c.peek(now)
		}
		c.leave(v.Seq)
	}
	return v
}

// look lets every claim look, of a request that has to wait for turn anyway, and says what
// is odd about them. The Seq is one more than any that the shards have seen (Lamport, "Time,
// clocks, and the ordering of events in a distributed system", 1978): to count decisions
// one after the other all processors would wait for one cache line.
func look(claims []Claim, now Instant, turn time.Duration) (v Verdict, odd oddity) {
	v.OK, v.At = true, now
	for i := range claims {
		claims[i].lock()
	}
	for i := range claims { // with all locks taken, so that the memory of all is waited for at once
		claims[i].seek()
	}
	for i := range claims {
		c := &claims[i]
		v.Seq = max(v.Seq, c.look(now)+1)
		v.At = max(v.At, c.at)
	}
	for i := range claims {
		c := &claims[i]
		if c.at != v.At {
			c.seek()
			c.see(now, v.At) // a request is decided at one instant, by all of its claims
		}
		if c.plain {
			continue
		}
		if c.gen.makes {
			odd |= makes
		}
		switch {
		case c.Result.OK:
			if !c.taken.found || c.Pending {
				odd |= makes
			}
			if c.Result.Wait > turn && c.Mode == Enforce {
				turn = c.Result.Wait
			}
		case c.Mode == Enforce:
			v.OK = false
			v.Wait = longer(v.Wait, c.Result.Wait)
			if c.gen.nums.Penalty.After != nil {
				odd |= punishes
			}
		}
	}
	if turn > 0 {
		odd |= waits
		v = putOffSlots(claims, turn, v)
	}
	return v, odd
}

// leave undoes the locks of look and share.
func leave(claims []Claim) {
	for i := range claims {
		claims[i].leave(0)
	}
}

// leave undoes the locks of look and share, and notes the number of the decision
// where they were; 0 is none. It must be called once.
func (c *Claim) leave(seq uint64) {
	if c.s != nil {
		c.s.seq = max(c.s.seq, seq)
		c.s.mu.Unlock()
	}
	if c.over != nil && c.place == shared {
		c.over.seq = max(c.over.seq, seq)
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
		c.lacks, c.Returned, c.SettledAt, c.SettledSeq, c.Fate = lacks{}, 0, 0, 0, Here
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
	c.over, c.place, c.taken = nil, 0, standing{}
	if dir := c.Table.dir.Load(); dir != nil { // the usual case of Table.lock
		s := dir.shard(c.Key.Hi)
		s.mu.Lock()
		if c.s = s; !s.dead {
			return
		}
		s.mu.Unlock()
	}
	c.s = c.Table.lock(c.Key)
}

// seek finds the State of the claim's key in its locked shard.
func (c *Claim) seek() {
	c.next = State{}
	if s := c.s; s != nil {
		if i, found := s.find(c.Key); found {
			c.place, c.taken.found, c.next = int32(i), true, s.slots[i].st
		}
	}
}

// look computes what the take would do at the instant now, or the latest that its
// neighbours have seen. It returns the number of the latest decision there.
func (c *Claim) look(now Instant) (seq uint64) {
	if c.s == nil {
		c.see(now, max(now, Instant(c.Table.latest.Load())))
		return c.Table.lastSeq.Load()
	}
	c.see(now, max(now, c.s.latest))
	return c.s.seq
}

// see computes what the take would do at the instant at, once seek has found the State.
func (c *Claim) see(now, at Instant) {
	s := c.s
	c.at, c.plain, c.Blocked, c.taken.stored = at, false, false, false
	if s != nil {
		s.latest = at
	}
	if !c.taken.found {
		c.ask(home{}, now)
		return
	}
	i := int(c.place)
	if g := c.Table.newest.Load(); g.token != nil && c.next.Gen == g.num && c.Spare == 0 && s.more == nil {
		// The usual case of ask, which does the same.
		c.gen = g
		g.token.take(&c.next, c.at, c.N, &c.Result)
		c.Result.countFrom(now, c.at)
		c.plain = c.Result.OK && !c.Pending && !g.makes
	} else if records := s.records(); records != nil && records[i].blocks(g, c.at) {
		c.block(s.homeAt(i), records[i].until, now)
	} else {
		c.ask(s.homeAt(i), now)
	}
	c.taken.stored = c.Result.OK
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
	case c.s != nil && c.taken.found:
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
			c.share(now, v)
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
	if c.taken.stored && !c.taken.found && c.place == free {
		c.Table.keys.Add(-1)
		c.Table.release(c.Table.ring())
		c.taken.stored = false
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
	if !c.Result.OK || c.taken.found || c.taken.deferred || !c.remembers() {
		return placed
	}
	t := c.Table
	if c.s != nil {
		if t.keys.Add(1) <= t.maxKeys.Load() && !c.s.full() && t.reserve(t.ring()) {
			c.place, c.taken.stored = free, true
			return placed
		}
		t.keys.Add(-1)
		var i int
		if i, c.loses = t.victim(c.s, c.Key, c.at, c.Closed); i >= 0 {
			c.place, c.taken.stored = int32(i), true
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
	return c.Result.OK && !c.taken.found && !c.taken.deferred && c.s != nil && !c.lacks.room && c.s.full() &&
		c.remembers() && c.Table.keys.Load() < c.Table.maxKeys.Load()
}

// share asks the counter of those without a place, and keeps it locked.
func (c *Claim) share(now Instant, v *Verdict) {
	o := c.Table.overflow(c.Key)
	o.mu.Lock()
	c.over, c.place = o, shared
	c.at = max(c.at, o.latest)
	o.latest = c.at
	c.next = o.state
	c.ask(o.home(c.Table.listed), now)
	c.taken.stored = c.Result.OK
	v.Seq = max(v.Seq, o.seq+1)
	c.Table.spilled.Add(1)
}

// store writes the State that look computed.
func (c *Claim) store(now Instant) {
	if !c.taken.stored {
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
	case c.taken.found && c.s.more == nil:
		c.s.slots[c.place].st = c.next
	case c.taken.found:
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
			c.s.more.lists[c.place].ring = c.takeRing(minRing)
		}
	}
	if t.listed || c.Pending {
		c.note(c.s.homeAt(int(c.place)))
	}
}

// note writes what of the take is not in the State: its instant, and that it
// may come back.
func (c *Claim) note(h home) {
	if h.list != nil && c.N > 0 {
		c.Table.spare(h.list, c.at, c)
		h.list.push(c.at, c.N)
		h.st.At = h.list.newest().at
	}
	if h.side != nil && c.Pending {
		h.side.reserved += c.N
		h.side.since = c.at
		c.taken.reserved = true
	}
}

// Outcome says what a request's end means for one of its claims: how many of
// its units are given back, or, when negative, how many more are charged.
type Outcome func(*Claim) int64

// Grant is what an admitted request holds. It refers to the Tables it took
// from, whatever becomes of the rule list meanwhile. Settle it with Done; a
// Grant that is dropped keeps everything it took. The zero Grant holds nothing.
type Grant struct {
	first   *Claim // of n
	n       uint32
	settled uint32
}

func grantOf(claims []Claim) Grant {
	return Grant{first: unsafe.SliceData(claims), n: uint32(len(claims))}
}

func (g *Grant) claims() []Claim { return unsafe.Slice(g.first, g.n) }

// Done settles the Grant at now: once, whoever calls first; further calls do
// nothing. Slots of requests in progress always come back; of everything else a
// nil Outcome keeps all. It gives back in units, to the State they were taken
// from and to no other, and never more than is still owed.
func (g *Grant) Done(now Instant, o Outcome) { g.end(now, o, false) }

func (g *Grant) end(now Instant, o Outcome, canceled bool) {
	if !atomic.CompareAndSwapUint32(&g.settled, 0, 1) {
		return
	}
	claims := g.claims()
	g.first, g.n = nil, 0
	for i := range claims {
		c := &claims[i]
		if !c.Result.OK || c.taken.released {
			continue // a dry run that had no room, or what is back already
		}
		switch c.Fate {
		case Here:
		case There:
			c.settleThere(now, o, canceled)
			continue
		default:
			continue
		}
		n := int64(0)
		switch {
		case canceled:
			n, c.taken.canceled = c.N, true
		case c.gen.nums.Slots:
			n = c.N
		case o != nil:
			n = max(-math.MaxInt64, min(o(c), c.N))
		}
		if n < 0 || c.taken.stored && (n > 0 || c.Pending) {
			c.Returned = c.Table.settle(c, now, n)
		}
	}
}

// Split returns a Grant for each claim, in the order the claims are in now, so that
// each can be settled at an instant of its own; g holds nothing any more. It must not
// run at the same time as Done.
func (g *Grant) Split() []Grant {
	claims := g.claims()
	list := make([]Grant, len(claims))
	if atomic.CompareAndSwapUint32(&g.settled, 0, 1) {
		for i := range claims {
			list[i] = grantOf(claims[i : i+1])
		}
		g.first, g.n = nil, 0
	}
	return list
}

// Release gives back the slots that the Grant holds of t before its end, once;
// Done passes over them then. A Table of anything but requests in progress, or
// none of the Grant's, is left alone. It must not run at the same time as Done.
func (g *Grant) Release(t *Table, now Instant) {
	claims := g.claims()
	for i := range claims {
		c := &claims[i]
		if c.Table == t && c.Fate == There && c.Result.OK && !c.taken.released {
			if c.Shared.Terms.Algorithm == Concurrency {
				c.taken.released = true
				c.settleThere(now, nil, false)
			}
			continue
		}
		if c.Table == t && c.gen != nil && c.gen.nums.Slots && c.Result.OK && c.taken.stored && !c.taken.released {
			c.taken.released = true
			c.Returned = t.settle(c, now, c.N)
		}
	}
}
