package limit

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A Table that has been large and holds a few keys still has few shards, a small
// directory and little memory after two passes of the sweep, and has lost nothing.
func TestATableThatWasLargeIsSmallAgain(t *testing.T) {
	alone(t)
	b := NewBudget(1 << 30)
	table := NewTable(tokenNumbers(t, 1, time.Minute, 3), 1<<20, b)
	const many, few = 120_000, 50
	for i := range many {
		take(table, start, key(i), 1)
	}
	later := start.Add(time.Minute) // those are idle now
	for i := range few {
		take(table, later, key(-1-i), int64(1+i%3))
	}
	large := len(table.dir.Load().shards)
	table.Sweep(later)
	table.Sweep(later)
	audit(t, table)
	dir := table.dir.Load()
	if n := len(distinct(table)); large < 128 || n > 1<<table.spread || len(dir.shards) > 8<<table.spread {
		t.Errorf("%d shards in a directory of %d places, of %d", n, len(dir.shards), large)
	}
	table.Sweep(later) // which visits each place, and so fills the directory
	if dir = table.dir.Load(); dir.before.Load() != nil {
		t.Error("the directory still holds the one before it")
	}
	if st := table.Stats(); st.Keys != few || st.Bytes > few*100+(shardSize+16*slotBytes)<<table.spread || b.Used() != st.Bytes {
		t.Errorf("%+v, the budget says %d", st, b.Used())
	}
	for i := range few {
		if got := left(table, later, key(-1-i)); got != int64(2-i%3) {
			t.Errorf("client %d has %d left, want %d", i, got, 2-i%3)
		}
	}
}

// Keys come and go in crowds, so that shards are split and joined at the same time:
// none is lost, none is there twice, each passes once a round, and in the end nothing is left.
func TestShardsAreSplitAndJoinedAtTheSameTime(t *testing.T) {
	const threads, keys, rounds = 4, 1500, 12
	b := NewBudget(1 << 30)
	table := NewTable(tokenNumbers(t, 1, time.Second, 1), 1<<20, b)
	for round := range rounds {
		now := start.Add(time.Duration(round) * 10 * sec) // all of the last round are idle
		crowd := keys >> (round % 3 * 2)                  // large, small and smaller
		together(threads+1, func(g int) {
			if g == threads {
				for range 20 {
					table.Sweep(now)
				}
				return
			}
			for i := range crowd { // each key comes from two threads
				k := key(i*threads/2 + g/2)
				take(table, now, k, 1)
				if _, r := take(table, now, k, 1); r.OK {
					t.Errorf("round %d: a unit of key %d was there again", round, i*threads/2+g/2)
				}
			}
		})
		table.Sweep(now)
		audit(t, table)
		if st := table.Stats(); st.Keys != int64(crowd*threads/2) || b.Used() != st.Bytes {
			t.Fatalf("round %d: %+v, want %d keys; the budget says %d", round, st, crowd*threads/2, b.Used())
		}
	}
	table.Sweep(start.Add(time.Hour))
	if st := table.Stats(); st.Keys != 0 || st.Bytes != 0 || b.Used() != 0 {
		t.Errorf("%+v in the end", st)
	}
}

// What stands beside the States of two halves, and of one of them only, goes along.
func TestJoinedShardsKeepWhatStandsBeside(t *testing.T) {
	b := NewBudget(1 << 24)
	n := tokenNumbers(t, 1, time.Hour, 5)
	n.Penalty = Penalty{After: tokens(t, 1, time.Hour, 1), Block: time.Minute, Max: time.Hour}
	table := NewTable(n, 1<<20, b)
	k := [2]Digest{{Hi: 1, Lo: 1}, {Hi: 1 << 63, Lo: 2}}
	for i := range k {
		g, _ := reserve(table, start, k[i], 1)
		_ = g
	}
	split(t, table, k[0])
	drain(table, start, k[1]) // refused once, which is free: only this half has records
	for range 8 {
		table.Sweep(start)
	}
	if got := len(distinct(table)); got != 1 {
		t.Fatalf("%d shards, want that they were joined", got)
	}
	audit(t, table)
	if got := left(table, start, k[0]); got != 4 {
		t.Errorf("%d left, want 4", got)
	}
	for i := range k {
		s := table.lock(k[i])
		j, _ := s.find(k[i])
		if r := s.sides()[j].reserved; r != 1 {
			t.Errorf("client %d has %d reserved, want 1", i, r)
		}
		s.mu.Unlock()
	}
	if _, _, c := acquire(start, claim(table, k[1], 5)); !c[0].Blocked {
		t.Errorf("the second refusal of a client earned no block: %+v", c[0].Result)
	}
}

