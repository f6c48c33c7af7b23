package limit

const (
	// joinSpan is how many times deeper than a shard the directory may be, in bits:
	// that many of its places lead to one shard at most.
	joinSpan = 8
	// joinKeys is how many keys two halves may hold to become one shard: so few that
	// it is not split again at once.
	joinKeys = maxShard / 4
	// joinEarly is the same where shards are split early.
	joinEarly = joinKeys / 4
)

// join makes one shard of that at pos and the one before it, and says whether it has:
// if they are the halves of one, both of that depth, and hold little. So a Table that
// has been large has few shards again. The caller holds t.sweep and no other lock.
func (t *Table) join(pos uint64, depth uint8) bool {
	if depth == 0 || pos>>(64-depth)&1 == 0 {
		return false
	}
	left, right := t.halves(pos, depth)
	if left == nil {
		return false
	}
	n, had := int(left.n+right.n), left.has|right.has
	if n == 0 {
		t.unite(left, right, pos, arrays{}, had)
		return true
	}
	left.mu.Unlock()
	right.mu.Unlock()
	// As in grow: the memory is made without the locks.
	c := places(n)
	bytes := arraysBytes(c, had)
	if !t.reserve(bytes) {
		return false
	}
	next := newArrays(c, had)
	if left, right = t.halves(pos, depth); left == nil {
		t.release(bytes)
		return false
	}
	if left.has|right.has != had || int(left.n+right.n) > room(c) {
		left.mu.Unlock()
		right.mu.Unlock()
		t.release(bytes)
		return false
	}
	t.unite(left, right, pos, next, had)
	return true
}

// halves returns the shard at pos and the one before it, both locked, if they can be
// joined; else nil.
func (t *Table) halves(pos uint64, depth uint8) (left, right *shard) {
	left = t.lock(Digest{Hi: pos &^ (1 << (64 - depth))})
	if left == nil {
		return nil, nil
	}
	dir := t.dir.Load() // left is in it, so it is not nil
	right = dir.shard(pos)
	if right == left { // it is one already
		left.mu.Unlock()
		return nil, nil
	}
	right.mu.Lock() // no request holds two shards of a Table
	most := int32(joinKeys)
	if depth <= t.spread {
		most = joinEarly
	}
	if right.dead || left.depth != depth || right.depth != depth || dir.depth-depth >= joinSpan || left.n+right.n > most {
		left.mu.Unlock()
		right.mu.Unlock()
		return nil, nil
	}
	return left, right
}

// unite moves all that left and right hold, both locked, to left and the places of next, with
// h beside them, and unlocks both.
func (t *Table) unite(left, right *shard, pos uint64, next arrays, h has) {
	free := left.held() + right.bytes()
	left.refill(next)
	left.has = h
	for i := range right.slots {
		if right.slots[i].key != (Digest{}) {
			left.adopt(&right.arrays, i)
		}
	}
	left.latest, left.seq = max(left.latest, right.latest), max(left.seq, right.seq)
	t.mu.Lock()
	dir := t.dir.Load()
	dir.lead(pos, right.depth, left)
	dir.at[left.depth] -= 2
	left.depth--
	dir.at[left.depth]++
	t.mu.Unlock()
	right.dead, right.arrays, right.n = true, arrays{}, 0
	left.mu.Unlock()
	right.mu.Unlock()
	t.release(free)
}

// flatten makes the directory of a Table that has been large small again: one bit
// deeper than it must be, so that a shard which is about to be split still can be.
func (t *Table) flatten() {
	t.mu.Lock()
	dir := t.dir.Load()
	if dir == nil {
		t.mu.Unlock()
		return
	}
	depth := dir.deepest() + 1
	t.mu.Unlock()
	if depth+1 >= dir.depth {
		return
	}
	next := newDirectory(depth)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dir.Load() == dir && dir.deepest() < depth {
		next.succeed(dir)
		t.dir.Store(next)
	}
}
