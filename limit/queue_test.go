package limit

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func leakyNumbers(tb failer, permits int64, per, maxWait time.Duration) Numbers {
	tb.Helper()
	b, err := NewLeakyBucket(permits, per, maxWait)
	if err != nil {
		tb.Fatalf("NewLeakyBucket(%d, %v, %v): %v", permits, per, maxWait, err)
	}
	return Numbers{Bucket: b, Carry: 1 + Places(permits, per, maxWait)}
}

func patientNumbers(tb failer, permits int64, per time.Duration, burst int64, maxWait time.Duration) Numbers {
	tb.Helper()
	b, err := NewPatientBucket(permits, per, burst, maxWait)
	if err != nil {
		tb.Fatalf("NewPatientBucket(%d, %v, %d, %v): %v", permits, per, burst, maxWait, err)
	}
	return Numbers{Bucket: b, Carry: burst + Places(permits, per, maxWait)}
}

func leakyTable(tb failer, permits int64, per, maxWait time.Duration) *Table {
	tb.Helper()
	return NewTable(leakyNumbers(tb, permits, per, maxWait), 1<<20, NewBudget(1<<30))
}

// 10 a second, and a wait of 350 ms: three places, since ⌊0.35 s · 10/s⌋ = 3. One
// leaves at once, three wait 100, 200 and 300 ms, the fifth would wait 400.
func TestLeakyBucketByHand(t *testing.T) {
	table := leakyTable(t, 10, sec, 350*ms)
	for i, c := range []struct {
		at, turn time.Duration
		ok       bool
		left     int64
		wait     time.Duration // of a refusal
		reset    time.Duration
	}{
		{0, 0, true, 3, 0, 100 * ms},
		{0, 100 * ms, true, 2, 0, 200 * ms},
		{0, 200 * ms, true, 1, 0, 300 * ms},
		// With 400 ms ahead the next is one in 50 ms, when the wait is 350.
		{0, 300 * ms, true, 0, 0, 50 * ms},
		{0, 0, false, 0, 50 * ms, 50 * ms},
		{50*ms - 1, 0, false, 0, 1, 1},
		{50 * ms, 350 * ms, true, 0, 0, 100 * ms}, // leaves at 400 ms
		{120 * ms, 0, false, 0, 30 * ms, 30 * ms},
		{500 * ms, 0, true, 3, 0, 100 * ms}, // the one of 400 ms has had its turn
		{620 * ms, 0, true, 3, 0, 100 * ms}, // an idle bucket saves nothing up
		{630 * ms, 90 * ms, true, 2, 0, 190 * ms},
	} {
		_, v, claims := acquire(start.Add(c.at), claim(table, key(1), 1))
		r := claims[0].Result
		wait := c.wait
		if c.ok {
			wait = c.turn
		}
		if v.OK != c.ok || v.Wait != wait || r.OK != c.ok || r.Remaining != c.left || r.Wait != wait || r.Reset != c.reset {
			t.Errorf("step %d at %v: %+v %+v, want %+v", i, c.at, v, r, c)
		}
	}
}

// A request of three units leaves when its turn comes and holds up the next for
// three of them.
func TestALargeRequestHoldsUpTheNext(t *testing.T) {
	table := leakyTable(t, 10, sec, sec) // ten places
	for _, c := range []struct {
		n    int64
		wait time.Duration
		ok   bool
	}{{3, 0, true}, {1, 300 * ms, true}, {5, 400 * ms, true}, {3, 100 * ms, false}, {2, 900 * ms, true}, {1, 100 * ms, false}, {12, Never, false}, {0, 0, true}} {
		if _, r := take(table, start, key(1), c.n); r.OK != c.ok || r.Wait != c.wait {
			t.Errorf("%d units: %+v, want %+v", c.n, r, c)
		}
	}
}

