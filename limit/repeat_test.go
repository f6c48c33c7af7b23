package limit

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// What was decided by many at once, with clocks that lag behind one another, is
// decided again in the same way by one alone who takes all decisions and
// settlements in the order of (At, Seq): that is what an access log is replayed by.
func TestDecisionsRepeatInTheOrderOfTheirInstantsAndNumbers(t *testing.T) {
	newTables := func() []*Table {
		budget := NewBudget(1 << 30)
		must := func(b Bucket, err error) Bucket {
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		list := []Numbers{
			{Bucket: must(NewTokenBucket(1000, time.Second, 20)), Carry: 20},
			{Bucket: must(NewSlidingWindow(30, time.Second))},
			{Bucket: must(NewSlidingLog(25, time.Second))},
			{Bucket: must(NewConcurrency(2)), Slots: true},
		}
		var tables []*Table
		for _, n := range list {
			tables = append(tables, NewTable(n, 1000, budget))
		}
		return tables
	}
	type take struct {
		table, client int
		n, back       int64
		result        Result
		settledAt     Instant
		settledSeq    uint64
	}
	type decision struct {
		at    Instant
		seq   uint64
		ok    bool
		takes []take
	}
	tables := newTables()
	var mu sync.Mutex
	var all []*decision
	var clock, steps = start, sync.Mutex{}
	var l Limiter
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 7))
			for range 400 {
				steps.Lock()
				clock = clock.Add(time.Duration(r.IntN(300)) * time.Microsecond)
				now := clock.Add(-time.Duration(r.IntN(200)) * time.Microsecond) // read before others went on
				steps.Unlock()
				d := &decision{}
				var claims []Claim
				for _, i := range r.Perm(len(tables))[:1+r.IntN(len(tables))] {
					one := take{table: i, client: r.IntN(6), n: 1, back: int64(r.IntN(2))}
					c := claim(tables[i], key(one.client), 1)
					c.Pending, c.Tag = i == 2, int32(len(d.takes))
					d.takes = append(d.takes, one)
					claims = append(claims, c)
				}
				g, v := l.Acquire(context.Background(), now, claims)
				d.at, d.seq, d.ok = v.At, v.Seq, v.OK
				if v.OK {
					g.Done(now.Add(time.Duration(r.IntN(400))*time.Microsecond), func(c *Claim) int64 { return d.takes[c.Tag].back })
				}
				for i := range claims {
					c := &claims[i]
					one := &d.takes[c.Tag]
					one.result, one.settledAt, one.settledSeq = c.Result, c.SettledAt, c.SettledSeq
					one.result.Wait, one.result.Reset = 0, 0 // counted from the caller's own instant
				}
				mu.Lock()
				all = append(all, d)
				mu.Unlock()
			}
		})
	}
	wg.Wait()

	type event struct {
		at  Instant
		seq uint64
		do  func()
	}
	var events []event
	again := newTables()
	refused := 0
	for _, d := range all {
		if !d.ok {
			refused++
		}
		events = append(events, event{d.at, d.seq, func() {
			var claims []Claim
			for i, one := range d.takes {
				c := claim(again[one.table], Digest{Hi: uint64(one.client+1) * 0x9e3779b97f4a7c15, Lo: 1}, one.n) // other digests: another secret
				c.Pending, c.Tag = one.table == 2, int32(i)
				claims = append(claims, c)
			}
			g, v := l.Acquire(context.Background(), d.at, claims)
			if v.OK != d.ok || v.At != d.at {
				t.Errorf("at %d, %d: %+v, was %+v", d.at, d.seq, v, d)
			}
			grants := g.Split()
			for i := range claims {
				c := &claims[i]
				one := &d.takes[c.Tag]
				got := c.Result
				got.Wait, got.Reset = 0, 0
				if got != one.result {
					t.Errorf("at %d, %d, table %d: %+v, was %+v", d.at, d.seq, one.table, got, one.result)
				}
				if v.OK && one.settledAt != 0 {
					grant := &grants[i]
					events = append(events, event{one.settledAt, one.settledSeq, func() {
						grant.Done(one.settledAt, func(*Claim) int64 { return one.back })
					}})
				}
			}
		}})
	}
	if refused < 300 || refused > len(all)-300 {
		t.Fatalf("%d of %d refused: that shows little", refused, len(all))
	}
	order := func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) }
	slices.SortFunc(events, order)
	for i := 0; i < len(events); i++ {
		before := len(events)
		events[i].do()
		if len(events) > before {
			slices.SortFunc(events[i+1:], order)
		}
	}
}
