package limit

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

// Memory that is full at any moment, for lists and reservations too: what all
// Tables take is what their shards hold, never more than the budget, and the log
// never admits more than its exact model: when an entry finds no memory the
// newest takes it in, which only counts longer.
func TestBudgetHoldsForListsAndReservations(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const permits = 30
		b := NewBudget(rapid.Int64Range(0, 8000).Draw(r, "budget"))
		log := NewTable(Numbers{Bucket: slidingLogOf(r, permits, time.Minute)}, 100, b)
		other := NewTable(tokenNumbers(r, 5, time.Minute, 5), 100, b)
		models := map[int]*logModel{} // of keys while they are remembered
		type open struct {
			g      Grant
			client int
			at     Instant
			n      int64
		}
		var grants []open
		now := start
		for range rapid.IntRange(1, 80).Draw(r, "events") {
			now += Instant(rapid.Int64Range(0, int64(5*time.Second)).Draw(r, "pass"))
			i := rapid.IntRange(0, 9).Draw(r, "client")
			switch op := rapid.IntRange(0, 9).Draw(r, "op"); {
			case op < 6:
				was := holds(log, key(i))
				n := rapid.Int64Range(1, 3).Draw(r, "n")
				g, _, c := acquire(now, pending(claim(log, key(i), n)))
				for c := range 10 { // who was thrown out is counted as given away
					if !holds(log, key(c)) {
						delete(models, c)
					}
				}
				if !c[0].Result.OK || c[0].over != nil {
					break
				}
				if models[i] == nil {
					models[i] = &logModel{permits: permits, per: time.Minute}
				}
				if there := models[i].left(now); was && rat(n).Cmp(there) > 0 {
					r.Fatalf("%d units passed with %v there", n, there)
				}
				models[i].add(event{at: now, units: n})
				grants = append(grants, open{g, i, now, n})
			case op < 7 && len(grants) > 0:
				j := rapid.IntRange(0, len(grants)-1).Draw(r, "of")
				o := grants[j]
				grants = append(grants[:j], grants[j+1:]...)
				back := rapid.Int64Range(-3, o.n).Draw(r, "back")
				o.g.Done(now, giveBack(back))
				if m := models[o.client]; m != nil && back > 0 { // at most this came back
					m.add(event{at: now, back: back, taken: o.at})
				}
			case op < 9:
				acquire(now, pending(claim(other, key(i), 1)))
			default:
				log.Sweep(now)
			}
			if got := b.Used(); got > b.max.Load() {
				r.Fatalf("%d bytes of %d", got, b.max.Load())
			}
			if got := log.Stats().Bytes + other.Stats().Bytes; got != b.Used() {
				r.Fatalf("the Tables take %d bytes, the Budget says %d", got, b.Used())
			}
		}
		audit(r, log)
		audit(r, other)
	})
}

// Logs of 10,000 entries each against a budget of 2 MiB, in which 10 of them
// would fit: never a byte more, on the heap neither, and no client passes more
// than its limit.
func TestLongLogsNeverExceedTheBudget(t *testing.T) {
	alone(t)
	const most, permits, clients = 2 << 20, 10_000, 14
	b := NewBudget(most)
	table := NewTable(Numbers{Bucket: slidingLogOf(t, permits, time.Hour)}, 1<<20, b)
	before := heap()
	var passed [clients]int64
	now := start
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 180_000 {
		now++
		k := r.IntN(clients)
		if _, res := take(table, now, key(k), 1); res.OK {
			passed[k]++
		}
		if i%64 == 0 && b.Used() > most {
			t.Fatalf("%d bytes of %d after %d takes", b.Used(), most, i)
		}
	}
	if used := heap() - before; used > most*11/10 {
		t.Errorf("%d bytes of heap with a budget of %d", used, most)
	}
	if b.Used() < most*8/10 {
		t.Errorf("only %d bytes of %d were used", b.Used(), most)
	}
	for k, n := range passed {
		if _, held := ringOf(table, key(k)); n > permits || held == 0 {
			t.Errorf("client %d: %d of %d passed, %d entries", k, n, permits, held)
		}
	}
	audit(t, table)
	// An hour later all is too old: a sweep returns every ring.
	table.Sweep(now.Add(time.Hour))
	if st := table.Stats(); st.Keys != 0 || st.Bytes != 0 || b.Used() != 0 {
		t.Errorf("after the sweep: %+v, budget %d", st, b.Used())
	}
}

