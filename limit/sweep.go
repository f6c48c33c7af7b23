package limit

import (
	"context"
	"math"
	"time"
)

// Sweeper forgets what is idle, in Tables that see no traffic too.
type Sweeper struct {
	// Now is the clock. It must not be nil.
	Now func() Instant
	// Tables returns the Tables to visit, anew for each pass. It must not be nil.
	Tables func() []*Table
}

const (
	sweepTick  = 100 * time.Millisecond
	sweepTicks = 50 // a pass over everything takes at most this many ticks
)

// Run visits every shard of every Table in passes of five seconds at most, a few
// at a time, until ctx ends; it returns ctx's error. What goes idle just behind
// it is found in the next pass, in ten seconds at most.
func (s *Sweeper) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepTick)
	defer tick.Stop()
	for {
		tables := s.Tables()
		each := quota(tables)
		left := each
		for _, t := range tables {
			for over := false; !over; {
				if over = t.shards() == 0; over {
					t.sweepSpill(s.Now())
				} else {
					over = t.sweepNext(s.Now())
				}
				if left--; left == 0 {
					if !pause(ctx, tick) {
						return ctx.Err()
					}
					each = max(each, quota(tables)) // they may have grown
					left = each
				}
			}
		}
		if !pause(ctx, tick) {
			return ctx.Err()
		}
	}
}

// quota is how many shards to visit until the next tick. A Table without any is
// as good as one: to look at ten thousand of them takes a millisecond, too.
func quota(tables []*Table) int {
	n := 0
	for _, t := range tables {
		n += max(1, t.shards())
	}
	return 1 + n/sweepTicks
}

func pause(ctx context.Context, tick *time.Ticker) bool {
	select {
	case <-ctx.Done():
		return false
	case <-tick.C:
		return true
	}
}

// Sweep forgets at once every key of t that is idle at now. It holds one shard's
// lock at a time. A Sweeper calls for less at a time.
func (t *Table) Sweep(now Instant) {
	if t.shards() == 0 {
		t.sweepSpill(now)
	}
	for t.shards() > 0 && !t.sweepNext(now) {
	}
}

func (t *Table) shards() int {
	if dir := t.dir.Load(); dir != nil {
		return len(dir.shards)
	}
	return 0
}

// sweepNext sweeps one shard and says whether that ended a pass.
func (t *Table) sweepNext(now Instant) (over bool) {
	t.sweep.Lock()
	defer t.sweep.Unlock()
	if t.pos == 0 {
		// From here on no State is stored under older numbers, so when the pass is
		// over none is left and the older generations can go.
		t.passGen = t.newest.Load().num
	}
	s := t.lock(Digest{Hi: t.pos})
	if s == nil {
		return true
	}
	pos, depth := t.pos, s.depth
	t.pos = s.after(pos)
	t.sweepShard(s, now) // which unlocks it
	for t.join(pos, depth) {
		depth--
	}
	if dir := t.dir.Load(); dir != nil && dir.before.Load() != nil {
		t.mu.Lock()
		dir.fill()
		t.mu.Unlock()
	}
	if t.pos != 0 {
		return false
	}
	t.convertSpill(now)
	t.mu.Lock()
	t.oldest.Store(t.generation(t.passGen))
	t.mu.Unlock()
	t.flatten()
	if t.keys.Load() == 0 {
		t.drop()
	}
	return true
}

// after is where the shard begins that comes after s, which is that of pos; 0 after
// the last.
func (s *shard) after(pos uint64) uint64 {
	return (pos>>(64-s.depth) + 1) << (64 - s.depth) // of depth 0: a shift by 64, which leaves 0
}

// sweepSpill sweeps the shared counters of a Table that has no shards.
func (t *Table) sweepSpill(now Instant) {
	if t.spill.Load() == nil {
		return
	}
	t.sweep.Lock()
	defer t.sweep.Unlock()
	num := t.newest.Load().num // from here on no State is stored under older numbers
	t.convertSpill(now)
	t.mu.Lock()
	if t.dir.Load() == nil {
		t.oldest.Store(t.generation(num))
	}
	t.mu.Unlock()
}

// convertSpill brings the shared counters to the numbers in force and returns
// memory that they do not need.
func (t *Table) convertSpill(now Instant) {
	all := t.spill.Load()
	if all == nil {
		return
	}
	for i := range all {
		o := &all[i]
		o.mu.Lock()
		o.latest = max(o.latest, now)
		h := o.home(t.listed)
		st, g := t.convert(*h.st)
		h.put(st)
		if h.list != nil {
			t.release(t.trim(h, g, o.latest))
		}
		o.mu.Unlock()
	}
}

// few is how many idle keys are taken out one by one; with more the shard is laid out anew.
const few = 64

// placeSet are some of the places of a shard.
type placeSet [maxShard / 64]uint64

func (p *placeSet) add(i int)      { p[i/64] |= 1 << (i % 64) }
func (p *placeSet) has(i int) bool { return p[i/64]>>(i%64)&1 != 0 }

