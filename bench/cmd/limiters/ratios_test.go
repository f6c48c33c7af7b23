package main

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// threadCPU is the time that the calling thread has run. The thread must be locked
// to its goroutine.
func threadCPU(t *testing.T) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// costs returns the processor time that a check of each kind takes: the median of many
// short rounds, in which all kinds have their turn, so that what else the machine does
// comes upon all of them.
func costs(t *testing.T, kinds ...func()) []float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const rounds, checks = 1500, 256
	all := make([][]float64, len(kinds))
	for round := range rounds {
		for i := range kinds {
			k := (i + round) % len(kinds)
			begun := threadCPU(t)
			for range checks {
				kinds[k]()
			}
			all[k] = append(all[k], float64(threadCPU(t)-begun)/checks)
		}
	}
	medians := make([]float64, len(kinds))
	for k := range all {
		slices.Sort(all[k])
		medians[k] = all[k][rounds/2]
	}
	return medians
}

// The gateway's limiter against x/time/rate, both asked in turn; what there is of it
// beside the checks, the hash of the key above all, included. The bounds are a third
// above what was measured: a slip of the limiter fails here, a busy machine does not.
func TestOursKeepsItsDistanceToXTimeRate(t *testing.T) {
	us, err := libraryNamed(oursName)
	if err != nil {
		t.Fatal(err)
	}
	them, err := libraryNamed("x/time/rate")
	if err != nil {
		t.Fatal(err)
	}
	key, other := freshKey(1), freshKey(2)
	one := func(l limiter, want bool) func() {
		c := l.worker()
		c(key) // which is known then, and has used up single
		return func() {
			if c(key) != want {
				t.Fatalf("a check says %v", !want)
			}
		}
	}
	two := func(l library, second numbers, want bool) func() {
		c := l.two(roomy, second)()
		c(key, other)
		return func() {
			if c(key, other) != want {
				t.Fatalf("a check of two rules says %v", !want)
			}
		}
	}
	for _, row := range []struct {
		name       string
		ours, than func()
		most       float64
	}{
		{"clock passed in", one(us.passed(roomy), true), one(them.passed(roomy), true), 1.8},
		{"clock read", one(us.make(roomy, 0), true), one(them.make(roomy, 0), true), 1.4},
		{"refused", one(us.make(single, 0), false), one(them.make(single, 0), false), 1.3},
		{"two rules", two(us, roomy, true), two(them, roomy, true), 1.3},
		{"two rules, the second refuses", two(us, single, false), two(them, single, false), 1.2},
		{"two rules against one", two(us, roomy, true), one(us.make(roomy, 0), true), 2},
	} {
		cost := costs(t, row.ours, row.than)
		t.Logf("%s: %.0f ns, × %.2f", row.name, cost[0], cost[0]/cost[1])
		if cost[0] > row.most*cost[1] {
			t.Errorf("%s: × %.2f of the other, want at most × %.2f", row.name, cost[0]/cost[1], row.most)
		}
		if n := testing.AllocsPerRun(1000, row.ours); n != 0 {
			t.Errorf("%s: %v allocations, want none", row.name, n)
		}
	}
}
