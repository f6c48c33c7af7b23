package replay

import (
	"cmp"
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
	for i := range t.n {
		if r := t.row(i); r.refused > 0 {
			list = append(list, refusedKey{key: r.key, addr: *t.addr(i), requests: r.requests, refused: r.refused})
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
