package limit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// placesTable returns a Table that admits n requests in progress.
func placesTable(t testing.TB, n int64) *Table {
	t.Helper()
	b, err := NewConcurrency(n)
	if err != nil {
		t.Fatal(err)
	}
	return NewTable(Numbers{Bucket: b, Slots: true}, 1, NewBudget(1<<20))
}

// enter takes a slot of key 1 that leaves so many.
func enter(table *Table, spare int64) (Grant, Result) {
	claims := []Claim{{Table: table, Key: key(1), N: 1, Spare: spare}}
	g, _ := new(Limiter).Acquire(context.Background(), start, claims)
	return g, claims[0].Result
}

// Of ten, those that must leave four enter while fewer than six are in, those
// that must leave two while fewer than eight are, and the others to the last.
func TestSpareIsKeptForThoseThatNeedNotLeaveIt(t *testing.T) {
	table := placesTable(t, 10)
	var in []Grant
	for _, step := range []struct {
		spare int64
		ok    int // enter
		left  int64
	}{{4, 6, 4}, {4, 0, 4}, {2, 2, 2}, {4, 0, 2}, {2, 0, 2}, {0, 2, 0}, {0, 0, 0}} {
		passed := 0
		for range 11 {
			g, r := enter(table, step.spare)
			if r.Remaining != max(step.left, 10-int64(len(in))-1) && r.OK || !r.OK && (r.Remaining != step.left || r.Wait != time.Second) {
				t.Errorf("spare %d with %d in: %+v", step.spare, len(in), r)
			}
			if r.OK {
				passed++
				in = append(in, g)
			}
		}
		if passed != step.ok {
			t.Errorf("spare %d: %d entered, want %d", step.spare, passed, step.ok)
		}
	}
	for i := range 5 { // five are left in
		in[i].Done(start, nil)
	}
	if _, r := enter(table, 4); !r.OK || r.Remaining != 4 {
		t.Errorf("the sixth: %+v", r)
	}
	if _, r := enter(table, 4); r.OK {
		t.Errorf("the seventh entered: %+v", r)
	}
}

func TestSpareHoldsForEveryBucket(t *testing.T) {
	table := tokenTable(t, 10, 10*time.Second, 10)
	claims := []Claim{{Table: table, Key: key(1), N: 3, Spare: 5}}
	for i, want := range []Result{
		{OK: true, Remaining: 7, Reset: 3 * time.Second},
		{Remaining: 7, Wait: time.Second, Reset: 3 * time.Second}, // 3 and 5 of 7: one more is wanted
	} {
		_, v := new(Limiter).Acquire(context.Background(), start, claims)
		if claims[0].Result != want || v.OK != want.OK || v.Wait != want.Wait {
			t.Errorf("take %d: %+v %+v, want %+v", i, claims[0].Result, v, want)
		}
	}
	if got := left(table, start, key(1)); got != 7 {
		t.Errorf("%d left, want 7: a claim takes only what it asks for", got)
	}
}

func TestReleaseGivesSlotsBackOnceAndNothingElse(t *testing.T) {
	budget := NewBudget(1 << 20)
	b, _ := NewConcurrency(2)
	table := NewTable(Numbers{Bucket: b, Slots: true}, 10, budget)
	rate := NewTable(tokenNumbers(t, 5, time.Hour, 5), 10, budget)
	claims := []Claim{{Table: rate, Key: key(1), N: 1}, {Table: table, Key: key(1), N: 1}}
	g, _ := new(Limiter).Acquire(context.Background(), start, claims)
	other, _ := enter(table, 0)
	for range 3 {
		g.Release(table, start)
		g.Release(rate, start)
		g.Release(placesTable(t, 1), start)
	}
	if got := left(table, start, key(1)); got != 1 {
		t.Errorf("%d slots left, want 1: the other's is not in it", got)
	}
	g.Done(start, nil)
	g.Release(table, start)
	if got := left(table, start, key(1)); got != 1 {
		t.Errorf("%d slots left after the end, want 1", got)
	}
	if got := left(rate, start, key(1)); got != 4 {
		t.Errorf("%d units left, want 4", got)
	}
	other.Done(start, nil)
	var none Grant
	none.Release(table, start)
}

func TestSpareIsNeverEntered(t *testing.T) {
	table := placesTable(t, 6)
	var in, most atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				g, r := enter(table, 2)
				if !r.OK {
					continue
				}
				n := in.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				in.Add(-1)
				g.Done(start, nil)
			}
		})
	}
	wg.Wait()
	if got := left(table, start, key(1)); got != 6 || most.Load() > 4 {
		t.Errorf("%d left and %d in at most, want 6 and 4", got, most.Load())
	}
}
