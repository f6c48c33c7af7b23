package limit

// growth is what is to take the place of a shard: other places for what it holds,
// or two halves of it.
type growth struct {
	of     *shard
	had    int // places when it was planned
	depth  uint8
	has    has
	split  bool
	places [2]int    // of each half; those of the first when it is not split
	next   [2]*shard // the halves; when it is not split the first brings the places
}

// grow gives the shard of d more places, or splits it in two, unless it has room by
// now, and puts what want says beside them. It returns false when there is no memory
// for that. The caller holds no lock.
//
// The memory is made before the lock is taken for which checks of the shard's
// keys wait: the allocator, the collector and the kernel may take their time. When
// the shard was laid out anew meanwhile somebody else got on, and the memory is
// thrown away; the caller has to look again in any case.
func (t *Table) grow(d Digest, want has) bool {
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
	g.has |= want
	if !t.prepare(&g) {
		return false
	}
	t.install(&g, d)
	return true
}

// splits says whether the full shard s is to be split: when it cannot have more
// places, and early on so that checks at the same time meet at different locks.
func (t *Table) splits(s *shard) bool {
	return len(s.slots) == maxShard || len(s.slots) >= 256 && s.depth < t.spread
}

// plan says what should take the place of the locked shard s.
func (s *shard) plan(split bool) growth {
	g := growth{of: s, had: len(s.slots), depth: s.depth, has: s.has, split: split}
	if split {
		zeros, ones := s.halves()
		g.places = [2]int{places(zeros), places(ones)}
	} else {
		g.places[0] = places(int(s.n) + 1)
	}
	return g
}

// bit is that of Digest.Hi which tells the halves of s apart.
func (s *shard) bit() uint64 { return 1 << (63 - s.depth) }

// halves returns how many keys would go to each half of s.
func (s *shard) halves() (zeros, ones int) {
	bit := s.bit()
	for i := range s.slots {
		if s.slots[i].key.Hi&bit != 0 {
			ones++
		}
	}
	return int(s.n) - ones, ones
}

// bytes is what g takes.
func (g *growth) bytes() int64 {
	n := arraysBytes(g.places[0], g.has) + arraysBytes(g.places[1], g.has)
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
	g.next[0] = &shard{depth: g.depth + 1, has: g.has, arrays: newArrays(g.places[0], g.has)}
	if g.split {
		g.next[1] = &shard{depth: g.depth + 1, has: g.has, arrays: newArrays(g.places[1], g.has)}
		t.deepen(g.depth + 1)
	}
	return true
}

// install puts g in the place of its shard, that of d, and returns true; or gives
// its memory back when it does not fit any more.
func (t *Table) install(g *growth, d Digest) bool {
	s := g.of
	s.mu.Lock()
	fits := !s.dead && len(s.slots) == g.had && s.depth == g.depth && s.has&^g.has == 0
	if fits && g.split {
		zeros, ones := s.halves() // some may have gone, and others come
		fits = room(g.places[0]) >= zeros && room(g.places[1]) >= ones
	}
	if !fits {
		s.mu.Unlock()
		t.release(g.bytes())
		return false
	}
	free := s.held()
	if g.split {
		t.split(s, g.next, d)
		free += shardSize
	} else {
		s.refill(g.next[0].arrays)
		s.has = g.has
	}
	s.mu.Unlock()
	t.release(free)
	return true
}

// split moves all that the locked shard s of d holds to the two shards of next,
// which nobody knows yet, and lets the directory lead to them.
func (t *Table) split(s *shard, next [2]*shard, d Digest) {
	for _, half := range next {
		half.latest, half.seq = s.latest, s.seq
	}
	bit := s.bit()
	for i := range s.slots {
		if k := &s.slots[i].key; *k != (Digest{}) {
			next[min(1, k.Hi&bit)].adopt(&s.arrays, i)
		}
	}
	t.mu.Lock()
	dir := t.dir.Load() // s is in it, so it is not nil, and was made deeper than s by prepare
	dir.lead(d.Hi&^bit, s.depth+1, next[0])
	dir.lead(d.Hi|bit, s.depth+1, next[1])
	dir.at[s.depth]--
	dir.at[s.depth+1] += 2
	dir.fill()
	t.mu.Unlock()
	s.dead, s.arrays = true, arrays{}
}

// deepen makes the directory, if there is one, at least depth bits deep.
func (t *Table) deepen(depth uint8) {
	if dir := t.dir.Load(); dir == nil || dir.depth >= depth {
		return
	}
	next := newDirectory(depth)
	t.mu.Lock()
	defer t.mu.Unlock()
	if dir := t.dir.Load(); dir != nil && dir.depth < depth {
		next.succeed(dir)
		t.dir.Store(next)
	}
}

// furnish gives the shard of d what want says beside its slots. It returns false
// when there is no memory for that. The caller holds no lock and has to look again.
func (t *Table) furnish(d Digest, want has) bool {
	s := t.lock(d)
	if s == nil {
		return false
	}
	c, had := len(s.slots), s.has
	if c == 0 {
		s.has |= want // with its first places
	}
	s.mu.Unlock()
	if want &^= had; want == 0 || c == 0 {
		return true
	}
	bytes := arraysBytes(c, had|want) - arraysBytes(c, had)
	if !t.reserve(bytes) {
		return false
	}
	made := newMore(c, want)
	s.mu.Lock()
	fits := !s.dead && len(s.slots) == c && s.has == had
	if fits {
		s.has |= want
		if old := s.more; old != nil {
			made.add(old)
		}
		s.more = made
	}
	s.mu.Unlock()
	if !fits {
		t.release(bytes)
	}
	return true
}

// add takes over what only old has.
func (m *more) add(old *more) {
	if old.lists != nil {
		m.lists = old.lists
	}
	if old.sides != nil {
		m.sides = old.sides
	}
	if old.records != nil {
		m.records = old.records
	}
}
