package limit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// A shared counter follows the edits of the numbers like a key's: through sweeps
// that forget the older numbers, with and without shards.
func TestSharedCountersFollowEdits(t *testing.T) {
	for name, budget := range map[string]int64{"with keys": 1 << 20, "without any memory": 0} {
		t.Run(name, func(t *testing.T) {
			table := NewTable(tokenNumbers(t, 7, time.Minute, 7), 2, NewBudget(budget))
			if budget > 0 {
				crowd(t, table, start, 2)
			}
			k := key(50)
			if got := drain(table, start, k); got != 7 {
				t.Fatalf("%d of 7 passed", got)
			}
			// 5 s bring 35/60 of a unit; the edit drops it, the sweeps the older numbers.
			take(table, start.Add(5*sec), k, 0)
			for range 3 {
				at := start.Add(5 * sec)
				table.Renew(table.Generation()+1, at, tokenNumbers(t, 1, time.Hour, 7), 2)
				table.Sweep(at)
				table.Sweep(at)
				table.Renew(table.Generation()+1, at, tokenNumbers(t, 1_000_003, 24*time.Hour, 7), 2)
				table.Sweep(at)
			}
			// At 1,000,003 a day one comes back in 86.4 ms.
			if _, r := take(table, start.Add(5*sec), k, 1); r.OK || r.Wait != 86_399_741 { // 86,400 s / 1,000,003, rounded up
				t.Errorf("one more after the edits: %+v, want a wait of 86.399741ms", r)
			}
			if got := drain(table, start.Add(6*sec), k); got > 11 || got < 7 {
				t.Errorf("%d passed a second later, want the burst of 7", got)
			}
			if n := generations(table); n > 3 {
				t.Errorf("%d generations are still known", n)
			}
		})
	}
	// Numbers the older ones of which gave back fast, long ago: 1,000 a second
	// would fill 7 in 7 ms; but from the edit on it is one an hour.
	table := NewTable(tokenNumbers(t, 1, time.Hour, 7), 2, NewBudget(0))
	drain(table, start, key(1))
	renew(table, start.Add(time.Minute), tokenNumbers(t, 2, time.Hour, 7))
	renew(table, start.Add(2*time.Minute), tokenNumbers(t, 1000, time.Second, 7))
	if _, r := take(table, start.Add(2*time.Minute), key(1), 1); r.OK {
		t.Errorf("two minutes at one or two an hour were counted at the newest rate: %+v", r)
	}
}

// A shard that was split and then finds no memory to grow is still one shard,
// locked once: the newcomer is refused and all go on.
func TestNoMemoryAfterASplit(t *testing.T) {
	for _, rest := range []int64{0, 8000, 16000, 24000, 30000, 40000} {
		t.Run(fmt.Sprint(rest), func(t *testing.T) {
			b := NewBudget(1 << 20)
			table := NewTable(tokenNumbers(t, 1, time.Hour, 1), 1<<20, b)
			table.spread = 8
			other := NewTable(tokenNumbers(t, 1, time.Hour, 1), 1<<20, b)
			r := rand.New(rand.NewPCG(1, 2))
			for i := 0; ; i++ { // all in the upper half of the upper half of ...
				d := Digest{Hi: 0xffff<<48 | r.Uint64()>>16, Lo: r.Uint64()}
				if s := table.dir.Load(); s != nil {
					if sh := s.shard(d.Hi); len(sh.slots) >= 256 && int(sh.n) == room(len(sh.slots)) {
						break
					}
				}
				take(table, start, d, 1)
			}
			b.SetMax(b.Used() + rest)
			for range 50 {
				d := Digest{Hi: 0xffff<<48 | r.Uint64()>>16, Lo: r.Uint64()}
				_, v, _ := acquire(start, closed(claim(table, d, 1)), closed(claim(other, key(1), 0)))
				if v.OK == v.Full {
					t.Fatalf("%+v", v)
				}
			}
			if b.Used() > b.max.Load() {
				t.Errorf("%d bytes of %d", b.Used(), b.max.Load())
			}
			audit(t, table)
		})
	}
}
