package rules

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	"gateway/limit"
)

const (
	// refusalKeys is how many keys a book of refusals holds, refusalSpan how long it
	// is written in.
	refusalKeys = 64
	refusalSpan = 5 * time.Minute
)

// Refusals remembers which keys a rule refuses most, in the last five to ten
// minutes: however many there are, it takes two books of 64 (the algorithm is
// Space-Saving; Metwally et al., 2005). Every key that has more than a 64th of a
// book's refusals is in it. Nothing is taken before the first refusal, and nothing
// is allocated after the second book. The zero value is ready; it is safe for
// concurrent use.
type Refusals struct {
	mu        sync.Mutex
	now, last *refusalBook
	begun     limit.Instant // when now was opened
}

type refusalBook struct {
	n    int
	keys [refusalKeys]limit.Digest // apart, since a refusal looks through all of them
	rows [refusalKeys]Refused
}

// Refused is a key that a rule refuses.
type Refused struct {
	Key limit.Digest
	// Client is the address of whom it refused last.
	Client netip.Addr
	// Count is how often the key was refused: at most Over too high, and too low only
	// where one book has no row of a key for want of place.
	Count, Over int64
	// Last is when it was refused last, Until when it was to be allowed again; 0 is
	// never.
	Last, Until limit.Instant
}

// Add notes that the key was refused at now.
func (r *Refusals) Add(key limit.Digest, client netip.Addr, now limit.Instant, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(now)
	if r.now == nil {
		r.now, r.begun = &refusalBook{}, now
	}
	row := r.now.row(key)
	row.Count++
	row.Key, row.Client, row.Last, row.Until = key, client, now, 0
	if wait != limit.Never {
		row.Until = now.Add(wait)
	}
}

// row returns the row of key: its own, a new one, or that of the key refused least,
// which it takes over with what that has counted.
func (b *refusalBook) row(key limit.Digest) *Refused {
	if i := slices.Index(b.keys[:b.n], key); i >= 0 {
		return &b.rows[i]
	}
	i := b.n
	if i < refusalKeys {
		b.n++
	} else {
		i = 0
		for j := range b.rows {
			if b.rows[j].Count < b.rows[i].Count {
				i = j
			}
		}
		b.rows[i].Over = b.rows[i].Count
	}
	b.keys[i] = key
	return &b.rows[i]
}

// turn opens the next book when it is time.
func (r *Refusals) turn(now limit.Instant) {
	age := now.Sub(r.begun)
	if r.now == nil || age < refusalSpan {
		return
	}
	r.now, r.last = r.last, r.now
	if r.now == nil {
		r.now = &refusalBook{}
	}
	*r.now = refusalBook{}
	if age >= 2*refusalSpan {
		r.last.n = 0
	}
	r.begun = now
}

// Top returns the n keys that were refused most, the most refused one first.
func (r *Refusals) Top(now limit.Instant, n int) []Refused {
	r.mu.Lock()
	r.turn(now)
	var list []Refused
	for _, b := range []*refusalBook{r.now, r.last} {
		if b != nil {
			list = append(list, b.rows[:b.n]...)
		}
	}
	r.mu.Unlock()
	// A key in both books is one: the row of the new book comes first.
	kept, at := list[:0], make(map[limit.Digest]int, len(list))
	for _, row := range list {
		if i, ok := at[row.Key]; ok {
			kept[i].Count, kept[i].Over = kept[i].Count+row.Count, kept[i].Over+row.Over
			continue
		}
		at[row.Key] = len(kept)
		kept = append(kept, row)
	}
	slices.SortStableFunc(kept, func(a, b Refused) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Last, a.Last))
	})
	return kept[:min(n, len(kept))]
}

// Forget forgets what was refused of a key.
func (r *Refusals) Forget(key limit.Digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range []*refusalBook{r.now, r.last} {
		if b == nil {
			continue
		}
		if i := slices.Index(b.keys[:b.n], key); i >= 0 {
			b.n--
			b.keys[i], b.rows[i] = b.keys[b.n], b.rows[b.n]
			b.rows[b.n] = Refused{}
		}
	}
}
