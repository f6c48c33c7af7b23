package upstream

import (
	"sync/atomic"
	"time"
)

// maxBounds is the most bounds a Histogram may have.
const maxBounds = 20

// DurationBounds are the upper bounds of the histograms of whole requests and of
// upstreams' answers.
var DurationBounds = []time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute,
}

// Histogram counts durations in buckets. The zero value is empty and ready. All
// calls of Add to one Histogram name the same bounds, ascending and at most 20.
// It is safe for concurrent use and allocates nothing.
type Histogram struct {
	counts [maxBounds + 1]atomic.Uint64
	sum    atomic.Int64
}

// Reading is what a Histogram held at one moment.
type Reading struct {
	// Counts has a number for each bound (not cumulative, the bound included)
	// and then one for what took longer; the rest is 0.
	Counts []uint64
	// Sum is the time of all of them.
	Sum time.Duration
}

// Add counts d.
func (h *Histogram) Add(bounds []time.Duration, d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Read returns what h holds.
func (h *Histogram) Read() Reading {
	r := Reading{Counts: make([]uint64, len(h.counts))}
	for i := range h.counts {
		r.Counts[i] = h.counts[i].Load()
	}
	r.Sum = time.Duration(h.sum.Load())
	return r
}
