package limit

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// L4: a sweep forgets the key, and drops the Table, while requests for it are
// under way: none may take from what another no longer sees.
func TestRequestsDuringASweepTakeFromOneState(t *testing.T) {
	table := tokenTable(t, 1, ms, 1)
	const rounds = 2000
	var passed [rounds]atomic.Int64
	together(4, func(g int) {
		for i := range rounds {
			now := start.Add(time.Duration(i) * ms)
			if g == 0 {
				table.Sweep(now)
			}
			if _, r := take(table, now, key(1), 1); r.OK {
				passed[i].Add(1)
			}
		}
	})
	total := int64(0)
	for i := range passed {
		total += passed[i].Load()
	}
	if total > rounds {
		t.Errorf("%d passed in %d ms at one a ms", total, rounds)
	}
	audit(t, table)
	t.Attr("S25", fmt.Sprintf("%d of at most %d passed while their key was forgotten", total, rounds))
}

// A request that waits for a shard while it is split, or dropped, must look for
// its key's new one.
func TestRequestWaitingForAShardFollowsItsKey(t *testing.T) {
	for round := range 300 {
		table := tokenTable(t, 1, time.Hour, 1)
		s := table.lock(key(0))
		g := s.plan(true)
		if !table.prepare(&g) {
			t.Fatal("no memory")
		}
		var waiting sync.WaitGroup
		for i := range 4 {
			waiting.Go(func() { take(table, start, key(i), 1) })
		}
		for range 50 {
			runtime.Gosched() // nearly always long enough for them to come to the lock
		}
		if round%2 == 0 {
			table.split(s, g.next, key(0))
			s.mu.Unlock()
			table.release(shardSize)
		} else {
			s.mu.Unlock()
			table.Sweep(start)
			table.release(g.bytes())
		}
		waiting.Wait()
		for i := range 4 {
			if !holds(table, key(i)) {
				t.Fatalf("round %d: what client %d took is lost", round, i)
			}
		}
		audit(t, table)
	}
}
