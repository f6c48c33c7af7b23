package limit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// step is one take and what must come of it. at counts from start. rep repeats
// the take, all but the last of which must pass.
type step struct {
	at        time.Duration
	n         int64
	ok        bool
	remaining int64
	wait      time.Duration
	reset     time.Duration
}

const ms = time.Millisecond

// TestStepTables runs each story twice: against the bare Bucket, and through
// Acquire on one key of a Table. All numbers were worked out by hand.
func TestStepTables(t *testing.T) {
	stories := []struct {
		name   string
		bucket Bucket
		steps  []step
	}{
		{"the worked example: 10 per second, burst 10", tokens(t, 10, time.Second, 10), []step{
			// One unit comes back each 100 ms.
			{0, 9, true, 1, 0, 900 * ms},
			{0, 1, true, 0, 0, 100 * ms},
			{50 * ms, 1, false, 0, 50 * ms, 50 * ms},
			{100*ms - 1, 1, false, 0, 1, 1},
			{100 * ms, 1, true, 0, 0, 100 * ms},
			{5100 * ms, 11, false, 10, Never, 0}, // not fifty
			{5100 * ms, 10, true, 0, 0, 100 * ms},
			{5100 * ms, 1, false, 0, 100 * ms, 100 * ms},
		}},
		{"C02a: 60 per minute means a burst of 60", tokens(t, 60, time.Minute, 60), []step{
			{0, 20, true, 40, 0, 20 * time.Second},
			{0, 1, true, 39, 0, 21 * time.Second},
		}},
		{"C02b: 60 per minute, burst 1", tokens(t, 60, time.Minute, 1), []step{
			{0, 1, true, 0, 0, time.Second},
			{0, 1, false, 0, time.Second, time.Second},
			{time.Second, 1, true, 0, 0, time.Second},
		}},
		{"C02c: 60 per minute, burst 20", tokens(t, 60, time.Minute, 20), []step{
			{0, 20, true, 0, 0, time.Second},
			{0, 1, false, 0, time.Second, time.Second},
		}},
		{"C02d: token bucket 2 per minute, burst 2", tokens(t, 2, time.Minute, 2), []step{
			{0, 2, true, 0, 0, 30 * time.Second},
			{1 * time.Second, 1, false, 0, 29 * time.Second, 29 * time.Second},
			{31 * time.Second, 1, true, 0, 0, 29 * time.Second}, // 31/30 came back
			{61 * time.Second, 1, true, 0, 0, 29 * time.Second},
		}},
		{"C02e: fixed window 2 per minute", window(t, 2, time.Minute), []step{
			{0, 2, true, 0, 0, time.Minute},
			{1 * time.Second, 1, false, 0, 59 * time.Second, 59 * time.Second},
			{31 * time.Second, 1, false, 0, 29 * time.Second, 29 * time.Second},
			{61 * time.Second, 1, true, 1, 0, 59 * time.Second},
		}},
		{"C03a: 20 per hour, one each 180 s", tokens(t, 20, time.Hour, 20), []step{
			{0, 20, true, 0, 0, 180 * time.Second},
			{0, 1, false, 0, 180 * time.Second, 180 * time.Second},
			{179 * time.Second, 1, false, 0, time.Second, time.Second},
			{181 * time.Second, 1, true, 0, 0, 179 * time.Second},
			{181 * time.Second, 1, false, 0, 179 * time.Second, 179 * time.Second},
		}},
		{"C03b: one per two seconds", tokens(t, 1, 2*time.Second, 1), []step{
			{0, 1, true, 0, 0, 2 * time.Second},
			{1 * time.Second, 1, false, 0, time.Second, time.Second},
			{2 * time.Second, 1, true, 0, 0, 2 * time.Second},
		}},
		{"F03: 30 per 10 s, burst 10: a third of a second rounds up", tokens(t, 30, 10*time.Second, 10), []step{
			{0, 10, true, 0, 0, 333_333_334},
			{0, 1, false, 0, 333_333_334, 333_333_334},
			{333_333_333, 1, false, 0, 1, 1},
			{333_333_334, 1, true, 0, 0, 333_333_333}, // 2 parts of 3 ns were had already: 666,666,667 - 333,333,334
			{666_666_666, 1, false, 0, 1, 1},
			{666_666_667, 1, true, 0, 0, 333_333_333}, // and 3 of 3 at a whole second
			{time.Second, 1, true, 0, 0, 333_333_334},
		}},
		{"G02: one per hour, burst 3, takes three hours to fill", tokens(t, 1, time.Hour, 3), []step{
			{0, 3, true, 0, 0, time.Hour},
			{time.Hour, 0, true, 1, 0, 2 * time.Hour},
			{3*time.Hour - 1, 3, false, 2, 1, 1},
			{3 * time.Hour, 3, true, 0, 0, time.Hour},
		}},
		{"costs: a large one waits for all of it", tokens(t, 1, time.Second, 5), []step{
			{0, 3, true, 2, 0, 3 * time.Second},
			{0, 5, false, 2, 3 * time.Second, 3 * time.Second},
			{500 * ms, 5, false, 2, 2500 * ms, 2500 * ms}, // a refusal moved nothing
			{0, 6, false, 2, Never, 3 * time.Second},
			{3*time.Second - 1, 5, false, 4, 1, 1},
			{3 * time.Second, 5, true, 0, 0, time.Second},
		}},
		{"no more than one burst after a pause", tokens(t, 1, time.Second, 2), []step{
			{0, 1, true, 1, 0, time.Second},
			{time.Hour + 500*ms, 2, true, 0, 0, time.Second}, // the half second is not kept
			{time.Hour + 1500*ms - 1, 1, false, 0, 1, 1},
			{time.Hour + 1500*ms, 1, true, 0, 0, time.Second},
		}},
		{"fixed window: 2N across an edge", window(t, 5, time.Second), []step{
			{999 * ms, 5, true, 0, 0, ms},
			{time.Second - 1, 1, false, 0, 1, 1},
			{time.Second, 5, true, 0, 0, time.Second},
			{time.Second, 1, false, 0, time.Second, time.Second},
			{1500 * ms, 6, false, 0, Never, 500 * ms},
			{3 * time.Second, 0, true, 5, 0, 0}, // all are there: nothing to wait for
			{3 * time.Second, 2, true, 3, 0, time.Second},
			{3200 * ms, 4, false, 3, 800 * ms, 800 * ms},
		}},
	}
	for _, st := range stories {
		t.Run(st.name, func(t *testing.T) {
			var s State
			n := Numbers{Bucket: st.bucket}
			table := NewTable(n, 1000, NewBudget(1<<20))
			var latest time.Duration
			for i, want := range st.steps {
				r := Result{OK: want.ok, Remaining: want.remaining, Wait: want.wait, Reset: want.reset}
				var got Result
				was := s
				s, got = st.bucket.Take(s, start.Add(want.at), want.n)
				if d := cmp.Diff(r, got); d != "" {
					t.Errorf("step %d, bare Bucket: take %d at %v (-want +got):\n%s", i, want.n, want.at, d)
				}
				if !got.OK && s != was {
					t.Errorf("step %d: a refused take changed the State from %+v to %+v", i, was, s)
				}
				if want.at < latest {
					continue // a Table never goes back: the next tests are about that
				}
				latest = want.at
				_, got = take(table, start.Add(want.at), key(1), want.n)
				if d := cmp.Diff(r, got); d != "" {
					t.Errorf("step %d, Table: take %d at %v (-want +got):\n%s", i, want.n, want.at, d)
				}
			}
		})
	}
}

