package limit

import (
	"context"
	"reflect"
	"runtime"
	"testing"
	"time"
)

// heap returns the bytes in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// G01 and the budget of limits.md: at 1,000,000 keys at most 64 bytes of heap a
// key, and all of it comes back when they are idle.
func TestMillionKeysTakeAtMost64BytesEach(t *testing.T) {
	alone(t)
	const keys = 1_000_000
	b := NewBudget(1 << 30)
	table := NewTable(tokenNumbers(t, 5, time.Minute, 5), 2*keys, b)
	before := heap()
	var l Limiter
	claims := make([]Claim, 1)
	for i := range keys {
		claims[0] = claim(table, key(i), 1)
		if _, v := l.Acquire(context.Background(), start, claims); !v.OK {
			t.Fatalf("client %d: %+v", i, v)
		}
	}
	claims[0] = Claim{}
	used := heap() - before
	if each := used / keys; each > 64 {
		t.Errorf("%d bytes of heap a key, at most 64 may be", each)
	}
	t.Logf("%.1f bytes of heap a key; Stats says %.1f", float64(used)/keys, float64(table.Stats().Bytes)/keys)
	// What is counted is what is used: within 2 % (the directory is not counted).
	if st := table.Stats(); st.Bytes < used*98/100 || st.Bytes > used*102/100 || b.Used() != st.Bytes {
		t.Errorf("Stats says %d bytes and the Budget %d; the heap grew by %d", st.Bytes, b.Used(), used)
	}
	table.Sweep(start.Add(time.Minute))
	if st := table.Stats(); st.Keys != 0 || st.Bytes != 0 || b.Used() != 0 {
		t.Errorf("after the sweep: %+v, budget %d", st, b.Used())
	}
	if rest := heap() - before; rest > 1<<20 {
		t.Errorf("%d bytes of heap are left after the sweep", rest)
	}
	runtime.KeepAlive(table)
}

// At unlucky sizes, on small and on large machines, at most 100 bytes a key.
func TestUnluckySizesTakeAtMost100BytesAKey(t *testing.T) {
	alone(t)
	for spread, keys := range map[uint8]int{1: 60_000, 3: 60_000, 5: 100_000, 8: 300_000} { // of 1, 2, 8 and 64 processors
		table := tokenTable(t, 5, time.Minute, 5)
		table.spread = spread
		next, worst, worstAt := 10_000, int64(0), 0
		var l Limiter
		claims := make([]Claim, 1)
		for i := range keys {
			claims[0] = claim(table, key(i), 1)
			l.Acquire(t.Context(), start, claims)
			if i+1 == next { // each 5 % more: the worst is between two powers of two
				next += next / 20
				if each := table.Stats().Bytes / int64(i+1); each > worst {
					worst, worstAt = each, i+1
				}
			}
		}
		t.Logf("spread over %d shards: at worst %d bytes a key, at %d keys", 1<<spread, worst, worstAt)
		if worst > 100 {
			t.Errorf("spread over %d shards: %d bytes a key at %d keys, at most 100 may be", 1<<spread, worst, worstAt)
		}
	}
}

// A State is what the budget above rests on: 32 bytes, nothing for the garbage
// collector to follow.
func TestStateIs32BytesOfPlainData(t *testing.T) {
	typ := reflect.TypeFor[State]()
	if typ.Size() != 32 {
		t.Errorf("a State takes %d bytes, want 32", typ.Size())
	}
	for _, f := range reflect.VisibleFields(typ) {
		if f.Anonymous {
			continue // its fields are listed too
		}
		if k := f.Type.Kind(); k < reflect.Int || k > reflect.Uint64 {
			t.Errorf("field %s is of type %v", f.Name, f.Type)
		}
	}
}

// Few clients with a large limit, and a Table without any, cost next to nothing.
func TestMemoryFollowsTheClientsNotTheLimit(t *testing.T) {
	table := tokenTable(t, 1_000_000, time.Minute, 1_000_000)
	if got := table.Stats().Bytes; got != 0 {
		t.Errorf("%d bytes before the first key", got)
	}
	for i := range 100 {
		take(table, start, key(i), 1000)
	}
	if got := table.Stats().Bytes; got > 20_000 {
		t.Errorf("%d bytes for 100 clients", got)
	}
	before := heap()
	b := NewBudget(1 << 30)
	tables := make([]*Table, 10_000)
	n := tokenNumbers(t, 10, time.Second, 10)
	for i := range tables {
		tables[i] = NewTable(n, 1000, b)
	}
	if each := (heap() - before) / 10_000; each > 1024 || b.Used() != 0 {
		t.Errorf("%d bytes for a rule without clients; the Budget says %d", each, b.Used())
	}
	runtime.KeepAlive(tables)
}

func TestHotPathAllocatesNothing(t *testing.T) {
	b := NewBudget(1 << 24)
	one := NewTable(tokenNumbers(t, 1_000_000, time.Second, 1_000_000), 1000, b)
	two := NewTable(windowNumbers(t, 1_000_000, time.Hour), 1000, b)
	none := NewTable(tokenNumbers(t, 1, maxPeriod, 1), 1000, b)
	for _, table := range []*Table{one, two, none} {
		take(table, start, key(1), 1)
	}
	var l Limiter
	claims := make([]Claim, 2)
	gen := func(n int, tables ...*Table) []Claim {
		for i, table := range tables {
			claims[i] = Claim{Table: table, Gen: 1, Key: key(1), N: 1}
		}
		return claims[:n]
	}
	keep := func(*Claim) int64 { return 0 }
	back := func(*Claim) int64 { return 1 }
	for name, f := range map[string]func(){
		"one claim":               func() { l.Acquire(context.Background(), start, gen(1, one)) },
		"two claims":              func() { l.Acquire(context.Background(), start, gen(2, one, two)) },
		"two claims, unsorted":    func() { l.Acquire(context.Background(), start, gen(2, two, one)) },
		"one refused":             func() { l.Acquire(context.Background(), start, gen(1, none)) },
		"second of two refused":   func() { l.Acquire(context.Background(), start, gen(2, one, none)) },
		"taken and kept":          func() { g, _ := l.Acquire(context.Background(), start, gen(2, one, two)); g.Done(start, keep) },
		"taken and given back":    func() { g, _ := l.Acquire(context.Background(), start, gen(2, one, two)); g.Done(start, back) },
		"taken, without outcome":  func() { g, _ := l.Acquire(context.Background(), start, gen(1, one)); g.Done(start, nil) },
		"a digest of 8 KiB":       func() { secret.Digest(large[:]) },
		"a new client of 0 units": func() { l.Acquire(context.Background(), start, []Claim{}) },
	} {
		if got := testing.AllocsPerRun(200, f); got != 0 {
			t.Errorf("%s: %v allocations, want 0", name, got)
		}
	}
}

var large [8192]byte
