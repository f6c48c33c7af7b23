package limit

import "sync/atomic"

// directory finds the shard of a key by the leading depth bits of Digest.Hi
// (extendible hashing; Fagin et al., 1979). Whoever reads it without Table.mu may
// find a shard that is dead by now.
//
// That of a large Table has thousands of places, so one of another depth is not
// filled when it is made: a place is filled from the directory before it when a key
// first looks there, and a few more with each split.
type directory struct {
	depth  uint8
	shift  uint8 // 63 - depth: a key's place is Hi >> 1 >> shift
	shards []atomic.Pointer[shard]
	before atomic.Pointer[directory] // nil once all places are filled

	// Guarded by Table.mu:
	filled int     // how many places are filled for certain, from the first on
	at     []int32 // how many shards have each depth
}

// fillStep is how many places of a directory are filled with each split.
const fillStep = 64

// newDirectory returns a directory that knows what before knows. The caller, who
// puts it in the place of before under Table.mu, calls succeed then.
func newDirectory(depth uint8) *directory {
	return &directory{depth: depth, shift: 63 - depth, shards: make([]atomic.Pointer[shard], 1<<depth), at: make([]int32, depth+1)}
}

// succeed makes d, which is empty, know what before knows, whose shards are no
// deeper than d. Table.mu is held.
func (d *directory) succeed(before *directory) {
	d.before.Store(before)
	copy(d.at, before.at)
}

func (d *directory) shard(hi uint64) *shard {
	if s := d.shards[hi>>1>>(d.shift&63)].Load(); s != nil {
		return s
	}
	return d.fetch(hi)
}

// fetch fills the place of hi. What a split or a join writes there meanwhile stays.
func (d *directory) fetch(hi uint64) *shard {
	place := &d.shards[hi>>1>>(d.shift&63)]
	for {
		before := d.before.Load() // first: it is nil only after all places have been filled
		if s := place.Load(); s != nil {
			return s
		}
		place.CompareAndSwap(nil, before.shard(hi))
	}
}

// lead lets the places of all keys that share depth bits with hi lead to s. Table.mu is held.
func (d *directory) lead(hi uint64, depth uint8, s *shard) {
	below := d.depth - depth
	first := hi >> (64 - depth) << below
	for i := range uint64(1) << below {
		d.shards[first+i].Store(s)
	}
}

// fill fills some more places. Table.mu is held.
func (d *directory) fill() {
	if d.before.Load() == nil {
		return
	}
	for range fillStep {
		if d.filled == len(d.shards) {
			d.before.Store(nil)
			return
		}
		d.fetch(uint64(d.filled) << (64 - d.depth))
		d.filled++
	}
}

// deepest is the depth of the deepest shard. Table.mu is held.
func (d *directory) deepest() uint8 {
	for i := d.depth; i > 0; i-- {
		if d.at[i] > 0 {
			return i
		}
	}
	return 0
}
