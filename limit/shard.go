package limit

import (
	"math/bits"
	"sync"
)

// shard is a part of a Table under one lock: an open-addressing hash table with
// linear probing, its digests beside its States so that a search touches few
// cache lines. It holds at most maxShard places; a full one is split in two.
type shard struct {
	mu     sync.Mutex
	dead   bool    // split or emptied out: look in the directory again
	depth  uint8   // leading bits of Digest.Hi that all its keys share
	n      int     // keys held
	latest Instant // the latest instant seen; no take here uses an earlier one
	keys   []Digest
	states []State
	lists  []stamps // of an algorithm whose State has a list; else nil
	sides  []side   // of a rule that gives back; else nil
}

// side is what of a key is neither used nor free.
type side struct {
	reserved int64   // units of requests in flight that may still come back
	since    Instant // when the last of them was taken
	refunds  State   // what has come back in this period, where that is bounded
}

const (
	minShard  = 8
	stepShard = 512 // from 2,048 places on a shard grows by whole memory pages
	maxShard  = 6144
	slotBytes = 16 + 32
	listBytes = 48
	sideBytes = 48
	shardSize = 144
)

// room returns how many keys fit into c places: seven of eight.
func room(c int) int { return c - c/8 }

// places returns the least number of places for n keys, 0 for none. The steps
// are such that no memory is lost to the allocator's size classes.
func places(n int) int {
	if n == 0 {
		return 0
	}
	c := minShard
	for c < 2048 && room(c) < n {
		if c&(c-1) == 0 {
			c += c / 2 // 8, 12, 16, 24, 32, 48, ...
		} else {
			c += c / 3
		}
	}
	for room(c) < n {
		c += stepShard
	}
	return c
}

// home is where d would like to sit.
func (s *shard) home(d Digest) int {
	hi, _ := bits.Mul64(d.Lo, uint64(len(s.keys)))
	return int(hi)
}

// find returns the place of d, or where it would be put and false. Without any
// places it returns 0 and false.
func (s *shard) find(d Digest) (int, bool) {
	if len(s.keys) == 0 {
		return 0, false
	}
	for i := s.home(d); ; {
		k := s.keys[i]
		if k == d {
			return i, true
		}
		if k == (Digest{}) {
			return i, false
		}
		if i++; i == len(s.keys) {
			i = 0
		}
	}
}

// put stores a State of a new key and returns its place. There must be room.
func (s *shard) put(d Digest, st State) int {
	i, _ := s.find(d)
	s.keys[i], s.states[i] = d, st
	s.n++
	return i
}

// move copies all of place i of t to place j of s.
func (s *shard) move(j int, t *shard, i int) {
	s.keys[j], s.states[j] = t.keys[i], t.states[i]
	if s.lists != nil {
		s.lists[j] = t.lists[i]
	}
	if s.sides != nil {
		s.sides[j] = t.sides[i]
	}
}

// wipe empties place i.
func (s *shard) wipe(i int) {
	s.keys[i], s.states[i] = Digest{}, State{}
	if s.lists != nil {
		s.lists[i] = stamps{}
	}
	if s.sides != nil {
		s.sides[i] = side{}
	}
}

// remove frees place i and moves up those that were pushed behind it.
func (s *shard) remove(i int) {
	s.n--
	for j := i; ; {
		if j++; j == len(s.keys) {
			j = 0
		}
		if s.keys[j] == (Digest{}) {
			break
		}
		h := s.home(s.keys[j])
		if i <= j && (h <= i || h > j) || i > j && h <= i && h > j {
			s.move(i, s, j)
			i = j
		}
	}
	s.wipe(i)
}

// alloc gives an empty shard c places, with what t has beside States.
func (s *shard) alloc(c int, t *shard) {
	if c == 0 {
		return
	}
	s.keys, s.states = make([]Digest, c), make([]State, c)
	if t.lists != nil {
		s.lists = make([]stamps, c)
	}
	if t.sides != nil {
		s.sides = make([]side, c)
	}
}

// resize gives s c places, enough for its keys. The caller accounts for the memory.
func (s *shard) resize(c int) {
	old := shard{keys: s.keys, states: s.states, lists: s.lists, sides: s.sides}
	s.keys, s.states, s.n = nil, nil, 0
	if s.lists != nil {
		s.lists = []stamps{} // it still says that there are lists
	}
	s.sides = nil
	s.alloc(c, &old)
	for i, k := range old.keys {
		if k != (Digest{}) {
			s.move(s.put(k, State{}), &old, i)
		}
	}
}

// width is what a place takes.
func (s *shard) width() int64 {
	w := int64(slotBytes)
	if s.lists != nil {
		w += listBytes
	}
	if s.sides != nil {
		w += sideBytes
	}
	return w
}

// bytes is what s takes, itself included, the rings of its lists not.
func (s *shard) bytes() int64 { return shardSize + int64(len(s.keys))*s.width() }
