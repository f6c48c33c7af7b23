package limit

import (
	"testing"
	"time"
)

// renew adds the next generation.
func renew(t *Table, at Instant, n Numbers) { t.Renew(t.Generation()+1, at, n, 1<<40) }

// An edit of the numbers keeps what was used; only what is more than the new
// burst is capped to it.
func TestEditingALimitKeepsWhatWasUsed(t *testing.T) {
	for _, c := range []struct {
		name          string
		was, is       Numbers
		used          int64
		after         time.Duration // from the takes to the swap
		want          int64         // left at the swap
		wait          time.Duration // for one unit when none is left
		then          time.Duration // time after the swap, at which
		wantThen      int64         // so many are left
		wantUsedState int64
	}{
		{"lowered: 100/h to 10/h, 60 used", tokenNumbers(t, 100, time.Hour, 100), tokenNumbers(t, 10, time.Hour, 10),
			60, 0, 0, 6 * time.Minute, 12 * time.Minute, 2, 10},
		{"lowered, little used", tokenNumbers(t, 100, time.Hour, 100), tokenNumbers(t, 10, time.Hour, 10),
			4, 0, 6, 0, 6 * time.Minute, 7, 4},
		{"raised: 10/h to 100/h, 10 used", tokenNumbers(t, 10, time.Hour, 10), tokenNumbers(t, 100, time.Hour, 100),
			10, 0, 90, 0, 36 * time.Second, 91, 10},
		{"raised rate, same burst: nobody is freed at once", tokenNumbers(t, 10, time.Hour, 10), tokenNumbers(t, 100, time.Hour, 10),
			10, 0, 0, 36 * time.Second, 36 * time.Second, 1, 10},
		// 9 minutes at 10/h are 1.5 units: 8.5 are in use, rounded up 9.
		{"the old rate counts until the swap, rounded up", tokenNumbers(t, 10, time.Hour, 10), tokenNumbers(t, 1, time.Hour, 10),
			10, 9 * time.Minute, 1, 0, time.Hour, 2, 9},
		{"window lowered", windowNumbers(t, 100, time.Hour), windowNumbers(t, 10, time.Hour),
			60, time.Minute, 0, 59 * time.Minute, 59 * time.Minute, 10, 60},
		{"window raised", windowNumbers(t, 10, time.Hour), windowNumbers(t, 100, time.Hour),
			10, time.Minute, 90, 0, 58 * time.Minute, 90, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := NewTable(c.was, 100, NewBudget(1<<20))
			take(table, start, key(1), c.used)
			swap := start.Add(c.after)
			renew(table, swap, c.is)
			_, r := take(table, swap, key(1), 0)
			if r.Remaining != c.want {
				t.Errorf("%d left at the swap, want %d", r.Remaining, c.want)
			}
			if got := stored(table, key(1)); got.Used != c.wantUsedState || got.Gen != 2 {
				t.Errorf("State %+v, want %d in use under generation 2", got, c.wantUsedState)
			}
			if _, r := take(table, swap, key(1), 1); r.OK != (c.want > 0) || r.Wait != c.wait {
				t.Errorf("one unit at the swap: %+v, want a wait of %v", r, c.wait)
			} else if r.OK {
				g, _ := take(table, swap, key(1), 0)
				g.Done(swap, nil)
				c.wantThen-- // it was taken
			}
			if got := left(table, swap.Add(c.then), key(1)); got != c.wantThen {
				t.Errorf("%d left %v after the swap, want %d", got, c.then, c.wantThen)
			}
		})
	}
}

// A request of the old rule list that comes after one of the new list is
// decided by the new numbers, whichever Gen it names.
func TestOldListNeverTakesAStateBack(t *testing.T) {
	table := NewTable(tokenNumbers(t, 100, time.Hour, 100), 100, NewBudget(1<<20))
	old := func(n int64) Claim { c := claim(table, key(1), n); c.Gen = 1; return c }
	acquire(start, old(50))
	renew(table, start, tokenNumbers(t, 10, time.Hour, 10))
	if _, v, c := acquire(start, claim(table, key(1), 1)); v.OK || c[0].Result.Remaining != 0 {
		t.Fatalf("new list: %+v, want a refusal", c[0].Result)
	}
	// The new list refused it; a refusal changes no State, and yet:
	acquire(start, claim(table, key(1), 0))
	if _, v, _ := acquire(start, old(1)); v.OK {
		t.Error("the old list passed after the new one had refused")
	}
	if got := stored(table, key(1)).Gen; got != 2 {
		t.Errorf("the State is of generation %d", got)
	}
}