// 10 a second, burst 2, a wait of 250 ms: two at once, two more after 100 and 200 ms.
func TestPatientBucketByHand(t *testing.T) {
	table := NewTable(patientNumbers(t, 10, sec, 2, 250*ms), 100, NewBudget(1<<20))
	for i, c := range []struct {
		at    time.Duration
		n     int64
		ok    bool
		left  int64
		wait  time.Duration
		reset time.Duration
	}{
		{0, 1, true, 1, 0, 100 * ms},
		{0, 1, true, 0, 0, 100 * ms},
		{0, 1, true, 0, 100 * ms, 200 * ms},
		{0, 1, true, 0, 200 * ms, 300 * ms},
		{0, 1, false, 0, 50 * ms, 300 * ms},
		{0, 2, false, 0, 150 * ms, 300 * ms},
		{0, 3, false, 0, Never, 300 * ms}, // more than the bucket holds is not to be waited for
		{50 * ms, 1, true, 0, 250 * ms, 350 * ms},
		{400 * ms, 1, true, 0, 0, 100 * ms},
		{600 * ms, 2, true, 0, 0, 100 * ms},
		{800 * ms, 0, true, 2, 0, 0},
	} {
		_, r := take(table, start.Add(c.at), key(1), c.n)
		if want := (Result{OK: c.ok, Remaining: c.left, Wait: c.wait, Reset: c.reset}); r != want {
			t.Errorf("step %d at %v: %+v, want %+v", i, c.at, r, want)
		}
	}
}

func TestQueueNumbersThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		permits int64
		per     time.Duration
		wait    time.Duration
		places  int64 // 0: refused
	}{
		{10, sec, 99 * ms, 0}, {10, sec, 100 * ms, 1}, {1, time.Minute, time.Minute, 1}, {1, time.Minute + 1, time.Minute, 0},
		{3, sec, sec, 3}, {3, sec, 333_333_333, 0}, {3, sec, 333_333_334, 1}, {10, sec, -1, 0}, {10, sec, time.Minute + 1, 0},
		{7, time.Minute, time.Minute, 7}, {10_000_000, sec, time.Minute, 600_000_000},
		{maxUnits, 1, time.Minute, 0}, {maxUnits, time.Minute, time.Minute, maxUnits}, {1, 1, time.Minute, 60_000_000_000},
	} {
		b, err := NewLeakyBucket(c.permits, c.per, c.wait)
		if (err == nil) != (c.places > 0) || err != nil && !errors.Is(err, ErrNumbers) {
			t.Errorf("%d per %v, wait %v: error %v, want %d places", c.permits, c.per, c.wait, err, c.places)
			continue
		}
		if err != nil {
			continue
		}
		if got := Places(c.permits, c.per, c.wait); got != c.places {
			t.Errorf("%d per %v, wait %v: %d places, want %d", c.permits, c.per, c.wait, got, c.places)
		}
		if _, r := b.Take(State{}, start, 1); !r.OK || r.Remaining != c.places {
			t.Errorf("%d per %v, wait %v: %+v after the first, want %d places", c.permits, c.per, c.wait, r, c.places)
		}
	}
}

// Who goes away gives its turn back if it is the last; else its turn stays empty.
func TestATurnComesBackOnlyFromTheLast(t *testing.T) {
	table := leakyTable(t, 10, sec, sec)
	queue := make([]Grant, 4) // turns at 0, 100, 200 and 300 ms
	for i := range queue {
		queue[i], _ = take(table, start, key(1), 1)
	}
	turn := func(at time.Duration) time.Duration {
		t.Helper()
		g, r := take(table, start.Add(at), key(1), 1)
		if g.Cancel(start.Add(at)); !r.OK {
			t.Fatalf("at %v: %+v", at, r)
		}
		return at + r.Wait
	}
	if got := turn(10 * ms); got != 400*ms {
		t.Fatalf("the fifth turn is at %v", got)
	}
	queue[1].Cancel(start.Add(20 * ms)) // not the last
	if got := turn(20 * ms); got != 400*ms {
		t.Errorf("after one in the middle has gone the next turn is at %v, want 400ms", got)
	}
	queue[3].Cancel(start.Add(30 * ms)) // the last
	if got := turn(30 * ms); got != 300*ms {
		t.Errorf("after the last has gone the next turn is at %v, want 300ms", got)
	}
	queue[3].Cancel(start.Add(40 * ms)) // twice is once
	queue[2].Cancel(start.Add(40 * ms)) // now the last
	if got := turn(40 * ms); got != 200*ms {
		t.Errorf("after both have gone the next turn is at %v, want 200ms", got)
	}
	// The turn of the second was given up while others were behind it: it stays
	// empty, also when those have gone.
	if queue[0].Done(start.Add(50*ms), giveBack(1)); turn(50*ms) != 200*ms {
		t.Errorf("one that has left gave its turn back")
	}
}

