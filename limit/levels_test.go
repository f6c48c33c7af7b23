package limit

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// levelsOf returns all levels of t at now.
func levelsOf(t *Table, now Instant) (list []Level) {
	t.Levels(now, func(l *Level) bool {
		list = append(list, *l)
		return true
	})
	return list
}

// restarted is t as it is after a restart: kept at saved, put back at now.
func restarted(tb failer, t *Table, saved, now Instant) *Table {
	tb.Helper()
	return restartedAs(tb, t, t.Numbers(), saved, now)
}

func restartedAs(tb failer, t *Table, n Numbers, saved, now Instant) *Table {
	tb.Helper()
	next := NewTable(n, t.maxKeys.Load(), NewBudget(1<<40))
	for _, l := range levelsOf(t, saved) {
		p := Past{Saved: saved, Same: n == t.Numbers(), SamePenalty: n.Penalty == t.Numbers().Penalty}
		if !next.Restore(&l, p, now) {
			tb.Fatalf("no place for %+v", l)
		}
	}
	return next
}

// kept are the algorithms whose levels outlive a restart.
func kept(t *testing.T, test func(*testing.T, algorithm)) {
	for _, a := range algorithms {
		if !a.slots {
			t.Run(a.name, func(t *testing.T) { test(t, a) })
		}
	}
}

// carried is what a Table of b carries over other numbers.
func carried(b Bucket, a algorithm, burst int64) int64 {
	if q, ok := b.(queue); ok {
		return q.whole
	}
	if a.bursts {
		return burst
	}
	return 0
}

// A Table that restarts now and then decides to the nanosecond like one that never
// does, whatever was taken, given back and charged.
func TestARestartChangesNoDecision(t *testing.T) {
	test := func(t *testing.T, a algorithm) {
		rapid.Check(t, func(r *rapid.T) {
			permits := rapid.Int64Range(1, 12).Draw(r, "permits")
			pers := []time.Duration{7, time.Second, time.Minute, time.Hour, day}
			if a.pers != nil {
				pers = a.pers
			}
			per := rapid.SampledFrom(pers).Draw(r, "per")
			full := permits
			if a.bursts {
				full = rapid.Int64Range(1, 30).Draw(r, "burst")
			}
			b, err := a.make(permits, per, full)
			if err != nil {
				r.Skip("no such limit")
			}
			n := Numbers{Bucket: inTable(b), Carry: carried(b, a, full)}
			if rapid.Bool().Draw(r, "penalty") {
				block := per * time.Duration(rapid.Int64Range(1, 3).Draw(r, "block"))
				n.Penalty = penalty(r, rapid.Int64Range(1, 3).Draw(r, "refusals"), per, min(block, maxPeriod), min(4*block, maxPeriod))
			}
			if rapid.Bool().Draw(r, "refunds") {
				if n.Refunds, err = NewFixedWindow(permits, per); err != nil {
					r.Fatalf("%v", err)
				}
			}
			stays, restarts := NewTable(n, 1<<20, NewBudget(1<<40)), NewTable(n, 1<<20, NewBudget(1<<40))
			now := start
			var l Limiter
			for range rapid.IntRange(1, 60).Draw(r, "steps") {
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(per)*3/2).Draw(r, "later")))
				if rapid.IntRange(0, 4).Draw(r, "restart") == 0 {
					saved := now
					now = now.Add(time.Duration(rapid.Int64Range(0, int64(per)/2).Draw(r, "down")))
					restarts = restarted(r, restarts, saved, now)
				}
				k, units := key(rapid.IntRange(0, 3).Draw(r, "client")), rapid.Int64Range(0, 4).Draw(r, "units")
				if n.Penalty.After != nil { // whom nobody remembers is not punished for what can never pass
					units = min(units, permits, full)
				}
				back := rapid.SampledFrom([]int64{0, 0, 1, 4, -2}).Draw(r, "back")
				var results [2]struct {
					Result
					blocked bool
				}
				for i, table := range []*Table{stays, restarts} {
					claims := []Claim{claim(table, k, units)}
					g, _ := l.Acquire(t.Context(), now, claims)
					results[i].Result, results[i].blocked = claims[0].Result, claims[0].Blocked
					g.Done(now, func(c *Claim) int64 { return min(back, c.N) })
				}
				if results[0] != results[1] {
					r.Fatalf("at %v: without a restart %+v, with %+v", now.Sub(start), results[0], results[1])
				}
			}
		})
	}
	for _, a := range slices.Concat(algorithms, calendarRows, queueRows) {
		if !a.slots {
			t.Run(a.name, func(t *testing.T) { test(t, a) })
		}
	}
}

