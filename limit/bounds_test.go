package limit

import (
	"testing"
	"time"
)

// 20-key memory: a client at its limit stays at its limit under a flood of new
// ones, whose loss is counted.
func TestFloodDoesNotFreeTheClientAtItsLimit(t *testing.T) {
	for _, n := range []Numbers{tokenNumbers(t, 5, time.Hour, 5), windowNumbers(t, 5, time.Hour)} {
		table := NewTable(n, 20, NewBudget(1<<20))
		drain(table, start, key(0))
		given := int64(0)
		for i := 1; i <= 2000; i++ {
			before := table.Stats()
			if _, r := take(table, start, key(i), 1); !r.OK {
				t.Fatalf("newcomer %d was refused although others have room", i)
			}
			st := table.Stats()
			if st.Keys > 20 {
				t.Fatalf("%d keys of 20", st.Keys)
			}
			given += st.EvictedUnits - before.EvictedUnits
			if _, r := take(table, start, key(0), 1); r.OK {
				t.Fatalf("the client at its limit passed after %d newcomers", i)
			}
		}
		// 20 places, one is the client's: 1,981 newcomers took another's place, each
		// of which had one unit in use.
		if st := table.Stats(); st.Evictions != 1981 || given != 1981 {
			t.Errorf("%d evictions of %d units, want 1981 of 1981", st.Evictions, given)
		}
		audit(t, table)
	}
}

// Who goes is who has the least in use among those looked at: with 16 keys or
// fewer all are looked at.
func TestEvictionGivesAwayTheLeast(t *testing.T) {
	table := NewTable(tokenNumbers(t, 100, time.Hour, 100), 10, NewBudget(1<<20))
	for i := range 10 {
		take(table, start, key(i), int64(50-4*i)) // 50, 46, ..., 14
	}
	for i := range 10 {
		take(table, start, key(100+i), 99)
		if want := 9 - i; holds(table, key(want)) {
			t.Fatalf("newcomer %d did not take the place of client %d", i, want)
		}
		if want := int64(14*(i+1) + 4*i*(i+1)/2); table.Stats().EvictedUnits != want {
			t.Fatalf("%d units given away, want %d", table.Stats().EvictedUnits, want)
		}
	}
	// Who is idle goes first and nothing is given away.
	before := table.Stats()
	take(table, start.Add(2*time.Hour), key(200), 1)
	if st := table.Stats(); st.Evictions != before.Evictions || st.Keys != 10 {
		t.Errorf("an idle key was counted as evicted: %+v", st)
	}
}

// With everybody at the limit a newcomer is refused as Full, and no other rule
// of its request is charged or remembers it.
func TestNewcomerIsRefusedWhenAllAreAtTheirLimit(t *testing.T) {
	b := NewBudget(1 << 20)
	first := NewTable(tokenNumbers(t, 5, time.Hour, 5), 100, b)
	full := NewTable(tokenNumbers(t, 1, time.Hour, 1), 20, b)
	last := NewTable(windowNumbers(t, 5, time.Hour), 100, b)
	for i := range 20 {
		take(full, start, key(i), 1)
	}
	for i := 100; i < 130; i++ {
		_, v, c := acquire(start, claim(first, key(i), 1), closed(claim(full, key(i), 1)), claim(last, key(i), 1))
		if v.OK || !v.Full || v.Wait != 0 {
			t.Fatalf("newcomer: %+v, want Full", v)
		}
		if c[1].Result != (Result{}) || c[0].Result.Remaining != 5 || c[2].Result.Remaining != 5 {
			t.Errorf("results %+v %+v %+v", c[0].Result, c[1].Result, c[2].Result)
		}
	}
	if first.Stats().Keys != 0 || last.Stats().Keys != 0 || full.Stats().Keys != 20 || full.Stats().Evictions != 0 {
		t.Errorf("keys %+v %+v %+v", first.Stats(), full.Stats(), last.Stats())
	}
	// An old client is refused as before, and a request that wants nothing passes.
	if _, v, _ := acquire(start, claim(full, key(3), 1)); v.OK || v.Full || v.Wait != time.Hour {
		t.Errorf("known client at its limit: %+v", v)
	}
	if _, v, _ := acquire(start, claim(full, key(999), 0)); !v.OK {
		t.Errorf("request of 0 units: %+v", v)
	}
	// One hour later a place is free, without a sweep.
	if _, v, _ := acquire(start.Add(time.Hour), claim(full, key(999), 1)); !v.OK {
		t.Errorf("newcomer after an hour: %+v", v)
	}
	for _, table := range []*Table{first, full, last} {
		audit(t, table)
	}
}

