package redis

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Bounds are the upper bounds of the durations that are counted apart.
var Bounds = []time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond,
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, time.Second,
}

// Reasons are what calls fail for.
var Reasons = []string{"timeout", "connection", "readonly", "full", "auth", "busy", "refused"}

type stats struct {
	counts [12]atomic.Uint64 // by bound, the last is above all
	sum    atomic.Int64
	errors [7]atomic.Uint64 // by reason
}

// Stats are a reading of the figures of a Store.
type Stats struct {
	// Up says that nothing of the store is away.
	Up bool
	// Counts are the calls by their duration: one more than Bounds. Sum is how long
	// all of them took.
	Counts []uint64
	Sum    time.Duration
	// Errors are calls that failed, by reason.
	Errors map[string]uint64
	// Leases is the number of slots that this process holds for requests in progress.
	Leases int
}

// Stats reads the figures.
func (s *Store) Stats() Stats {
	r := Stats{Up: s.lost.Load() == 0, Sum: time.Duration(s.stats.sum.Load()), Errors: map[string]uint64{}}
	for i := range s.stats.counts {
		r.Counts = append(r.Counts, s.stats.counts[i].Load())
	}
	for i, reason := range Reasons {
		r.Errors[reason] = s.stats.errors[i].Load()
	}
	s.leases.mu.Lock()
	r.Leases = len(s.leases.held)
	s.leases.mu.Unlock()
	return r
}

func (s *stats) called(d time.Duration) {
	i := 0
	for i < len(Bounds) && d > Bounds[i] {
		i++
	}
	s.counts[i].Add(1)
	s.sum.Add(int64(d))
}

func (s *stats) failed(err error) {
	reason := reasonOf(err)
	for i := range Reasons {
		if Reasons[i] == reason {
			s.errors[i].Add(1)
		}
	}
}

// reasonOf names what a call failed for.
func reasonOf(err error) string {
	said, ok := rueidis.IsRedisErr(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, errBusy):
		return "busy"
	case !ok:
		return "connection"
	}
	switch word, _, _ := strings.Cut(said.Error(), " "); word {
	case "READONLY":
		return "readonly"
	case "OOM":
		return "full"
	case "NOAUTH", "WRONGPASS", "NOPERM":
		return "auth"
	}
	return "refused"
}
