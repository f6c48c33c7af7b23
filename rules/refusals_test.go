package rules

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"gateway/limit"
)

var someone = netip.MustParseAddr("192.0.2.1")

func keyNo(i uint64) limit.Digest { return limit.Digest{Hi: i * 0x9e3779b97f4a7c15, Lo: i + 1} }

func TestRefusalsCountFewKeysExactly(t *testing.T) {
	var r Refusals
	if got := r.Top(0, 10); len(got) != 0 {
		t.Errorf("%v before the first refusal", got)
	}
	now := limit.Instant(0)
	for i := range uint64(refusalKeys) {
		for range i + 1 {
			now = now.Add(time.Millisecond)
			r.Add(keyNo(i), someone, now, 3*time.Second)
		}
	}
	got := r.Top(now, 3)
	for i, want := range []int64{64, 63, 62} {
		if got[i].Key != keyNo(uint64(want-1)) || got[i].Count != want || got[i].Over != 0 {
			t.Errorf("place %d: %+v, want key %d with %d", i, got[i], want-1, want)
		}
	}
	if top := got[0]; top.Last != now || top.Until != now.Add(3*time.Second) || top.Client != someone {
		t.Errorf("the most refused: %+v", top)
	}
	r.Add(keyNo(63), someone, now, limit.Never)
	if top := r.Top(now, 1); top[0].Until != 0 {
		t.Errorf("one that can never pass: %+v", top)
	}
	r.Forget(keyNo(63))
	r.Forget(keyNo(1000))
	if got := r.Top(now, 100); len(got) != 63 || got[0].Key != keyNo(62) {
		t.Errorf("after Forget: %d keys, %+v", len(got), got[0])
	}
}

// However many keys come, who has more than a 64th of all is found, and no count
// is more wrong than its Over says.
func TestRefusalsFindTheHeavyAmongMany(t *testing.T) {
	var r Refusals
	rnd := rand.New(rand.NewPCG(1, 2))
	counts := map[limit.Digest]int64{}
	const n = 50_000
	for i := range n {
		key := keyNo(10 + rnd.Uint64N(20_000))
		if p := rnd.IntN(100); p < 10 {
			key = keyNo(uint64(p % 3)) // three keys with about 3 % each, above 1.6 %
		}
		counts[key]++
		r.Add(key, someone, limit.Instant(i), 0)
	}
	found := map[limit.Digest]Refused{}
	for _, row := range r.Top(n, refusalKeys) {
		found[row.Key] = row
		if is := counts[row.Key]; row.Count < is || row.Count-row.Over > is {
			t.Errorf("%d refusals are given as %d, at most %d too many", is, row.Count, row.Over)
		}
	}
	for i := range uint64(3) {
		if _, ok := found[keyNo(i)]; !ok {
			t.Errorf("key %d with %d of %d is not found", i, counts[keyNo(i)], n)
		}
	}
}

func TestRefusalsAreOfTheLastMinutes(t *testing.T) {
	var r Refusals
	minute := func(m int) limit.Instant { return limit.Instant(0).Add(time.Duration(m) * time.Minute) }
	add := func(m int, key uint64) { r.Add(keyNo(key), someone, minute(m), 0) }
	count := func(m int) map[limit.Digest]int64 {
		counts := map[limit.Digest]int64{}
		for _, row := range r.Top(minute(m), refusalKeys) {
			counts[row.Key] = row.Count
		}
		return counts
	}
	add(0, 1)
	add(4, 1)
	add(6, 1) // the second book
	add(6, 2)
	if c := count(6); c[keyNo(1)] != 3 || c[keyNo(2)] != 1 {
		t.Errorf("in both books: %v", c)
	}
	if c := count(12); len(c) != 2 || c[keyNo(1)] != 1 {
		t.Errorf("at minute 12: %v, want those of minute 6", c)
	}
	add(13, 3)
	if c := count(30); len(c) != 0 {
		t.Errorf("long after: %v", c)
	}
	add(31, 4)
	if c := count(31); len(c) != 1 || c[keyNo(4)] != 1 {
		t.Errorf("then: %v", c)
	}
}

func TestARefusalAllocatesNothing(t *testing.T) {
	var r Refusals
	i := uint64(0)
	add := func() { i++; r.Add(keyNo(i), someone, limit.Instant(i)*limit.Instant(time.Second), 0) }
	for range 700 {
		add()
	}
	if n := testing.AllocsPerRun(1000, add); n != 0 {
		t.Errorf("%v allocations a refusal", n)
	}
}
