package limit

import (
	"context"
	"encoding/binary"
	"testing"
	"time"
)

// start is an instant on the edge of every window used in tests but those of a
// year: 2025-01-01, midnight UTC.
const start = Instant(1_735_689_600_000_000_000)

const day = 24 * time.Hour

// failer is what helpers need of a testing.TB, which a rapid.T has too.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// alone is for a long test of one goroutine, in which there is nothing for the race
// detector to see: it runs without, in a tenth of the time.
func alone(t *testing.T) {
	t.Helper()
	if underRace {
		t.Skip("one goroutine: runs without the race detector")
	}
}

func tokens(tb failer, permits int64, per time.Duration, burst int64) Bucket {
	tb.Helper()
	b, err := NewTokenBucket(permits, per, burst)
	if err != nil {
		tb.Fatalf("NewTokenBucket(%d, %v, %d): %v", permits, per, burst, err)
	}
	return b
}

func window(tb failer, permits int64, per time.Duration) Bucket {
	tb.Helper()
	b, err := NewFixedWindow(permits, per)
	if err != nil {
		tb.Fatalf("NewFixedWindow(%d, %v): %v", permits, per, err)
	}
	return b
}

// tokenNumbers are the Numbers of a rule with a token bucket: what a client
// brings along over an edit is capped at the burst.
func tokenNumbers(tb failer, permits int64, per time.Duration, burst int64) Numbers {
	tb.Helper()
	return Numbers{Bucket: tokens(tb, permits, per, burst), Carry: burst}
}

func windowNumbers(tb failer, permits int64, per time.Duration) Numbers {
	tb.Helper()
	return Numbers{Bucket: window(tb, permits, per)}
}

func tokenTable(tb failer, permits int64, per time.Duration, burst int64) *Table {
	tb.Helper()
	return NewTable(tokenNumbers(tb, permits, per, burst), 1<<40, NewBudget(1<<40))
}

// secret is fixed, so that a failure can be repeated.
var secret = Secret{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// key is the digest of the i-th client.
func key(i int) Digest {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(i))
	return secret.Digest(b[:])
}

// claim is an enforced claim under the newest numbers of t.
func claim(t *Table, k Digest, n int64) Claim {
	return Claim{Table: t, Gen: t.Generation(), Key: k, N: n}
}

// closed makes a claim one that a full Table refuses.
func closed(c Claim) Claim {
	c.Closed = true
	return c
}

// spilledUnits is what the shared counters of t have in use.
func spilledUnits(t *Table) (units int64) {
	if all := t.spill.Load(); all != nil {
		for i := range all {
			units += all[i].state.Used
		}
	}
	return units
}

func acquire(now Instant, claims ...Claim) (Grant, Verdict, []Claim) {
	var l Limiter
	g, v := l.Acquire(context.Background(), now, claims)
	return g, v, claims
}

// take asks t for n units of key k.
func take(t *Table, now Instant, k Digest, n int64) (Grant, Result) {
	g, _, c := acquire(now, claim(t, k, n))
	return g, c[0].Result
}

// left says how many units of key k are there.
func left(t *Table, now Instant, k Digest) int64 {
	_, r := take(t, now, k, 0)
	return r.Remaining
}

// drain takes single units until one is refused and returns how many passed.
func drain(t *Table, now Instant, k Digest) (passed int64) {
	for {
		if _, r := take(t, now, k, 1); !r.OK {
			return passed
		}
		passed++
	}
}

// giveBack is the Outcome that gives back n units of each claim.
func giveBack(n int64) Outcome { return func(*Claim) int64 { return n } }

// holds says whether t remembers k.
func holds(t *Table, k Digest) bool {
	dir := t.dir.Load()
	if dir == nil {
		return false
	}
	s := dir.shard(k.Hi)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.find(k)
	return ok
}

// stored returns the State of k in t, the zero State when there is none.
func stored(t *Table, k Digest) State {
	dir := t.dir.Load()
	if dir == nil {
		return State{}
	}
	s := dir.shard(k.Hi)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.find(k); ok {
		return s.slots[i].st
	}
	return State{}
}

// distinct returns the shards of t.
func distinct(t *Table) (shards []*shard) {
	dir := t.dir.Load()
	if dir == nil {
		return nil
	}
	for i := range dir.shards {
		if s := dir.shard(uint64(i) << (64 - dir.depth)); len(shards) == 0 || shards[len(shards)-1] != s {
			shards = append(shards, s)
		}
	}
	return shards
}

// split splits the shard of k, also one that has room, and says whether there was
// memory for it.
func split(tb failer, t *Table, k Digest) bool {
	tb.Helper()
	for {
		s := t.lock(k)
		g := s.plan(true)
		s.mu.Unlock()
		if !t.prepare(&g) {
			return false
		}
		if t.install(&g, k) {
			return true
		}
	}
}

// depth returns how often the shard of k has been split.
func depth(t *Table, k Digest) uint8 {
	s := t.lock(k)
	defer s.mu.Unlock()
	return s.depth
}

// audit checks that the figures of t agree with what its shards hold.
func audit(tb failer, t *Table) {
	tb.Helper()
	var keys, bytes int64
	for _, s := range distinct(t) {
		s.mu.Lock()
		n := 0
		for i := range s.slots {
			k := s.slots[i].key
			if k == (Digest{}) {
				continue
			}
			n++
			bytes += t.ringBytes(s.homeAt(i))
			if j, ok := s.find(k); !ok || j != i {
				tb.Errorf("a key at place %d is found at %d, %v", i, j, ok)
			}
			if t.dir.Load().shard(k.Hi) != s {
				tb.Errorf("a key sits in another shard than the directory says")
			}
		}
		if n != int(s.n) || n > room(len(s.slots)) {
			tb.Errorf("a shard of %d places counts %d keys and holds %d", len(s.slots), s.n, n)
		}
		keys, bytes = keys+int64(n), bytes+s.bytes()
		s.mu.Unlock()
	}
	if all := t.spill.Load(); all != nil {
		for i := range all {
			bytes += t.ringBytes(all[i].home(t.listed))
		}
	}
	if st := t.Stats(); st.Keys != keys || st.Bytes != bytes {
		tb.Errorf("Stats says %d keys and %d bytes; the shards hold %d and %d", st.Keys, st.Bytes, keys, bytes)
	}
}
