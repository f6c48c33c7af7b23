package limit

import (
	"fmt"
	"testing"
	"time"
)

// planned is a Table with keys 0 to n-1, its budget, and a growth of the shard of
// key 0 whose memory is made.
func planned(t *testing.T, n int, split bool) (*Table, *Budget, growth) {
	t.Helper()
	b := NewBudget(1 << 20)
	table := NewTable(tokenNumbers(t, 1, time.Hour, 1), 1<<20, b)
	for i := range n {
		take(table, start, key(i), 1)
	}
	s := table.lock(key(0))
	g := s.plan(split)
	s.mu.Unlock()
	if !table.prepare(&g) {
		t.Fatal("no memory")
	}
	return table, b, g
}

// While the memory of a growth is made anybody may change the shard. What does
// not fit any more is thrown away and given back; what still does is used.
func TestGrowthIsThrownAwayWhenTheShardIsAnotherOne(t *testing.T) {
	const n = 40
	for name, c := range map[string]struct {
		change func(table *Table)
		left   int // keys
		used   bool
	}{
		"nothing happened": {func(*Table) {}, n, true},
		"it was split":     {func(table *Table) { split(t, table, key(0)) }, n, false},
		"it grew":          {func(table *Table) { table.lock(key(0)).regrown(table, 96) }, n, false},
		"it was swept": {func(table *Table) {
			table.Renew(2, start, tokenNumbers(t, 1, time.Second, 1), 1<<20)
			table.Sweep(start.Add(time.Hour))
			for i := range n {
				take(table, start.Add(time.Hour), key(i), 1)
			}
		}, n, false},
		"a key went": {func(table *Table) {
			s := table.lock(key(0))
			i, _ := s.find(key(1))
			s.remove(i)
			table.keys.Add(-1)
			s.mu.Unlock()
		}, n - 1, true},
		"it has sides now": {func(table *Table) { reserve(table, start, key(0), 0) }, n, false},
	} {
		for _, halves := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, split %v", name, halves), func(t *testing.T) {
				table, b, g := planned(t, n, halves)
				c.change(table)
				if got := table.install(&g, key(0)); got != c.used {
					t.Errorf("it was used: %v, want %v", got, c.used)
				}
				audit(t, table)
				st := table.Stats()
				if st.Keys != int64(c.left) || b.Used() != st.Bytes {
					t.Errorf("%d keys, want %d; the budget says %d bytes and Stats %d", st.Keys, c.left, b.Used(), st.Bytes)
				}
			})
		}
	}
}

// regrown gives the locked shard s of t other places, and unlocks it.
func (s *shard) regrown(t *Table, places int) {
	before := s.bytes()
	s.refill(newArrays(places, s.has))
	t.budget.used.Add(s.bytes() - before)
	t.bytes.Add(s.bytes() - before)
	s.mu.Unlock()
}

// Keys that went and others that came may leave less room in a half than was
// planned for it.
func TestHalvesThatAreTooSmallAreThrownAway(t *testing.T) {
	b := NewBudget(1 << 20)
	table := NewTable(tokenNumbers(t, 1, time.Hour, 1), 1<<20, b)
	d := func(half, i uint64) Digest { return Digest{Hi: half<<63 | i, Lo: i << 58} }
	for i := range uint64(7) {
		take(table, start, d(i%2, 1+i), 1) // four and three
	}
	s := table.lock(d(0, 1))
	g := s.plan(true)
	if g.places != [2]int{8, 8} {
		t.Fatalf("halves of %v places", g.places)
	}
	g.places[0] = 2 // as if there had been one key
	s.mu.Unlock()
	if !table.prepare(&g) || table.install(&g, d(0, 1)) {
		t.Error("four keys were put into two places")
	}
	audit(t, table)
	if b.Used() != table.Stats().Bytes {
		t.Errorf("the budget says %d bytes, Stats %d", b.Used(), table.Stats().Bytes)
	}
}

// New keys of many threads meet at shards that are full, split and grow: none is
// lost, none is there twice, and what is counted is what is there.
func TestKeysThatComeTogetherAllFindTheirPlace(t *testing.T) {
	const threads, keys = 8, 3000
	b := NewBudget(1 << 30)
	table := NewTable(tokenNumbers(t, 1, time.Hour, 1), 1<<20, b)
	together(threads, func(g int) {
		for i := range keys { // each key comes from two threads
			k := key(i*threads/2 + g/2)
			_, first := take(table, start, k, 1)
			if _, r := take(table, start, k, 1); r.OK {
				t.Errorf("a unit of key %d was there again, the first take was %+v", i*threads/2+g/2, first)
			}
		}
	})
	audit(t, table)
	if st := table.Stats(); st.Keys != keys*threads/2 || b.Used() != st.Bytes {
		t.Errorf("%d keys, want %d; the budget says %d bytes, Stats %d", st.Keys, keys*threads/2, b.Used(), st.Bytes)
	}
}

// The same while memory runs out: nothing is taken beyond the budget, and a key
// that finds no place is refused.
func TestNoGrowthTakesMoreThanTheBudget(t *testing.T) {
	const threads, keys = 8, 1500
	b := NewBudget(200_000)
	table := NewTable(tokenNumbers(t, 1, time.Hour, 1), 1<<20, b)
	together(threads, func(g int) {
		for i := range keys {
			_, v, _ := acquire(start, closed(claim(table, key(i*threads+g), 1)))
			if v.OK == v.Full {
				t.Errorf("%+v", v)
			}
		}
	})
	audit(t, table)
	if st := table.Stats(); st.Bytes > 200_000 || b.Used() != st.Bytes || st.Keys < 2000 || st.Evictions > 0 {
		t.Errorf("%+v, the budget says %d", st, b.Used())
	}
}

// A take at the end of a request may charge a key that nobody remembers: that
// makes its shard grow too.
func TestDebtsOfForgottenKeysMakeAShardGrow(t *testing.T) {
	table := NewTable(tokenNumbers(t, 1, time.Second, 5), 1<<20, NewBudget(1<<20))
	var grants []Grant
	for i := range 100 {
		g, _ := take(table, start, key(i), 1)
		grants = append(grants, g)
	}
	now := start.Add(time.Minute)
	table.Sweep(now)
	if st := table.Stats(); st.Keys != 0 {
		t.Fatalf("%d keys are left", st.Keys)
	}
	for i := range grants {
		grants[i].Done(now, giveBack(-3))
	}
	audit(t, table)
	for i := range grants {
		if got := left(table, now, key(i)); got != 2 {
			t.Errorf("client %d has %d left, want 2", i, got)
		}
	}
}
