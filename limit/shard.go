package limit

import (
	"math/bits"
	"sync"
	"unsafe"
)

// shard is a part of a Table under one lock: an open-addressing hash table with
// linear probing. It has at most maxShard places, so that laying it out anew takes
// its lock for some ten microseconds; a full one is split in two.
//
// It is one cache line, since it is written with every check: what a check needs of
// it travels between processors once, and no other shard with it.
type shard struct {
	mu     sync.Mutex
	latest Instant // the latest instant seen; no take here uses an earlier one
	seq    uint64  // of the latest decision or settlement
	n      int32   // keys held
	depth  uint8   // leading bits of Digest.Hi that all its keys share
	dead   bool    // split, joined or dropped: look in the directory again
	has    has     // what stands beside its slots, as soon as it has some
	arrays
}

// arrays are the places of a shard.
type arrays struct {
	slots []slot
	more  *more // nil: nothing
}

// slot is a place: a key and its State in one or two cache lines. The zero Digest is no key.
type slot struct {
	key Digest
	st  State
}

// has says what stands beside the slots of a shard.
type has uint8

const (
	hasLists   has = 1 << iota // of an algorithm whose State has a list
	hasSides                   // of a rule that gives back
	hasRecords                 // of a rule that punishes, once it has refused
)

// more is what stands beside the slots, place by place; what there is not is nil.
type more struct {
	lists   []stamps
	sides   []side
	records []record
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
	shardSize   = 64
	moreSize    = 80
)

// sizes are the numbers of places a shard may have. They are such that next to no
// memory is lost to the allocator's size classes, at 48 bytes a place, and close
// together at the end, where the shards of a large Table are.
var sizes = [...]int{8, 12, 16, 24, 32, 48, 64, 101, 128, 197, 256, 384, 512, 568, 682, 853, maxShard}

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
func (s *shard) full() bool { return int(s.n) >= room(len(s.slots)) }

// home is where d would like to sit.
func (s *shard) home(d Digest) int {
	hi, _ := bits.Mul64(d.Lo, uint64(len(s.slots)))
	return int(hi)
}

// find returns the place of d, or where it would be put and false. Without any
// places it returns 0 and false.
func (s *shard) find(d Digest) (int, bool) {
	slots := s.slots
	hi, _ := bits.Mul64(d.Lo, uint64(len(slots)))
	for i := int(hi); uint(i) < uint(len(slots)); {
		k := &slots[i].key
		if k.Lo == d.Lo && k.Hi == d.Hi {
			return i, true
		}
		if k.Lo|k.Hi == 0 {
			return i, false
		}
		if i++; i == len(slots) {
			i = 0
		}
	}
	return 0, false
}

// put stores a State of a new key and returns its place. There must be room.
func (s *shard) put(d Digest, st State) int {
	i, _ := s.find(d)
	s.slots[i] = slot{d, st}
	s.n++
	return i
}

// adopt puts in what is at place i of a. There must be room.
func (s *shard) adopt(a *arrays, i int) {
	j, _ := s.find(a.slots[i].key)
	s.move(j, a, i)
	s.n++
}

// move copies all of place i of a to place j of s.
func (s *shard) move(j int, a *arrays, i int) {
	s.slots[j] = a.slots[i]
	if s.more != nil && a.more != nil {
		s.more.move(j, a.more, i)
	}
}

func (m *more) move(j int, from *more, i int) {
	if m.lists != nil && from.lists != nil {
		m.lists[j] = from.lists[i]
	}
	if m.sides != nil && from.sides != nil {
		m.sides[j] = from.sides[i]
	}
	if m.records != nil && from.records != nil {
		m.records[j] = from.records[i]
	}
}

// wipe empties place i.
func (s *shard) wipe(i int) {
	s.slots[i] = slot{}
	m := s.more
	if m == nil {
		return
	}
	if m.lists != nil {
		m.lists[i] = stamps{}
	}
	if m.sides != nil {
		m.sides[i] = side{}
	}
	if m.records != nil {
		m.records[i] = record{}
	}
}

// remove frees place i and moves up those that were pushed behind it.
func (s *shard) remove(i int) {
	s.n--
	for j := i; ; {
		if j++; j == len(s.slots) {
			j = 0
		}
		k := s.slots[j].key
		if k == (Digest{}) {
			break
		}
		h := s.home(k)
		if i <= j && (h <= i || h > j) || i > j && h <= i && h > j {
			s.move(i, &s.arrays, j)
			i = j
		}
	}
	s.wipe(i)
}

// newArrays returns c empty places, with h beside them. Their memory is
// really there: the kernel gives it when it is first written to, and that is here.
func newArrays(c int, h has) arrays {
	if c == 0 {
		return arrays{}
	}
	a := arrays{slots: make([]slot, c)}
	touch(a.slots)
	if h != 0 {
		a.more = newMore(c, h)
	}
	return a
}

func newMore(c int, h has) *more {
	m := &more{}
	if h&hasLists != 0 {
		m.lists = make([]stamps, c)
		touch(m.lists)
	}
	if h&hasSides != 0 {
		m.sides = make([]side, c)
		touch(m.sides)
	}
	if h&hasRecords != 0 {
		m.records = make([]record, c)
		touch(m.records)
	}
	return m
}

// touch writes to every page of a, which is all zero.
func touch[T any](a []T) {
	const page = 4096
	var zero T
	for i := 0; i < len(a); i += max(1, page/int(unsafe.Sizeof(zero))) {
		a[i] = zero
	}
}

// refill moves all that s holds to the empty places of a, and gives it those.
func (s *shard) refill(a arrays) {
	old := s.arrays
	s.arrays, s.n = a, 0
	for i := range old.slots {
		if old.slots[i].key != (Digest{}) {
			s.adopt(&old, i)
		}
	}
}

// sides are those of s, nil when it has none.
func (s *shard) sides() []side {
	if s.more == nil {
		return nil
	}
	return s.more.sides
}

// records are those of s, nil when it has none.
func (s *shard) records() []record {
	if s.more == nil {
		return nil
	}
	return s.more.records
}

// arraysBytes is what c places with h beside them take.
func arraysBytes(c int, h has) int64 {
	if c == 0 {
		return 0
	}
	w, fixed := int64(slotBytes), int64(0)
	if h != 0 {
		fixed = moreSize
	}
	if h&hasLists != 0 {
		w += listBytes
	}
	if h&hasSides != 0 {
		w += sideBytes
	}
	if h&hasRecords != 0 {
		w += recordBytes
	}
	return int64(c)*w + fixed
}

// held is what the arrays of s take, the rings of its lists not.
func (s *shard) held() int64 { return arraysBytes(len(s.slots), s.has) }

// bytes is what s takes, itself included.
func (s *shard) bytes() int64 { return shardSize + s.held() }
