package proxy

import (
	"time"

	"gateway/limit"
)

// Clock tells the time to the limiter: the wall clock read once, plus the
// monotonic time since, so that it never steps back. It is immutable.
type Clock struct {
	start time.Time
	epoch limit.Instant
}

// NewClock returns a Clock that agrees with the wall clock now.
func NewClock() *Clock {
	now := time.Now()
	return &Clock{start: now, epoch: limit.InstantOf(now)}
}

// Now returns the present instant.
func (c *Clock) Now() limit.Instant { return c.epoch.Add(time.Since(c.start)) }
