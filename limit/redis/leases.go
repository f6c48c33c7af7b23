package redis

import (
	"sync"
	"sync/atomic"
)

// leases are the slots that this process holds in the store, and those of which it
// does not know whether it holds them.
type leases struct {
	last atomic.Uint64

	mu    sync.Mutex
	held  map[uint64]held
	unset []doubtful
}

// held is a lease for so many slots of a counter.
type held struct {
	key   string
	slots int64
}

// doubtful is a lease that is to be given back if the store has it. A command that
// was in flight when the store went away may come late, so it is given back a few
// times.
type doubtful struct {
	held
	lease uint64
	tries int
}

const (
	mostDoubtful  = 10_000 // what is above ends by itself
	doubtfulTries = 3
)

func (l *leases) next() uint64 { return l.last.Add(1) }

func (l *leases) add(key string, lease uint64, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[uint64]held{}
	}
	l.held[lease] = held{key, n}
}

func (l *leases) remove(lease uint64) {
	l.mu.Lock()
	delete(l.held, lease)
	l.mu.Unlock()
}

func (l *leases) doubt(key string, lease uint64, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unset) < mostDoubtful {
		l.unset = append(l.unset, doubtful{held: held{key, n}, lease: lease})
	}
}

// doubts returns what is doubtful, and forgets what was given back often enough.
func (l *leases) doubts() []doubtful {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unset) == 0 {
		return nil
	}
	all := append([]doubtful(nil), l.unset...)
	left := l.unset[:0]
	for _, d := range l.unset {
		if d.tries++; d.tries < doubtfulTries {
			left = append(left, d)
		}
	}
	l.unset = left
	return all
}

// byKey returns the leases of each counter.
func (l *leases) byKey() map[string][]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string][]uint64{}
	for lease, h := range l.held {
		all[h.key] = append(all[h.key], lease)
	}
	return all
}

// holds reports whether a lease is held, and for how many slots.
func (l *leases) holds(lease uint64) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.held[lease]
	return h.slots, ok
}