// Every instant by hand: who is blocked stays so for the rest of that time, and the next
// block takes twice as long, also where the one before was over when the levels were kept.
func TestABlockGoesOnAfterARestart(t *testing.T) {
	table := NewTable(strict(t), 100, NewBudget(1<<20))
	for i, c := range []struct {
		at      time.Duration
		restart bool // just before it, kept a second before that
		ok      bool
		blocked bool
		wait    time.Duration
	}{
		{0, false, true, false, 0},
		{1 * sec, false, false, false, 9 * sec},
		{2 * sec, false, false, false, 8 * sec},
		{3 * sec, true, false, true, 60 * sec}, // the third refusal in a minute, two of them before the restart
		{20 * sec, true, false, true, 43 * sec},
		{62 * sec, true, false, true, 1 * sec},
		{63 * sec, true, true, false, 0},
		{64 * sec, false, false, false, 9 * sec},
		{65 * sec, false, false, false, 8 * sec},
		{66 * sec, true, false, true, 120 * sec}, // doubled: until 186 s
		{300 * sec, true, true, false, 0},
		{301 * sec, false, false, false, 9 * sec},
		{302 * sec, false, false, false, 8 * sec},
		{303 * sec, true, false, true, 240 * sec}, // and once more: until 543 s
		{543*sec + 240*sec, true, true, false, 0}, // which takes one doubling back
		{784 * sec, false, false, false, 9 * sec},
		{785 * sec, false, false, false, 8 * sec},
		{786 * sec, true, false, true, 120 * sec},
	} {
		now := start.Add(c.at)
		if c.restart {
			table = restarted(t, table, now.Add(-sec), now)
		}
		_, v, claims := acquire(now, claim(table, key(1), 1))
		if v.OK != c.ok || v.Wait != c.wait || claims[0].Blocked != c.blocked {
			t.Fatalf("step %d at %v: %+v, blocked %v, want %+v", i, c.at, v, claims[0].Blocked, c)
		}
		audit(t, table)
	}
}

// A block holds whatever becomes of the numbers; the next one is of the new numbers.
func TestABlockOutlivesItsNumbers(t *testing.T) {
	old := NewTable(strict(t), 100, NewBudget(1<<20))
	for range 4 {
		acquire(start, claim(old, key(1), 1)) // the last begins a block of a minute
	}
	n := tokenNumbers(t, 100, sec, 100)
	n.Penalty = penalty(t, 1, time.Minute, 10*sec, 10*sec)
	table := restartedAs(t, old, n, start, start.Add(5*sec))
	for _, c := range []struct {
		at      time.Duration
		blocked bool
		wait    time.Duration
	}{{5 * sec, true, 55 * sec}, {60*sec - 1, true, 1}, {60 * sec, false, 0}} {
		if _, v, claims := acquire(start.Add(c.at), claim(table, key(1), 1)); v.Wait != c.wait || claims[0].Blocked != c.blocked {
			t.Errorf("at %v: %+v, blocked %v, want %+v", c.at, v, claims[0].Blocked, c)
		}
	}
	// Without a penalty nobody is punished any more.
	table = restartedAs(t, old, tokenNumbers(t, 100, sec, 100), start, start)
	if _, v, _ := acquire(start, claim(table, key(1), 1)); !v.OK {
		t.Errorf("blocked by a rule without a penalty: %+v", v)
	}
}

