package limit

import (
	"context"
	"fmt"
	"runtime"
	"slices"
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
// hold is the longest that one step of either kept its thread busy while a check
// had to wait for it: what the limiter is responsible for. growth-hold is that of
// growths alone, all but the longest in a thousand. noise is the longest of as many
// loops of 20 µs that hold nothing: interrupts and whoever else has a part of the
// processor are in both. What a growth does without the lock is prepare.
// stalls-over-1ms counts, per second, checks that took longer on the clock: on a
// machine that is not idle that is the scheduler's and the collector's time too, so
// compare with 0 keys.
func BenchmarkStall(b *testing.B) {
	for _, n := range []int{0, million, 5 * million} {
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) {
			for b.Loop() {
				stall(b, n)
			}
		})
	}
}

func stall(b *testing.B, n int) {
	t := NewTable(tokenNumbers(b, 1, time.Second, 1), 1e9, NewBudget(1<<40))
	var stop atomic.Bool
	var over int
	var done sync.WaitGroup
	begin := time.Now()
	done.Go(func() {
		var l Limiter
		claims := make([]Claim, 1)
		for i := 0; !stop.Load(); i++ {
			k := key(-1 - i%100_000) // all over the Table
			at := time.Now()
			claims[0] = Claim{Table: t, Key: k}
			l.Acquire(context.Background(), start, claims)
			if time.Since(at) > time.Millisecond {
				over++
			}
		}
	})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var l Limiter
	claims := make([]Claim, 1)
	var insert, prepare, noise, sweep time.Duration
	growths := []time.Duration{0}
	for i := range n {
		if growth, before := growByHand(t, key(i)); growth > 0 {
			growths = append(growths, growth)
			insert, prepare, noise = max(insert, growth), max(prepare, before), max(noise, spin(20*time.Microsecond))
		}
		at := cpu()
		claims[0] = Claim{Table: t, Key: key(i), N: 1}
		l.Acquire(context.Background(), start, claims)
		insert = max(insert, cpu()-at)
	}
	if n == 0 {
		time.Sleep(time.Second)
	}
	for over := false; !over && t.shards() > 0; {
		at := cpu()
		over = t.sweepNext(start.Add(time.Second))
		sweep = max(sweep, cpu()-at)
	}
	stop.Store(true)
	done.Wait()
	b.ReportMetric(float64(insert.Microseconds()), "insert-hold-µs")
	slices.Sort(growths)
	b.ReportMetric(float64(growths[len(growths)*999/1000].Microseconds()), "growth-hold-p99.9-µs")
	b.ReportMetric(float64(noise.Microseconds()), "noise-µs")
	b.ReportMetric(float64(prepare.Microseconds()), "prepare-µs")
	b.ReportMetric(float64(sweep.Microseconds()), "sweep-hold-µs")
	b.ReportMetric(float64(over)/time.Since(begin).Seconds(), "stalls-over-1ms/s")
}

// spin keeps this thread busy for d and returns how long it was.
func spin(d time.Duration) (took time.Duration) {
	for at := cpu(); took < d; took = cpu() - at {
	}
	return took
}

// growByHand does what grow does, and returns the longest it held a lock and what
// it did without.
func growByHand(t *Table, k Digest) (hold, prepare time.Duration) {
	s := t.lock(k)
	if !s.full() {
		s.mu.Unlock()
		return 0, 0
	}
	at := cpu()
	g := s.plan(t.splits(s))
	s.mu.Unlock()
	hold = cpu() - at
	if g.split {
		at = cpu()
		t.deepen(s.depth + 1) // under Table.mu, for which other shards that are split wait
		hold = max(hold, cpu()-at)
	}
	at = cpu()
	t.prepare(&g)
	prepare = cpu() - at
	at = cpu()
	t.install(&g, k)
	return max(hold, cpu()-at), prepare
}
