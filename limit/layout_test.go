package limit

import (
	"reflect"
	"testing"
	"unsafe"
)

// words is how many registers a value takes.
func words(t reflect.Type) (n int) {
	if t.Kind() != reflect.Struct {
		return max(1, int(t.Size()/8))
	}
	for i := range t.NumField() {
		n += words(t.Field(i).Type)
	}
	return n
}

// What Acquire returns comes back in registers: to copy it through memory took as
// long as the lock and the digest together. The compiler keeps no struct of more than
// four fields in registers, and returns no more than nine words in them.
func TestWhatACheckReturnsFitsInRegisters(t *testing.T) {
	all := 0
	for _, typ := range []reflect.Type{reflect.TypeFor[Grant](), reflect.TypeFor[Verdict](), reflect.TypeFor[Ruling](), reflect.TypeFor[Result](), reflect.TypeFor[State]()} {
		fields := 0
		for _, f := range reflect.VisibleFields(typ) {
			if len(f.Index) == 1 {
				fields++
			}
		}
		if fields > 4 || typ.Size() > 32 {
			t.Errorf("%v has %d fields and %d bytes, at most 4 and 32 are kept in registers", typ, fields, typ.Size())
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[Grant](), reflect.TypeFor[Verdict]()} {
		all += words(typ)
	}
	if all > 9 {
		t.Errorf("a Grant and a Verdict are %d words, at most 9 come back in registers", all)
	}
}

// A shard is a cache line of its own, wherever it lies.
func TestAShardIsOneCacheLine(t *testing.T) {
	const line = 64
	if n := unsafe.Sizeof(shard{}); n != line {
		t.Fatalf("a shard takes %d bytes", n)
	}
	var all [100]*shard
	for i := range all {
		all[i] = &shard{}
		if at := uintptr(unsafe.Pointer(all[i])); at%line != 0 {
			t.Fatalf("a shard lies at %#x, across two lines", at)
		}
	}
}

// What is read with every check lies apart from what inserts and decisions write.
func TestWhatChecksReadLiesApartFromWhatTheyWrite(t *testing.T) {
	const line = 64
	var table Table
	if gap := unsafe.Offsetof(table.keys) - unsafe.Offsetof(table.spill); gap < line {
		t.Errorf("%d bytes between what is read of a Table and what is written", gap)
	}
	var b Budget
	if gap := unsafe.Offsetof(b.changed) - unsafe.Offsetof(b.used); gap < line {
		t.Errorf("%d bytes between used and changed", gap)
	}
	if gap := unsafe.Offsetof(b.apart) - unsafe.Offsetof(b.changed); gap < line {
		t.Errorf("%d bytes between changed and apart", gap)
	}
}

// A Budget says once that something has changed, whatever that was, and nothing of
// requests that were refused.
func TestABudgetSaysWhetherAnythingHasChanged(t *testing.T) {
	table := tokenTable(t, 2, maxPeriod, 2)
	b := table.budget
	if b.Changed() {
		t.Error("before anything has")
	}
	changed := func(what string, want bool) {
		t.Helper()
		if got := b.Changed(); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
		if b.Changed() {
			t.Errorf("%s: twice", what)
		}
	}
	g, _ := take(table, start, key(1), 1)
	changed("a take", true)
	take(table, start, key(1), 2)
	changed("a refusal", false)
	g.Done(start, giveBack(1))
	changed("what came back", true)
	var l Limiter
	l.Peek(start, []Claim{claim(table, key(1), 1)})
	changed("a peek", false)
	g, _ = take(table, start, key(1), 1)
	b.Changed()
	g.Done(start, giveBack(-1))
	changed("a charge", true)
	table.Forget(key(1))
	changed("a key that was forgotten on request", true)
}
