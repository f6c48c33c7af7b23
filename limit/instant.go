package limit

import "time"

// Instant is a point in time in nanoseconds since the Unix epoch, in UTC and
// without leap seconds. It covers the years 1678 to 2262. Windows need it to be
// absolute; everything else only compares and subtracts.
type Instant int64

// InstantOf returns the Instant of t. It is undefined outside 1678 to 2262.
func InstantOf(t time.Time) Instant { return Instant(t.UnixNano()) }

// Add returns the Instant d after i.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i; it is negative when i is the earlier one.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Time returns i as a time.Time in UTC.
func (i Instant) Time() time.Time { return time.Unix(0, int64(i)).UTC() }