// Without memory to join two halves they stay two, and all is as it was.
func TestNoMemoryToJoin(t *testing.T) {
	b := NewBudget(1 << 20)
	table := NewTable(tokenNumbers(t, 1, time.Hour, 1), 1<<20, b)
	for i := range 40 {
		take(table, start, key(i), 1)
	}
	split(t, table, key(0))
	table.Sweep(start) // to as few places as they need
	for depth(table, key(0)) == 0 {
		split(t, table, key(0))
	}
	b.SetMax(b.Used())
	table.Sweep(start)
	if depth(table, key(0)) == 0 {
		t.Error("the halves were joined")
	}
	audit(t, table)
	for i := range 40 {
		if left(table, start, key(i)) != 0 {
			t.Errorf("client %d has a unit again", i)
		}
	}
}

// A directory that is filled bit by bit says what one says that is filled at once,
// whatever is split, joined, deepened and flattened.
func TestADirectoryFindsTheShardWhateverItIsFilledFrom(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		table := tokenTable(t, 1, time.Hour, 1)
		const probes = 64
		for i := range probes {
			take(table, start, key(i), 1)
		}
		for range rapid.IntRange(1, 60).Draw(r, "ops") {
			k := key(rapid.IntRange(0, probes-1).Draw(r, "client"))
			switch rapid.SampledFrom([]string{"split", "split", "split", "sweep", "look", "deepen", "fill"}).Draw(r, "op") {
			case "split":
				if depth(table, k) < 12 {
					split(r, table, k)
				}
			case "sweep":
				table.sweepNext(start)
			case "look":
				if left(table, start, k) != 0 {
					r.Fatal("a unit is there again")
				}
			case "deepen":
				if d := table.dir.Load().depth; d < 12 {
					table.deepen(d + 1)
				}
			case "fill":
				table.mu.Lock()
				table.dir.Load().fill()
				table.mu.Unlock()
			}
		}
		audit(r, table) // which finds each key by the directory
		dir, n := table.dir.Load(), map[uint8]int32{}
		for _, s := range distinct(table) {
			n[s.depth]++
		}
		for d, got := range dir.at {
			if got != n[uint8(d)] {
				r.Errorf("the directory counts %d shards of depth %d, there are %d", got, d, n[uint8(d)])
			}
		}
		if table.Stats().Keys != probes {
			r.Errorf("%d keys, want %d", table.Stats().Keys, probes)
		}
	})
}

// A directory is filled in the end by those that look, and by splits alone, too.
func TestADirectoryForgetsTheOneBefore(t *testing.T) {
	for name, next := range map[string]func(table *Table){
		"by the sweep": func(table *Table) { table.sweepNext(start) },
		"by splits": func(table *Table) {
			table.mu.Lock()
			table.dir.Load().fill() // as each split does
			table.mu.Unlock()
		},
	} {
		t.Run(name, func(t *testing.T) {
			table := tokenTable(t, 1, time.Hour, 1)
			take(table, start, key(1), 1)
			for d := range uint8(10) {
				table.deepen(d + 1)
			}
			places := len(table.dir.Load().shards)
			for i := 0; table.dir.Load().before.Load() != nil; i++ {
				if next(table); i > 2*places/fillStep {
					t.Fatalf("after %d steps the directory of %d places is not filled", i, places)
				}
			}
			if left(table, start, key(1)) != 0 {
				t.Error("a unit is there again")
			}
		})
	}
}

// What is beside a State is made when the first claim wants it, in shards of any size,
// without the lock; without memory for it the limit holds all the same.
func TestWhatStandsBesideIsMadeWhenItIsWanted(t *testing.T) {
	for _, keys := range []int{0, 1, 7, 400, 3000} {
		for _, memory := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d keys, memory %v", keys, memory), func(t *testing.T) {
				b := NewBudget(1 << 30)
				n := tokenNumbers(t, 1, time.Hour, 3)
				table := NewTable(n, 1<<20, b)
				for i := range keys {
					take(table, start, key(i), 1)
				}
				n.Penalty = Penalty{After: tokens(t, 1, time.Hour, 1), Block: time.Minute, Max: time.Hour}
				renew(table, start, n)
				if !memory {
					b.SetMax(b.Used())
				}
				for i := range keys {
					_, v, c := acquire(start, pending(claim(table, key(i), 2)))
					if !v.OK {
						t.Fatalf("client %d of %d: %+v", i, keys, c[0].Result)
					}
					for refused := range 2 {
						_, _, c = acquire(start, claim(table, key(i), 1))
						if c[0].Result.OK || c[0].Blocked != (memory && refused == 1) {
							t.Fatalf("client %d, refusal %d: blocked %v, %+v", i, refused, c[0].Blocked, c[0].Result)
						}
					}
				}
				audit(t, table)
				if st := table.Stats(); b.Used() != st.Bytes || !memory && b.Used() > b.max.Load() {
					t.Errorf("%+v, the budget says %d", st, b.Used())
				}
			})
		}
	}
}
