package limit

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// pending makes a claim one whose units only count when Done says so.
func pending(c Claim) Claim {
	c.Pending = true
	return c
}

func reserve(t *Table, now Instant, k Digest, n int64) (Grant, Result) {
	g, _, c := acquire(now, pending(claim(t, k, n)))
	return g, c[0].Result
}

// reserved is what t says is in flight, in all its keys and shared counters.
func reserved(t *Table) (n int64) {
	for _, s := range distinct(t) {
		s.mu.Lock()
		for _, sd := range s.sides() {
			n += sd.reserved
		}
		s.mu.Unlock()
	}
	if all := t.spill.Load(); all != nil {
		for i := range all {
			n += all[i].side.reserved
		}
	}
	return n
}

// A refusal that would pass without the reserved units says a second at most;
// one that would not says its real wait; and so does the first once they count.
func TestReservedAndUsedUnitsAreKeptApart(t *testing.T) {
	eachSort(t, func(t *testing.T, a sort) {
		if a.name == "concurrency" {
			return
		}
		table := a.table(t, 5, 10)
		take(table, start, key(1), 2)
		_, fair := take(table, start, key(1), 4) // 2 of 5 are used
		g, r := reserve(table, start, key(1), 3)
		if !r.OK || reserved(table) != 3 {
			t.Fatalf("%+v with %d reserved", r, reserved(table))
		}
		if _, r := take(table, start, key(1), 1); r.OK || r.Wait <= 0 || r.Wait > sec {
			t.Errorf("one more: %+v, want a wait of a second at most", r)
		}
		if _, r := take(table, start, key(1), 4); r.OK || r.Wait < fair.Wait || r.Wait <= sec {
			t.Errorf("four more, of which two are used: %+v, want its real wait, %v or more", r, fair.Wait)
		}
		if _, r := take(table, start, key(1), 6); r.OK || r.Wait != Never {
			t.Errorf("more than the limit: %+v", r)
		}
		g.Done(start, nil)
		if reserved(table) != 0 {
			t.Errorf("%d reserved after Done", reserved(table))
		}
		if _, r := take(table, start, key(1), 1); r.OK || r.Wait <= sec {
			t.Errorf("one more when they count: %+v, want its real wait", r)
		}
	})
}

// What was reserved in a window that is over, or has refilled since, can no
// longer come back: a request that is stuck does not make everybody try again
// each second.
func TestStuckRequestsDoNotShortenTheWait(t *testing.T) {
	for name, c := range map[string]struct {
		nums Numbers
		wait time.Duration // for one more at 3 min 1 s, when 5 of 5 are used
	}{
		"token_bucket":       {tokenNumbers(t, 5, time.Minute, 5), 12 * sec},
		"gcra":               {Numbers{Bucket: gcraOf(t, 5, time.Minute, 5), Carry: 5}, 12 * sec},
		"fixed_window":       {windowNumbers(t, 5, time.Minute), 59 * sec},
		"sliding_window":     {Numbers{Bucket: slidingWindowOf(t, 5, time.Minute)}, 71 * sec}, // 5*(1-e/60) <= 4 at 12 s
		"sliding_window_log": {Numbers{Bucket: slidingLogOf(t, 5, time.Minute)}, 60 * sec},
	} {
		table := NewTable(c.nums, 10, NewBudget(1<<20))
		g, _ := reserve(table, start, key(1), 5)
		now := start.Add(3*time.Minute + sec)
		take(table, now, key(1), 5)
		if _, r := take(table, now, key(1), 1); r.OK || r.Wait != c.wait {
			t.Errorf("%s: %+v, want a wait of %v", name, r, c.wait)
		}
		g.Done(now, giveBack(5))
		if got := left(table, now, key(1)); got != 0 || reserved(table) != 0 {
			t.Errorf("%s: %d left and %d reserved after Done, want 0 and 0", name, got, reserved(table))
		}
	}
}

// The log counts what is not too old, and of that what is reserved: 5 a minute, 3
// used at 0 s, 2 reserved at 59 s. At 61 s, when the three are gone, five more
// only wait for the two.
func TestReservedUnitsInALogWhoseOldOnesAreGone(t *testing.T) {
	table := logTable(t, 5, time.Minute)
	take(table, start, key(1), 3)
	reserve(table, start.Add(59*sec), key(1), 2)
	if _, r := take(table, start.Add(61*sec), key(1), 5); r.OK || r.Wait > sec || r.Remaining != 3 {
		t.Errorf("%+v, want a wait of a second at most", r)
	}
}

