package limit

import (
	"testing"
	"time"
)

// Warm may be asked of any key at any time, and nothing is different afterwards.
func TestWarmChangesNothing(t *testing.T) {
	b, err := NewTokenBucket(3, time.Minute, 3)
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable(Numbers{Bucket: b, Carry: 3}, 1<<20, NewBudget(1<<30))
	table.Warm(key(1)) // of an empty Table
	var l Limiter
	for i := range 5000 {
		claims := []Claim{{Table: table, Key: key(i), N: 1}}
		if _, v := l.Acquire(t.Context(), 0, claims); !v.OK {
			t.Fatalf("key %d has no room", i)
		}
	}
	before := table.Stats()
	for i := range 10_000 { // half of them unknown
		table.Warm(key(i))
	}
	if after := table.Stats(); after != before {
		t.Errorf("%+v, before %+v", after, before)
	}
	for i := range 5000 {
		claims := []Claim{{Table: table, Key: key(i), N: 1}}
		if _, v := l.Acquire(t.Context(), 0, claims); !v.OK || claims[0].Result.Remaining != 1 {
			t.Fatalf("key %d has %d left of 3 after two", i, claims[0].Result.Remaining)
		}
	}
}
