package limit

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func slidingWindowOf(tb failer, permits int64, per time.Duration) Bucket {
	tb.Helper()
	b, err := NewSlidingWindow(permits, per)
	if err != nil {
		tb.Fatalf("NewSlidingWindow(%d, %v): %v", permits, per, err)
	}
	return b
}

func slots(tb failer, n int64) Bucket {
	tb.Helper()
	b, err := NewConcurrency(n)
	if err != nil {
		tb.Fatalf("NewConcurrency(%d): %v", n, err)
	}
	return b
}

func gcraOf(tb failer, permits int64, per time.Duration, burst int64) Bucket {
	tb.Helper()
	b, err := NewGCRA(permits, per, burst)
	if err != nil {
		tb.Fatalf("NewGCRA(%d, %v, %d): %v", permits, per, burst, err)
	}
	return b
}

// act is one line of a story: a take of n units at a time, or, with back, what
// comes back of the take of line of (negative: is charged afterwards).
type act struct {
	at   time.Duration
	n    int64
	want Result
	of   int
	back int64
}

func pass(at time.Duration, n, left int64, reset time.Duration) act {
	return act{at: at, n: n, want: Result{OK: true, Remaining: left, Reset: reset}}
}

func refuse(at time.Duration, n, left int64, wait, reset time.Duration) act {
	return act{at: at, n: n, want: Result{Remaining: left, Wait: wait, Reset: reset}}
}

func done(at time.Duration, of int, back int64) act { return act{at: at, of: of, back: back} }

const sec = time.Second

