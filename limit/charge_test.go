package limit

import (
	"math"
	"testing"
	"time"
)

// A cost that the answer tells is charged afterwards: into debt, of one limit at
// most; the wait is until one unit is there again.
func TestChargeAfterwardsInEveryAlgorithm(t *testing.T) {
	for name, want := range map[string][2]time.Duration{
		"token_bucket":       {12 * sec, 66 * sec},    // 1 of debt, or 10, and one to take: a unit is 6 s
		"gcra":               {12 * sec, 66 * sec},    //
		"fixed_window":       {60 * sec, 60 * sec},    // its end
		"sliding_window":     {70909090910, 93 * sec}, // 60 + 60*(1 - 9/11), 60 + 60*(1 - 9/20)
		"sliding_window_log": {60 * sec, 60 * sec},
	} {
		for i, charge := range []int64{10, 1 << 60, math.MinInt64} { // the last is the most there is
			var a sort
			for _, s := range sorts {
				if s.name == name {
					a = s
				}
			}
			table := a.table(t, 10, 10)
			g, _ := take(table, start, key(1), 1)
			g.Done(start, giveBack(-charge))
			if _, r := take(table, start, key(1), 1); r.OK || r.Wait != want[min(i, 1)] {
				t.Errorf("%s: after 1 and a charge of %d: %+v, want a wait of %v", name, charge, r, want[min(i, 1)])
			}
			if _, r := take(table, start.Add(want[min(i, 1)]), key(1), 1); !r.OK {
				t.Errorf("%s: %v after a charge of %d: %+v", name, want[min(i, 1)], charge, r)
			}
		}
	}
}

// A charge to a key that was forgotten counts like one to a key that was not: 5
// of 10 used, charged 20 more at once, is a debt of 10. After an edit to 100 the
// log must not think that units were lost which it never had.
func TestChargeToAForgottenKeyIsOneLimitAtMost(t *testing.T) {
	eachSort(t, func(t *testing.T, a sort) {
		if a.name == "concurrency" {
			return
		}
		table := a.table(t, 10, 10)
		g, _ := take(table, start, key(1), 1)
		at := start.Add(3 * time.Minute)
		table.Sweep(at)
		g.Done(at, giveBack(-100_000))
		renew(table, at, a.nums(t, 100))
		if got := left(table, at, key(1)); got != 80 {
			t.Errorf("%d of 100 left after a debt of 10 under a limit of 10, want 80", got)
		}
		take(table, at.Add(1), key(1), 1)
		for _, after := range []time.Duration{time.Minute, time.Minute + 1, 3 * time.Minute} {
			if got := left(table, at.Add(after), key(1)); got > 100 {
				t.Errorf("%d of 100 left %v after the debt", got, after)
			}
		}
		audit(t, table)
	})
}