// A clock that went back lengthens no block.
func TestABlockOfALaterClock(t *testing.T) {
	old := NewTable(strict(t), 100, NewBudget(1<<20))
	for range 4 {
		acquire(start, claim(old, key(1), 1))
	}
	saved := start.Add(20 * sec) // 40 s are left
	for _, back := range []time.Duration{1, sec, time.Hour, 400 * day} {
		now := saved.Add(-back)
		table := restarted(t, old, saved, now)
		if _, v, claims := acquire(now, claim(table, key(1), 1)); !claims[0].Blocked || v.Wait != 40*sec {
			t.Errorf("back by %v: %+v, blocked %v, want 40s", back, v, claims[0].Blocked)
		}
	}
}

// Requests in progress are not kept, but who is blocked for having too many is.
func TestABlockOfARuleOfSlotsGoesOn(t *testing.T) {
	b, err := NewConcurrency(1)
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable(Numbers{Bucket: b, Slots: true, Penalty: penalty(t, 1, time.Minute, time.Minute, time.Minute)}, 100, NewBudget(1<<20))
	acquire(start, claim(table, key(2), 1))
	for range 3 {
		acquire(start, claim(table, key(1), 1))
	}
	table = restarted(t, table, start, start.Add(10*sec))
	if _, v, claims := acquire(start.Add(10*sec), claim(table, key(1), 1)); !claims[0].Blocked || v.Wait != 50*sec {
		t.Errorf("%+v, blocked %v, want 50s", v, claims[0].Blocked)
	}
	for range 2 {
		if _, v, claims := acquire(start.Add(60*sec), claim(table, key(1), 1)); claims[0].Blocked {
			t.Errorf("%+v: blocked for too long", v)
		}
	}
	if table.Stats().Keys != 1 {
		t.Errorf("%d keys, want the one that was blocked", table.Stats().Keys)
	}
}

// Whoever is told when to leave is followed by the next no sooner than before: the
// schedule of a queue goes on. 10 a second, ten places.
func TestAQueueGoesOnAfterARestart(t *testing.T) {
	table := leakyTable(t, 10, sec, sec)
	for i := range 8 {
		if _, r := take(table, start, key(1), 1); r.Wait != time.Duration(i)*100*ms {
			t.Fatalf("turn %d in %v", i, r.Wait)
		}
	}
	for i, now := range []Instant{start.Add(50 * ms), start.Add(130 * ms), start.Add(700 * ms)} {
		table = restarted(t, table, now.Add(-20*ms), now)
		_, r := take(table, now, key(1), 1)
		if want := time.Duration(8+i)*100*ms - now.Sub(start); !r.OK || r.Wait != want {
			t.Errorf("at %v: %+v, want a turn in %v", now.Sub(start), r, want)
		}
	}
}

func TestLevelsUnderOtherNumbersKeepWhatWasUsed(t *testing.T) {
	old := tokenTable(t, 10, time.Minute, 10)
	take := func(table *Table, k Digest, n int64, at Instant) Result {
		c := []Claim{claim(table, k, n)}
		(&Limiter{}).Acquire(t.Context(), at, c)
		return c[0].Result
	}
	take(old, key(1), 7, start)
	take(old, key(2), 10, start)
	for _, tt := range []struct {
		permits, burst int64
		left           [2]int64
	}{
		{10, 10, [2]int64{3, 0}}, {10, 20, [2]int64{13, 10}}, {5, 5, [2]int64{0, 0}}, {20, 8, [2]int64{1, 0}}, {1000, 1000, [2]int64{993, 990}},
	} {
		next := restartedAs(t, old, tokenNumbers(t, tt.permits, time.Minute, tt.burst), start, start)
		for i, want := range tt.left {
			if got := take(next, key(i+1), 0, start).Remaining; got != want {
				t.Errorf("%d/m, burst %d: client %d has %d left, want %d", tt.permits, tt.burst, i+1, got, want)
			}
		}
	}
	// A part of a unit that came back under the old numbers is none under new ones.
	next := restartedAs(t, old, tokenNumbers(t, 7, time.Minute, 10), start.Add(5*time.Second), start.Add(5*time.Second))
	if got, want := take(next, key(2), 1, start.Add(5*time.Second)).Wait, time.Minute/7+1; got != want {
		t.Errorf("wait %v, want %v", got, want)
	}
}

