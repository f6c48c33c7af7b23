package redis

import (
	"errors"
	"sync/atomic"
	"time"

	"gateway/limit"
)

// clock tells about what time it is at the store. That has to be right to half a
// window of a calendar, else the store says so and is asked again.
type clock struct {
	here  func() limit.Instant // by this machine
	ahead atomic.Int64         // how far the store's is ahead, as it said when it was wrong
}

func (c *clock) there() limit.Instant { return c.here().Add(time.Duration(c.ahead.Load())) }

// correct notes what time the store says it is.
func (c *clock) correct(t wrongTime) { c.ahead.Store(int64(t)*1000 - int64(c.here())) }

// corrects corrects the clock if err says what time the store has, and reports that.
func (c *clock) corrects(err error) bool {
	var t wrongTime
	if !errors.As(err, &t) {
		return false
	}
	c.correct(t)
	return true
}

// wrongTime is the error of an answer that takes nothing, since the edges it was
// asked with are of another time than the store's, which it is, in microseconds.
type wrongTime int64

// Error implements error.
func (wrongTime) Error() string { return "the clock of the store is not where it was" }

// corrections is how often one call is made again for that.
const corrections = 2

// micros returns the microsecond that at lies in.
func micros(at limit.Instant) int64 { return int64(at) / int64(time.Microsecond) }
