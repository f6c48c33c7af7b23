package limit

import (
	"math"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Table is the memory of one rule: the State of every key that is not idle,
// bounded by the rule's own number of keys and by the Budget of all Tables. It
// takes no memory until its first key and splits its shards as it grows, so
// that no growth and no sweep holds a lock for long. A Table also owns the
// rule's Numbers: see Renew. It is safe for concurrent use and starts nothing;
// a Sweeper visits it.
type Table struct {
	seq    uint64 // creation order: the order in which locks are taken
	budget *Budget
	bytes  *atomic.Int64 // what this Table holds of the budget
	spread uint8         // shards are split early until there are 1<<spread
	listed bool          // its algorithm keeps a list beside each State

	dir            atomic.Pointer[directory]
	oldest, newest atomic.Pointer[generation]
	maxKeys        atomic.Int64
	spill          atomic.Pointer[[overflows]overflow] // nil until memory is full

	_ [64]byte // what follows is written often; what is above is read with every check

	keys atomic.Int64
	born atomic.Uint32
	// latest and lastSeq are what the shards had seen when they were last dropped.
	latest  atomic.Int64
	lastSeq atomic.Uint64

	evictions, evictedUnits, spilled atomic.Int64

	mu    sync.Mutex // guards changes of dir and in it, and of the generations; taken after shard locks
	sweep sync.Mutex // one sweep at a time; guards pos and passGen
	// pos is where the sweep goes on, as a prefix of Digest.Hi.
	pos     uint64
	passGen uint32
}

// NewTable returns an empty Table with its first Numbers, generation 1, for at
// most maxKeys keys, 1 or more, within budget, which must not be nil.
func NewTable(n Numbers, maxKeys int64, budget *Budget) *Table {
	t := &Table{
		seq:    budget.made.Add(1),
		budget: budget,
		bytes:  new(atomic.Int64),
		spread: uint8(min(8, bits.Len(uint(4*runtime.GOMAXPROCS(0)-1)))),
	}
	_, t.listed = n.Bucket.(slidingLog)
	t.maxKeys.Store(maxKeys)
	t.latest.Store(math.MinInt64)
	g := newGeneration(1, math.MinInt64, n)
	t.oldest.Store(g)
	t.newest.Store(g)
	// A Table that nobody refers to any more gives its memory back to the budget
	// when the collector takes it; until then the memory is really in use.
	runtime.AddCleanup(t, func(bytes *atomic.Int64) { budget.give(bytes.Load()) }, t.bytes)
	return t
}

// Generation returns the number of the newest generation of Numbers.
func (t *Table) Generation() uint32 { return t.newest.Load().num }

// Numbers returns the newest Numbers.
func (t *Table) Numbers() Numbers { return t.newest.Load().nums }

// Renew adds a generation of Numbers that holds from at on and decides every
// claim from now on, also those of requests that began before. gen must be Generation()+1; a gen that is not newer only
// changes maxKeys. Of the keys above a lower maxKeys none is dropped; they go as
// they fall idle or are evicted.
func (t *Table) Renew(gen uint32, at Instant, n Numbers, maxKeys int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.maxKeys.Store(maxKeys)
	last := t.newest.Load()
	if gen <= last.num {
		return
	}
	g := newGeneration(gen, max(at, last.at), n)
	last.next.Store(g)
	t.newest.Store(g)
	if t.dir.Load() == nil && t.spill.Load() == nil { // no State needs an older one, and no sweep comes here to see it
		t.oldest.Store(g)
	}
}

// generation returns generation num, or the nearest that is still known.
func (t *Table) generation(num uint32) *generation {
	if g := t.newest.Load(); num >= g.num {
		return g
	}
	g := t.oldest.Load()
	for g.num < num {
		next := g.next.Load()
		if next == nil {
			break
		}
		g = next
	}
	return g
}

// TableStats are a Table's figures at one moment.
type TableStats struct {
	// Keys is the number of keys held, Bytes what they take.
	Keys, Bytes int64
	// Evictions counts keys dropped before they were idle because memory was
	// full; EvictedUnits is what they had in use, which is thereby given away.
	Evictions, EvictedUnits int64
	// Spilled counts claims that the counters shared by unremembered clients decided.
	Spilled int64
}

// Stats returns the Table's figures.
func (t *Table) Stats() TableStats {
	return TableStats{
		Keys: t.keys.Load(), Bytes: t.bytes.Load(),
		Evictions: t.evictions.Load(), EvictedUnits: t.evictedUnits.Load(), Spilled: t.spilled.Load(),
	}
}

// lock returns the shard of d, locked. It makes the first shard of an empty
// Table, or returns nil when there is no memory for it.
func (t *Table) lock(d Digest) *shard {
	for {
		dir := t.dir.Load()
		if dir == nil {
			if dir = t.first(); dir == nil {
				return nil
			}
		}
		s := dir.shard(d.Hi)
		s.mu.Lock()
		if !s.dead {
			return s
		}
		s.mu.Unlock()
	}
}

func (t *Table) first() *directory {
	t.mu.Lock()
	defer t.mu.Unlock()
	if dir := t.dir.Load(); dir != nil {
		return dir
	}
	if !t.reserve(shardSize) {
		return nil
	}
	s := &shard{latest: Instant(t.latest.Load()), seq: t.lastSeq.Load()}
	if t.listed {
		s.has = hasLists
	}
	dir := newDirectory(0)
	dir.shards[0].Store(s)
	dir.at[0] = 1
	t.dir.Store(dir)
	return dir
}

// raise makes the next decision of d have a higher number than seq.
func (t *Table) raise(d Digest, seq uint64) {
	if t.dir.Load() == nil {
		for was := t.lastSeq.Load(); was < seq && !t.lastSeq.CompareAndSwap(was, seq); was = t.lastSeq.Load() {
		}
		return
	}
	if s := t.lock(d); s != nil {
		s.seq = max(s.seq, seq)
		s.mu.Unlock()
	}
}

// Warm reads what is known of a key, so that it is in the caches of the processor
// when it is asked for: for who knows the keys of the next requests, and is the only
// one to use the Table meanwhile. What it returns means nothing; it is there so that
// no compiler leaves the reads out. It waits for nothing, not even for them.
func (t *Table) Warm(d Digest) int64 {
	dir := t.dir.Load()
	if dir == nil {
		return 0
	}
	s := dir.shard(d.Hi)
	if len(s.slots) == 0 {
		return 0
	}
	i := s.home(d)
	return int64(s.slots[i].key.Lo) + s.slots[i].st.Used
}

func (t *Table) reserve(n int64) bool {
	if !t.budget.take(n) {
		return false
	}
	t.bytes.Add(n)
	return true
}

func (t *Table) release(n int64) {
	t.bytes.Add(-n)
	t.budget.give(n)
}

// sample is how many keys are looked at to find one that may be evicted.
const sample = 16

// victim returns the place in s of the key whose loss gives away the least,
// among a few near where d would sit, and how many units that are; or -1: a key at
// its limit is never forgotten, so that nobody can flush out a refusal, nor one
// with requests in progress. With idleOnly only a key is returned whose loss
// changes nothing. s holds no free place.
func (t *Table) victim(s *shard, d Digest, now Instant, idleOnly bool) (place int, loses int64) {
	place = -1
	if s.n == 0 {
		return place, 0
	}
	for i, seen := s.home(d), 0; seen < min(sample, int(s.n)); i = (i + 1) % len(s.slots) {
		if s.slots[i].key == (Digest{}) {
			continue
		}
		seen++
		h := s.homeAt(i)
		st, g, _ := t.generation(h.st.Gen).carry(*h.st)
		if g.idle(st, h.side, now) && s.clean(i, g, now) {
			return i, 0
		}
		if idleOnly || g.nums.Slots || h.side != nil && h.side.reserved > 0 {
			continue
		}
		n, all := g.gives(st, h, now)
		if records := s.records(); records != nil {
			r := &records[i]
			n, all = n+r.weight(g, now), all || r.blocks(g, now)
		}
		if !all && (place < 0 || n < loses) {
			place, loses = i, n
		}
	}
	return place, loses
}

// homeAt returns what lives at place i.
func (s *shard) homeAt(i int) home {
	h := home{st: &s.slots[i].st}
	if m := s.more; m != nil {
		if m.lists != nil {
			h.list = &m.lists[i]
		}
		if m.sides != nil {
			h.side = &m.sides[i]
		}
	}
	return h
}

// settle gives back n units of the take of c, or charges -n more, and returns
// how many came back.
func (t *Table) settle(c *Claim, now Instant, n int64) int64 {
	if c.over != nil {
		c.over.mu.Lock()
		defer c.over.mu.Unlock()
		now = max(now, c.over.latest)
		c.over.latest = now
		c.over.seq++
		c.noteSettled(now, c.over.seq)
		return t.settleIn(c.over.home(t.listed), c, now, n)
	}
	for tight := false; ; tight = !t.grow(c.Key, 0) {
		s := t.lock(c.Key)
		if s == nil {
			return 0
		}
		now = max(now, s.latest)
		s.latest = now
		s.seq++
		c.noteSettled(now, s.seq)
		i, ok := s.find(c.Key)
		done := true
		switch {
		case ok:
			n = t.settleIn(s.homeAt(i), c, now, n)
		case n < 0:
			done = t.owe(s, c.Key, now, -n, tight)
		default:
			n = 0 // forgotten: nothing of the take is left
		}
		s.mu.Unlock()
		if done {
			return n
		}
	}
}

// noteSettled notes that c is settled at now, under the lock of where it lives.
func (c *Claim) noteSettled(now Instant, seq uint64) {
	c.SettledAt, c.SettledSeq = now, seq
	c.Table.budget.change()
}

// owe remembers a debt of a key that is not remembered, in s, its locked shard.
// Without a place for the key it is a debt of all who have none. It returns false
// when s must grow first, which a tight one cannot.
func (t *Table) owe(s *shard, d Digest, now Instant, n int64, tight bool) bool {
	debtor := Claim{Table: t, Key: d, Result: Result{OK: true}, s: s, gen: t.newest.Load(), at: now, lacks: lacks{room: tight}}
	debtor.next, _ = debtor.gen.take(State{}, nil, now, 0)
	debtor.gen.adjust(home{st: &debtor.next}, now, -n)
	debtor.next.Gen, debtor.N = debtor.gen.num, debtor.next.Used
	if debtor.cramped() {
		return false
	}
	if debtor.findPlace() == placed {
		debtor.store(now)
		return true
	}
	o := t.overflow(d)
	o.mu.Lock()
	o.latest = max(o.latest, now)
	t.charge(o.home(t.listed), o.latest, n)
	o.mu.Unlock()
	return true
}

// charge charges n units in h, on top of what was taken.
func (t *Table) charge(h home, now Instant, n int64) {
	st, g := t.convert(*h.st)
	h.put(st)
	*h.st, _ = g.take(*h.st, h.list, now, 0)
	if h.list != nil {
		t.spare(h.list, now, nil)
	}
	g.adjust(h, now, -n)
}

// settleIn settles c in its home h, if it still lives there: a key that was
// forgotten meanwhile and came again has nothing of the take in it. It returns
// how many units came back.
func (t *Table) settleIn(h home, c *Claim, now Instant, n int64) int64 {
	same := h.st.Born == c.next.Born
	st, g := t.convert(*h.st)
	h.put(st)
	if same = same && st.Born == c.next.Born; same {
		n = g.giveBack(h, c, now, n)
	}
	if n < 0 {
		t.charge(h, now, -n)
	} else if !same {
		n = 0
	}
	return n
}

// spare makes place for one entry more in l, at the instant at, with the ring of c if
// it has one. Without memory for it the newest entry moves there and takes it in: all
// its units count until the last of them is too old, never less than they should.
func (t *Table) spare(l *stamps, at Instant, c *Claim) {
	n := l.grown(at)
	if n == len(l.ring) {
		return
	}
	if !t.reserve(int64(n-len(l.ring)) * stampBytes) {
		l.newest().at = at
		return
	}
	if c == nil {
		c = &Claim{}
	}
	l.moveTo(c.takeRing(n))
}

// ring is what the list of a new key takes at first.
func (t *Table) ring() int64 {
	if t.listed {
		return minRing * stampBytes
	}
	return 0
}

// ringBytes is what the list of h takes beside its place. The first places of a
// shared counter are a part of the Table.
func (t *Table) ringBytes(h home) int64 {
	if h.list == nil {
		return 0
	}
	n := len(h.list.ring)
	if h.shared {
		n -= minRing
	}
	return int64(n) * stampBytes
}

// convert brings s to the newest numbers. When those hold less than was in use
// it becomes another life of the key: older Grants have nothing left in it.
func (t *Table) convert(s State) (State, *generation) {
	s, g, forgiven := t.generation(s.Gen).carry(s)
	if forgiven {
		s.Born = t.born.Add(1)
	}
	return s, g
}

// longer returns the longer of two waits, where Never is the longest.
func longer(a, b time.Duration) time.Duration {
	if a == Never || b == Never {
		return Never
	}
	return max(a, b)
}
