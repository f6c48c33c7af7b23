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
	sweepTicks = 100 // a pass over everything takes at most this many ticks
)

// Run visits every shard of every Table once in ten seconds at most, a few at
// a time, until ctx ends; it returns ctx's error.
func (s *Sweeper) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepTick)
	defer tick.Stop()
	for {
		tables := s.Tables()
		quota := 1
		for _, t := range tables {
			quota += t.shards() / sweepTicks
		}
		left := quota
		for _, t := range tables {
			for t.shards() > 0 {
				over := t.sweepNext(s.Now())
				if left--; left == 0 {
					left = quota
					if !pause(ctx, tick) {
						return ctx.Err()
					}
				}
				if over {
					break
				}
			}
		}
		if !pause(ctx, tick) {
			return ctx.Err()
		}
	}
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
	t.mu.Lock()
	t.oldest.Store(t.generation(t.passGen))
	t.mu.Unlock()
	if t.keys.Load() == 0 {
		t.drop()
	}
	return true
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
		st := &s.states[i]
		if st.Gen != g.num {
			*st, _ = t.convert(*st)
		}
		if t.idle(*st, g, now) {
			if n < few {
				idle[n] = k
			}
			n++
		}
	}
	if n == 0 {
		return
	}
	before := len(s.keys)
	if n <= few {
		for _, k := range idle[:n] {
			if i, ok := s.find(k); ok {
				s.remove(i)
			}
		}
		if c := places(s.n); c <= before/2 {
			s.resize(c)
		}
	} else {
		for i, k := range s.keys {
			if k != (Digest{}) && t.idle(s.states[i], g, now) {
				s.keys[i] = Digest{} // resize looks at every place, so gaps do no harm
			}
		}
		s.resize(places(s.n - n))
	}
	t.keys.Add(-int64(n))
	t.release(int64(before-len(s.keys)) * slotBytes)
}

// idle judges st by the numbers it was converted to: those of g, or newer ones
// when a Renew came in between.
func (t *Table) idle(st State, g *generation, now Instant) bool {
	if st.Gen != g.num {
		g = t.generation(st.Gen)
	}
	return g.nums.Bucket.Idle(st, now)
}

// drop gives back the shards of a Table without keys.
func (t *Table) drop() {
	dir := t.dir.Load()
	if dir == nil {
		return
	}
	held := make([]*shard, 0, len(dir.shards))
	latest, bytes, empty := Instant(math.MinInt64), int64(0), true
	for _, s := range dir.shards {
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
