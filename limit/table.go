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

	dir     atomic.Pointer[directory]
	keys    atomic.Int64
	maxKeys atomic.Int64
	born    atomic.Uint32
	latest  atomic.Int64 // what the shards had seen when they were last dropped

	oldest, newest atomic.Pointer[generation]

	evictions, evictedUnits atomic.Int64

	mu    sync.Mutex // guards changes of dir and of the generations; taken after shard locks
	sweep sync.Mutex // one sweep at a time; guards pos and passGen
	// pos is where the sweep goes on, as a prefix of Digest.Hi.
	pos     uint64
	passGen uint32
}

// directory finds the shard of a key by the leading depth bits of Digest.Hi
// (extendible hashing; Fagin et al., 1979). It is immutable.
type directory struct {
	depth  uint8
	shards []*shard
}

func (d *directory) shard(hi uint64) *shard { return d.shards[hi>>(64-d.depth)] }

// NewTable returns an empty Table with its first Numbers, generation 1, for at
// most maxKeys keys, 1 or more, within budget, which must not be nil.
func NewTable(n Numbers, maxKeys int64, budget *Budget) *Table {
	t := &Table{
		seq:    budget.made.Add(1),
		budget: budget,
		bytes:  new(atomic.Int64),
		spread: uint8(min(8, bits.Len(uint(4*runtime.GOMAXPROCS(0)-1)))),
	}
	t.maxKeys.Store(maxKeys)
	t.latest.Store(math.MinInt64)
	g := &generation{num: 1, at: math.MinInt64, nums: n}
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
	g := &generation{num: gen, at: max(at, last.at), nums: n}
	last.next.Store(g)
	t.newest.Store(g)
	if t.dir.Load() == nil { // no State needs an older one, and no sweep comes here to see it
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
}

// Stats returns the Table's figures.
func (t *Table) Stats() TableStats {
	return TableStats{
		Keys: t.keys.Load(), Bytes: t.bytes.Load(),
		Evictions: t.evictions.Load(), EvictedUnits: t.evictedUnits.Load(),
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
	dir := &directory{shards: []*shard{{latest: Instant(t.latest.Load())}}}
	t.dir.Store(dir)
	return dir
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

// makeRoom sees to it that the locked shard s of d has a free place and
// returns the shard, locked, that d belongs to now; or nil, s still locked, when
// memory is full.
func (t *Table) makeRoom(s *shard, d Digest) *shard {
	for s.n >= room(len(s.keys)) {
		early := len(s.keys) >= 256 && s.depth < t.spread
		if len(s.keys) < maxShard && !early {
			c := places(s.n + 1)
			if !t.reserve(int64(c) * slotBytes) {
				return nil
			}
			old := len(s.keys)
			s.resize(c)
			t.release(int64(old) * slotBytes)
			return s
		}
		child := t.split(s, d)
		if child == nil {
			return nil
		}
		s = child
	}
	return s
}

// split replaces the locked shard s by two and returns the one of d, locked;
// or nil, s still locked, when memory is full.
func (t *Table) split(s *shard, d Digest) *shard {
	bit := uint64(1) << (63 - s.depth)
	ones := 0
	for _, k := range s.keys {
		if k != (Digest{}) && k.Hi&bit != 0 {
			ones++
		}
	}
	var half [2]*shard
	for i, n := range [2]int{s.n - ones, ones} {
		half[i] = &shard{depth: s.depth + 1, latest: s.latest}
		half[i].resize(places(n))
	}
	if !t.reserve(half[0].bytes() + half[1].bytes()) {
		return nil
	}
	for i, k := range s.keys {
		if k != (Digest{}) {
			half[min(1, k.Hi&bit)].put(k, s.states[i])
		}
	}
	mine := half[min(1, d.Hi&bit)]
	mine.mu.Lock() // nobody else knows it yet

	t.mu.Lock()
	old := t.dir.Load()
	dir := &directory{depth: max(old.depth, s.depth+1)}
	dir.shards = make([]*shard, 1<<dir.depth)
	for i := range dir.shards {
		hi := uint64(i) << (64 - dir.depth)
		if c := old.shard(hi); c != s {
			dir.shards[i] = c
		} else {
			dir.shards[i] = half[min(1, hi&bit)]
		}
	}
	t.dir.Store(dir)
	t.mu.Unlock()

	t.release(s.bytes())
	s.dead, s.keys, s.states = true, nil, nil
	s.mu.Unlock()
	return mine
}

// sample is how many keys are looked at to find one that may be evicted.
const sample = 16

// victim returns the place in s of the key whose loss gives away the least,
// among a few near where d would sit, or -1: a key at its limit is never
// forgotten, so that nobody can flush out a refusal. s holds no free place.
func (t *Table) victim(s *shard, d Digest, now Instant) (place int, loses int64) {
	place = -1
	if s.n == 0 {
		return place, 0
	}
	for i, seen := s.home(d), 0; seen < min(sample, s.n); i = (i + 1) % len(s.keys) {
		if s.keys[i] == (Digest{}) {
			continue
		}
		seen++
		st, g, _ := t.generation(s.states[i].Gen).carry(s.states[i])
		st, r := g.nums.Bucket.Take(st, now, 0)
		if g.nums.Bucket.Idle(st, now) {
			return i, 0
		}
		if r.Remaining > 0 && (place < 0 || st.Used < loses) {
			place, loses = i, st.Used
		}
	}
	return place, loses
}

// settle gives back n units of the take of c, or charges -n more.
func (t *Table) settle(c *Claim, now Instant, n int64) {
	s := t.lock(c.Key)
	if s == nil {
		return
	}
	now = max(now, s.latest)
	s.latest = now
	i, ok := s.find(c.Key)
	switch {
	case ok && n < 0:
		st, g := t.convert(s.states[i])
		s.states[i] = g.charge(st, now, n)
	case ok && s.states[i].Born == c.next.Born:
		st, g := t.convert(s.states[i])
		st, _ = g.nums.Bucket.Take(st, now, 0)
		if st.Born == c.next.Born { // else the units are no longer in there
			if n, at := c.gen.worth(c.at, n, g.num); n > 0 {
				st = g.nums.Bucket.Adjust(st, at, n)
			}
		}
		s.states[i] = st
	case ok || n > 0:
		// Forgotten meanwhile, or another life of the key: nothing of the take is in there.
	default:
		g := t.newest.Load()
		debtor := Claim{Table: t, Key: c.Key, Result: Result{OK: true}, s: s, gen: g, at: now, next: g.charge(State{}, now, n)}
		if debtor.reserve() {
			debtor.store()
		}
		s = debtor.s // reserve may have split it
	}
	s.mu.Unlock()
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
