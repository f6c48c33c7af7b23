package limit

import "sync/atomic"

// Budget bounds the memory of many Tables together, in bytes. It also numbers
// them: locks are taken in the order in which Tables were made, so all Tables
// of one Acquire must share one Budget. A Budget is safe for concurrent use.
type Budget struct {
	max  atomic.Int64
	used atomic.Int64
	made atomic.Uint64

	_         [64]byte // apart from what is only read, since every decision writes it
	decisions atomic.Uint64
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

// Decisions returns how many decisions and settlements there were: without another
// one nothing but time changes what a key has left.
func (b *Budget) Decisions() uint64 { return b.decisions.Load() }

// take reserves n bytes and says whether they were there.
func (b *Budget) take(n int64) bool {
	if b.used.Add(n) > b.max.Load() {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *Budget) give(n int64) { b.used.Add(-n) }
