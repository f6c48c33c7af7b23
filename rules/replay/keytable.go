package replay

import (
	"math"
	"math/bits"
	"net/netip"

	"gateway/limit"
)

// keyTable holds the rows of a rule's keys: an open hash table of the places of rows.
// When there are too many, only keys whose digests begin with level zero
// bits stay: a sample that does not depend on what the keys did. The zero value is
// ready.
type keyTable struct {
	chunks [chunks]chunk
	n      int      // rows
	index  []uint32 // place + 1, and above it a part of the key; 0 is free
	level  uint8
	most   int // rows
}

// chunk is a part of the rows, each of which is twice as long as the one before: so
// rows stay where they are, and there is never more room than for twice as many.
type chunk struct {
	rows  []keyRow
	addrs [][16]byte // of the client that had the key first, beside its row
}

const (
	chunks     = 17 // enough for mostKeys
	firstChunk = 8  // rows
)

// placed returns where row n is.
func placed(n int) (chunk, row int) {
	n += firstChunk
	size := bits.Len(uint(n)) - 1
	return size - bits.Len(firstChunk) + 1, n - 1<<size
}

// row returns row n.
func (t *keyTable) row(n int) *keyRow {
	c, i := placed(n)
	return &t.chunks[c].rows[i]
}

// addr returns the address beside row n.
func (t *keyTable) addr(n int) *[16]byte {
	c, i := placed(n)
	return &t.chunks[c].addrs[i]
}

// find returns the row of a key of client, made if it is new; nil for a key that is
// not in the sample.
func (t *keyTable) find(key limit.Digest, client netip.Addr) *keyRow {
	if t.level > 0 && key.Hi>>(64-t.level) != 0 {
		return nil
	}
	if len(t.index) == 0 {
		t.rehash(4 * firstChunk)
	}
	mask, tag := uint64(len(t.index)-1), tagOf(key)
	for i := key.Lo & mask; ; i = (i + 1) & mask {
		n := t.index[i]
		if n == 0 {
			return t.add(key, client, i)
		}
		if n&^placeMask != tag {
			continue // without a look at the row, which is seldom in a cache
		}
		if row := t.row(int(n&placeMask) - 1); row.key == key {
			return row
		}
	}
}

// add makes the row of a new key, whose place in the index is i.
func (t *keyTable) add(key limit.Digest, client netip.Addr, i uint64) *keyRow {
	switch {
	case t.most > 0 && t.n >= t.most:
		t.raise()
		return t.find(key, client)
	case 3*len(t.index) < 4*t.n+16:
		t.rehash(2 * len(t.index))
		return t.find(key, client)
	}
	c, k := placed(t.n)
	if t.chunks[c].rows == nil {
		t.chunks[c] = chunk{make([]keyRow, firstChunk<<c), make([][16]byte, firstChunk<<c)}
	}
	t.n++
	t.index[i] = tagOf(key) | uint32(t.n)
	t.chunks[c].addrs[k] = client.As16()
	row := &t.chunks[c].rows[k]
	*row = keyRow{key: key, window: math.MinInt64}
	return row
}

// placeMask is the part of an index that is a place: enough for mostKeys and one.
const placeMask = 1<<20 - 1

func tagOf(key limit.Digest) uint32 { return uint32(key.Lo>>32) &^ placeMask }

// near returns the row of a key, or of one that lives beside it; nil for none. It is
// for who wants the row to be in the caches when it is looked for.
func (t *keyTable) near(key limit.Digest) *keyRow {
	if t.n == 0 {
		return nil
	}
	n := t.index[key.Lo&uint64(len(t.index)-1)] & placeMask
	return t.row(int(max(n, 1)) - 1)
}

func (t *keyTable) rehash(places int) {
	t.index = make([]uint32, places)
	mask := uint64(places - 1)
	for n := range t.n {
		key := t.row(n).key
		i := key.Lo & mask
		for t.index[i] != 0 {
			i = (i + 1) & mask
		}
		t.index[i] = tagOf(key) | uint32(n+1)
	}
}

// raise drops about half of the keys.
func (t *keyTable) raise() {
	t.level++
	kept := 0
	for i := range t.n {
		if row := t.row(i); row.key.Hi>>(64-t.level) == 0 {
			*t.row(kept), *t.addr(kept) = *row, *t.addr(i)
			kept++
		}
	}
	t.n = kept
	t.rehash(len(t.index))
}

// count returns how many keys there are of which good says so; with a sample it is
// an estimate.
func (t *keyTable) count(good func(*keyRow) bool) int64 {
	n := int64(0)
	for i := range t.n {
		if good(t.row(i)) {
			n++
		}
	}
	return n << t.level
}
