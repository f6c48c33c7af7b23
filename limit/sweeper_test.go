package limit

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs a Sweeper on the clock of a synctest bubble over tables, and then f.
func bubble(t *testing.T, tables func() []*Table, f func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		s := Sweeper{Now: func() Instant { return InstantOf(time.Now()) }, Tables: tables}
		go func() { done <- s.Run(ctx) }()
		f()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v, want that it was canceled", err)
		}
	})
}

func now() Instant { return InstantOf(time.Now()) }

// In the time to full plus the rest of a pass and one more, of five seconds
// each at most, everything is forgotten, without any request; and nothing before
// its time.
func TestSweeperForgetsInTimeWithoutTraffic(t *testing.T) {
	b := NewBudget(1 << 30)
	quick := NewTable(tokenNumbers(t, 1, time.Second, 1), 1e6, b)
	slow := NewTable(windowNumbers(t, 1, time.Hour), 1e6, b)
	bubble(t, func() []*Table { return []*Table{slow, quick} }, func() {
		time.Sleep(3 * time.Second) // anywhere in a pass
		for i := range 20_000 {
			take(quick, now(), key(i), 1)
		}
		for i := range 10 {
			take(slow, now(), key(i), 1)
		}
		time.Sleep(11*time.Second + 200*ms)
		if st := quick.Stats(); st.Keys != 0 || st.Bytes != 0 {
			t.Errorf("after 11 s the quick rule has %d keys and %d bytes", st.Keys, st.Bytes)
		}
		if st := slow.Stats(); st.Keys != 10 {
			t.Errorf("after 11 s the slow rule has %d keys, want 10", st.Keys)
		}
		time.Sleep(time.Hour)
		if b.Used() != 0 {
			t.Errorf("%d bytes in use in the end", b.Used())
		}
	})
}

// The same with 10,000 rules of one client each.
func TestSweeperVisitsManySmallTablesInTime(t *testing.T) {
	b := NewBudget(1 << 30)
	tables := make([]*Table, 10_000)
	for i := range tables {
		tables[i] = NewTable(tokenNumbers(t, 1, time.Second, 1), 100, b)
	}
	bubble(t, func() []*Table { return tables }, func() {
		for _, table := range tables {
			take(table, now(), key(1), 1)
		}
		time.Sleep(11*time.Second + 400*ms)
		if b.Used() != 0 {
			t.Errorf("%d bytes in use after 11 s", b.Used())
		}
	})
}

// Rules without traffic are looked at in a pass, too, and no more of them at once
// than a pass needs.
func TestSweeperSpreadsAPassOverEmptyTables(t *testing.T) {
	b := NewBudget(1 << 30)
	tables := make([]*Table, 10_000)
	for i := range tables {
		tables[i] = NewTable(tokenNumbers(t, 1, time.Second, 1), 100, b)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var visits atomic.Int64
		s := Sweeper{Now: func() Instant { visits.Add(1); return now() }, Tables: func() []*Table { return tables }}
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(50 * ms)
		synctest.Wait()
		for i := range 200 { // 20 s
			before := visits.Load()
			time.Sleep(sweepTick)
			synctest.Wait()
			if n := visits.Load() - before; n > 201 {
				t.Fatalf("%d tables visited in tick %d", n, i)
			}
		}
		if n := visits.Load(); n < int64(3*len(tables)) {
			t.Errorf("%d visits of %d tables in 20 s", n, len(tables))
		}
		cancel()
		<-done
	})
}

// A pass that began over a small Table is not slow when it has grown meanwhile.
func TestSweeperKeepsUpWithGrowth(t *testing.T) {
	b := NewBudget(1 << 30)
	table := NewTable(tokenNumbers(t, 1, time.Second, 1), 1e7, b)
	bubble(t, func() []*Table { return []*Table{table} }, func() {
		grow := func(to uint8) { // splits all shards up to 1<<to, by hand
			for i := range uint64(1) << to {
				k := Digest{Hi: i << (64 - to), Lo: i + 1}
				for depth(table, k) < to {
					split(t, table, k)
				}
				take(table, now(), k, 1)
			}
		}
		grow(6)
		time.Sleep(time.Second) // a pass over 64 shards, a few of them done
		grow(10)
		time.Sleep(11 * time.Second) // the pass in progress, and one more
		if st := table.Stats(); st.Keys != 0 || b.Used() != 0 {
			t.Errorf("%d keys and %d bytes after 11 s", st.Keys, b.Used())
		}
	})
}

// The list of Tables is asked for anew; a Sweeper without Tables waits and ends
// when told to.
func TestSweeperFollowsTheListOfTables(t *testing.T) {
	b := NewBudget(1 << 30)
	var list atomic.Pointer[[]*Table]
	list.Store(&[]*Table{})
	table := NewTable(tokenNumbers(t, 1, time.Second, 1), 100, b)
	bubble(t, func() []*Table { return *list.Load() }, func() {
		take(table, now(), key(1), 1)
		time.Sleep(time.Minute)
		if table.Stats().Keys != 1 {
			t.Error("a Table that is not on the list was swept")
		}
		list.Store(&[]*Table{table})
		time.Sleep(11 * time.Second)
		if table.Stats().Keys != 0 {
			t.Error("a Table new on the list was not swept")
		}
	})
}
