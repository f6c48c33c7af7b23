package limit

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// L4, S25, law 8: takes, reservations, give-backs, sweeps and edits of every
// algorithm at the same time, with a clock that goes on: no client keeps more
// than its model's bound, and in the end nothing is reserved, accounted or in use.
func TestEverythingAtOnceInEveryAlgorithm(t *testing.T) {
	bound := map[string]func(from, to Instant) int64{}
	for _, a := range algorithms {
		bound[a.name] = func(from, to Instant) int64 { return floorOf(a.model(20, time.Minute, 20).most(from, to)) }
	}
	eachSort(t, func(t *testing.T, a sort) {
		const clients = 30
		b := NewBudget(1 << 24)
		n := a.nums(t, 20)
		table, beside := NewTable(n, 1e6, b), NewTable(tokenNumbers(t, 1000, sec, 1000), 1e6, b)
		var clock, passed atomic.Int64
		var kept [clients]atomic.Int64
		var stop atomic.Bool
		var helpers sync.WaitGroup
		now := func() Instant { return start.Add(time.Duration(clock.Load()) * 50 * ms) }
		helpers.Go(func() {
			for i := 0; !stop.Load(); i++ {
				table.Sweep(now())
				beside.Sweep(now())
				if i < 500 {
					table.Renew(table.Generation()+1, now(), n, 1e6)
				}
				table.Stats()
			}
		})
		together(8, func(g int) {
			r := rand.New(rand.NewPCG(uint64(g), 3))
			for range 1500 {
				i := r.IntN(clients)
				at := start.Add(time.Duration(clock.Add(int64(r.IntN(2)))) * 50 * ms)
				c := claim(table, key(i), int64(1+r.IntN(2)))
				c.Pending = r.IntN(2) == 0
				claims := []Claim{claim(beside, key(i%3), 1), c}
				grant, v, _ := acquire(at, claims...)
				if !v.OK {
					continue
				}
				passed.Add(1)
				back := r.IntN(3) == 0
				if !back {
					kept[i].Add(c.N)
				}
				grant.Done(now(), func(c *Claim) int64 {
					if back {
						return c.N
					}
					return 0
				})
			}
		})
		stop.Store(true)
		helpers.Wait()
		for i := range kept {
			most := bound[a.name](start, now())
			if a.name == "concurrency" {
				most = 1 << 40 // all came back; see inFlight below
			}
			if got := kept[i].Load(); got > most {
				t.Errorf("client %d kept %d until %v, at most %d may be", i, got, now().Sub(start), most)
			}
		}
		if passed.Load() < 1000 {
			t.Errorf("only %d requests passed", passed.Load())
		}
		if reserved(table) != 0 || a.name == "concurrency" && inFlight(table) != 0 {
			t.Errorf("%d reserved and %d in use at the end", reserved(table), inFlight(table))
		}
		audit(t, table)
		end := now().Add(3 * time.Minute)
		table.Sweep(end)
		beside.Sweep(end)
		if b.Used() != 0 {
			t.Errorf("%d bytes in use when all is swept", b.Used())
		}
	})
}

// Where memory is full: at one instant every unit that passed is in use, was
// given back, was thrown out and counted, or is in a shared counter.
func TestParallelEvictionsAreCountedInEveryAlgorithm(t *testing.T) {
	eachSort(t, func(t *testing.T, a sort) {
		const clients, permits = 150, 3
		table := a.table(t, permits, 40)
		var passed, returned atomic.Int64
		var stop atomic.Bool
		var helpers sync.WaitGroup
		helpers.Go(func() {
			for !stop.Load() {
				table.Sweep(start)
				table.Renew(table.Generation()+1, start, a.nums(t, permits), 40)
				time.Sleep(20 * time.Microsecond) // only to leave the others the processors
			}
		})
		together(8, func(g int) {
			r := rand.New(rand.NewPCG(uint64(g), 4))
			for range 1500 {
				c := claim(table, key(r.IntN(clients)), 1)
				c.Pending = r.IntN(2) == 0
				c.Closed = r.IntN(8) == 0
				grant, v, claims := acquire(start, c)
				if !v.OK {
					continue
				}
				passed.Add(1)
				if a.name == "concurrency" && r.IntN(2) == 0 {
					continue // never ends
				}
				grant.Done(start, giveBack(int64(r.IntN(2))))
				returned.Add(claims[0].Returned)
			}
		})
		stop.Store(true)
		helpers.Wait()
		audit(t, table)
		inUse := inFlight(table)
		if st := table.Stats(); passed.Load() != inUse+returned.Load()+st.EvictedUnits || st.Keys > 40 || st.Spilled == 0 {
			t.Errorf("%d passed, %d in use, %d came back, %+v", passed.Load(), inUse, returned.Load(), st)
		}
		if spilledUnits(table) > overflows*permits {
			t.Errorf("%d units in the shared counters, at most %d may be", spilledUnits(table), overflows*permits)
		}
	})
}
