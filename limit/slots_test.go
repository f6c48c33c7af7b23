package limit

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func slotTable(tb failer, n, keys int64, b *Budget) *Table {
	tb.Helper()
	return NewTable(Numbers{Bucket: slots(tb, n), Slots: true}, keys, b)
}

// inFlight is what t has in progress, in its keys and in the shared counters.
func inFlight(t *Table) (n int64) {
	for _, s := range distinct(t) {
		s.mu.Lock()
		for i := range s.slots {
			k := s.slots[i].key
			if k != (Digest{}) {
				n += s.slots[i].st.Used
			}
		}
		s.mu.Unlock()
	}
	return n + spilledUnits(t)
}

// C10 at the core, style.md 10.8: random requests of two rules of slots, settled
// in any order, twice, or much later, over edits up and down, sweeps and floods.
// At every moment each client has in progress what the list of open requests
// says, a request passes exactly if there is room, and in the end nothing is left.
func TestSlotsAlwaysComeBack(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := NewBudget(1 << 20)
		const clients, each = 3, 40
		limits := []int64{rapid.Int64Range(1, 5).Draw(r, "n"), rapid.Int64Range(1, 8).Draw(r, "n")}
		tables := []*Table{slotTable(r, limits[0], each, b), slotTable(r, limits[1], each, b)}
		var open [2][clients]int64
		type request struct {
			grant Grant
			took  [2]int // client + 1
		}
		var requests, settled []*request
		now := start
		finish := func(i int) {
			q := requests[i]
			requests = append(requests[:i], requests[i+1:]...)
			settled = append(settled, q)
			q.grant.Done(now, giveBack(rapid.Int64Range(-3, 3).Draw(r, "outcome"))) // slots come back whatever it says
			for j, c := range q.took {
				if c > 0 {
					open[j][c-1]--
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(r, "events") {
			now += Instant(rapid.SampledFrom([]time.Duration{-sec, 0, 1, time.Hour, 100 * day}).Draw(r, "pass"))
			switch rapid.SampledFrom([]string{"take", "take", "take", "done", "done", "again", "edit", "sweep", "flood"}).Draw(r, "op") {
			case "take":
				q := &request{}
				var claims []Claim
				ok := true
				for j := range tables {
					if c := rapid.IntRange(0, clients).Draw(r, "client"); c > 0 {
						q.took[j] = c
						ok = ok && open[j][c-1] < limits[j]
						claims = append(claims, claim(tables[j], key(c), 1))
					}
				}
				g, v, _ := acquire(now, claims...)
				if v.OK != ok {
					r.Fatalf("passed %v with %v open of %v by %v", v.OK, open, limits, q.took)
				}
				if q.grant = g; v.OK {
					requests = append(requests, q)
					for j, c := range q.took {
						if c > 0 {
							open[j][c-1]++
						}
					}
				} else if v.Wait != sec {
					r.Fatalf("wait %v for a slot, want 1s", v.Wait)
				}
			case "done":
				if len(requests) > 0 {
					finish(rapid.IntRange(0, len(requests)-1).Draw(r, "of"))
				}
			case "again": // what is settled stays so
				if len(settled) > 0 {
					settled[rapid.IntRange(0, len(settled)-1).Draw(r, "of")].grant.Done(now, nil)
				}
			case "edit":
				j := rapid.IntRange(0, 1).Draw(r, "table")
				limits[j] = rapid.Int64Range(1, 8).Draw(r, "n")
				tables[j].Renew(tables[j].Generation()+1, now, Numbers{Bucket: slots(r, limits[j]), Slots: true}, each)
			case "sweep":
				for _, table := range tables {
					table.Sweep(now)
				}
			case "flood": // strangers fill what places there are, and go
				for i := range 60 {
					g, _ := take(tables[0], now, key(1000+i), 1)
					g.Done(now, nil)
				}
			}
			for j := range tables {
				for c, n := range open[j] {
					if got := stored(tables[j], key(c+1)).Used; got != n {
						r.Fatalf("client %d has %d in progress, want %d", c, got, n)
					}
				}
			}
		}
		for len(requests) > 0 {
			finish(len(requests) - 1)
		}
		for _, table := range tables {
			if got := inFlight(table); got != 0 {
				r.Fatalf("%d in progress when all is done", got)
			}
			table.Sweep(now)
			audit(r, table)
			if st := table.Stats(); st.Keys != 0 || st.Evictions != 0 || st.EvictedUnits != 0 {
				r.Fatalf("at the end %+v", st)
			}
		}
	})
}

// A table of slots that is full throws nobody out; strangers share eight
// counters, whose slots come back too.
func TestFullTableOfSlotsLosesNone(t *testing.T) {
	table := slotTable(t, 2, 5, NewBudget(1<<20))
	var grants []Grant
	passed := 0
	for i := range 200 {
		g, r := take(table, start, key(i), 1)
		grants = append(grants, g)
		if r.OK {
			passed++
		}
	}
	if passed != 5+8*2 || inFlight(table) != 21 || table.Stats().Evictions != 0 {
		t.Errorf("%d passed, %d in progress, %+v; want 5 with a place and 8 counters of 2", passed, inFlight(table), table.Stats())
	}
	for i := range grants {
		grants[i].Done(start, nil)
		grants[i].Done(start, nil)
	}
	if got := inFlight(table); got != 0 {
		t.Errorf("%d in progress when all is done", got)
	}
	for i := range 5 {
		if _, r := take(table, start, key(500+i), 2); !r.OK {
			t.Errorf("newcomer %d when all is done: %+v", i, r)
		}
	}
}

// C10: three times 40 requests one after another, then 100 at once and not one
// more, in parallel: the number in progress never exceeds the limit.
func TestNoMoreThanTheLimitInProgressAtAnyMoment(t *testing.T) {
	b := NewBudget(1 << 20)
	table := slotTable(t, 5, 100, b)
	for range 120 {
		g, r := take(table, start, key(1), 1)
		if !r.OK {
			t.Fatal("one request at a time was refused")
		}
		g.Done(start, nil)
	}
	global := slotTable(t, 7, 100, b)
	var now, all, wrong, passed atomic.Int64
	together(16, func(i int) {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		for range 2000 {
			claims := []Claim{claim(table, key(1), 1), claim(global, key(0), 1)}
			if r.IntN(2) == 0 {
				claims = claims[1:]
			}
			g, v, _ := acquire(start, claims...)
			if !v.OK {
				continue
			}
			passed.Add(1)
			if all.Add(1) > 7 || len(claims) == 2 && now.Add(1) > 5 {
				wrong.Add(1)
			}
			runtime.Gosched()
			all.Add(-1)
			if len(claims) == 2 {
				now.Add(-1)
			}
			together(2, func(int) { g.Done(start, nil) })
		}
	})
	if wrong.Load() > 0 || passed.Load() == 0 || inFlight(table)+inFlight(global) != 0 {
		t.Errorf("%d times too many in progress of %d; %d and %d left over", wrong.Load(), passed.Load(), inFlight(table), inFlight(global))
	}
}

// A Table that the rules no longer name lives until its last slot is back.
func TestDroppedTableOfSlotsSettlesItsGrants(t *testing.T) {
	b := NewBudget(1 << 20)
	grants := func() []Grant {
		table := slotTable(t, 3, 10, b)
		var gs []Grant
		for i := range 5 {
			g, _ := take(table, start, key(i), 3)
			gs = append(gs, g)
		}
		return gs
	}()
	runtime.GC()
	if b.Used() == 0 {
		t.Fatal("the budget came back while requests are in progress")
	}
	for i := range grants {
		grants[i].Done(start, nil)
	}
	for range 100 {
		if b.Used() == 0 {
			return
		}
		runtime.GC()
		runtime.Gosched()
	}
	t.Errorf("%d bytes still in use", b.Used())
}
