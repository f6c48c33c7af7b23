package limit

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// at makes a digest that wants to sit at place home of c, so that chains of
// displaced keys, also around the end, are as frequent as can be.
func at(home, c, i int) Digest {
	step := ^uint64(0)/uint64(c) + 1
	return Digest{Hi: uint64(i) + 1, Lo: uint64(home)*step + step/2}
}

// shardOp is put, remove, or a change of size of a shard; a map says what must be in it.
func shardOp(r *rapid.T, s *shard, want map[Digest]State, next *int) {
	c := len(s.slots)
	switch op := rapid.SampledFrom([]string{"put", "put", "put", "remove", "remove", "resize"}).Draw(r, "op"); {
	case op == "put" && int(s.n) < room(c):
		d := at(rapid.SampledFrom([]int{0, c - 2, c - 1, c / 2}).Draw(r, "home"), c, *next)
		*next++
		s.put(d, State{Used: int64(*next)})
		want[d] = State{Used: int64(*next)}
	case op == "remove" && s.n > 0:
		i := rapid.IntRange(0, c-1).Draw(r, "place")
		for s.slots[i].key == (Digest{}) {
			i = (i + 1) % c
		}
		delete(want, s.slots[i].key)
		s.remove(i)
	case op == "resize":
		n := rapid.IntRange(int(s.n), 2*int(s.n)+8).Draw(r, "for")
		s.refill(newArrays(places(n), 0))
	}
}

func TestShardHoldsWhatAMapHolds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := &shard{}
		s.refill(newArrays(places(rapid.IntRange(1, 40).Draw(r, "room")), 0))
		want, next := map[Digest]State{}, 0
		for range rapid.IntRange(1, 120).Draw(r, "ops") {
			shardOp(r, s, want, &next)
			checkShard(r, s, want)
		}
	})
}

func checkShard(r *rapid.T, s *shard, want map[Digest]State) {
	if int(s.n) != len(want) || int(s.n) > room(len(s.slots)) {
		r.Fatalf("%d keys in %d places, want %d", s.n, len(s.slots), len(want))
	}
	got := map[Digest]State{}
	for i := range s.slots {
		k := s.slots[i].key
		if k == (Digest{}) {
			if s.slots[i].st != (State{}) {
				r.Fatalf("free place %d holds %+v", i, s.slots[i].st)
			}
			continue
		}
		got[k] = s.slots[i].st
	}
	if !maps.Equal(got, want) {
		r.Fatalf("it holds %v, want %v", got, want)
	}
	for k := range want {
		if i, ok := s.find(k); !ok || s.slots[i].key != k {
			r.Fatalf("key %v is not found", k)
		}
	}
	if i, ok := s.find(Digest{Hi: 1 << 60, Lo: 1}); ok || len(s.slots) > 0 && s.slots[i].key != (Digest{}) {
		r.Fatalf("a key that is not there is found at %d, %v", i, ok)
	}
}

// A Table against a map, over random takes, sweeps and splits of any shard: no
// key is lost or doubled, and the figures agree.
func TestTableHoldsWhatAMapHolds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		table := tokenTable(t, 1, maxPeriod, 50)
		used := map[int]int64{}
		now := start
		for range rapid.IntRange(1, 60).Draw(r, "ops") {
			i := rapid.IntRange(0, 200).Draw(r, "client")
			switch rapid.SampledFrom([]string{"take", "take", "take", "split", "sweep"}).Draw(r, "op") {
			case "take":
				take(table, now, key(i), 1)
				used[i] = min(50, used[i]+1)
			case "split":
				if depth(table, key(i)) <= 10 {
					split(r, table, key(i))
				}
			case "sweep":
				table.Sweep(now)
			}
		}
		audit(t, table)
		if got := table.Stats().Keys; got != int64(len(used)) {
			r.Fatalf("%d keys, want %d", got, len(used))
		}
		for i, u := range used {
			if got := stored(table, key(i)).Used; got != u {
				r.Fatalf("client %d has %d in use, want %d", i, got, u)
			}
		}
	})
}

// places gives room for n, never needlessly much, and never beyond a shard's size.
func TestPlacesAreEnoughAndNotTooMany(t *testing.T) {
	for n := 1; n <= room(maxShard); n++ {
		c := places(n)
		if room(c) < n || c > maxShard {
			t.Fatalf("places(%d) is %d with room for %d", n, c, room(c))
		}
		if n > 512 && c > n*8/7*5/4 || n > 8 && c > n*8/7*2 {
			t.Fatalf("places(%d) is %d", n, c)
		}
	}
}
