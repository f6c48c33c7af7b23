package limit

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// together runs f in n goroutines that start as one, and waits for them.
func together(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			f(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
}

// 1,000 requests from 16 goroutines at one frozen instant pass exactly the limit.
func TestParallelRequestsPassExactlyTheLimit(t *testing.T) {
	for _, n := range []Numbers{tokenNumbers(t, 10, time.Hour, 137), windowNumbers(t, 137, time.Hour)} {
		table := NewTable(n, 100, NewBudget(1<<20))
		var passed atomic.Int64
		together(16, func(i int) {
			for range (1000 + 15 - i) / 16 {
				if _, r := take(table, start, key(1), 1); r.OK {
					passed.Add(1)
				}
			}
		})
		if got := passed.Load(); got != 137 {
			t.Errorf("%d of 1000 passed, want 137", got)
		}
	}
}

// L2, S24: 1,000 new keys by 64 goroutines each: exactly the burst each, while
// shards are made, grown and split.
func TestFirstRequestsOfNewKeysPassExactlyTheBurst(t *testing.T) {
	table := tokenTable(t, 1, time.Hour, 10)
	const keys = 1000
	var passed [keys]atomic.Int64
	together(64, func(g int) {
		for i := range keys {
			k := (i + g*17) % keys
			if _, r := take(table, start, key(k), 1); r.OK {
				passed[k].Add(1)
			}
		}
	})
	exact := 0
	for k := range passed {
		if got := passed[k].Load(); got != 10 {
			t.Errorf("key %d: %d passed, want 10", k, got)
		} else {
			exact++
		}
	}
	audit(t, table)
	t.Attr("S24", fmt.Sprintf("exactly the burst for %d of %d keys", exact, keys))
}

// L10: of a rule with room and a rule without, in either order, the first is
// never charged and nobody else is refused because of those who were.
func TestParallelRefusalsLeaveTheOtherRuleWhole(t *testing.T) {
	b := NewBudget(1 << 20)
	a := NewTable(tokenNumbers(t, 1, time.Hour, 1), 100, b)
	none := NewTable(tokenNumbers(t, 1, time.Hour, 1), 100, b)
	drain(none, start, key(0))
	var refused, wrongly atomic.Int64
	together(64, func(g int) {
		for i := range 200 {
			if g == 63 { // takes and gives back the only unit of a, alone
				grant, r := take(a, start, key(1), 1)
				if !r.OK {
					wrongly.Add(1)
				}
				grant.Done(start, giveBack(1))
				continue
			}
			claims := []Claim{claim(a, key(1), 1), claim(none, key(0), 1)}
			if (g+i)%2 == 0 {
				claims[0], claims[1] = claims[1], claims[0]
			}
			if _, v, _ := acquire(start, claims...); !v.OK {
				refused.Add(1)
			}
		}
	})
	if refused.Load() != 63*200 || wrongly.Load() != 0 {
		t.Errorf("%d of %d were refused, and %d who should pass", refused.Load(), 63*200, wrongly.Load())
	}
	if left(a, start, key(1)) != 1 {
		t.Error("the rule with room was charged")
	}
}

// Of two requests for the last permit of both rules exactly one passes, always.
func TestLastPermitGoesToExactlyOne(t *testing.T) {
	b := NewBudget(1 << 24)
	x, y := NewTable(tokenNumbers(t, 1, time.Hour, 1), 1e6, b), NewTable(windowNumbers(t, 1, time.Hour), 1e6, b)
	const rounds = 2000
	var passed [rounds]atomic.Int64
	together(2, func(g int) {
		for i := range rounds {
			claims := []Claim{claim(x, key(i), 1), claim(y, key(i), 1)}
			if g == 0 {
				claims[0], claims[1] = claims[1], claims[0]
			}
			if _, v, _ := acquire(start, claims...); v.OK {
				passed[i].Add(1)
			}
		}
	})
	for i := range passed {
		if got := passed[i].Load(); got != 1 {
			t.Fatalf("round %d: %d passed, want 1", i, got)
		}
	}
}

// Claims in any order, settlements, sweeps, drops and edits at the same time
// neither deadlock nor let more than the limit through, net of what came back.
// L4, S25: the sweep runs all the time.
func TestEverythingAtOnceKeepsTheLimit(t *testing.T) {
	b := NewBudget(1 << 24)
	const tables, keys, burst = 5, 40, 20
	var rule [tables]*Table
	for i := range rule {
		rule[i] = NewTable(tokenNumbers(t, 1, time.Second, burst), 1e6, b)
	}
	var clock atomic.Int64 // ms since start
	var kept [tables][keys]atomic.Int64
	var stop atomic.Bool
	var helpers sync.WaitGroup
	helpers.Go(func() {
		for !stop.Load() {
			for _, table := range rule {
				table.Sweep(start.Add(time.Duration(clock.Load()) * ms))
			}
		}
	})
	helpers.Go(func() {
		for i := 0; !stop.Load() && i < 2000; i++ { // the same numbers: the bound stays what it is
			table := rule[i%tables]
			table.Renew(table.Generation()+1, start.Add(time.Duration(clock.Load())*ms), tokenNumbers(t, 1, time.Second, burst), 1e6)
			b.Used()
			table.Stats()
		}
	})
	together(8, func(g int) {
		r := rand.New(rand.NewPCG(uint64(g), 1))
		for range 4000 {
			now := start.Add(time.Duration(clock.Add(int64(r.IntN(2)))) * ms)
			var claims []Claim
			for _, i := range r.Perm(tables)[:1+r.IntN(tables)] {
				c := claim(rule[i], key(r.IntN(keys)), int64(r.IntN(3)))
				c.Tag = int32(i)
				claims = append(claims, c)
			}
			var l Limiter
			grant, v := l.Acquire(t.Context(), now, claims)
			if !v.OK {
				continue
			}
			back := r.IntN(2) == 0
			for _, c := range claims {
				if !back {
					kept[c.Tag][index(c.Key, keys)].Add(c.N)
				}
			}
			grant.Done(start.Add(time.Duration(clock.Load())*ms), func(c *Claim) int64 {
				if back {
					return c.N
				}
				return 0
			})
		}
	})
	stop.Store(true)
	helpers.Wait()
	end := time.Duration(clock.Load()) * ms
	units, extra := int64(0), int64(0)
	for i := range rule {
		for k := range kept[i] {
			got, most := kept[i][k].Load(), burst+int64(end/time.Second)
			if got > most {
				t.Errorf("rule %d, client %d: %d passed in %v, at most %d may", i, k, got, end, most)
			}
			units, extra = units+got, extra+max(0, got-most)
		}
		audit(t, rule[i])
		rule[i].Sweep(start.Add(end + time.Hour))
	}
	if b.Used() != 0 {
		t.Errorf("%d bytes in use after everything was swept", b.Used())
	}
	t.Attr("S25", fmt.Sprintf("%d extra permits beside %d, with sweeps and edits all the time", extra, units))
}

// index finds which of n clients d is.
func index(d Digest, n int) int {
	for i := range n {
		if key(i) == d {
			return i
		}
	}
	panic("no such client")
}

// A flood of new keys against a full Table: what is given away is at most what
// the Table says, all over.
func TestParallelEvictionsAreCounted(t *testing.T) {
	table := NewTable(tokenNumbers(t, 1, time.Hour, 3), 64, NewBudget(1<<20))
	const keys = 200
	var passed, full atomic.Int64
	together(16, func(g int) {
		r := rand.New(rand.NewPCG(uint64(g), 2))
		for range 5000 {
			_, v, _ := acquire(start, claim(table, key(r.IntN(keys)), 1))
			if v.OK {
				passed.Add(1)
			}
			if v.Full {
				full.Add(1)
			}
		}
	})
	audit(t, table)
	st := table.Stats()
	inUse := int64(0)
	for i := range keys {
		inUse += stored(table, key(i)).Used
	}
	if got := passed.Load(); got != inUse+st.EvictedUnits+spilledUnits(table) {
		t.Errorf("%d units passed, %d are in use and %d were counted as given away", got, inUse, st.EvictedUnits)
	}
	if st.Keys > 64 || full.Load() > 0 || st.Spilled == 0 {
		t.Errorf("%d keys of 64, %d refused as full, %d spilled", st.Keys, full.Load(), st.Spilled)
	}
}
