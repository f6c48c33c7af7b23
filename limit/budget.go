package limit

import "sync/atomic"

// Budget bounds the memory of many Tables together, in bytes. It also numbers
// them: locks are taken in the order in which Tables were made, so all Tables
// of one Acquire must share one Budget. A Budget is safe for concurrent use.
type Budget struct {
	max  atomic.Int64
	used atomic.Int64
	made atomic.Uint64

	_       [64]byte // apart from what is often written, since every decision reads it
	changed atomic.Bool
	_       [64]byte
	apart   atomic.Uint64 // the latest number of a decision of a Store
}

// NewBudget returns a Budget of max bytes. At 0 or less no Table can hold a key.
func NewBudget(max int64) *Budget {
	b := &Budget{}
	b.max.Store(max)
	return b
}

// SetMax changes the bound. What is above a lower one is not freed by force: no
// Table grows until enough has gone idle.
func (b *Budget) SetMax(max int64) { b.max.Store(max) }

// Used returns the bytes all Tables take now.
func (b *Budget) Used() int64 { return b.used.Load() }

// Changed reports whether anything but time has changed what some key has left, since
// it was last called. What it does not report yet is not done yet: whoever calls it and
// then reads the levels misses nothing for good.
func (b *Budget) Changed() bool { return b.changed.Swap(false) }

// number returns a number for a decision or a settlement of a Store: more than seq, and more
// than any before.
func (b *Budget) number(seq uint64) uint64 {
	for {
		was := b.apart.Load()
		if next := max(was, seq) + 1; b.apart.CompareAndSwap(was, next) {
			return next
		}
	}
}

// change notes that something has changed. The lock of the shard where it has is held,
// so that who reads the shard later comes after Changed, or is told the next time.
func (b *Budget) change() {
	if !b.changed.Load() { // not written with every decision: all processors would wait for that line
		b.changed.Store(true)
	}
}

// take reserves n bytes and says whether they were there.
func (b *Budget) take(n int64) bool {
	if b.used.Add(n) > b.max.Load() {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *Budget) give(n int64) { b.used.Add(-n) }
