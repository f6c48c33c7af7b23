package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// 1 per minute with a burst of 100 takes 100 minutes to fill: after 61 idle
// seconds and as many sweeps as you like one unit is there, not a hundred.
func TestNothingIsForgottenBeforeItIsFull(t *testing.T) {
	table := tokenTable(t, 1, time.Minute, 100)
	drain(table, start, key(1))
	for s := range 61 {
		table.Sweep(start.Add(time.Duration(s+1) * time.Second))
	}
	if got := drain(table, start.Add(61*time.Second), key(1)); got != 1 {
		t.Errorf("%d passed after 61 s, want 1", got)
	}
	// L3: 100 at 1 per second, 3 s idle: 3.
	table = tokenTable(t, 1, time.Second, 100)
	drain(table, start, key(1))
	table.Sweep(start.Add(3 * time.Second))
	if got := drain(table, start.Add(3*time.Second), key(1)); got != 3 {
		t.Errorf("%d passed after 3 s, want 3", got)
	}
	// To the nanosecond: 100 s after the last take, less one.
	table.Sweep(start.Add(103*time.Second - 1))
	if !holds(table, key(1)) {
		t.Error("forgotten 1 ns before it was full")
	}
	table.Sweep(start.Add(103 * time.Second))
	if holds(table, key(1)) {
		t.Error("not forgotten when full")
	}
}

// G02: a sweep that a fast rule needs leaves the slow rule's counters alone.
func TestSweepForAFastRuleSparesTheSlowOne(t *testing.T) {
	b := NewBudget(1 << 20)
	slow := NewTable(windowNumbers(t, 3, time.Hour), 100, b)
	fast := NewTable(windowNumbers(t, 3, time.Second), 100, b)
	drain(slow, start, key(1))
	for s := range 5 {
		at := start.Add(time.Duration(s) * time.Second)
		drain(fast, at, key(1))
		slow.Sweep(at)
		fast.Sweep(at)
	}
	fast.Sweep(start.Add(5 * time.Second))
	if fast.Stats().Keys != 0 {
		t.Error("the fast rule still holds its key")
	}
	if _, r := take(slow, start.Add(5*time.Second), key(1), 1); r.OK {
		t.Error("the slow rule's client is free again")
	}
}

// Memory comes back without traffic: keys, bytes, budget.
func TestSweepGivesAllMemoryBack(t *testing.T) {
	b := NewBudget(1 << 30)
	table := NewTable(tokenNumbers(t, 1, time.Minute, 1), 1<<40, b)
	const n = 60_000
	for i := range n {
		take(table, start.Add(time.Duration(i)*ms), key(i), 1) // full again at 60,000 ms + i
	}
	audit(t, table)
	for _, half := range []time.Duration{90 * time.Second, 105 * time.Second} {
		table.Sweep(start.Add(half - ms))
		audit(t, table)
		// Those of before half - 1 min are gone.
		if want := int64(n - (half-time.Minute)/ms); table.Stats().Keys != want {
			t.Errorf("%d keys %v after the start, want %d", table.Stats().Keys, half, want)
		}
	}
	if st := table.Stats(); st.Bytes > 100*st.Keys {
		t.Errorf("%d bytes for the %d keys left", st.Bytes, st.Keys)
	}
	table.Sweep(start.Add(3 * time.Minute))
	if st := table.Stats(); st.Keys != 0 || st.Bytes != 0 || b.Used() != 0 {
		t.Errorf("after the sweep: %+v, budget %d; want nothing", st, b.Used())
	}
	if st := table.Stats(); st.Evictions != 0 || st.EvictedUnits != 0 {
		t.Errorf("forgetting idle keys was counted as eviction: %+v", st)
	}
}

// A late clock must not bring a swept bucket back to an earlier time.
func TestLateClockAfterASweepGrantsNothing(t *testing.T) {
	for _, n := range []Numbers{tokenNumbers(t, 1, time.Minute, 1), windowNumbers(t, 1, time.Minute)} {
		table := NewTable(n, 100, NewBudget(1<<20))
		take(table, start, key(1), 1)
		later := start.Add(time.Minute)
		table.Sweep(later)
		if table.Stats().Bytes != 0 {
			t.Fatal("the Table was not dropped")
		}
		// Its clock lags by a minute: it must count as later, or a second one at
		// later would pass beside it.
		if _, r := take(table, start, key(1), 1); !r.OK {
			t.Error("the client was refused after the sweep")
		}
		if _, r := take(table, later.Add(time.Minute-1), key(1), 1); r.OK {
			t.Error("a second unit passed within the minute")
		}
	}
}

