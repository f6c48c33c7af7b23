package limit

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"
)

// F23, L8, S22 for the windows: at limits and periods at which arithmetic in int64
// nanoseconds breaks, what is there after a time is compared with integers of any
// size. Of N, all are used at the start of a window of Unix time.
func TestManyNumbersAreExactInWindows(t *testing.T) {
	for _, n := range append(someLimits, 10_000, maxUnits) {
		for _, per := range append(somePeriods, maxPeriod) {
			w := int64(per)
			at := Instant(int64(start) / w * w) // a window begins
			sw := slidingWindowOf(t, n, per)
			full, r := sw.Take(State{}, at, n)
			// One more: N*(1 - e/W) + 1 <= N from e = W/N on, in the next window.
			if want := per + ceilDiv(w, n); r.Reset != want || !r.OK {
				t.Errorf("sliding %d per %v: %+v, want a reset of %v", n, per, r, want)
			}
			// In the window after, at e: floor(N - N*(W-e)/W) = floor(N*e/W).
			for _, e := range []int64{0, 1, w / 7, w / 3, w / 2, w - 1} {
				want := new(big.Int).Mul(big.NewInt(n), big.NewInt(e))
				want.Div(want, big.NewInt(w))
				if _, r := sw.Take(full, at+Instant(w+e), 0); r.Remaining != want.Int64() {
					t.Errorf("sliding %d per %v: %d left %d ns into the next window, want %v", n, per, r.Remaining, e, want)
				}
				// All of N again: when nothing of the last weighs, at its end.
				if _, r := sw.Take(full, at+Instant(w+e), n); r.OK || r.Wait != time.Duration(w-e) {
					t.Errorf("sliding %d per %v: all of it %d ns into the next window: %+v, want a wait of %d", n, per, e, r, w-e)
				}
			}
			if sw.Idle(full, at+Instant(2*w-1)) || !sw.Idle(full, at+Instant(2*w)) {
				t.Errorf("sliding %d per %v: not idle after two windows exactly", n, per)
			}
			fw := window(t, n, per)
			full, r = fw.Take(State{}, at+Instant(w/3), n)
			if want := time.Duration(w - w/3); !r.OK || r.Reset != want {
				t.Errorf("fixed %d per %v: %+v, want a reset of %v", n, per, r, want)
			}
			if _, r = fw.Take(full, at+Instant(w-1), 1); r.OK || r.Wait != 1 || fw.Idle(full, at+Instant(w-1)) || !fw.Idle(full, at+Instant(w)) {
				t.Errorf("fixed %d per %v: 1 ns before its end %+v", n, per, r)
			}
			// The log: in one entry, so any N will do.
			lt := logTable(t, n, per)
			take(lt, at, key(1), n)
			if _, r := take(lt, at+Instant(w-1), key(1), 1); r.OK || r.Wait != 1 || r.Remaining != 0 {
				t.Errorf("log %d per %v: 1 ns before all is old %+v", n, per, r)
			}
			if got := left(lt, at+Instant(w), key(1)); got != n {
				t.Errorf("log %d per %v: %d left when all is old", n, per, got)
			}
		}
	}
}

// gcra makes the decisions of token_bucket with all of these numbers, along a
// history in which each step is about a unit.
func TestGCRADecidesLikeTokenBucketWithManyNumbers(t *testing.T) {
	for _, n := range someLimits {
		for _, per := range somePeriods {
			for _, burst := range []int64{n, 1, 65_535} {
				tb, err := NewTokenBucket(n, per, burst)
				gc, gerr := NewGCRA(n, per, burst)
				if (err == nil) != (gerr == nil) {
					t.Fatalf("%d per %v burst %d: %v and %v", n, per, burst, err, gerr)
				}
				if err != nil {
					continue
				}
				m := &gcraModel{permits: n, per: per, burst: burst}
				var a, b State
				at, unit := start, max(1, int64(per)/n)
				for i := range 40 {
					want := max(1, burst*int64(i%4)/3)
					var x, y Result
					a, x = tb.Take(a, at, want)
					b, y = gc.Take(b, at, want)
					there := m.left(at)
					if x != y || x.OK != (rat(want).Cmp(there) <= 0) {
						t.Fatalf("%d per %v burst %d: take %d: %+v and %+v with %v there", n, per, burst, want, x, y, there)
					}
					if x.OK {
						m.add(event{at: at, units: want})
					}
					at += Instant(unit*int64(1+i%3) + int64(i%2))
				}
			}
		}
	}
}

// Every number of a long log is exact too: N single units at N instants.
func TestLongLogsAreExact(t *testing.T) {
	for _, n := range []int64{1, 3, 7, 293, 10_000} {
		for _, per := range somePeriods {
			table := logTable(t, n, per)
			step := Instant(int64(per) / n)
			for round := range int64(3) { // from the second on each waits for the one N before it
				for i := range n {
					at := start + Instant(round)*Instant(per) + Instant(i)*step
					if round > 0 {
						if _, r := take(table, at-1, key(1), 1); r.OK || r.Wait != 1 {
							t.Fatalf("%d per %v: unit %d of round %d, 1 ns early: %+v", n, per, i, round, r)
						}
					}
					if _, r := take(table, at, key(1), 1); !r.OK {
						t.Fatalf("%d per %v: unit %d of round %d: %+v", n, per, i, round, r)
					}
				}
			}
			audit(t, table)
		}
	}
}

