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
	depth := s.depth
	t.sweepShard(s, now)
	s.mu.Unlock()
	if depth == 0 {
		t.pos = 0
	} else {
		t.pos = (t.pos>>(64-depth) + 1) << (64 - depth) // 0 after the last
	}
	if t.pos != 0 {
		return false
	}
	t.convertSpill(now)
	t.mu.Lock()
	t.oldest.Store(t.generation(t.passGen))
	t.mu.Unlock()
	if t.keys.Load() == 0 {
		t.drop()
	}
	return true
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

// sweepShard forgets the idle keys of the locked shard s, brings the States of
// the others to the numbers in force, and returns memory that is not needed.
func (t *Table) sweepShard(s *shard, now Instant) {
	now = max(now, s.latest)
	s.latest = now
	var idle [few]Digest
	n := 0
	g := t.newest.Load()
	for i, k := range s.keys {
		if k == (Digest{}) {
			continue
		}
		h := s.homeAt(i)
		if h.st.Gen != g.num {
			st, _ := t.convert(*h.st)
			h.put(st)
		}
		if t.idle(h, g, now) && s.clean(i, g, now) {
			if n < few {
				idle[n] = k
			}
			n++
		} else if h.list != nil {
			t.release(t.trim(h, g, now))
		}
	}
	if n == 0 {
		return
	}
	before := int64(len(s.keys)) * s.width()
	if n <= few {
		for _, k := range idle[:n] {
			if i, ok := s.find(k); ok {
				t.release(t.ringBytes(s.homeAt(i)))
				s.remove(i)
			}
		}
		if c := places(s.n); c <= len(s.keys)/2 {
			s.resize(c)
		}
	} else {
		for i, k := range s.keys {
			if k != (Digest{}) && t.idle(s.homeAt(i), g, now) && s.clean(i, g, now) {
				t.release(t.ringBytes(s.homeAt(i)))
				s.keys[i] = Digest{} // resize looks at every place, so gaps do no harm
			}
		}
		s.resize(places(s.n - n))
	}
	t.keys.Add(-int64(n))
	t.release(before - int64(len(s.keys))*s.width())
}

// idle judges what is in h by the numbers it was converted to: those of g, or
// newer ones when a Renew came in between.
func (t *Table) idle(h home, g *generation, now Instant) bool {
	if h.st.Gen != g.num {
		g = t.generation(h.st.Gen)
	}
	return g.idle(*h.st, h.side, now)
}

// trim drops what is too old from a list, gives back memory that it does not
// need, and returns how many bytes that were.
func (t *Table) trim(h home, g *generation, now Instant) int64 {
	before := t.ringBytes(h)
	*h.st, _ = g.take(*h.st, h.list, now, 0)
	if c := max(minRing, 2*h.list.n); c <= len(h.list.ring)/2 {
		h.list.resize(c)
	}
	return before - t.ringBytes(h)
}

// drop gives back the shards of a Table without keys.
func (t *Table) drop() {
	dir := t.dir.Load()
	if dir == nil {
		return
	}
	held := make([]*shard, 0, len(dir.shards))
	latest, bytes, empty := Instant(math.MinInt64), int64(0), true
	for i := range dir.shards {
		s := dir.shards[i].Load()
		if len(held) > 0 && held[len(held)-1] == s {
			continue // a shard of less depth stands at several places in a row
		}
		s.mu.Lock()
		held = append(held, s)
		latest, bytes = max(latest, s.latest), bytes+s.bytes()
		if empty = s.n == 0 && !s.dead; !empty {
			break
		}
	}
	if empty {
		t.mu.Lock()
		t.latest.Store(int64(latest))
		t.dir.Store(nil)
		t.mu.Unlock()
		t.release(bytes)
	}
	for _, s := range held {
		s.dead = s.dead || empty
		s.mu.Unlock()
	}
}