// A clock that was set back between two runs gives nothing away, and locks nobody
// out for longer than the limit itself could.
func TestAClockThatWentBackOverARestart(t *testing.T) {
	kept(t, func(t *testing.T, a algorithm) {
		b, err := a.make(5, time.Minute, 5)
		if err != nil {
			t.Fatal(err)
		}
		n := Numbers{Bucket: inTable(b)}
		if a.bursts {
			n.Carry = 5
		}
		for _, back := range []time.Duration{1, time.Second, 59 * time.Second, time.Hour, 400 * day} {
			table := NewTable(n, 1<<20, NewBudget(1<<40))
			saved := start.Add(30 * time.Second)
			var l Limiter
			l.Acquire(t.Context(), saved, []Claim{claim(table, key(1), 5)})
			now := saved.Add(-back)
			next := restarted(t, table, saved, now)
			c := []Claim{claim(next, key(1), 1)}
			if _, v := l.Acquire(t.Context(), now, c); v.OK {
				t.Errorf("back by %v: a client at its limit passes", back)
			}
			if w := c[0].Result.Wait; w <= 0 || w > 2*time.Minute {
				t.Errorf("back by %v: wait %v", back, w)
			}
			if _, v := l.Acquire(t.Context(), now.Add(c[0].Result.Wait), c); !v.OK {
				t.Errorf("back by %v: waiting as told is not enough", back)
			}
		}
	})
}

func TestRequestsInProgressAreNoLevels(t *testing.T) {
	b, err := NewConcurrency(3)
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable(Numbers{Bucket: b, Slots: true}, 1<<20, NewBudget(1<<40))
	(&Limiter{}).Acquire(t.Context(), start, []Claim{claim(table, key(1), 2)})
	if got := levelsOf(table, start); got != nil {
		t.Errorf("levels %v", got)
	}
	if table.Restore(&Level{Key: key(1), At: start, Used: 2}, Past{Saved: start, Same: true}, start) || table.Stats().Keys != 1 {
		t.Error("a level was put where there are none")
	}
}

// What clients share for whom there was no place is kept too, and a smaller memory
// after the restart keeps those who used most.
func TestLevelsOfAFullTable(t *testing.T) {
	n := tokenNumbers(t, 10, time.Hour, 10)
	table := NewTable(n, 100, NewBudget(1<<40))
	var l Limiter
	for i := range 100 {
		l.Acquire(t.Context(), start, []Claim{claim(table, key(i), 10)})
	}
	for i := range 20 { // nobody makes room: all are at their limit
		l.Acquire(t.Context(), start, []Claim{claim(table, key(1000+i), 1)})
	}
	list := levelsOf(table, start)
	shared, units := 0, int64(0)
	for _, e := range list {
		if e.Shared > 0 {
			shared, units = shared+1, units+e.Used
		}
	}
	if len(list)-shared != 100 || units != 20 {
		t.Errorf("%d keys, %d units shared; want 100 and 20", len(list)-shared, units)
	}
	next := restarted(t, table, start, start)
	if got := spilledUnits(next); got != 20 {
		t.Errorf("%d units shared after the restart, want 20", got)
	}
	small := NewTable(n, 40, NewBudget(1<<40))
	lost := 0
	for _, e := range list {
		if !small.Restore(&e, Past{Saved: start, Same: true}, start) {
			lost++
		}
	}
	if lost != 60 || small.Stats().Keys != 40 {
		t.Errorf("%d keys found no place, %d did; want 60 and 40", lost, small.Stats().Keys)
	}
}