// The Budget holds for all Tables together; without any memory the verdict is
// Full, not a panic and not a pass.
func TestBudgetIsNeverExceeded(t *testing.T) {
	const most = 100_000
	b := NewBudget(most)
	tables := make([]*Table, 5)
	for i := range tables {
		tables[i] = NewTable(tokenNumbers(t, 10, time.Hour, 10), 1<<40, b)
	}
	full := 0
	for i := range 20_000 {
		_, v, _ := acquire(start, closed(claim(tables[i%5], key(i), 1+int64(i%10))))
		if v.Full {
			full++
		} else if !v.OK {
			t.Fatalf("client %d: %+v", i, v)
		}
		if b.Used() > most {
			t.Fatalf("%d bytes of %d in use", b.Used(), most)
		}
	}
	sum := int64(0)
	for _, table := range tables {
		audit(t, table)
		sum += table.Stats().Bytes
	}
	if sum != b.Used() || sum < most*6/10 {
		t.Errorf("the Tables take %d bytes, the Budget says %d of %d", sum, b.Used(), most)
	}
	late := NewTable(tokenNumbers(t, 10, time.Hour, 10), 100, NewBudget(0))
	if _, v, _ := acquire(start, closed(claim(late, key(1), 1))); v.OK || !v.Full {
		t.Errorf("without memory: %+v, want Full", v)
	}
	if _, v, _ := acquire(start, claim(late, key(1), 0)); !v.OK {
		t.Errorf("a request of 0 units without memory: %+v", v)
	}
	if _, v, _ := acquire(start, claim(late, key(1), 11)); v.OK || v.Full || v.Wait != Never {
		t.Errorf("what can never pass, without memory: %+v", v)
	}
	b.SetMax(10) // a lower bound frees nothing by force
	if _, v, _ := acquire(start, closed(claim(tables[0], key(1<<30), 1))); v.Full == v.OK {
		t.Errorf("after SetMax: %+v", v)
	}
	// All is given back when all is idle.
	for _, table := range tables {
		table.Sweep(start.Add(time.Hour))
	}
	if b.Used() != 0 {
		t.Errorf("%d bytes in use after the sweep", b.Used())
	}
}

// A late newcomer must not lift a State out that is at its limit only in its time.
func TestEvictionCountsAtTheLatestInstant(t *testing.T) {
	table := NewTable(tokenNumbers(t, 1, time.Minute, 1), 1, NewBudget(1<<20))
	take(table, start, key(1), 1)
	if _, v, _ := acquire(start.Add(-time.Hour), closed(claim(table, key(2), 1))); !v.Full {
		t.Errorf("newcomer of an hour ago: %+v, want Full", v)
	}
	if _, v, _ := acquire(start.Add(time.Minute-1), closed(claim(table, key(2), 1))); !v.Full {
		t.Errorf("newcomer 1 ns too early: %+v, want Full", v)
	}
	if _, v, _ := acquire(start.Add(time.Minute), closed(claim(table, key(2), 1))); !v.OK {
		t.Errorf("newcomer in time: %+v", v)
	}
	if st := table.Stats(); st.Keys != 1 || st.Evictions != 0 {
		t.Errorf("stats %+v, want one key and nothing evicted", st)
	}
}
