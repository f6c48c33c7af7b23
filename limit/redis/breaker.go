package redis

import (
	"strconv"
	"sync/atomic"
)

// breaker keeps requests from a store that does not answer. A single server has
// one; a cluster one for each 64 slots, since its nodes fail one by one.
type breaker struct {
	down  atomic.Bool
	fails atomic.Int32 // in a row
}

// tolerance is how many failures in a row open a breaker.
const tolerance = 3

// succeeded notes an answer.
func (b *breaker) succeeded() {
	if b.fails.Load() != 0 {
		b.fails.Store(0)
	}
}

// failed notes that there was none, and reports whether that opened the breaker.
func (b *breaker) failed() bool {
	return b.fails.Add(1) >= tolerance && b.down.CompareAndSwap(false, true)
}

// close lets requests pass again, and reports whether they did not before.
func (b *breaker) close() bool {
	b.fails.Store(0)
	return b.down.CompareAndSwap(true, false)
}

// slotsEach is how many slots share a breaker.
const slotsEach = 64

// probeTags returns, for each breaker of a cluster, a hash tag of its slots.
func probeTags() []string {
	tags := make([]string, slots/slotsEach)
	for i, left := 0, len(tags); left > 0; i++ {
		tag := strconv.Itoa(i)
		if b := slotOf([]byte(tag)) / slotsEach; tags[b] == "" {
			tags[b] = tag
			left--
		}
	}
	return tags
}
