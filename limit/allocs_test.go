package limit

import (
	"context"
	"testing"
	"time"
)

// A check of a known key allocates nothing in any algorithm, alone or with
// others, passed, refused or full, reserved, given back or charged: the log when
// its ring has grown.
func TestHotPathAllocatesNothingInAnyAlgorithm(t *testing.T) {
	b := NewBudget(1 << 24)
	beside := NewTable(tokenNumbers(t, 1_000_000, sec, 1_000_000), 1000, b)
	take(beside, start, key(1), 1)
	eachSort(t, func(t *testing.T, a sort) {
		n := a.nums(t, 500)
		if a.name != "concurrency" {
			n.Refunds = window(t, 500, time.Minute)
		}
		table := NewTable(n, 1000, b)
		none := NewTable(a.nums(t, 1), 1, b)
		now := start
		var l Limiter
		claims := make([]Claim, 2)
		one := func() []Claim {
			claims[0] = pending(claim(table, key(1), 1))
			return claims[:1]
		}
		two := func() []Claim {
			claims[0], claims[1] = claim(table, key(1), 1), claim(beside, key(1), 1)
			return claims
		}
		keep := func(*Claim) int64 { return 0 }
		back := func(*Claim) int64 { return 1 }
		more := func(*Claim) int64 { return -1 }
		acquire := func(cs []Claim) Grant {
			now = now.Add(130 * ms) // 500 a minute, one each 120 ms: all entries of a log are in use at some time
			g, _ := l.Acquire(context.Background(), now, cs)
			return g
		}
		for range 2000 { // rings grow
			g := acquire(one())
			g.Done(now, keep)
		}
		take(none, start, key(1), 1)
		for name, f := range map[string]func(){
			"reserved and kept":       func() { g := acquire(one()); g.Done(now, keep) },
			"reserved and given back": func() { g := acquire(one()); g.Done(now, back) },
			"reserved, charged more":  func() { g := acquire(one()); g.Done(now, more) },
			"without an outcome":      func() { g := acquire(two()); g.Done(now, nil) },
			"two claims":              func() { g := acquire(two()); g.Done(now.Add(sec), back) },
			"a cost of ten": func() {
				claims[0] = claim(table, key(1), 10)
				g := acquire(claims[:1])
				g.Done(now, keep)
			},
			"refused": func() {
				claims[0] = claim(none, key(1), 2)
				acquire(claims[:1])
			},
			"full": func() {
				claims[0] = closed(claim(none, key(2), 1))
				l.Acquire(context.Background(), start, claims[:1])
			},
			"shared": func() {
				claims[0] = claim(none, key(3), 1)
				g, _ := l.Acquire(context.Background(), start, claims[:1])
				g.Done(start, back)
			},
		} {
			if got := testing.AllocsPerRun(300, f); got != 0 {
				t.Errorf("%s: %v allocations, want 0", name, got)
			}
		}
	})
}
