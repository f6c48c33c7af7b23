package limit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// Ratios count, not the figures: compare with Floor of the same run.

var (
	benchKey = []byte("203.0.113.7")
	sink     uint64
)

// BenchmarkFloor is what any limiter with a keyed hash and a lock pays.
func BenchmarkFloor(b *testing.B) {
	var mu sync.Mutex
	b.Run("lock", func(b *testing.B) {
		for b.Loop() {
			mu.Lock()
			sink++
			mu.Unlock()
		}
	})
	b.Run("digest", func(b *testing.B) {
		for b.Loop() {
			sink += secret.Digest(benchKey).Lo
		}
	})
	b.Run("lock+digest", func(b *testing.B) {
		for b.Loop() {
			d := secret.Digest(benchKey)
			mu.Lock()
			sink += d.Lo
			mu.Unlock()
		}
	})
	b.Run("take", func(b *testing.B) {
		bucket, now := tokens(b, 1e9, time.Second, 1e9), start
		var s State
		for b.Loop() {
			now++
			s, _ = bucket.Take(s, now, 1)
		}
	})
}

// hot returns the Tables of n rules that always have room, and keys for them.
func hot(tb testing.TB, n int) []*Table {
	budget := NewBudget(1 << 30)
	tables := make([]*Table, n)
	for i := range tables {
		tables[i] = NewTable(tokenNumbers(tb, 1e9, time.Second, 1e9), 1e6, budget)
	}
	return tables
}

// name is a request's claims, built anew as a gateway does.
func name(claims []Claim, tables []*Table, k Digest) []Claim {
	for i, t := range tables {
		c := &claims[i]
		c.Table, c.Gen, c.Mode, c.Closed, c.Pending, c.Tag = t, 1, Enforce, false, false, 0
		c.Key, c.N, c.Spare, c.Most = k, 1, 0, nil
	}
	return claims[:len(tables)]
}

func BenchmarkHotKey(b *testing.B) {
	for _, n := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("%d rules pass", n), func(b *testing.B) {
			tables, claims, now := hot(b, n), make([]Claim, n), start
			var l Limiter
			b.ReportAllocs()
			for b.Loop() {
				now++
				_, v := l.Acquire(context.Background(), now, name(claims, tables, secret.Digest(benchKey)))
				if !v.OK {
					b.Fatal("refused")
				}
			}
		})
	}
	b.Run("1 rule refuses", func(b *testing.B) {
		t := tokenTable(b, 1, maxPeriod, 1)
		take(t, start, secret.Digest(benchKey), 1)
		refusing(b, []*Table{t})
	})
	b.Run("2 rules, the second refuses", func(b *testing.B) {
		tables := hot(b, 1)
		t := NewTable(tokenNumbers(b, 1, maxPeriod, 1), 1000, tables[0].budget)
		take(t, start, secret.Digest(benchKey), 1)
		take(tables[0], start, secret.Digest(benchKey), 1)
		refusing(b, append(tables, t))
	})
	b.Run("1 rule, taken and given back", func(b *testing.B) {
		tables, claims, now := hot(b, 1), make([]Claim, 1), start
		back := func(c *Claim) int64 { return c.N }
		var l Limiter
		b.ReportAllocs()
		for b.Loop() {
			now++
			g, _ := l.Acquire(context.Background(), now, name(claims, tables, secret.Digest(benchKey)))
			g.Done(now, back)
		}
	})
	b.Run("fixed window", func(b *testing.B) {
		tables, claims, now := []*Table{NewTable(windowNumbers(b, 1e12, time.Hour), 1e6, NewBudget(1<<30))}, make([]Claim, 1), start
		var l Limiter
		for b.Loop() {
			now++
			l.Acquire(context.Background(), now, name(claims, tables, secret.Digest(benchKey)))
		}
	})
}

func refusing(b *testing.B, tables []*Table) {
	claims, now := make([]Claim, len(tables)), start
	var l Limiter
	b.ReportAllocs()
	for b.Loop() {
		now++
		if _, v := l.Acquire(context.Background(), now, name(claims, tables, secret.Digest(benchKey))); v.OK {
			b.Fatal("passed")
		}
	}
}

func BenchmarkParallel(b *testing.B) {
	for _, shape := range []struct {
		name  string
		rules int
		keys  uint64
	}{{"one hot key", 1, 1}, {"two rules, one hot key", 2, 1}, {"100k keys", 1, 100_000}} {
		b.Run(shape.name, func(b *testing.B) {
			tables := hot(b, shape.rules)
			keys := make([]Digest, shape.keys)
			for i := range keys {
				keys[i] = key(i)
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				claims, now, i := make([]Claim, shape.rules), start, uint64(0)
				var l Limiter
				for pb.Next() {
					now, i = now+1, i+7919
					l.Acquire(context.Background(), now, name(claims, tables, keys[i%shape.keys]))
				}
			})
		})
	}
}

const million = 1_000_000

func BenchmarkMillionKeys(b *testing.B) {
	tables, claims := hot(b, 1), make([]Claim, 1)
	tables[0].Renew(2, start, tables[0].Numbers(), 10*million)
	var l Limiter
	for i := range million {
		l.Acquire(context.Background(), start, name(claims, tables, key(i)))
	}
	i, now := 0, start
	b.ReportAllocs()
	for b.Loop() {
		i, now = (i+7919)%million, now+1
		l.Acquire(context.Background(), now, name(claims, tables, key(i)))
	}
}

func BenchmarkInsert(b *testing.B) {
	tables, claims := hot(b, 1), make([]Claim, 1)
	tables[0].Renew(2, start, tables[0].Numbers(), 1e9)
	var l Limiter
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		l.Acquire(context.Background(), start, name(claims, tables, key(i)))
	}
}
