package upstream

import (
	"net/url"
	"sync/atomic"
	"time"
)

// Server is one server of a pool. Its counters are atomics, read at any time.
type Server struct {
	// URL is what the file says: scheme http, https or h2c, host, base path.
	URL *url.URL

	scheme string // http or https
	base   string // escaped base path without a slash at its end; may be empty
	h2c    bool

	inFlight atomic.Int64
	answers  [6]atomic.Uint64 // by status / 100; [0] those past 5xx
	failures atomic.Uint64

	// Passive health; written under Pool.health.
	row atomic.Int32 // failures in a row
	out atomic.Int64 // instant until which the server is out; 0: in
}

// ServerStats is a reading of one server's counters.
type ServerStats struct {
	// URL is the server as the file names it.
	URL *url.URL
	// InFlight counts requests in progress, open tunnels included.
	InFlight int64
	// Answers counts answers by the class of their status: Answers[2] the 2xx;
	// Answers[0] statuses above 599.
	Answers [6]uint64
	// Failures counts attempts that got no usable answer by the server's fault
	// (answered 502 or 504 unless another server took over).
	Failures uint64
	// Up is false while the server is out after failures in a row.
	Up bool
}

// Durations is a histogram of the time to the first byte of an answer.
type Durations struct {
	// Counts has one number for each of DurationBounds, not cumulative, and
	// a last one for what took longer.
	Counts []uint64
	// Sum is the time of all of them.
	Sum time.Duration
}
