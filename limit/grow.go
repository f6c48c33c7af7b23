package limit

// growth is what is to take the place of a shard: more places for it, or two
// halves of it.
type growth struct {
	of     *shard
	had    int // places when it was planned
	like   arrays
	split  bool
	places [2]int    // of each half; those of the first when it is not split
	next   [2]*shard // the halves; when it is not split the first brings the places
}

// grow gives the shard of d more places, or splits it in two, unless it has room
// by now. It returns false when there is no memory for that. The caller holds no
// lock.
//
// The memory is made before the lock is taken for which checks of the shard's
// keys wait: the allocator, the collector and the kernel may take their time. When
// the shard was laid out anew meanwhile somebody else got on, and the memory is
// thrown away; the caller has to look again in any case.
func (t *Table) grow(d Digest) bool {
	s := t.lock(d)
	if s == nil {
		return false
	}
	if !s.full() {
		s.mu.Unlock()
		return true
	}
	g := s.plan(t.splits(s))
	s.mu.Unlock()
	if !t.prepare(&g) {
		return false
	}
	t.install(&g, d)
	return true
}

// splits says whether the full shard s is to be split: when it cannot have more
// places, and early on so that checks at the same time meet at different locks.
func (t *Table) splits(s *shard) bool {
	return len(s.keys) == maxShard || len(s.keys) >= 256 && s.depth < t.spread
}

// plan says what should take the place of the locked shard s.
func (s *shard) plan(split bool) growth {
	g := growth{of: s, had: len(s.keys), split: split}
	g.like.lists, g.like.sides, g.like.records = s.lists[:0], s.sides[:0], s.records[:0]
	if split {
		zeros, ones := s.halves()
		g.places = [2]int{places(zeros), places(ones)}
	} else {
		g.places[0] = places(s.n + 1)
	}
	return g
}

// bit is that of Digest.Hi which tells the halves of s apart.
func (s *shard) bit() uint64 { return 1 << (63 - s.depth) }

// halves returns how many keys would go to each half of s.
func (s *shard) halves() (zeros, ones int) {
	bit := s.bit()
	for _, k := range s.keys {
		if k != (Digest{}) && k.Hi&bit != 0 {
			ones++
		}
	}
	return s.n - ones, ones
}

// bytes is what g takes.
func (g *growth) bytes() int64 {
	n := int64(g.places[0]+g.places[1]) * g.like.width()
	if g.split {
		n += 2 * shardSize
	}
	return n
}

// prepare makes the memory of g, without any lock. It returns false when the
// budget has not as much.
func (t *Table) prepare(g *growth) bool {
	if !t.reserve(g.bytes()) {
		return false
	}
	g.next[0] = &shard{depth: g.of.depth + 1, arrays: g.like.empty(g.places[0])}
	if g.split {
		g.next[1] = &shard{depth: g.of.depth + 1, arrays: g.like.empty(g.places[1])}
		t.deepen(g.of.depth + 1)
	}
	return true
}

// install puts g in the place of its shard, that of d, and returns true; or gives
// its memory back when it does not fit any more.
func (t *Table) install(g *growth, d Digest) bool {
	s := g.of
	s.mu.Lock()
	fits := !s.dead && len(s.keys) == g.had && (s.sides != nil) == (g.like.sides != nil) && (s.records != nil) == (g.like.records != nil)
	if fits && g.split {
		zeros, ones := s.halves() // some may have gone, and others come
		fits = room(g.places[0]) >= zeros && room(g.places[1]) >= ones
	}
	if !fits {
		s.mu.Unlock()
		t.release(g.bytes())
		return false
	}
	free := int64(g.had) * s.width()
	if g.split {
		t.split(s, g.next, d)
		free += shardSize
	} else {
		s.refill(g.next[0].arrays)
	}
	s.mu.Unlock()
	t.release(free)
	return true
}

// split moves all that the locked shard s of d holds to the two shards of next,
// which nobody knows yet, and lets the directory lead to them.
func (t *Table) split(s *shard, next [2]*shard, d Digest) {
	next[0].latest, next[1].latest = s.latest, s.latest
	bit := s.bit()
	for i, k := range s.keys {
		if k != (Digest{}) {
			next[min(1, k.Hi&bit)].adopt(&s.arrays, i)
		}
	}
	t.mu.Lock()
	dir := t.dir.Load()          // s is in it, so it is not nil,
	below := dir.depth - s.depth // and was made deeper than s by prepare
	first := d.Hi >> (64 - s.depth) << below
	for i := range uint64(1) << below {
		dir.shards[first+i].Store(next[i>>(below-1)])
	}
	t.mu.Unlock()
	s.dead, s.arrays = true, arrays{}
}

// deepen makes the directory, if there is one, at least depth bits deep.
func (t *Table) deepen(depth uint8) {
	if old := t.dir.Load(); old == nil || old.depth >= depth {
		return
	}
	dir := newDirectory(depth)
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.dir.Load()
	if old == nil || old.depth >= depth {
		return
	}
	for i := range dir.shards {
		dir.shards[i].Store(old.shard(uint64(i) << (64 - depth)))
	}
	t.dir.Store(dir)
}