// sweepShard forgets the idle keys of the locked shard s, brings the States of
// the others to the numbers in force, returns memory that is not needed, and unlocks s.
func (t *Table) sweepShard(s *shard, now Instant) {
	s.latest = max(now, s.latest)
	var idle placeSet
	n := t.judge(s, &idle)
	before := s.held()
	if n == int(s.n) { // nothing is left
		for i := range s.slots {
			if idle.has(i) {
				t.release(t.ringBytes(s.homeAt(i)))
			}
		}
		s.arrays, s.n = arrays{}, 0
		t.keys.Add(-int64(n))
		s.mu.Unlock()
		t.release(before)
		return
	}
	if n > 0 && n <= few {
		var gone [few]Digest
		for i, j := 0, 0; j < n; i++ {
			if idle.has(i) {
				gone[j] = s.slots[i].key
				j++
			}
		}
		for _, k := range gone[:n] {
			if i, ok := s.find(k); ok {
				t.release(t.ringBytes(s.homeAt(i)))
				s.remove(i)
			}
		}
		t.keys.Add(-int64(n))
		n = 0
	}
	c := places(int(s.n) - n)
	if n == 0 && c > len(s.slots)/2 {
		s.mu.Unlock()
	} else {
		t.shrink(s, c)
	}
	if t.listed {
		t.trimShard(s, now)
	}
}

// judge brings the States of the locked shard s to the numbers in force, and says
// which of its keys are idle, and how many that are.
func (t *Table) judge(s *shard, idle *placeSet) (n int) {
	g := t.newest.Load()
	for i := range s.slots {
		if s.slots[i].key == (Digest{}) {
			continue
		}
		h := s.homeAt(i)
		if h.st.Gen != g.num {
			st, _ := t.convert(*h.st)
			h.put(st)
		}
		if t.idle(h, g, s.latest) && s.clean(i, g, s.latest) {
			idle.add(i)
			n++
		}
	}
	return n
}

// shrink moves what is not idle in the locked shard s to c places, and unlocks it. As
// in grow the memory is made without the lock; when too much has come meanwhile the
// shard stays as it is until the next pass.
func (t *Table) shrink(s *shard, c int) {
	had, hasBeside := len(s.slots), s.has
	s.mu.Unlock()
	next := newArrays(c, hasBeside)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || len(s.slots) != had || s.has != hasBeside {
		return
	}
	var idle placeSet
	n := t.judge(s, &idle)
	if int(s.n)-n > room(c) {
		return
	}
	before := s.held()
	for i := range s.slots {
		if idle.has(i) {
			t.release(t.ringBytes(s.homeAt(i)))
			s.slots[i].key = Digest{} // refill looks at every place, so gaps do no harm
		}
	}
	s.refill(next)
	t.keys.Add(-int64(n))
	t.release(before - s.held())
}

// idle judges what is in h by the numbers it was converted to: those of g, or
// newer ones when a Renew came in between.
func (t *Table) idle(h home, g *generation, now Instant) bool {
	if h.st.Gen != g.num {
		g = t.generation(h.st.Gen)
	}
	return g.idle(*h.st, h.side, now)
}

// trimWork is about how many entries of lists are looked at before the lock is given back.
const trimWork = 4096

// trimShard drops what is too old from the lists of s, and gives back memory that
// they do not need. Keys that move meanwhile may be left for the next pass.
func (t *Table) trimShard(s *shard, now Instant) {
	for i, over := 0, false; !over; {
		s.mu.Lock()
		var n int
		i, n, over = t.trimFrom(s, i, now)
		s.mu.Unlock()
		if n > 0 {
			t.tighten(s, i, make([]stamp, n))
			i++
		}
	}
}

// trimFrom drops what is too old from lists of the locked shard s, from place i on,
// until that has been some work or a list has a ring that is too large. It returns
// where to go on, and then how many places are enough for that list.
func (t *Table) trimFrom(s *shard, i int, now Instant) (at, ring int, over bool) {
	g := t.newest.Load()
	now = max(now, s.latest)
	for work := 0; i < len(s.slots); i++ {
		if work > trimWork {
			return i, 0, false
		}
		if s.slots[i].key == (Digest{}) || s.slots[i].st.Gen != g.num { // that is free, or an edit came in between
			continue
		}
		h := s.homeAt(i)
		work += h.list.n
		*h.st, _ = g.take(*h.st, h.list, now, 0)
		if n := h.list.enough(); n > 0 {
			return i, n, false
		}
	}
	return i, 0, true
}

// tighten gives the list at place i of s the ring, if it is smaller and large enough.
func (t *Table) tighten(s *shard, i int, ring []stamp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i >= len(s.slots) {
		return
	}
	if l := &s.more.lists[i]; len(ring) < len(l.ring) && l.n <= len(ring) {
		t.release(int64(len(l.ring)-len(ring)) * stampBytes)
		l.moveTo(ring)
	}
}

// trim drops what is too old from a list, gives back memory that it does not
// need, and returns how many bytes that were.
func (t *Table) trim(h home, g *generation, now Instant) int64 {
	before := t.ringBytes(h)
	*h.st, _ = g.take(*h.st, h.list, now, 0)
	if n := h.list.enough(); n > 0 {
		h.list.resize(n)
	}
	return before - t.ringBytes(h)
}

// drop gives back the shards of a Table without keys. join has left few of them.
func (t *Table) drop() {
	dir := t.dir.Load()
	if dir == nil {
		return
	}
	var held []*shard
	latest, seq, bytes, empty := Instant(math.MinInt64), uint64(0), int64(0), true
	for pos, over := uint64(0), false; empty && !over; over = pos == 0 {
		s := dir.shard(pos)
		s.mu.Lock()
		held = append(held, s)
		latest, seq, bytes = max(latest, s.latest), max(seq, s.seq), bytes+s.bytes()
		empty = s.n == 0 && !s.dead
		pos = s.after(pos)
	}
	if empty {
		t.mu.Lock()
		t.latest.Store(int64(latest))
		t.lastSeq.Store(max(seq, t.lastSeq.Load()))
		t.dir.Store(nil)
		t.mu.Unlock()
		t.release(bytes)
	}
	for _, s := range held {
		s.dead = s.dead || empty
		s.mu.Unlock()
	}
}