// An edit in between forgets who is last: the turn stays empty.
func TestATurnOfOlderNumbersStaysEmpty(t *testing.T) {
	table := leakyTable(t, 10, sec, sec)
	take(table, start, key(1), 1)
	g, _ := take(table, start, key(1), 1)
	table.Renew(2, start.Add(10*ms), leakyNumbers(t, 20, sec, sec), 1<<20)
	g.Cancel(start.Add(10 * ms))
	// 1.9 of the old units are in use, rounded up 2: at 20 a second 100 ms.
	if _, r := take(table, start.Add(10*ms), key(1), 1); r.Wait != 100*ms {
		t.Errorf("turn in %v, want 100ms", r.Wait)
	}
}

// Random arrivals and departures, of which half hang up at some time before their
// turn: those that leave are never closer than W/N, to the nanosecond, nobody
// waits longer than told, and there are never more waiters than places.
func TestDeparturesAreNeverCloserThanTheRate(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		permits := rapid.Int64Range(1, 9).Draw(r, "permits")
		per := rapid.SampledFrom([]time.Duration{sec, 7 * sec, 1000}).Draw(r, "per")
		maxWait := min(MaxWait, per*time.Duration(rapid.IntRange(1, 4).Draw(r, "wait")))
		table := leakyTable(r, permits, per, maxWait)
		other := NewTable(tokenNumbers(r, 5, per, 5), 1<<20, table.budget)
		type waiter struct {
			turn  Instant
			grant Grant
		}
		var queue []waiter
		var left []Instant
		now := start
		depart := func(until Instant) {
			for len(queue) > 0 && queue[0].turn <= until {
				left = append(left, queue[0].turn)
				queue[0].grant.Done(queue[0].turn, nil)
				queue = queue[1:]
			}
		}
		for range rapid.IntRange(1, 60).Draw(r, "events") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(per)).Draw(r, "pass") / rapid.SampledFrom([]int64{1, 5, 50}).Draw(r, "of")))
			depart(now)
			if len(queue) > 0 && rapid.Bool().Draw(r, "hangs up") {
				i := rapid.OneOf(rapid.Just(len(queue)-1), rapid.IntRange(0, len(queue)-1)).Draw(r, "who")
				queue[i].grant.Cancel(now)
				queue = slices.Delete(queue, i, i+1)
				continue
			}
			claims := []Claim{claim(table, key(1), 1)}
			if rapid.IntRange(0, 3).Draw(r, "two rules") == 0 {
				claims = append(claims, claim(other, key(1), 1))
			}
			g, v, _ := acquire(now, claims...)
			if !v.OK {
				continue
			}
			if v.Wait > maxWait {
				r.Fatalf("a wait of %v, at most %v", v.Wait, maxWait)
			}
			queue = append(queue, waiter{now.Add(v.Wait), g})
			if waiting := int64(len(queue)); waiting > 1+Places(permits, per, maxWait) {
				r.Fatalf("%d wait in %d places", waiting, Places(permits, per, maxWait))
			}
			depart(now)
		}
		depart(now.Add(MaxWait))
		for i := 1; i < len(left); i++ {
			// A turn is the first whole nanosecond in which it may be.
			if apart := left[i].Sub(left[i-1]); apart < per/time.Duration(permits) {
				r.Fatalf("departures %d and %d are %v apart, at least %v", i-1, i, apart, per/time.Duration(permits))
			}
		}
		for i := range left { // and over any number of them not even by that
			for j := i + 1; j < len(left); j++ {
				if least := new(queueModel{permits: permits, burst: 1, per: per}).spacing(rat(int64(j - i))); rat(int64(left[j].Sub(left[i])+1)).Cmp(least) <= 0 {
					r.Fatalf("departures %d and %d are %v apart, at least %v", i, j, left[j].Sub(left[i]), least)
				}
			}
		}
		audit(r, table)
	})
}