// A whole day under full demand: 7 a minute, 3 a second.
func TestADayAtFullDemandInWindows(t *testing.T) {
	alone(t)
	for _, c := range []struct {
		name string
		nums Numbers
		step time.Duration
		want int64
	}{
		{"fixed 7 a minute", windowNumbers(t, 7, time.Minute), sec, 7 * 1440},
		{"log 7 a minute", Numbers{Bucket: slidingLogOf(t, 7, time.Minute)}, 5 * sec, 7 * 1440},
		{"gcra 7 a minute", Numbers{Bucket: gcraOf(t, 7, time.Minute, 7)}, sec, 7 + 7*1440 - 1}, // the last comes back at midnight
		// The estimate gives all in the first minute and one less in each other.
		{"sliding 7 a minute", Numbers{Bucket: slidingWindowOf(t, 7, time.Minute)}, 500 * ms, 7 + 6*1439},
		{"fixed 3 a second", windowNumbers(t, 3, sec), 500 * ms, 3 * 86_400},
		{"log 3 a second", Numbers{Bucket: slidingLogOf(t, 3, sec)}, sec, 3 * 86_400},
		{"gcra 3 a second", Numbers{Bucket: gcraOf(t, 3, sec, 3)}, 250 * ms, 3 + 3*86_400 - 1},
		{"sliding 3 a second", Numbers{Bucket: slidingWindowOf(t, 3, sec)}, 250 * ms, 3 + 2*86_399},
	} {
		table := NewTable(c.nums, 10, NewBudget(1<<20))
		passed := int64(0)
		var s State
		for at := time.Duration(0); at < day; at += c.step {
			if table.listed {
				passed += drain(table, start.Add(at), key(1))
				continue
			}
			for ok := true; ok; {
				var r Result
				if s, r = c.nums.Bucket.Take(s, start.Add(at), 1); r.OK {
					passed++
				}
				ok = r.OK
			}
		}
		if passed != c.want {
			t.Errorf("%s: %d passed in a day, want %d", c.name, passed, c.want)
		}
	}
}

// L9: asking each µs rounds nothing away: 1 a second for two seconds.
func TestPollingEachMicrosecondInEveryAlgorithm(t *testing.T) {
	alone(t)
	for name, c := range map[string]struct {
		b    Bucket
		want int
	}{
		"gcra":               {gcraOf(t, 1, sec, 1), 3}, // at 0, 1 and 2 s
		"fixed_window":       {window(t, 1, sec), 3},
		"sliding_window":     {slidingWindowOf(t, 1, sec), 2}, // 1*(1 - e/1s) + 1 <= 1 only at 2 s
		"sliding_window_log": {slidingLogOf(t, 1, sec), 3},
	} {
		table := NewTable(Numbers{Bucket: c.b}, 10, NewBudget(1<<20))
		var s State
		passed := 0
		for at := time.Duration(0); at <= 2*sec; at += time.Microsecond {
			var r Result
			if name != "sliding_window_log" {
				s, r = c.b.Take(s, start.Add(at), 1)
			} else if at%(5*time.Microsecond) == 0 { // its list is in the Table, which takes longer
				_, r = take(table, start.Add(at), key(1), 1)
			}
			if r.OK {
				passed++
			}
		}
		if passed != c.want {
			t.Errorf("%s: %d passed, want %d", name, passed, c.want)
		}
	}
}

// C07: zero, negative and overflowing numbers make no limit.
func TestConstructorsRefuseNumbersInEveryAlgorithm(t *testing.T) {
	for _, c := range []struct {
		permits int64
		per     time.Duration
		ok      bool
	}{
		{0, sec, false}, {-1, sec, false}, {math.MinInt64, sec, false}, {math.MaxInt64, sec, false}, {maxUnits + 1, sec, false},
		{1, 0, false}, {1, -1, false}, {1, maxPeriod + 1, false}, {1, math.MinInt64, false},
		{1, 1, true}, {maxUnits, maxPeriod, true}, {1, maxPeriod, true},
	} {
		for name, f := range map[string]func() (Bucket, error){
			"gcra":    func() (Bucket, error) { return NewGCRA(c.permits, c.per, max(1, min(c.permits, maxUnits))) },
			"sliding": func() (Bucket, error) { return NewSlidingWindow(c.permits, c.per) },
			"log":     func() (Bucket, error) { return NewSlidingLog(c.permits, c.per) },
			"slots":   func() (Bucket, error) { return NewConcurrency(c.permits) },
		} {
			ok := c.ok || name == "slots" && c.permits == 1 // it has no period
			if b, err := f(); (err == nil) != ok || (err != nil) != errors.Is(err, ErrNumbers) || (b == nil) == ok {
				t.Errorf("%s: %s: %v", name, fmt.Sprint(c), err)
			}
		}
	}
}
