package limit

import (
	"math/bits"
	"sync"
	"unsafe"
)

// shard is a part of a Table under one lock: an open-addressing hash table with
// linear probing, its digests beside its States so that a search touches few
// cache lines. It has at most maxShard places, so that laying it out anew takes
// its lock for some ten microseconds; a full one is split in two.
type shard struct {
	mu     sync.Mutex
	dead   bool    // split or emptied out: look in the directory again
	depth  uint8   // leading bits of Digest.Hi that all its keys share
	n      int     // keys held
	latest Instant // the latest instant seen; no take here uses an earlier one
	arrays
}

// arrays are the places of a shard.
type arrays struct {
	keys    []Digest
	states  []State
	lists   []stamps // of an algorithm whose State has a list; else nil
	sides   []side   // of a rule that gives back; else nil
	records []record // of a rule that punishes, once it has refused; else nil
}

// side is what of a key is neither used nor free.
type side struct {
	reserved int64   // units of requests in flight that may still come back
	since    Instant // when the last of them was taken
	refunds  State   // what has come back in this period, where that is bounded
}

const (
	maxShard    = 1024
	slotBytes   = 16 + 32
	listBytes   = 48
	sideBytes   = 48
	recordBytes = 48
	shardSize   = 160
)

// sizes are the numbers of places a shard may have. They are such that no memory
// is lost to the allocator's size classes, and close together at the end, where
// the shards of a large Table are.
var sizes = [...]int{8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 576, 640, 768, 896, maxShard}

// room returns how many keys fit into c places: seven of eight.
func room(c int) int { return c - c/8 }

// places returns the least number of places for n keys, 0 for none. It panics
// when n is more than a shard can hold.
func places(n int) int {
	if n == 0 {
		return 0
	}
	i := 0
	for room(sizes[i]) < n {
		i++
	}
	return sizes[i]
}

// full says that s must grow before it takes a key more.
func (s *shard) full() bool { return s.n >= room(len(s.keys)) }

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

// adopt puts in what is at place i of a. There must be room.
func (s *shard) adopt(a *arrays, i int) {
	j, _ := s.find(a.keys[i])
	s.move(j, a, i)
	s.n++
}

// move copies all of place i of a to place j of s.
func (s *shard) move(j int, a *arrays, i int) {
	s.keys[j], s.states[j] = a.keys[i], a.states[i]
	if s.lists != nil {
		s.lists[j] = a.lists[i]
	}
	if s.sides != nil {
		s.sides[j] = a.sides[i]
	}
	if s.records != nil {
		s.records[j] = a.records[i]
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
	if s.records != nil {
		s.records[i] = record{}
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
			s.move(i, &s.arrays, j)
			i = j
		}
	}
	s.wipe(i)
}

// empty returns c empty places, with what a has beside States. Their memory is
// really there: the kernel gives it when it is first written to, and that is here.
func (a *arrays) empty(c int) arrays {
	var e arrays
	if a.lists != nil {
		e.lists = make([]stamps, c) // also of none: it says that there are lists
		touch(e.lists)
	}
	if c == 0 {
		return e
	}
	e.keys, e.states = make([]Digest, c), make([]State, c)
	touch(e.keys)
	touch(e.states)
	if a.sides != nil {
		e.sides = make([]side, c)
		touch(e.sides)
	}
	if a.records != nil {
		e.records = make([]record, c)
		touch(e.records)
	}
	return e
}

// touch writes to every page of a, which is all zero.
func touch[T any](a []T) {
	const page = 4096
	var zero T
	for i := 0; i < len(a); i += max(1, page/int(unsafe.Sizeof(zero))) {
		a[i] = zero
	}
}

// resize gives s c places, enough for its keys. The caller accounts for the memory.
func (s *shard) resize(c int) { s.refill(s.empty(c)) }

// refill moves all that s holds to the empty places of a, and gives it those.
func (s *shard) refill(a arrays) {
	old := s.arrays
	s.arrays, s.n = a, 0
	for i, k := range old.keys {
		if k != (Digest{}) {
			s.adopt(&old, i)
		}
	}
}

// width is what a place takes.
func (a *arrays) width() int64 {
	w := int64(slotBytes)
	if a.lists != nil {
		w += listBytes
	}
	if a.sides != nil {
		w += sideBytes
	}
	if a.records != nil {
		w += recordBytes
	}
	return w
}

// bytes is what s takes, itself included, the rings of its lists not.
func (s *shard) bytes() int64 { return shardSize + int64(len(s.keys))*s.width() }
