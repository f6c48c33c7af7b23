package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func slidingLogOf(tb failer, permits int64, per time.Duration) Bucket {
	tb.Helper()
	b, err := NewSlidingLog(permits, per)
	if err != nil {
		tb.Fatalf("NewSlidingLog(%d, %v): %v", permits, per, err)
	}
	return b
}

func logTable(tb failer, permits int64, per time.Duration) *Table {
	tb.Helper()
	return NewTable(Numbers{Bucket: slidingLogOf(tb, permits, per)}, 1<<40, NewBudget(1<<40))
}

// ringOf returns how many places the list of k has and how many it uses.
func ringOf(t *Table, k Digest) (places, used int) {
	s := t.dir.Load().shard(k.Hi)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.find(k)
	if !ok {
		return 0, 0
	}
	l := s.homeAt(i).list
	return len(l.ring), l.n
}

// A refusal forgets no unit and keeps none that is too old: 6 a minute, 1 at 0 s
// and 5 at 30 s. At 60 s the first is gone and 5 count: 2 more are refused, until
// 90 s; and that refusal must not hide that one still fits.
func TestRefusalByTheLogLosesNoRoom(t *testing.T) {
	table := logTable(t, 6, time.Minute)
	take(table, start, key(1), 1)
	take(table, start.Add(30*time.Second), key(1), 5)
	at := start.Add(time.Minute)
	for range 3 {
		if _, r := take(table, at, key(1), 2); r.OK || r.Wait != 30*time.Second || r.Remaining != 1 {
			t.Fatalf("two more at 60 s: %+v, want a wait of 30s with 1 left", r)
		}
	}
	if _, r := take(table, at, key(1), 1); !r.OK || r.Remaining != 0 {
		t.Errorf("one more at 60 s: %+v, want to pass with 0 left", r)
	}
	// The same where another rule refuses what the log has room for.
	b := NewBudget(1 << 20)
	log := NewTable(Numbers{Bucket: slidingLogOf(t, 2, time.Minute)}, 10, b)
	none := NewTable(tokenNumbers(t, 1, time.Hour, 1), 10, b)
	drain(none, start, key(1))
	take(log, start, key(1), 1)
	take(log, start.Add(time.Second), key(1), 1)
	for range 2 {
		_, v, c := acquire(at, claim(log, key(1), 1), claim(none, key(1), 1))
		if v.OK || !c[0].Result.OK || c[0].Result.Remaining != 1 {
			t.Fatalf("with a refusal of another rule the log says %+v, want room and 1 left", c[0].Result)
		}
	}
	if got := drain(log, at, key(1)); got != 1 {
		t.Errorf("%d pass after that, want 1", got)
	}
}

// The State alone is a safe summary: whatever it admits its list admits, and it
// waits no less.
func TestLogStateAloneNeverAdmitsWhatItsListRefuses(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.Int64Range(1, 20).Draw(r, "permits")
		per := rapid.SampledFrom([]time.Duration{1, 10, time.Second}).Draw(r, "per")
		b := slidingLogOf(r, n, per)
		table := logTable(r, n, per)
		now := start
		var grants []Grant
		for range rapid.IntRange(1, 30).Draw(r, "events") {
			now += Instant(rapid.OneOf(rapid.Int64Range(0, int64(per)), rapid.Int64Range(0, int64(per)/8)).Draw(r, "pass"))
			c := rapid.Int64Range(0, n+1).Draw(r, "n")
			_, alone := b.Take(stored(table, key(1)), now, c)
			g, with := take(table, now, key(1), c)
			if alone.OK && !with.OK || alone.OK == with.OK && alone.Remaining > with.Remaining {
				r.Fatalf("take %d: the State alone says %+v, with its list %+v", c, alone, with)
			}
			if !alone.OK && !with.OK && alone.Wait < with.Wait && with.Wait != Never {
				r.Fatalf("take %d: the State alone says %+v, with its list %+v", c, alone, with)
			}
			if grants = append(grants, g); rapid.IntRange(0, 3).Draw(r, "back") == 0 {
				i := rapid.IntRange(0, len(grants)-1).Draw(r, "of")
				grants[i].Done(now, giveBack(rapid.Int64Range(-n, n).Draw(r, "units")))
			}
		}
	})
}

// A request whose unit comes back (count: it did not count) costs no memory and
// no time however many there are: with 999 kept the ring stays below 2,000 places.
func TestUnitsThatComeBackDoNotGrowTheList(t *testing.T) {
	table := logTable(t, 1000, time.Hour)
	now := start
	var grants []Grant
	for range 999 {
		now++
		take(table, now, key(1), 1)
	}
	for range 10_000 {
		now++
		g, r := take(table, now, key(1), 1)
		if !r.OK || r.Remaining != 0 {
			t.Fatalf("with 999 of 1000 kept: %+v", r)
		}
		g.Done(now, giveBack(1))
	}
	// Now with units given back from the middle, 100 in flight at a time.
	table = logTable(t, 1000, time.Hour)
	for i := range 20_000 {
		now++
		g, r := take(table, now, key(1), 1)
		if !r.OK {
			t.Fatalf("request %d: %+v", i, r)
		}
		if grants = append(grants, g); len(grants) == 100 {
			for j := range grants {
				if j != 50 {
					grants[j].Done(now, giveBack(1))
				}
			}
			grants = grants[:0]
		}
	}
	if places, _ := ringOf(table, key(1)); places > 2000 {
		t.Errorf("a ring of %d places for 200 units", places)
	}
	audit(t, table)
}

// Give-back removes the own entry: 3 a minute, one each at 0, 10 and 20 s. The
// second comes back at 30 s; then one fits at once, the next at 60 s and, since
// the entry of 10 s is gone, the next at 80 s.
func TestGiveBackToTheLogRemovesItsOwnEntry(t *testing.T) {
	table := logTable(t, 3, time.Minute)
	sec := func(s int) Instant { return start.Add(time.Duration(s) * time.Second) }
	take(table, sec(0), key(1), 1)
	g, _ := take(table, sec(10), key(1), 1)
	take(table, sec(20), key(1), 1)
	if _, r := take(table, sec(30), key(1), 1); r.OK || r.Wait != 30*time.Second {
		t.Fatalf("a fourth: %+v, want a wait of 30s", r)
	}
	g.Done(sec(30), giveBack(1))
	if _, r := take(table, sec(30), key(1), 1); !r.OK || r.Remaining != 0 || r.Reset != 30*time.Second {
		t.Fatalf("in its place: %+v", r)
	}
	if _, r := take(table, sec(30), key(1), 2); r.OK || r.Wait != 50*time.Second {
		t.Errorf("two: %+v, want a wait of 50s, until the entry of 20 s is a minute old", r)
	}
	if _, r := take(table, sec(60), key(1), 1); !r.OK {
		t.Errorf("at 60 s: %+v", r)
	}
	if _, r := take(table, sec(79), key(1), 1); r.OK || r.Wait != time.Second {
		t.Errorf("at 79 s: %+v, want a wait of 1s", r)
	}
	// An entry that is too old gives nothing back: no entry of another either.
	old, _ := take(table, sec(80), key(1), 1)
	take(table, sec(200), key(1), 3)
	old.Done(sec(200), giveBack(1))
	if got := left(table, sec(200), key(1)); got != 0 {
		t.Errorf("%d left after a give-back to an entry that is too old, want 0", got)
	}
}
