package upstream

import (
	"sync/atomic"
	"time"
)

// DurationBounds are the upper bounds of the histogram of Pool.Durations.
var DurationBounds = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute,
}

// Durations is a histogram of the time to the first byte of an answer.
type Durations struct {
	// Counts has a number for each of DurationBounds (not cumulative, the bound
	// included) and a last one for what took longer.
	Counts [len(DurationBounds) + 1]uint64
	// Sum is the time of all of them.
	Sum time.Duration
}

type durations struct {
	counts [len(DurationBounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

func (d *durations) add(t time.Duration) {
	i := 0
	for i < len(DurationBounds) && t > DurationBounds[i] {
		i++
	}
	d.counts[i].Add(1)
	d.sum.Add(int64(t))
}

func (d *durations) read() Durations {
	var r Durations
	for i := range d.counts {
		r.Counts[i] = d.counts[i].Load()
	}
	r.Sum = time.Duration(d.sum.Load())
	return r
}