// F03, second part: after the burst is used, one call each 100 ms for 10 s at 3
// per second passes 29 times: call k, from 0 on, comes at k*100 ms when 0.3k
// came back, so the last one (k = 99) sees 29.7. On a fresh key 10 more pass: 39.
func TestTrickleAfterTheBurstGetsTheRate(t *testing.T) {
	table := tokenTable(t, 30, 10*time.Second, 10)
	passed := 0
	for k := range 100 {
		if _, r := take(table, start.Add(time.Duration(k)*100*ms), key(1), 1); r.OK {
			passed++
		}
	}
	if passed != 39 {
		t.Errorf("passed %d of 100, want 39 (10 + 29.7 rounded down)", passed)
	}
}

// The worked example's second half: 5 per second for a user, 1 per second for
// an address. Five refusals by the address rule leave the user's five whole.
func TestRefusalByTheAddressRuleLeavesTheUserUntouched(t *testing.T) {
	b := NewBudget(1 << 20)
	users := NewTable(tokenNumbers(t, 5, time.Second, 5), 100, b)
	addresses := NewTable(tokenNumbers(t, 1, time.Second, 1), 100, b)
	if _, r := take(addresses, start, key(0), 1); !r.OK {
		t.Fatal("the address's first request was refused")
	}
	for range 5 {
		_, v, c := acquire(start, claim(users, key(7), 1), claim(addresses, key(0), 1))
		if v.OK || v.Wait != time.Second {
			t.Fatalf("verdict %+v, want a refusal of 1s", v)
		}
		if got := c[0].Result.Remaining; got != 5 {
			t.Errorf("the user's rule says %d left, want 5", got)
		}
	}
	for i := 1; i <= 5; i++ {
		if _, v, _ := acquire(start, claim(users, key(7), 1), claim(addresses, key(i), 1)); !v.OK {
			t.Errorf("request %d on a new address was refused", i)
		}
	}
	if _, v, _ := acquire(start, claim(users, key(7), 1), claim(addresses, key(6), 1)); v.OK {
		t.Error("a sixth request of the user passed")
	}
}

// C09: a 10 per hour rule and a one per hour rule of the job.
func TestRefusedRequestsNeverUseTheOtherRule(t *testing.T) {
	b := NewBudget(1 << 20)
	a := NewTable(tokenNumbers(t, 10, time.Hour, 10), 100, b)
	job := NewTable(windowNumbers(t, 1, time.Hour), 100, b)
	passed := 0
	for range 10 {
		if _, v, _ := acquire(start, claim(a, key(1), 1), claim(job, key(1), 1)); v.OK {
			passed++
		}
	}
	if passed != 1 {
		t.Errorf("with one job %d passed, want 1", passed)
	}
	for i := range 12 {
		at := start.Add(time.Duration(i) * time.Second)
		_, v, c := acquire(at, claim(job, key(2+i), 1), claim(a, key(1), 1))
		if want := i < 9; v.OK != want {
			t.Errorf("request %d with a new job: passed %v, want %v", i, v.OK, want)
		}
		if want := int64(max(0, 8-i)); c[0].Result.Remaining != want {
			t.Errorf("request %d: %d left, want %d", i, c[0].Result.Remaining, want)
		}
		// One unit came back 360 s after the first take, at start.
		if want := 360*time.Second - at.Sub(start); !v.OK && v.Wait != want {
			t.Errorf("request %d: wait %v, want %v", i, v.Wait, want)
		}
	}
}