// With give-backs of answers that do not count, and turns in between, what leaves a
// patient bucket and counts never exceeds B + rT in any span.
func TestWhatLeavesAPatientBucketStaysBounded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		permits, burst := rapid.Int64Range(1, 5).Draw(r, "permits"), rapid.Int64Range(1, 4).Draw(r, "burst")
		maxWait := sec * time.Duration(rapid.IntRange(1, 5).Draw(r, "wait"))
		table := NewTable(patientNumbers(r, permits, sec, burst, maxWait), 100, NewBudget(1<<20))
		type one struct {
			turn  Instant
			grant Grant
			kept  bool
		}
		var all []*one
		now := start
		for range rapid.IntRange(1, 60).Draw(r, "events") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(sec)).Draw(r, "pass") / rapid.SampledFrom([]int64{1, 5, 50}).Draw(r, "of")))
			if len(all) > 0 && rapid.Bool().Draw(r, "ends") {
				o := rapid.SampledFrom(all).Draw(r, "which")
				switch {
				case !o.kept:
				case o.turn > now:
					o.grant.Cancel(now)
					o.kept = false
				case rapid.Bool().Draw(r, "counts"):
					o.grant.Done(now, nil)
				default:
					before := o.grant.settled
					if o.grant.Done(now, giveBack(1)); before == 0 {
						o.kept = false
					}
				}
				continue
			}
			if g, v, _ := acquire(now, claim(table, key(1), 1)); v.OK {
				all = append(all, &one{turn: now.Add(v.Wait), grant: g, kept: true})
			}
		}
		slices.SortStableFunc(all, func(a, b *one) int { return int(a.turn - b.turn) })
		m := &tokenModel{permits: permits, burst: burst, per: sec} // a turn is the first whole nanosecond in which it may be
		for i, a := range all {
			kept := int64(0)
			for _, b := range all[i:] {
				if b.kept {
					kept++
				}
				if most := m.most(a.turn-1, b.turn); a.kept && rat(kept).Cmp(most) > 0 {
					r.Fatalf("%d left from %d to %d, at most %v may", kept, a.turn, b.turn, most)
				}
			}
		}
	})
}

// A request that waits in one bucket leaves every leaky one at the same time.
func TestARequestLeavesAllItsLeakyBucketsAtOnce(t *testing.T) {
	b := NewBudget(1 << 20)
	slow, quick := NewTable(leakyNumbers(t, 1, sec, 3*sec), 10, b), NewTable(leakyNumbers(t, 10, sec, sec), 10, b)
	both := func(at time.Duration) (Verdict, []Claim) {
		_, v, c := acquire(start.Add(at), claim(quick, key(1), 1), claim(slow, key(1), 1))
		return v, c
	}
	if v, _ := both(0); !v.OK || v.Wait != 0 {
		t.Fatalf("the first: %+v", v)
	}
	if v, _ := both(0); !v.OK || v.Wait != sec { // the turn in the slow one; the quick one would have had 100 ms
		t.Fatalf("the second: %+v, want a wait of 1s", v)
	}
	// Behind it in the quick one alone: not before 1.1 s, which is more than it lets wait.
	if _, r := take(quick, start, key(1), 1); r.OK || r.Wait != 100*ms {
		t.Errorf("in the quick one: %+v, want a refusal for 100ms", r)
	}
	if _, r := take(quick, start.Add(100*ms), key(1), 1); !r.OK || r.Wait != sec {
		t.Errorf("in the quick one at 100 ms: %+v, want a wait of 1s", r)
	}
	// The third would leave the slow one at 2 s: the quick one does not wait so long,
	// and nothing is taken of either. At 1 s it does.
	before, beside := stored(slow, key(1)), stored(quick, key(1))
	v, c := both(200 * ms)
	if v.OK || v.Wait != 800*ms || stored(slow, key(1)) != before || stored(quick, key(1)) != beside {
		t.Fatalf("the third: %+v %+v, want a refusal for 800ms that changes nothing", v, c)
	}
	if v, _ := both(sec - 1); v.OK {
		t.Errorf("1 ns earlier it passes")
	}
	if v, _ := both(sec); !v.OK || v.Wait != sec {
		t.Errorf("the third as told: %+v, want a wait of 1s", v)
	}
}