// Stories of the other algorithms, every number by hand.
func TestMoreStepsByHand(t *testing.T) {
	for _, story := range []struct {
		name string
		nums Numbers
		acts []act
	}{
		{"sliding window: 10 a minute, all used in the first", Numbers{Bucket: slidingWindowOf(t, 10, time.Minute)}, []act{
			// cur + c > N: W - e, and then until 60*(1 - (10-1)/10) = 6 s into the next.
			pass(0, 10, 0, 66*sec),
			refuse(15*sec, 1, 0, 51*sec, 51*sec),
			// cur + c <= N in the next: 10*(1 - e/60) + 1 <= 10 at e = 6.
			refuse(60*sec, 1, 0, 6*sec, 6*sec),
			refuse(66*sec-1, 1, 0, 1, 1),
			pass(66*sec, 1, 0, 6*sec), // 9 + 1; another at e = 12
			// 4 more: 10*(1-e/60) + 1 + 4 <= 10 at e = 30.
			refuse(66*sec, 4, 0, 24*sec, 6*sec),
			refuse(90*sec-1, 4, 3, 1, 90*sec+1), // 10*(30 s + 1 ns)/60 s = 5 and a little: rounded up 6
			pass(90*sec, 4, 0, 6*sec),
			// 6 of 10: in this window never (5 + 6 > 10); in the next 5*(1-e/60) + 6 <= 10 at e = 12.
			refuse(90*sec, 6, 0, 42*sec, 6*sec),
			refuse(132*sec-1, 6, 5, 1, 48*sec+1), // all of the last window weighs nothing at 180 s
			pass(132*sec, 6, 0, 12*sec),          // 4 + 6; another when 5*(1-e/60) + 6 + 1 <= 10: e = 24
			refuse(132*sec, 11, 0, Never, 12*sec),
			// Two windows on all is forgotten: the last unit was of 120..180 s.
			pass(240*sec-1, 0, 9, 1),
			pass(240*sec, 0, 10, 0),
		}},
		{"sliding window: a third does not divide", Numbers{Bucket: slidingWindowOf(t, 3, 10*sec)}, []act{
			pass(9*sec, 3, 0, sec+3_333_333_334),
			refuse(10*sec, 1, 0, 3_333_333_334, 3_333_333_334), // 3*(1-e/10s) <= 2 from 3.33.. s on
			refuse(13_333_333_333, 1, 0, 1, 1),
			pass(13_333_333_334, 1, 0, 3_333_333_333), // 6.66..7 less 3.33..4
			// One of this window in the next: 1*(1-e/10) + 3 <= 3 only at its end, at 30 s.
			refuse(13_333_333_334, 3, 0, 16_666_666_666, 3_333_333_333),
			refuse(30*sec-1, 3, 2, 1, 1),
			pass(30*sec, 3, 0, 13_333_333_334),
		}},
		{"sliding window in debt", Numbers{Bucket: slidingWindowOf(t, 10, time.Minute)}, []act{
			pass(0, 5, 5, 120*sec),
			done(0, 0, -11), // 16 of 10 used
			// 16*(1-e/60) + 1 <= 10 at e = 60*(1 - 9/16) = 26.25 s of the next.
			refuse(0, 1, 0, 86250*ms, 86250*ms),
			refuse(10*sec, 10, 0, 110*sec, 76250*ms), // 16*(1-e/60) + 10 <= 10: at the end of the next
			refuse(86250*ms-1, 1, 0, 1, 1),
			pass(86250*ms, 1, 0, 3750*ms), // another at e = 60*(1 - 8/16) = 30
		}},
		{"sliding window: a debt stops at one limit", Numbers{Bucket: slidingWindowOf(t, 10, time.Minute)}, []act{
			pass(0, 10, 0, 66*sec),
			done(sec, 0, -1000),               // 20 used, not 1010
			refuse(sec, 1, 0, 92*sec, 92*sec), // 59 + 60*(1 - 9/20)
			pass(93*sec, 1, 0, 3*sec),
		}},
		{"sliding window: what comes back goes to its own window", Numbers{Bucket: slidingWindowOf(t, 10, time.Minute)}, []act{
			pass(0, 6, 4, 120*sec),
			pass(60*sec, 4, 0, 10*sec), // 6 + 4; another at e = 10
			done(90*sec, 0, 6),         // of the last window, where half of each still weighs
			pass(90*sec, 0, 6, 90*sec),
			done(90*sec, 1, 1),
			pass(90*sec, 7, 0, 36*sec), // 3 + 7; 10*(1-e/60) + 1 <= 10 at e = 6
			pass(240*sec, 10, 0, 66*sec),
			done(250*sec, 5, 7), // long over: nowhere
			pass(250*sec, 0, 0, 56*sec),
		}},
		{"sliding log: 3 in any 10 s", Numbers{Bucket: slidingLogOf(t, 3, 10*sec)}, []act{
			pass(0, 1, 2, 10*sec),
			pass(4*sec, 2, 0, 6*sec),
			refuse(4*sec, 1, 0, 6*sec, 6*sec),
			refuse(9*sec, 2, 0, 5*sec, sec), // the first and one of the second
			refuse(9*sec, 4, 0, Never, sec),
			refuse(10*sec-1, 1, 0, 1, 1),
			pass(10*sec, 1, 0, 4*sec), // of 0 s exactly: later than t - W it is not
			refuse(14*sec-1, 2, 0, 1, 1),
			pass(14*sec, 2, 0, 6*sec),
			pass(24*sec-1, 0, 1, 1),
			pass(24*sec, 0, 3, 0),
		}},
		{"sliding log: own entries", Numbers{Bucket: slidingLogOf(t, 5, 10*sec)}, []act{
			pass(0, 2, 3, 10*sec),
			pass(3*sec, 3, 0, 7*sec),
			done(5*sec, 1, 2), // one stays at 3 s
			pass(5*sec, 2, 0, 5*sec),
			refuse(6*sec, 3, 0, 7*sec, 4*sec), // two of 0 s and the one of 3 s
			done(6*sec, 0, 1),
			refuse(6*sec, 3, 1, 7*sec, 9*sec),   // all but one: 0 s, 3 s are needed
			done(6*sec, 3, -100),                // 4 used, 10 at most: a debt of 5
			refuse(6*sec, 1, 0, 10*sec, 10*sec), // 6 of them are of 6 s
			refuse(15*sec, 5, 0, sec, sec),
			pass(16*sec, 5, 0, 10*sec),
		}},
		{"slots: 2 in progress", Numbers{Bucket: slots(t, 2), Slots: true}, []act{
			pass(0, 1, 1, 0),
			pass(0, 1, 0, 0),
			refuse(sec, 1, 0, sec, 0),
			refuse(time.Hour, 1, 0, sec, 0),
			refuse(time.Hour, 3, 0, Never, 0),
			done(time.Hour, 0, 0), // whatever the outcome says
			pass(time.Hour, 1, 0, 0),
			done(time.Hour, 0, 1), // a second time: nothing
			refuse(time.Hour, 1, 0, sec, 0),
			done(2*time.Hour, 1, -5), // nor is anything charged
			done(2*time.Hour, 6, 0),
			pass(2*time.Hour, 2, 0, 0),
		}},
		{"C03a by gcra: 20 per hour", Numbers{Bucket: gcraOf(t, 20, time.Hour, 20)}, []act{
			pass(0, 20, 0, 180*sec),
			refuse(0, 1, 0, 180*sec, 180*sec),
			refuse(179*sec, 1, 0, sec, sec),
			pass(181*sec, 1, 0, 179*sec),
			refuse(181*sec, 1, 0, 179*sec, 179*sec),
		}},
	} {
		t.Run(story.name, func(t *testing.T) {
			table := NewTable(story.nums, 1000, NewBudget(1<<20))
			grants := make([]Grant, len(story.acts))
			for i, a := range story.acts {
				if a.want == (Result{}) {
					grants[a.of].Done(start.Add(a.at), giveBack(a.back))
					continue
				}
				g, r := take(table, start.Add(a.at), key(1), a.n)
				grants[i] = g
				if d := cmp.Diff(a.want, r); d != "" {
					t.Errorf("line %d: take %d at %v (-want +got):\n%s", i, a.n, a.at, d)
				}
			}
			audit(t, table)
		})
	}
}

// C02 and C03 for the algorithms that are new: 2 a minute, two at once, and one
// each at 1, 31 and 61 s.
func TestTwoPerMinuteInEveryAlgorithm(t *testing.T) {
	for name, c := range map[string]struct {
		nums Numbers
		want string
	}{
		"gcra": {Numbers{Bucket: gcraOf(t, 2, time.Minute, 2)}, "[true true 29s true true]"},
		// Two of the last minute weigh 2*(1 - 1/60) at 61 s: one more is 2.97.
		"sliding_window":     {Numbers{Bucket: slidingWindowOf(t, 2, time.Minute)}, "[true true 1m29s 59s 29s]"},
		"sliding_window_log": {Numbers{Bucket: slidingLogOf(t, 2, time.Minute)}, "[true true 59s 29s true]"},
		"concurrency":        {Numbers{Bucket: slots(t, 2), Slots: true}, "[true true 1s 1s 1s]"},
	} {
		table := NewTable(c.nums, 100, NewBudget(1<<20))
		var got []any
		for _, at := range []time.Duration{0, 0, sec, 31 * sec, 61 * sec} {
			if _, r := take(table, start.Add(at), key(1), 1); r.OK {
				got = append(got, true)
			} else {
				got = append(got, r.Wait)
			}
		}
		if s := fmt.Sprint(got); s != c.want {
			t.Errorf("%s: %s, want %s", name, s, c.want)
		}
	}
}
