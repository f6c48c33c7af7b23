package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"gateway/limit"
)

// maxBlocks is how many keys of a rule an operator can block: for more there are
// groups and `block`.
const maxBlocks = 10_000

// Blocks are the keys of a rule that an operator has blocked while the gateway
// runs. The zero value has none; it is safe for concurrent use, and a request pays
// for it by one load.
type Blocks struct {
	mu   sync.Mutex                             // held to change what is held
	held atomic.Pointer[map[limit.Digest]Block] // never changed, but replaced; nil is none
}

// Block is a key that is blocked.
type Block struct {
	Key limit.Digest
	// Name is how the key is shown.
	Name string
	// Until is when the block ends.
	Until limit.Instant
}

// Until returns when the block of key ends, and whether there is one at now.
func (b *Blocks) Until(key limit.Digest, now limit.Instant) (limit.Instant, bool) {
	held := b.held.Load()
	if held == nil {
		return 0, false
	}
	one, ok := (*held)[key]
	return one.Until, ok && now < one.Until
}

// Add blocks a key, in place of the block it has; those that are over at now go.
// It fails when the rule has 10,000 others.
func (b *Blocks) Add(one Block, now limit.Instant) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.inForce(now)
	next[one.Key] = one
	if len(next) > maxBlocks {
		return fmt.Errorf("%d keys are blocked already; write a group and `block` into the file", maxBlocks)
	}
	b.held.Store(&next)
	return nil
}

// Remove ends the block of key and reports whether there was one at now.
func (b *Blocks) Remove(key limit.Digest, now limit.Instant) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.inForce(now)
	_, ok := next[key]
	delete(next, key)
	if len(next) == 0 {
		b.held.Store(nil)
	} else {
		b.held.Store(&next)
	}
	return ok
}

// All returns the blocks at now, those that end last first.
func (b *Blocks) All(now limit.Instant) []Block {
	return slices.SortedFunc(maps.Values(b.inForce(now)), func(x, y Block) int {
		return cmp.Or(cmp.Compare(y.Until, x.Until), cmp.Compare(x.Name, y.Name))
	})
}

// inForce returns a copy of the blocks that are not over at now.
func (b *Blocks) inForce(now limit.Instant) map[limit.Digest]Block {
	next := map[limit.Digest]Block{}
	if held := b.held.Load(); held != nil {
		for key, one := range *held {
			if now < one.Until {
				next[key] = one
			}
		}
	}
	return next
}
