package limit

import (
	"fmt"
	"time"
)

// concurrency counts requests in progress. Time means nothing to it.
type concurrency struct{ n int64 }

// NewConcurrency returns the Bucket of a limit on requests in progress: at most
// n at any moment. What is taken stays taken until it is given back, whenever
// that is; a refusal says to wait a second, since nobody knows better. n is at
// least 1, else ErrNumbers.
func NewConcurrency(n int64) (Bucket, error) {
	if n < 1 || n > maxUnits {
		return nil, fmt.Errorf("%w: %d requests in progress; 1 to %d", ErrNumbers, n, int64(maxUnits))
	}
	return concurrency{n}, nil
}

// Take implements Bucket.
func (b concurrency) Take(s State, now Instant, n int64) (State, Result) {
	next := s
	next.At = max(s.At, now)
	left := max(0, b.n-s.Used)
	if n == 0 || n <= left {
		next.Used += n
		return next, Result{OK: true, Remaining: max(0, left-n)}
	}
	if n > b.n {
		return s, Result{Remaining: left, Wait: Never}
	}
	return s, Result{Remaining: left, Wait: time.Second}
}

// Adjust implements Bucket. A slot comes back whenever it was taken.
func (b concurrency) Adjust(s State, _ Instant, n int64) State {
	s.Used = max(0, s.Used-n)
	return s
}

// Idle implements Bucket.
func (b concurrency) Idle(s State, _ Instant) bool { return s.Used <= 0 }
