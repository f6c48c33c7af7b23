package limit

import (
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// refunding are Numbers whose refunds are bounded to as many as the limit, as
// the rule setting `refund` makes them.
func (a sort) refunding(tb failer, permits int64) Numbers {
	n := a.nums(tb, permits)
	n.Refunds = window(tb, permits, time.Minute)
	return n
}

// Section 3.6: at most N units a key and period come back; after that answers
// count, until the next period.
func TestRefundsStopAtTheLimit(t *testing.T) {
	eachSort(t, func(t *testing.T, a sort) {
		if a.name == "concurrency" {
			return // refuses `refund` when the file is loaded
		}
		table := NewTable(a.refunding(t, 5), 10, NewBudget(1<<20))
		for i := range 5 { // an outage: five are given back, each to the next
			g, r := reserve(table, start, key(1), 1)
			if !r.OK || r.Remaining != 4 {
				t.Fatalf("request %d: %+v", i, r)
			}
			g.Done(start, giveBack(1))
		}
		for i := range 5 { // the outage goes on: now they count
			g, r := reserve(table, start, key(1), 1)
			if !r.OK || r.Remaining != int64(4-i) {
				t.Fatalf("request %d that counts: %+v", i, r)
			}
			g.Done(start, giveBack(1))
			if g.Done(start, giveBack(1)); left(table, start, key(1)) != int64(4-i) {
				t.Fatalf("request %d came back after five had", i)
			}
		}
		if _, r := reserve(table, start, key(1), 1); r.OK || r.Wait <= sec {
			t.Errorf("an eleventh: %+v, want its real wait", r)
		}
		// Another key has its own.
		g, _ := reserve(table, start, key(2), 1)
		if g.Done(start, giveBack(1)); left(table, start, key(2)) != 5 {
			t.Error("another client's unit did not come back")
		}
		// And in the next period all of it again.
		at := start.Add(2 * time.Minute)
		for range 5 {
			g, _ := reserve(table, at, key(1), 1)
			g.Done(at, giveBack(1))
		}
		if got := left(table, at, key(1)); got != 5 {
			t.Errorf("%d left after five more refunds two periods later, want 5", got)
		}
		audit(t, table)
	})
}

// Of 1,000 refunds in parallel exactly N come back, also where the limit is far
// from used, and in a counter that is shared.
func TestParallelRefundsGiveBackAtMostTheLimit(t *testing.T) {
	eachSort(t, func(t *testing.T, a sort) {
		if a.name == "concurrency" {
			return
		}
		for _, budget := range []int64{1 << 20, 0} {
			n := a.nums(t, 1000)
			n.Refunds = window(t, 7, time.Minute)
			table := NewTable(n, 10, NewBudget(budget))
			var back atomic.Int64
			together(10, func(int) {
				for range 50 {
					g, _, c := acquire(start, pending(claim(table, key(1), 1)))
					g.Done(start, giveBack(1))
					back.Add(c[0].Returned)
				}
			})
			if got := left(table, start, key(2)) + left(table, start, key(1)); budget > 0 && got != 1000+1000-500+7 {
				t.Errorf("%d left with memory, want %d", got, 2000-493)
			}
			if back.Load() != 7 || reserved(table) != 0 {
				t.Errorf("%d came back with a budget of %d, want 7; %d reserved", back.Load(), budget, reserved(table))
			}
		}
	})
}

// A key that may be refunded less is remembered although it has all its units;
// when memory is full its loss is counted with what it could be refunded again.
func TestRefundsAreNotForgotten(t *testing.T) {
	a := sorts[0]
	table := NewTable(a.refunding(t, 5), 2, NewBudget(1<<20))
	for range 4 {
		g, _ := reserve(table, start, key(1), 1)
		g.Done(start, giveBack(1))
	}
	table.Sweep(start)
	if !holds(table, key(1)) {
		t.Fatal("a key with four of five refunds was forgotten")
	}
	if _, v, _ := acquire(start, closed(claim(table, key(2), 1))); !v.OK {
		t.Fatal("no second place")
	}
	if _, v, _ := acquire(start, closed(claim(table, key(3), 1))); !v.Full {
		t.Errorf("a newcomer: %+v, want Full", v)
	}
	take(table, start, key(3), 1) // the 1 of client 2, not the 4 of client 1
	if !holds(table, key(1)) || table.Stats().EvictedUnits != 1 {
		t.Errorf("the key with refunds was thrown out first: %+v", table.Stats())
	}
	table.Sweep(start.Add(time.Minute))
	if holds(table, key(1)) {
		t.Error("still remembered in the next period")
	}
}

// Over random histories, edits and sweeps included: what came back in a window
// of Unix time is never more than the bound in force when it did.
func TestRefundsKeepTheirBoundOverEdits(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a := sorts[rapid.IntRange(0, 4).Draw(r, "algorithm")]
		n := rapid.Int64Range(1, 10).Draw(r, "permits")
		table := NewTable(a.refunding(r, n), 10, NewBudget(1<<20))
		now, back, window := start, int64(0), start
		var grants []Grant
		var sizes []*[]Claim
		for range rapid.IntRange(1, 50).Draw(r, "events") {
			now += Instant(rapid.Int64Range(0, int64(15*sec)).Draw(r, "pass"))
			if now >= window+Instant(time.Minute) {
				window += Instant(now.Sub(window) / time.Minute * time.Minute)
				back = 0
			}
			switch rapid.SampledFrom([]string{"reserve", "reserve", "done", "done", "edit", "sweep"}).Draw(r, "op") {
			case "reserve":
				g, v, c := acquire(now, pending(claim(table, key(1), rapid.Int64Range(1, 3).Draw(r, "n"))))
				if v.OK {
					grants, sizes = append(grants, g), append(sizes, &c)
				}
			case "done":
				if len(grants) == 0 {
					break
				}
				i := rapid.IntRange(0, len(grants)-1).Draw(r, "of")
				grants[i].Done(now, giveBack(3))
				back += (*sizes[i])[0].Returned
				grants, sizes = append(grants[:i], grants[i+1:]...), append(sizes[:i], sizes[i+1:]...)
				if back > n {
					r.Fatalf("%d came back in a minute, at most %d may", back, n)
				}
			case "edit":
				n = rapid.Int64Range(max(1, back), 10).Draw(r, "permits")
				renew(table, now, a.refunding(r, n))
			case "sweep":
				table.Sweep(now)
			}
		}
		audit(r, table)
	})
}
