package replay

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"time"

	"gateway/limit"
)

// mostKeys is how many keys of one rule are told apart for the figures; of more a
// part is sampled. mostKeysOfAll bounds those of all rules together.
const (
	mostKeys      = 1 << 19
	mostKeysOfAll = 1 << 21
)

// keyRow is what is known of one key of a rule: as much as one line of a cache holds.
type keyRow struct {
	key               limit.Digest
	requests, refused int64
	since             limit.Instant // of the first refusal since it was let through; 0 is none
	window            int64         // number of the period it was seen in last
	inWindow, most    int64         // units in that period, and in its busiest
}

// keyTable holds the rows of a rule's keys: an open hash table of places in a
// list. When there are too many, only keys whose digests begin with level zero
// bits stay: a sample that does not depend on what the keys did. The zero value is
// ready.
type keyTable struct {
	rows  []keyRow
	addrs [][16]byte // of the client that had the key first, beside its row
	index []uint32   // place + 1, and above it a part of the key; 0 is free
	level uint8
	most  int // rows
}

// find returns the row of a key of client, made if it is new; nil for a key that is
// not in the sample.
func (t *keyTable) find(key limit.Digest, client netip.Addr) *keyRow {
	if t.level > 0 && key.Hi>>(64-t.level) != 0 {
		return nil
	}
	if 3*len(t.index) < 4*len(t.rows)+16 {
		t.rehash(max(64, 2*len(t.index)))
	}
	mask, tag := uint64(len(t.index)-1), tagOf(key)
	for i := key.Lo & mask; ; i = (i + 1) & mask {
		n := t.index[i]
		if n == 0 {
			if t.most > 0 && len(t.rows) >= t.most {
				t.raise()
				return t.find(key, client)
			}
			t.rows = append(t.rows, keyRow{key: key, window: math.MinInt64})
			t.addrs = append(t.addrs, client.As16())
			t.index[i] = tag | uint32(len(t.rows))
			return &t.rows[len(t.rows)-1]
		}
		if n&^placeMask != tag {
			continue // without a look at the row, which is seldom in a cache
		}
		if row := &t.rows[n&placeMask-1]; row.key == key {
			return row
		}
	}
}

// placeMask is the part of an index that is a place: enough for mostKeys and one.
const placeMask = 1<<20 - 1

func tagOf(key limit.Digest) uint32 { return uint32(key.Lo>>32) &^ placeMask }

// warm looks up a key for the caches' sake: what it returns says nothing, but that it
// has to be waited for. It never waits itself.
func (t *keyTable) warm(key limit.Digest) int64 {
	if len(t.rows) == 0 {
		return 0
	}
	n := t.index[key.Lo&uint64(len(t.index)-1)] & placeMask
	return t.rows[max(n, 1)-1].requests // of its neighbour, maybe
}

func (t *keyTable) rehash(places int) {
	t.index = make([]uint32, places)
	mask := uint64(places - 1)
	for n := range t.rows {
		i := t.rows[n].key.Lo & mask
		for t.index[i] != 0 {
			i = (i + 1) & mask
		}
		t.index[i] = tagOf(t.rows[n].key) | uint32(n+1)
	}
}

// raise drops about half of the keys.
func (t *keyTable) raise() {
	t.level++
	kept := 0
	for i := range t.rows {
		if t.rows[i].key.Hi>>(64-t.level) == 0 {
			t.rows[kept], t.addrs[kept] = t.rows[i], t.addrs[i]
			kept++
		}
	}
	t.rows, t.addrs = t.rows[:kept], t.addrs[:kept]
	t.rehash(len(t.index))
}

// count returns how many keys there are of which good says so; with a sample it is
// an estimate.
func (t *keyTable) count(good func(*keyRow) bool) int64 {
	n := int64(0)
	for i := range t.rows {
		if good(&t.rows[i]) {
			n++
		}
	}
	return n << t.level
}

// add notes what a key asked for in the period of that number.
func (r *keyRow) add(window, units, requests int64) {
	r.requests += requests
	if window != r.window {
		r.window, r.inWindow = window, 0
	}
	r.inWindow += units
	r.most = max(r.most, r.inWindow)
}

// periodOf numbers the periods by the clock.
func periodOf(at limit.Instant, period time.Duration) int64 {
	if period <= 0 {
		return 0
	}
	n := int64(at) / int64(period)
	if at < 0 {
		n--
	}
	return n
}

// heavy counts refusals of the most refused keys once not every key has a row any
// more (Space-Saving; Metwally et al., 2005).
type heavy struct {
	rows []refusedKey
	at   map[limit.Digest]int
}

// refusedKey is a key that was refused.
type refusedKey struct {
	key               limit.Digest
	addr              [16]byte
	requests, refused int64
	over              int64 // how much refused may be too high
}

const heavyRows = 1024

// seed takes over the most refused keys of a table.
func (h *heavy) seed(t *keyTable) {
	h.rows = t.mostRefused(heavyRows)
	h.at = make(map[limit.Digest]int, heavyRows)
	for i, r := range h.rows {
		h.at[r.key] = i
	}
}

// add notes refusals of a key.
func (h *heavy) add(key limit.Digest, client netip.Addr, n int64) {
	i, ok := h.at[key]
	switch {
	case ok:
	case len(h.rows) < heavyRows:
		i = len(h.rows)
		h.rows = append(h.rows, refusedKey{key: key})
		h.at[key] = i
	default:
		for j := range h.rows {
			if h.rows[j].refused < h.rows[i].refused {
				i = j
			}
		}
		delete(h.at, h.rows[i].key)
		h.rows[i].over, h.rows[i].key = h.rows[i].refused, key
		h.at[key] = i
	}
	h.rows[i].refused += n
	h.rows[i].addr = client.As16()
}

// mostRefused returns the n keys that were refused most, those first.
func (t *keyTable) mostRefused(n int) []refusedKey {
	var list []refusedKey
	for i := range t.rows {
		if r := &t.rows[i]; r.refused > 0 {
			list = append(list, refusedKey{key: r.key, addr: t.addrs[i], requests: r.requests, refused: r.refused})
		}
		if len(list) > 4*n+1000 {
			list = topKeys(list, n)
		}
	}
	return topKeys(list, n)
}

// topKeys sorts list and returns the first n.
func topKeys(list []refusedKey, n int) []refusedKey {
	slices.SortStableFunc(list, func(a, b refusedKey) int {
		return cmp.Or(cmp.Compare(b.refused, a.refused), slices.Compare(a.addr[:], b.addr[:]))
	})
	return list[:min(n, len(list))]
}
