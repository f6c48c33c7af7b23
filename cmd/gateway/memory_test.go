package main

import (
	"runtime"
	"testing"
)

// TestWhoSetsTheCollectorGetsNoBallast measures the heap with and without it.
func TestWhoSetsTheCollectorGetsNoBallast(t *testing.T) {
	grows := func() bool {
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		release := ballast()
		defer release()
		return heap() >= before+ballastSize/2
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	if !grows() {
		t.Error("no ballast")
	}
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "100")
			if grows() {
				t.Errorf("a ballast although %s is set", name)
			}
		})
	}
}