// A request that has to wait takes no slot before it leaves, and is not refused
// for want of one; but all its other units are taken.
func TestARequestThatWaitsHoldsNoSlot(t *testing.T) {
	b := NewBudget(1 << 20)
	queue, inside, beside := NewTable(leakyNumbers(t, 1, sec, 3*sec), 10, b), NewTable(Numbers{Bucket: slots(t, 1), Slots: true}, 10, b), NewTable(tokenNumbers(t, 5, time.Hour, 5), 10, b)
	all := func() []Claim {
		return []Claim{claim(inside, key(1), 1), claim(beside, key(1), 1), claim(queue, key(1), 1)}
	}
	first, v, _ := acquire(start, all()...)
	if !v.OK || v.Wait != 0 || stored(inside, key(1)).Used != 1 {
		t.Fatalf("the first: %+v, %d slots", v, stored(inside, key(1)).Used)
	}
	second, v, _ := acquire(start, all()...)
	if !v.OK || v.Wait != sec || stored(inside, key(1)).Used != 1 || left(beside, start, key(1)) != 3 {
		t.Fatalf("the second: %+v, %d slots, %d left", v, stored(inside, key(1)).Used, left(beside, start, key(1)))
	}
	// Without the queue's wait the slot decides, and nothing is taken.
	if _, v, _ := acquire(start, all()[:2]...); v.OK || left(beside, start, key(1)) != 3 {
		t.Fatalf("without a slot: %+v", v)
	}
	second.Cancel(start.Add(500 * ms))
	if left(beside, start.Add(500*ms), key(1)) != 4 || stored(inside, key(1)).Used != 1 {
		t.Errorf("after the second has gone %d are left and %d slots held", left(beside, start, key(1)), stored(inside, key(1)).Used)
	}
	first.Done(start.Add(600*ms), nil)
	for _, table := range []*Table{queue, inside, beside} {
		audit(t, table)
	}
	if stored(inside, key(1)).Used != 0 {
		t.Error("a slot is held by nobody")
	}
	// New keys: what was counted for the slot's place is given back.
	acquire(start.Add(sec), claim(queue, key(7), 1))
	_, v, _ = acquire(start.Add(sec), claim(inside, key(7), 1), claim(queue, key(7), 1))
	if audit(t, inside); !v.OK || v.Wait != sec || holds(inside, key(7)) {
		t.Errorf("of a new key: %+v, held %v", v, holds(inside, key(7)))
	}
}

// Nobody evicts a key behind which somebody waits.
func TestAKeyWithWaitersIsNotEvicted(t *testing.T) {
	table := NewTable(leakyNumbers(t, 1, sec, 10*sec), 4, NewBudget(1<<20))
	for range 3 {
		take(table, start, key(0), 1)
	}
	for i := 1; i < 500; i++ {
		take(table, start, key(i), 1)
	}
	if !holds(table, key(0)) {
		t.Error("forgotten")
	}
}

// A dry run lets nobody wait.
func TestADryRunLetsNobodyWait(t *testing.T) {
	table := leakyTable(t, 1, sec, 3*sec)
	for range 3 {
		c := claim(table, key(1), 1)
		c.Mode = DryRun
		if _, v, _ := acquire(start, c); !v.OK || v.Wait != 0 {
			t.Fatalf("%+v", v)
		}
	}
}

func TestWaitingAllocatesNothingInTheLimiter(t *testing.T) {
	table := leakyTable(t, 1000, sec, sec)
	claims, now := make([]Claim, 1), start
	take(table, now, key(1), 1)
	var l Limiter
	if got := testing.AllocsPerRun(500, func() {
		now = now.Add(ms)
		claims[0] = claim(table, key(1), 1)
		g, v := l.Acquire(context.Background(), now, claims)
		if g.Cancel(now); !v.OK {
			t.Fatal("refused")
		}
	}); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}
