package limit

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// cpu is the time this thread has really run, whatever else the machine does.
func cpu() time.Duration {
	var ts syscall.Timespec
	const threadCPU = 3 // CLOCK_THREAD_CPUTIME_ID
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}

// BenchmarkStall reports how long a check of another key may have to wait while
// many keys are inserted and then swept.
//
// A step is one insert, or one visit of the sweep. The same keys make the same steps
// in each of a few rounds, so what a step takes in all of them is its own, and what
// it takes in only some is an interrupt, the collector's, or of whoever else has a part
// of the processor. So of each step the least of the rounds counts, in processor time:
//
//   - insert-hold-µs and sweep-hold-µs: the longest that a step held a lock (of a visit
//     of the sweep: all of it);
//   - insert-step-µs: the longest step, with what it does without a lock: that is how
//     long the check waits that makes a shard grow;
//   - one-round-µs, noise-µs: the longest step of any round, as it was, and the longest
//     turn of a loop that did nothing for as long as all steps took.
//
// Checks of other keys run all the time beside that, each followed by a loop that does
// nothing for as long. checks-over-1ms and idle-over-1ms count, per second, those that
// took longer on the clock: the one is the machine's doing and the limiter's, the
// other that of the machine alone.
func BenchmarkStall(b *testing.B) {
	for _, n := range []int{0, million, 5 * million} {
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) {
			for b.Loop() {
				const rounds = 3
				inserts, holds, sweeps := newSteps(n), newSteps(n), newSteps(0)
				var beside besides
				for range rounds {
					stall(b, n, inserts, holds, sweeps, &beside)
				}
				b.ReportMetric(holds.longest(), "insert-hold-µs")
				b.ReportMetric(inserts.longest(), "insert-step-µs")
				b.ReportMetric(sweeps.longest(), "sweep-hold-µs")
				b.ReportMetric(micros(max(inserts.any, holds.any, sweeps.any)), "one-round-µs")
				b.ReportMetric(micros(max(inserts.noise, sweeps.noise)), "noise-µs")
				b.ReportMetric(float64(beside.checks)/beside.time.Seconds(), "checks-over-1ms/s")
				b.ReportMetric(float64(beside.idle)/beside.time.Seconds(), "idle-over-1ms/s")
			}
		})
	}
}

func micros(d time.Duration) float64 { return float64(d) / 1000 }

// steps are what steps took, in nanoseconds: the least of all rounds.
type steps struct {
	least []uint32
	any   time.Duration // the longest of any round
	noise time.Duration // the longest of what did nothing for as long
	spent time.Duration // of steps since
}

func newSteps(n int) *steps {
	s := &steps{least: make([]uint32, n)}
	for i := range s.least {
		s.least[i] = math.MaxUint32
	}
	return s
}

// took notes what step i took.
func (s *steps) took(i int, d time.Duration) {
	for i >= len(s.least) {
		s.least = append(s.least, math.MaxUint32)
	}
	s.least[i] = min(s.least[i], uint32(d))
	s.any = max(s.any, d)
	s.spent += d
}

// idle does nothing for as long as the steps took since it was last called.
func (s *steps) idle() {
	for at := cpu(); s.spent > 0; {
		next := cpu()
		s.noise = max(s.noise, next-at)
		s.spent -= next - at
		at = next
	}
	s.spent = 0
}

func (s *steps) longest() float64 {
	most := uint32(0)
	for _, d := range s.least {
		most = max(most, d)
	}
	return micros(time.Duration(most))
}

// besides counts what took more than a millisecond on the clock beside the steps.
type besides struct {
	checks, idle int
	time         time.Duration
}

func (o *besides) run(t *Table, stop *atomic.Bool) {
	var l Limiter
	claims := make([]Claim, 1)
	begin := time.Now()
	for i := 0; !stop.Load(); i++ {
		k := key(-1 - i%100_000) // all over the Table
		at := time.Now()
		claims[0] = Claim{Table: t, Key: k}
		l.Acquire(context.Background(), start, claims)
		took := time.Since(at)
		if took > time.Millisecond {
			o.checks++
		}
		at = time.Now()
		for time.Since(at) < min(took, time.Microsecond) {
		}
		if time.Since(at) > time.Millisecond {
			o.idle++
		}
	}
	o.time += time.Since(begin)
}

// stall is one round.
func stall(b *testing.B, n int, inserts, holds, sweeps *steps, beside *besides) {
	t := NewTable(tokenNumbers(b, 1, time.Second, 1), 1e9, NewBudget(1<<40))
	var stop atomic.Bool
	var done sync.WaitGroup
	done.Go(func() { beside.run(t, &stop) })
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var l Limiter
	claims := make([]Claim, 1)
	at := cpu()
	for i := range n {
		hold, before := growByHand(t, key(i))
		if hold > 0 {
			at = cpu()
		}
		claims[0] = Claim{Table: t, Key: key(i), N: 1}
		l.Acquire(context.Background(), start, claims)
		next := cpu()
		took := next - at
		at = next
		holds.took(i, max(hold, took))
		inserts.took(i, hold+before+took)
		if i%1024 == 0 {
			inserts.idle()
			at = cpu()
		}
	}
	if n == 0 {
		time.Sleep(time.Second)
	}
	sweeps.spent = 0
	for i, over := 0, false; !over && t.shards() > 0; i++ {
		at := cpu()
		over = t.sweepNext(start.Add(time.Second))
		sweeps.took(i, cpu()-at)
		sweeps.idle()
	}
	stop.Store(true)
	done.Wait()
}

// growByHand does what grow does, and returns the longest it held a lock and what
// it did without.
func growByHand(t *Table, k Digest) (hold, before time.Duration) {
	s := t.lock(k)
	if !s.full() {
		s.mu.Unlock()
		return 0, 0
	}
	at := cpu()
	g := s.plan(t.splits(s))
	s.mu.Unlock()
	hold = cpu() - at
	at = cpu()
	t.prepare(&g)
	before = cpu() - at
	at = cpu()
	t.install(&g, k)
	return max(hold, cpu()-at), before
}