// C05 of logins: 1,000 guesses in parallel against 5; then all fail to count, or
// all do.
func TestThousandParallelGuessesAgainstFive(t *testing.T) {
	eachSort(t, func(t *testing.T, a sort) {
		if a.name == "concurrency" {
			return
		}
		table := a.table(t, 5, 10)
		var passed, slow atomic.Int64
		grants := make([]Grant, 1000)
		together(20, func(i int) {
			for j := i; j < 1000; j += 20 {
				g, r := reserve(table, start, key(1), 1)
				if r.OK {
					passed.Add(1)
				} else if r.Wait > sec {
					slow.Add(1)
				}
				grants[j] = g
			}
		})
		if passed.Load() != 5 || slow.Load() != 0 || reserved(table) != 5 {
			t.Errorf("%d passed, want 5; %d were told to wait longer than a second; %d reserved", passed.Load(), slow.Load(), reserved(table))
		}
		together(20, func(i int) {
			for j := i; j < 1000; j += 20 {
				grants[j].Done(start, giveBack(1))
			}
		})
		if got := left(table, start, key(1)); got != 5 || reserved(table) != 0 {
			t.Errorf("%d left and %d reserved when nothing counted, want 5 and 0", got, reserved(table))
		}
	})
}

// Whatever happens between, reserved is 0 once every request is done: edits that
// forgive, sweeps, evictions, shared counters, refunds that are used up.
func TestNothingStaysReservedWhenAllIsDone(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a := sorts[rapid.IntRange(0, 4).Draw(r, "algorithm")]
		maxKeys := rapid.Int64Range(1, 4).Draw(r, "max keys")
		nums := func(n int64) Numbers {
			x := a.nums(r, n)
			if rapid.Bool().Draw(r, "refund") {
				x.Refunds = window(r, n, time.Minute)
			}
			return x
		}
		table := NewTable(nums(10), maxKeys, NewBudget(1<<20))
		now := start
		var grants []Grant
		for range rapid.IntRange(1, 40).Draw(r, "events") {
			now += Instant(rapid.SampledFrom([]time.Duration{0, 1, sec, 20 * sec, time.Minute, 3 * time.Minute}).Draw(r, "pass"))
			switch rapid.SampledFrom([]string{"reserve", "reserve", "reserve", "take", "done", "edit", "sweep"}).Draw(r, "op") {
			case "reserve":
				g, _ := reserve(table, now, key(rapid.IntRange(0, 4).Draw(r, "key")), rapid.Int64Range(0, 11).Draw(r, "n"))
				grants = append(grants, g)
			case "take":
				take(table, now, key(rapid.IntRange(0, 4).Draw(r, "key")), rapid.Int64Range(0, 11).Draw(r, "n"))
			case "done":
				if len(grants) > 0 {
					i := rapid.IntRange(0, len(grants)-1).Draw(r, "of")
					grants[i].Done(now, giveBack(rapid.Int64Range(-3, 10).Draw(r, "back")))
				}
			case "edit":
				table.Renew(table.Generation()+1, now, nums(rapid.Int64Range(1, 12).Draw(r, "permits")), maxKeys)
			case "sweep":
				table.Sweep(now)
			}
		}
		for i := range grants {
			grants[i].Done(now, giveBack(rapid.Int64Range(0, 10).Draw(r, "back")))
		}
		if got := reserved(table); got != 0 {
			r.Fatalf("%d reserved when all is done", got)
		}
		audit(r, table)
		table.Sweep(now.Add(2 * time.Hour))
		table.Sweep(now.Add(2 * time.Hour))
		if st := table.Stats(); st.Keys != 0 || st.Bytes != 0 {
			r.Fatalf("%+v is left of a table whose clients are gone", st)
		}
	})
}

// A key with units in flight is in use: it is not thrown out to make room, nor
// forgotten when it is idle otherwise.
func TestKeyWithReservedUnitsStays(t *testing.T) {
	eachSort(t, func(t *testing.T, a sort) {
		table := a.table(t, 10, 3)
		var grants []Grant
		for i := range 3 {
			g, _ := reserve(table, start, key(i), 1)
			grants = append(grants, g)
		}
		for i := range 50 {
			take(table, start, key(100+i), 1)
		}
		if a.name != "concurrency" {
			table.Sweep(start.Add(time.Hour))
		}
		for i := range 3 {
			if !holds(table, key(i)) {
				t.Errorf("client %d was forgotten with a unit in flight", i)
			}
			grants[i].Done(start.Add(time.Hour), giveBack(1))
		}
		take(table, start.Add(time.Hour), key(99), 1)
		if !holds(table, key(99)) {
			t.Error("no place when nothing is in flight any more")
		}
	})
}

// A limit that becomes one with `count` while keys are there: the memory for
// what is in flight is never more than the budget, and without it the limit
// still holds.
func TestReservationsWithoutMemoryStillKeepTheLimit(t *testing.T) {
	b := NewBudget(1 << 20)
	table := NewTable(tokenNumbers(t, 5, time.Hour, 5), 1<<20, b)
	for i := range 500 {
		take(table, start, key(i), 1)
	}
	b.SetMax(b.Used())
	var l Limiter
	for i := range 500 {
		passed := 0
		for range 6 {
			g, v := l.Acquire(context.Background(), start, []Claim{pending(claim(table, key(i), 1))})
			if v.OK {
				passed++
				g.Done(start, giveBack(0))
			}
		}
		if passed != 4 {
			t.Fatalf("client %d: %d passed, want 4", i, passed)
		}
		if b.Used() > b.max.Load() {
			t.Fatalf("%d bytes of %d", b.Used(), b.max.Load())
		}
	}
	audit(t, table)
}