// A client that goes on slowly after a burst keeps its place but not the ring.
func TestRingShrinksWithItsEntries(t *testing.T) {
	table := logTable(t, 10_000, time.Minute)
	now := start
	for range 10_000 {
		now++
		take(table, now, key(1), 1)
	}
	full := table.Stats().Bytes
	if full < 10_000*stampBytes {
		t.Fatalf("%d bytes for 10,000 entries", full)
	}
	take(table, start.Add(50*sec), key(1), 0)
	now = start.Add(61 * sec)
	take(table, now, key(1), 3)
	table.Sweep(now)
	if got := table.Stats().Bytes; got > 2000 {
		t.Errorf("%d bytes for one entry, %d before", got, full)
	}
	if got := left(table, now, key(1)); got != 9_997 {
		t.Errorf("%d left, want 9,997", got)
	}
	audit(t, table)
	// The counters that are shared return theirs too.
	table = NewTable(Numbers{Bucket: slidingLogOf(t, 1000, time.Minute)}, 0, NewBudget(1<<20))
	for i := range 1000 {
		take(table, start.Add(time.Duration(i)), key(1), 1)
	}
	if table.Stats().Bytes < 1000*stampBytes/2 {
		t.Fatalf("%d bytes for 1,000 entries of a shared counter", table.Stats().Bytes)
	}
	for range 2 {
		table.Sweep(start.Add(2 * time.Minute))
	}
	if got := table.Stats().Bytes; got != 0 {
		t.Errorf("%d bytes after the sweep", got)
	}
}

// What stands beside States in a rule that gives back and counts refunds is
// accounted and returned.
func TestSidesAreAccounted(t *testing.T) {
	b := NewBudget(1 << 24)
	n := tokenNumbers(t, 5, time.Minute, 5)
	n.Refunds = window(t, 5, time.Minute)
	table := NewTable(n, 1<<20, b)
	const keys = 20_000
	for i := range keys {
		g, _ := reserve(table, start, key(i), 1)
		g.Done(start, giveBack(int64(i%2)))
	}
	audit(t, table)
	if st := table.Stats(); st.Bytes != b.Used() || st.Bytes < keys*(slotBytes+sideBytes) || st.Bytes > keys*(slotBytes+sideBytes)*14/10 {
		t.Errorf("Stats says %d bytes, the budget %d, for %d keys of %d", st.Bytes, b.Used(), keys, slotBytes+sideBytes)
	}
	for name, c := range map[string][2]uintptr{ // what is counted is what it takes
		"a place":          {slotBytes, unsafe.Sizeof(Digest{}) + unsafe.Sizeof(State{})},
		"what is beside":   {sideBytes, unsafe.Sizeof(side{})},
		"what is refused":  {recordBytes, unsafe.Sizeof(record{})},
		"a list":           {listBytes, unsafe.Sizeof(stamps{})},
		"an entry of it":   {stampBytes, unsafe.Sizeof(stamp{})},
		"a shard, at most": {max(shardSize, unsafe.Sizeof(shard{})), shardSize},
	} {
		if c[0] != c[1] {
			t.Errorf("%s takes %d bytes and is counted as %d", name, c[1], c[0])
		}
	}
	table.Sweep(start.Add(30 * sec))
	if got := table.Stats().Keys; got != keys/2 { // a unit is back in 12 s, but not what may be refunded
		t.Errorf("%d keys after 30 s, want half: they may be refunded one less in this minute", got)
	}
	table.Sweep(start.Add(time.Minute))
	if st := table.Stats(); st.Keys != 0 || b.Used() != 0 {
		t.Errorf("%+v after a minute", st)
	}
}
