package limit

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// Generations go as soon as no State and no Grant needs them: 10,000 edits
// leave nothing behind, with keys and without.
func TestTenThousandEditsLeaveNothingBehind(t *testing.T) {
	alone(t)
	for _, keys := range []int{0, 1, 100} {
		t.Run(fmt.Sprint(keys, " keys"), func(t *testing.T) {
			table := NewTable(tokenNumbers(t, 1, maxPeriod, 10), 1000, NewBudget(1<<20))
			for i := range keys {
				take(table, start, key(i), 3)
			}
			var g Grant
			if keys > 0 {
				g, _ = take(table, start, key(0), 2)
			}
			for i := range 10_000 {
				renew(table, start.Add(time.Duration(i)), tokenNumbers(t, int64(1+i%2), maxPeriod, 10))
				if i%10 == 0 && keys > 0 {
					take(table, start.Add(time.Duration(i)), key(i%keys), 0)
				}
			}
			if table.Generation() != 10_001 {
				t.Fatalf("generation %d", table.Generation())
			}
			table.Sweep(start.Add(10_000))
			table.Sweep(start.Add(10_000))
			if n := generations(table); n > 2 {
				t.Errorf("%d generations are still known", n)
			}
			for i := range keys {
				want := int64(10 - 3)
				if i == 0 {
					want -= 2
				}
				if got := left(table, start.Add(10_000), key(i)); got != want {
					t.Fatalf("client %d has %d left, want %d", i, got, want)
				}
			}
			g.Done(start.Add(10_001), giveBack(2))
			// Not one whole unit came back meanwhile, so both are still owed.
			if got := left(table, start.Add(10_001), key(0)); keys > 0 && got != 7 {
				t.Errorf("%d left after a give-back over 10,000 edits, want 7", got)
			}
		})
	}
}

func generations(t *Table) (n int) {
	for g := t.oldest.Load(); g != nil; g = g.next.Load() {
		n++
	}
	return n
}

// A Table that nobody refers to any more gives the budget back, and not before
// its last Grant is gone.
func TestDroppedTableReturnsItsBudget(t *testing.T) {
	b := NewBudget(1 << 30)
	grant := func() Grant {
		table := NewTable(tokenNumbers(t, 1, time.Hour, 1), 1<<20, b)
		for i := range 1000 {
			take(table, start, key(i), 1)
		}
		g, _ := take(table, start, key(1000), 1)
		return g
	}()
	for range 3 {
		runtime.GC()
	}
	if b.Used() == 0 {
		t.Fatal("the budget came back while a Grant was out")
	}
	grant.Done(start, giveBack(1))
	for range 100 {
		if b.Used() == 0 {
			return
		}
		runtime.GC()
		runtime.Gosched()
	}
	t.Errorf("%d bytes still in use", b.Used())
}

// Keys above a lower max_keys are not dropped by force, but none is added.
func TestLoweredMaxKeysAddsNoneAndDropsNone(t *testing.T) {
	table := NewTable(tokenNumbers(t, 1, time.Hour, 1), 50, NewBudget(1<<20))
	for i := range 50 {
		take(table, start, key(i), 1)
	}
	table.Renew(table.Generation(), start, table.Numbers(), 10)
	if _, v, _ := acquire(start, closed(claim(table, key(99), 1))); !v.Full || table.Stats().Keys != 50 || table.Generation() != 1 {
		t.Errorf("newcomer: %+v, %d keys, generation %d", v, table.Stats().Keys, table.Generation())
	}
	table.Sweep(start.Add(time.Hour))
	for i := range 20 {
		acquire(start.Add(time.Hour), closed(claim(table, key(i), 1)))
	}
	if got := table.Stats().Keys; got != 10 {
		t.Errorf("%d keys of 10", got)
	}
}
