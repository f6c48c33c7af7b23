package limit

import (
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// mostClaim is a claim of one slot under numbers of its own.
func mostClaim(t *Table, k Digest, most *atomic.Int64) Claim {
	c := claim(t, k, 1)
	c.Most = most
	return c
}

// A client that goes over to another plan keeps its requests in progress
// counted: the plan of each request says whether it still fits.
func TestClaimsWithNumbersOfTheirOwnShareAState(t *testing.T) {
	table := slotTable(t, 2, 1000, NewBudget(1<<20))
	var five, one atomic.Int64
	five.Store(5)
	one.Store(1)
	var grants []Grant
	for i, tt := range []struct {
		most      *atomic.Int64
		ok        bool
		remaining int64
	}{
		{nil, true, 1}, {nil, true, 0}, {nil, false, 0}, // 2 of 2
		{&one, false, 0}, // 2 of 1
		{&five, true, 2}, {&five, true, 1}, {nil, false, 0}, {&five, true, 0}, {&five, false, 0},
	} {
		g, v, r := acquire(start, mostClaim(table, key(1), tt.most))
		if v.OK != tt.ok || r[0].Result.Remaining != tt.remaining {
			t.Errorf("request %d: passed %v with %d left, want %v with %d", i, v.OK, r[0].Result.Remaining, tt.ok, tt.remaining)
		}
		if wait := v.Wait; !v.OK && wait != time.Second {
			t.Errorf("request %d: to wait %v, want 1s", i, wait)
		}
		if v.OK {
			grants = append(grants, g)
		}
	}
	five.Store(6) // a new list decides at once, in whichever direction
	if _, v, _ := acquire(start, mostClaim(table, key(1), &five)); !v.OK {
		t.Error("the number was raised, and the sixth is refused")
	}
	five.Store(3)
	if _, v, r := acquire(start, mostClaim(table, key(1), &five)); v.OK || r[0].Result.Remaining != 0 {
		t.Errorf("the number was lowered below what is in use: passed %v with %d left", v.OK, r[0].Result.Remaining)
	}
	for i := range grants {
		grants[i].Done(start, nil)
	}
	if n := inFlight(table); n != 1 {
		t.Errorf("%d in progress, want the one that has not ended", n)
	}
}

// What another rule refused shows what its own plan has left.
func TestARefusalElsewhereShowsWhatThePlanHasLeft(t *testing.T) {
	b := NewBudget(1 << 20)
	table, other := slotTable(t, 2, 1000, b), slotTable(t, 1, 1000, b)
	var five atomic.Int64
	five.Store(5)
	acquire(start, mostClaim(table, key(1), &five), claim(other, key(1), 1))
	_, v, r := acquire(start, mostClaim(table, key(1), &five), claim(other, key(1), 1))
	if v.OK || !r[0].Result.OK || r[0].Result.Remaining != 4 {
		t.Errorf("passed %v; the plan has %d left, want 4", v.OK, r[0].Result.Remaining)
	}
}

// Clients go from plan to plan, and the plans' numbers change, in any order: a
// request passes exactly if its plan, as it is then, has room for one more than
// the client has in progress; and in the end nothing is left.
func TestPlansOfSlotsAgreeWithACount(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const clients, plans = 3, 3
		table := slotTable(r, rapid.Int64Range(1, 4).Draw(r, "n"), 4, NewBudget(1<<20))
		base := table.Numbers().Bucket.(concurrency).n
		most := make([]atomic.Int64, plans)
		for i := range most {
			most[i].Store(rapid.Int64Range(1, 6).Draw(r, "most"))
		}
		var open [clients]int64
		type request struct {
			client int
			grant  Grant
		}
		var requests []*request
		for range rapid.IntRange(1, 80).Draw(r, "events") {
			switch rapid.SampledFrom([]string{"take", "take", "take", "done", "edit"}).Draw(r, "op") {
			case "take":
				client, plan := rapid.IntRange(0, clients-1).Draw(r, "client"), rapid.IntRange(-1, plans-1).Draw(r, "plan")
				c, size := claim(table, key(client), 1), base
				if plan >= 0 {
					c, size = mostClaim(table, key(client), &most[plan]), most[plan].Load()
				}
				g, v, results := acquire(start, c)
				if want := open[client] < size; v.OK != want {
					r.Fatalf("passed %v with %d open of %d", v.OK, open[client], size)
				}
				if v.OK {
					open[client]++
					requests = append(requests, &request{client, g})
				}
				if want := max(0, size-open[client]); results[0].Result.Remaining != want {
					r.Fatalf("%d left with %d open of %d", results[0].Result.Remaining, open[client], size)
				}
			case "done":
				if len(requests) > 0 {
					i := rapid.IntRange(0, len(requests)-1).Draw(r, "which")
					requests[i].grant.Done(start, nil)
					open[requests[i].client]--
					requests = append(requests[:i], requests[i+1:]...)
				}
			case "edit":
				most[rapid.IntRange(0, plans-1).Draw(r, "plan")].Store(rapid.Int64Range(1, 6).Draw(r, "most"))
			}
		}
		for _, q := range requests {
			q.grant.Done(start, nil)
		}
		if n := inFlight(table); n != 0 {
			r.Fatalf("%d are in progress after the last has ended", n)
		}
	})
}
