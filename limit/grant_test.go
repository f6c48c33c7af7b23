package limit

import (
	"testing"
	"time"
)

// L11, L12: a Grant is settled once, gives back what was taken and no more, and a
// refused request's Grant gives back nothing.
func TestGrantIsSettledOnce(t *testing.T) {
	table := tokenTable(t, 10, time.Hour, 10)
	g, _ := take(table, start, key(1), 4)
	for range 3 {
		g.Done(start, giveBack(100))
	}
	if got := left(table, start, key(1)); got != 10 {
		t.Errorf("%d left after 4 taken and given back, want 10", got)
	}
	take(table, start, key(1), 3)
	g, _ = take(table, start, key(1), 4)
	g.Done(start, giveBack(100)) // the three of another are not in it
	if got := left(table, start, key(1)); got != 7 {
		t.Errorf("%d left after 3 kept and 4 given back, want 7", got)
	}
	take(table, start, key(1), 4)
	g, r := take(table, start, key(1), 4)
	if r.OK {
		t.Fatal("11 of 10 passed")
	}
	g.Done(start, giveBack(4))
	var none Grant
	none.Done(start, giveBack(4))
	if got := left(table, start, key(1)); got != 3 {
		t.Errorf("%d left after a refusal was settled, want 3", got)
	}
	kept, _ := take(table, start, key(1), 1)
	kept.Done(start, nil) // keeps it
	kept.Done(start, giveBack(1))
	if got := left(table, start, key(1)); got != 2 {
		t.Errorf("%d left after a take that was kept, want 2", got)
	}
}

// A late give-back does not lift a bucket that has refilled what it took.
func TestLateGiveBackIsOnlyWhatHasNotRefilled(t *testing.T) {
	table := tokenTable(t, 10, time.Second, 10)
	g, _ := take(table, start, key(1), 10)
	now := start.Add(750 * ms) // 7.5 came back by themselves, 2.5 are owed
	take(table, now, key(1), 7)
	g.Done(now, giveBack(10))
	if got := left(table, now, key(1)); got != 3 { // 0.5 + 2.5, not 10
		t.Errorf("%d left, want 3", got)
	}
	g, _ = take(table, now, key(1), 3)
	g.Done(now.Add(10*time.Second), giveBack(3))
	if got := drain(table, now.Add(10*time.Second), key(1)); got != 10 {
		t.Errorf("%d passed at once after a late give-back, want 10", got)
	}
	windows := NewTable(windowNumbers(t, 5, time.Second), 10, NewBudget(1<<20))
	g, _ = take(windows, start, key(1), 5)
	take(windows, start.Add(time.Second), key(1), 2)
	g.Done(start.Add(time.Second), giveBack(5)) // into a window that is over: nowhere
	if got := left(windows, start.Add(time.Second), key(1)); got != 3 {
		t.Errorf("%d left in the second window, want 3", got)
	}
}

// A charge afterwards, of a cost that only the answer tells, counts also for a
// client that had taken nothing or was forgotten meanwhile.
func TestChargeAfterwardsAlwaysCounts(t *testing.T) {
	for name, n := range map[string]int64{"after a take of 0": 0, "after a take that was swept": 1} {
		table := tokenTable(t, 10, time.Second, 10)
		g, _ := take(table, start, key(1), n)
		now := start.Add(5 * time.Second) // full again
		table.Sweep(now)
		g.Done(now, giveBack(-10))
		if got := left(table, now, key(1)); got != 0 {
			t.Errorf("%s: %d left after a charge of 10, want 0", name, got)
		}
		audit(t, table)
	}
}

// Whoever comes first settles it; a panic and a hang-up may both try.
func TestParallelDoneGivesBackOnce(t *testing.T) {
	table := tokenTable(t, 10_000, time.Hour, 10_000)
	take(table, start, key(1), 5000)
	for range 500 {
		g, _ := take(table, start, key(1), 1)
		together(4, func(int) { g.Done(start, giveBack(1)) })
	}
	if got := left(table, start, key(1)); got != 5000 {
		t.Errorf("%d left, want 5000", got)
	}
}
