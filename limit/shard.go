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
	_      [48]byte // own cache lines: neighbours' locks must not slow each other
}

const (
	minShard  = 8
	stepShard = 512 // from 2,048 places on a shard grows by whole memory pages
	maxShard  = 6144
	slotBytes = 16 + 32
	shardSize = 128
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

// put stores a State of a new key. There must be room.
func (s *shard) put(d Digest, st State) {
	i, _ := s.find(d)
	s.keys[i], s.states[i] = d, st
	s.n++
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
			s.keys[i], s.states[i] = s.keys[j], s.states[j]
			i = j
		}
	}
	s.keys[i], s.states[i] = Digest{}, State{}
}

// resize gives s c places, enough for its keys. The caller accounts for the memory.
func (s *shard) resize(c int) {
	keys, states := s.keys, s.states
	s.keys, s.states, s.n = nil, nil, 0
	if c > 0 {
		s.keys, s.states = make([]Digest, c), make([]State, c)
	}
	for i, k := range keys {
		if k != (Digest{}) {
			s.put(k, states[i])
		}
	}
}

// bytes is what s takes, itself included.
func (s *shard) bytes() int64 { return shardSize + int64(len(s.keys))*slotBytes }