// Every key that is there all the time is seen once, however the Table grows, is
// swept and is used meanwhile.
func TestLevelsAreReadBesideRequests(t *testing.T) {
	kept(t, func(t *testing.T, a algorithm) {
		b, err := a.make(5, time.Hour, 5)
		if err != nil {
			t.Fatal(err)
		}
		table := NewTable(Numbers{Bucket: inTable(b)}, 1<<20, NewBudget(1<<40))
		const fixed = 500
		var l Limiter
		for i := range fixed {
			l.Acquire(t.Context(), start, []Claim{claim(table, key(i), 5)})
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for w := range 2 {
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					l.Acquire(t.Context(), start, []Claim{claim(table, key(fixed+(2*i+w)%5_000), 1)})
					if i%1000 == 0 {
						table.Sweep(start)
					}
				}
			})
		}
		for range 10 {
			seen := map[Digest]int{}
			for _, e := range levelsOf(table, start) {
				seen[e.Key]++
			}
			for i := range fixed {
				if n := seen[key(i)]; n != 1 {
					t.Fatalf("key %d was seen %d times", i, n)
				}
			}
		}
		close(stop)
		wg.Wait()
	})
}

// Whatever a file says, nothing panics, and nobody gets more than the limit.
func FuzzRestore(f *testing.F) {
	f.Add(uint8(0), int64(0), int64(1), uint64(0), int64(0), true)
	f.Add(uint8(3), int64(-1), int64(1<<62), uint64(1<<63), int64(1<<61), false)
	f.Fuzz(func(t *testing.T, which uint8, at, used int64, rem uint64, saved int64, same bool) {
		a := algorithms[int(which)%len(algorithms)]
		if a.slots || at < -1<<61 || at > 1<<61 || saved < -1<<61 || saved > 1<<61 { // what an Instant is for, with room to add
			return
		}
		b, err := a.make(5, time.Minute, 5)
		if err != nil {
			t.Fatal(err)
		}
		n := Numbers{Bucket: inTable(b), Carry: 5}
		table := NewTable(n, 100, NewBudget(1<<40))
		l := Level{Key: key(1), At: Instant(at), Used: used, Rem: rem, Refunded: Refunded{Instant(at), used, rem}}
		if rem%3 == 0 {
			n.Penalty = penalty(t, 2, time.Minute, time.Minute, time.Hour)
			l.Punished = Punished{Instant(at), used, rem, uint32(rem), Instant(saved), Instant(saved)}
			table = NewTable(n, 100, NewBudget(1<<40))
		}
		if a.listed {
			l.Taken = []Taken{{Instant(at), used}, {Instant(saved), int64(rem >> 1)}}
		}
		table.Restore(&l, Past{Saved: Instant(saved), Same: same}, start)
		var lim Limiter
		for i := range 20 {
			c := []Claim{claim(table, key(1), 1)}
			_, v := lim.Acquire(t.Context(), start, c)
			if r := c[0].Result; v.OK && i >= 5 || r.Remaining < 0 || r.Remaining > 5 {
				t.Fatalf("take %d: %+v", i, r)
			}
		}
		table.Sweep(start.Add(time.Hour))
		levelsOf(table, start.Add(time.Hour))
	})
}

func BenchmarkLevels(b *testing.B) {
	const n = 1_000_000
	table := tokenTable(b, 10, time.Hour, 10)
	var l Limiter
	for i := range n {
		l.Acquire(b.Context(), start, []Claim{claim(table, key(i), 3)})
	}
	list := levelsOf(table, start)
	b.Run(fmt.Sprintf("read/%d", n), func(b *testing.B) {
		for b.Loop() {
			table.Levels(start, func(*Level) bool { return true })
		}
	})
	b.Run(fmt.Sprintf("restore/%d", n), func(b *testing.B) {
		for b.Loop() {
			next := tokenTable(b, 10, time.Hour, 10)
			for i := range list {
				next.Restore(&list[i], Past{Saved: start, Same: true}, start)
			}
		}
	})
}

func TestALevelIsWhatWasUsed(t *testing.T) {
	table := tokenTable(t, 10, time.Second, 10) // one in 100 ms
	(&Limiter{}).Acquire(t.Context(), start, []Claim{claim(table, key(1), 4)})
	(&Limiter{}).Acquire(t.Context(), start, []Claim{claim(table, key(2), 1)})
	at := start.Add(150 * time.Millisecond) // the second is idle again
	want := []Level{{Key: key(1), At: at, Used: 3, Rem: 50_000_000}}
	if diff := cmp.Diff(want, levelsOf(table, at)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