// Neither does a shard forget the time when it is split, nor may a request that
// still holds a dropped one use it.
func TestSplitAndDroppedShardsKeepTheTime(t *testing.T) {
	table := NewTable(windowNumbers(t, 1, time.Minute), 100, NewBudget(1<<20))
	take(table, start.Add(time.Minute), key(1), 1)
	for i := range 10 {
		split(t, table, key(i))
	}
	for i := 2; i < 10; i++ {
		_, late := take(table, start, key(i), 1)
		if _, r := take(table, start.Add(time.Minute), key(i), 1); !late.OK || r.OK {
			t.Fatalf("client %d: a late one passed %v and a second in the same minute %v", i, late.OK, r.OK)
		}
	}
	shards := distinct(table)
	table.Sweep(start.Add(2 * time.Minute))
	for _, s := range shards {
		if !s.dead {
			t.Error("a dropped shard is not marked so")
		}
	}
}

// Where keys go one by one memory goes with them, at half steps.
func TestForgettingOneByOneGivesMemoryBackToo(t *testing.T) {
	table := tokenTable(t, 1, time.Minute, 1)
	const n = 20_000
	for i := range n {
		take(table, start.Add(time.Duration(i)*ms), key(i), 1)
	}
	for i := 100; i < n; i += 100 {
		table.Sweep(start.Add(time.Minute + time.Duration(i-1)*ms))
		st := table.Stats()
		if st.Keys != int64(n-i) {
			t.Fatalf("%d keys, want %d", st.Keys, n-i)
		}
		if most := 160*st.Keys + 8192; st.Bytes > most {
			t.Fatalf("%d bytes for %d keys", st.Bytes, st.Keys)
		}
	}
	audit(t, table)
}

// An idle key of a shard that is not empty is forgotten too, and a refused or
// free request does not keep a Table in memory.
func TestRequestsThatTookNothingLeaveNothing(t *testing.T) {
	table := tokenTable(t, 5, time.Second, 5)
	for i := range 1000 {
		take(table, start, key(i), 0)
		take(table, start, key(i), 6)
	}
	if st := table.Stats(); st.Keys != 0 || st.Bytes > shardSize {
		t.Errorf("stats %+v after requests that took nothing", st)
	}
	table.Sweep(start)
	if st := table.Stats(); st.Bytes != 0 {
		t.Errorf("stats %+v after a sweep", st)
	}
}

// Whatever is swept, and whenever: the answers are those of a Table that is
// never swept.
func TestSweepingChangesNoDecision(t *testing.T) {
	eachAlgorithm(t, func(r *rapid.T, p *trial) {
		swept := NewTable(Numbers{Bucket: p.b}, 100, NewBudget(1<<20))
		kept := NewTable(Numbers{Bucket: p.b}, 100, NewBudget(1<<20))
		for range rapid.IntRange(1, 40).Draw(r, "events") {
			p.pass(r)
			p.take(r, p.now, 1) // moves p.wait
			k := key(rapid.IntRange(0, 3).Draw(r, "client"))
			n := rapid.OneOf(rapid.SampledFrom([]int64{0, 1, p.full}), rapid.Int64Range(0, p.full)).Draw(r, "n")
			if rapid.Bool().Draw(r, "sweep") {
				swept.Sweep(p.now)
			}
			ga, a := take(swept, p.now, k, n)
			gb, b := take(kept, p.now, k, n)
			if a != b {
				r.Fatalf("take %d at %d: %+v swept, %+v not", n, p.now, a, b)
			}
			switch rapid.IntRange(0, 3).Draw(r, "settle") {
			case 0:
				p.pass(r)
				if rapid.Bool().Draw(r, "sweep first") {
					swept.Sweep(p.now)
				}
				m := rapid.Int64Range(-p.full, max(1, n)).Draw(r, "units")
				ga.Done(p.now, giveBack(m))
				gb.Done(p.now, giveBack(m))
			}
		}
		audit(t, swept)
	})
}
