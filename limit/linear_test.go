package limit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The sequential model of two Tables for one client, at one instant: what is in
// use and what of it is in flight. It is what a single thread would see.
type deskState struct{ used, reserved [2]int64 }

// order is one operation on it: a request of n units of each Table (of none
// with wants false), or the end of one, which gives back.
type order struct {
	client  int
	done    bool
	wants   [2]bool
	n       [2]int64
	pending bool
}

// answer is what the limiter said: to each claim whether it had room, what was
// left and whether its wait was only because of units in flight.
type answer struct {
	ok   bool
	room [2]bool
	left [2]int64
	soon [2]bool
}

// step is the model: what must be answered to o in the state s, and what is then.
func (s deskState) step(limits [2]int64, slots bool, o order) (answer, deskState) {
	next := s
	if o.done {
		for i := range 2 {
			next.used[i] -= o.n[i]
			if o.pending && o.wants[i] {
				next.reserved[i] -= o.n[i] // all of it comes back in this test
			}
		}
		return answer{}, next
	}
	a := answer{ok: true}
	for i := range 2 {
		if !o.wants[i] {
			continue
		}
		a.room[i] = s.used[i]+o.n[i] <= limits[i]
		a.ok = a.ok && a.room[i]
		a.left[i] = max(0, limits[i]-s.used[i])
		a.soon[i] = !a.room[i] && o.n[i] <= limits[i] && (slots || s.reserved[i] > 0 && s.used[i]-s.reserved[i]+o.n[i] <= limits[i])
	}
	if !a.ok {
		return a, s
	}
	for i := range 2 {
		if o.wants[i] {
			next.used[i] += o.n[i]
			a.left[i] -= o.n[i]
			if o.pending {
				next.reserved[i] += o.n[i]
			}
		}
	}
	return a, next
}

// L13, S26: 10,000 operations of eight threads on a few clients of two Tables, of
// every algorithm, with reservations, while sweeps and edits run: there is an
// order of them, one after the other, in which a single thread would have said
// exactly the same.
func TestConcurrentHistoriesAreLinearizable(t *testing.T) {
	const clients, threads = 5, 8
	operations := 0
	for ai, a := range sorts {
		t.Run(a.name, func(t *testing.T) {
			limits := [2]int64{7, 11}
			budget := NewBudget(1 << 22)
			nums := func(i int) Numbers {
				if a.name == "token_bucket" || a.name == "gcra" { // no unit comes back meanwhile
					n := tokenNumbers(t, limits[i], maxPeriod, limits[i])
					if a.name == "gcra" {
						n.Bucket = gcraOf(t, limits[i], maxPeriod, limits[i])
					}
					return n
				}
				return a.nums(t, limits[i])
			}
			tables := [2]*Table{NewTable(nums(0), 1<<20, budget), NewTable(nums(1), 1<<20, budget)}
			var clock atomic.Int64
			var mu sync.Mutex
			var history []porcupine.Operation
			var stop atomic.Bool
			var helpers sync.WaitGroup
			helpers.Go(func() {
				for !stop.Load() {
					for i, table := range tables {
						table.Sweep(start)
						table.Renew(table.Generation()+1, start, nums(i), 1<<20)
					}
					time.Sleep(50 * time.Microsecond) // only to leave the threads the processors
				}
			})
			together(threads, func(thread int) {
				r := rand.New(rand.NewPCG(uint64(ai), uint64(thread)))
				type held struct {
					g Grant
					o order
				}
				var open []*held
				var mine []porcupine.Operation
				for range 10_000 / len(sorts) / threads {
					if len(open) > 3 || len(open) > 0 && r.IntN(2) == 0 {
						i := r.IntN(len(open))
						h := open[i]
						open = append(open[:i], open[i+1:]...)
						call := clock.Add(1)
						h.g.Done(start, func(c *Claim) int64 { return c.N })
						ret := clock.Add(1)
						for i, which := range h.o.wants { // each Table is settled by itself
							if which {
								end := order{client: h.o.client, done: true, pending: h.o.pending}
								end.wants[i], end.n[i] = true, h.o.n[i]
								mine = append(mine, porcupine.Operation{ClientId: thread, Input: end, Call: call, Output: answer{}, Return: ret})
							}
						}
						continue
					}
					o := order{client: r.IntN(clients), pending: r.IntN(2) == 0}
					var claims []Claim
					for i, which := range [][2]bool{{true, false}, {false, true}, {true, true}, {true, true}}[r.IntN(4)] {
						if o.wants[i] = which; which {
							o.n[i] = 1 + int64(r.IntN(4))
							c := claim(tables[i], key(o.client), o.n[i])
							c.Pending, c.Tag = o.pending, int32(i)
							claims = append(claims, c)
						}
					}
					var l Limiter
					call := clock.Add(1)
					g, v := l.Acquire(context.Background(), start, claims)
					ret := clock.Add(1)
					said := answer{ok: v.OK}
					for i := range claims {
						c := &claims[i]
						said.room[c.Tag], said.left[c.Tag] = c.Result.OK, c.Result.Remaining
						said.soon[c.Tag] = c.Result.Wait > 0 && c.Result.Wait <= time.Second
					}
					mine = append(mine, porcupine.Operation{ClientId: thread, Input: o, Call: call, Output: said, Return: ret})
					if v.OK {
						open = append(open, &held{g, o})
					}
				}
				mu.Lock()
				history = append(history, mine...)
				mu.Unlock()
			})
			stop.Store(true)
			helpers.Wait()
			model := porcupine.Model{
				Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
					parts := make([][]porcupine.Operation, clients)
					for _, op := range all {
						c := op.Input.(order).client
						parts[c] = append(parts[c], op)
					}
					return parts
				},
				Init: func() any { return deskState{} },
				Step: func(s, in, out any) (bool, any) {
					want, next := s.(deskState).step(limits, a.name == "concurrency", in.(order))
					return want == out.(answer), next
				},
				DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
			}
			if got := porcupine.CheckOperationsTimeout(model, history, 20*time.Second); got != porcupine.Ok {
				t.Errorf("the history of %d operations is %v", len(history), got)
			}
			operations += len(history)
			passed := 0
			for _, op := range history {
				if op.Output.(answer).ok {
					passed++
				}
			}
			if passed < len(history)/10 || passed > len(history)*9/10 {
				t.Errorf("%d of %d operations were requests that passed: too one-sided to show anything", passed, len(history))
			}
		})
	}
	t.Attr("S26", fmt.Sprintf("%d concurrent operations linearizable", operations))
}