// 5 units of a window, the limit lowered below that and raised again: the five
// still come back, once.
func TestGrantOutlivesSeveralEdits(t *testing.T) {
	table := NewTable(windowNumbers(t, 10, time.Hour), 100, NewBudget(1<<20))
	g, _ := take(table, start, key(1), 5)
	take(table, start, key(1), 1)
	renew(table, start.Add(1), windowNumbers(t, 3, time.Hour))
	renew(table, start.Add(2), windowNumbers(t, 8, time.Hour))
	if got := left(table, start.Add(3), key(1)); got != 2 {
		t.Errorf("%d left, want 2 of 8", got)
	}
	g.Done(start.Add(4), giveBack(5))
	g.Done(start.Add(4), giveBack(5))
	if got := left(table, start.Add(5), key(1)); got != 7 {
		t.Errorf("%d left after giving five back, want 7 of 8", got)
	}
}

// A unit taken under old numbers is one unit under the new ones, less what came
// back at the old rate until the swap and at the new rate since.
func TestGrantOfBeforeAReloadSettlesInUnits(t *testing.T) {
	table := NewTable(tokenNumbers(t, 60, time.Hour, 60), 100, NewBudget(1<<20)) // one a minute
	g, _ := take(table, start, key(1), 20)
	take(table, start, key(1), 20)
	swap := start.Add(5 * time.Minute)                    // 5 came back: 35 in use, 15 of the Grant
	renew(table, swap, tokenNumbers(t, 6, time.Hour, 40)) // one each ten minutes
	now := swap.Add(30 * time.Minute)                     // 3 more: 32 in use, 12 of the Grant
	if got := left(table, now, key(1)); got != 8 {
		t.Fatalf("%d left before, want 8", got)
	}
	g.Done(now, giveBack(20))
	if got := left(table, now, key(1)); got != 20 {
		t.Errorf("%d left after, want 20: 8 and the 12 that had not come back", got)
	}
}

// The usual case: one unit, reserved when the request arrived, and a reload
// before its answer: an answer that does not count gives it back.
func TestOneUnitOfARequestInFlightComesBackAfterAReload(t *testing.T) {
	table := NewTable(tokenNumbers(t, 5, time.Minute, 5), 100, NewBudget(1<<20))
	var grants []Grant
	for range 5 {
		g, _ := take(table, start, key(1), 1)
		grants = append(grants, g)
	}
	renew(table, start.Add(time.Second), tokenNumbers(t, 6, time.Minute, 6))
	for i := range grants {
		grants[i].Done(start.Add(time.Second), giveBack(1))
	}
	if got := drain(table, start.Add(time.Second), key(1)); got != 6 {
		t.Errorf("%d passed after all was given back, want 6", got)
	}
}

// A Renew in the middle of a pass: a State that the old numbers would have
// refilled since the swap is not idle by the new ones.
func TestSweepInProgressDoesNotForgiveByOldNumbers(t *testing.T) {
	table := NewTable(tokenNumbers(t, 100, time.Second, 50), 100, NewBudget(1<<20))
	for i := range 40 {
		drain(table, start, key(i))
	}
	split(t, table, key(0))
	if over := table.sweepNext(start); over {
		t.Fatal("one shard was the whole Table")
	}
	renew(table, start, tokenNumbers(t, 1, time.Hour, 50)) // during an attack
	table.sweepNext(start.Add(time.Minute))
	for i := range 40 {
		if got := left(table, start.Add(time.Minute), key(i)); got != 0 {
			t.Fatalf("client %d has %d left a minute after the limit was lowered to 1/h, want 0", i, got)
		}
	}
}

// The same where memory is full: who is at the limit by the new numbers is not
// thrown out because the old ones had forgiven, nor the other way round.
func TestEvictionAfterAnEditGoesByTheNewNumbers(t *testing.T) {
	table := NewTable(tokenNumbers(t, 100, time.Second, 50), 5, NewBudget(1<<20))
	for i := range 5 {
		drain(table, start, key(i))
	}
	table.Renew(2, start, tokenNumbers(t, 1, time.Hour, 50), 5)
	if _, v, _ := acquire(start.Add(time.Minute), closed(claim(table, key(9), 1))); !v.Full {
		t.Errorf("newcomer: %+v, want Full", v)
	}
}
