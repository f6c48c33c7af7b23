package rules

import "gateway/limit"

// The algorithms, by the name they have in the file. Concurrency is none of
// `algorithm`, but counts like one.
const (
	tokenBucket   = "token_bucket"
	gcra          = "gcra"
	fixedWindow   = "fixed_window"
	slidingWindow = "sliding_window"
	slidingLog    = "sliding_window_log"
	concurrency   = "concurrency"
)

// hasBurst reports whether the algorithm is a bucket with a size of its own.
func hasBurst(algorithm string) bool { return algorithm == tokenBucket || algorithm == gcra }

// isWindow reports whether the algorithm counts in windows of the period, so
// that another period makes another counter.
func isWindow(algorithm string) bool {
	return algorithm == fixedWindow || algorithm == slidingWindow || algorithm == slidingLog
}

// numbers returns what a Table needs to know.
func (r *RuleSpec) numbers() (n limit.Numbers, err error) {
	switch r.Algorithm {
	case concurrency:
		n.Slots = true
		n.Bucket, err = limit.NewConcurrency(r.Concurrency)
	case fixedWindow:
		n.Bucket, err = limit.NewFixedWindow(r.Rate.Permits, r.Rate.Period)
	case slidingWindow:
		n.Bucket, err = limit.NewSlidingWindow(r.Rate.Permits, r.Rate.Period)
	case slidingLog:
		n.Bucket, err = limit.NewSlidingLog(r.Rate.Permits, r.Rate.Period)
	case gcra:
		n.Carry = r.Burst
		n.Bucket, err = limit.NewGCRA(r.Rate.Permits, r.Rate.Period, r.Burst)
	default:
		n.Carry = r.Burst
		n.Bucket, err = limit.NewTokenBucket(r.Rate.Permits, r.Rate.Period, r.Burst)
	}
	if err == nil && r.Refund.Set {
		// At most the limit's own number comes back in a period.
		n.Refunds, err = limit.NewFixedWindow(r.Rate.Permits, r.Rate.Period)
	}
	return n, err
}

// Size returns the most units that a client can have at once: the burst of a
// bucket, the limit of a window, the requests in progress.
func (r *Rule) Size() int64 {
	switch {
	case r.Algorithm == concurrency:
		return r.Concurrency
	case hasBurst(r.Algorithm):
		return r.Burst
	}
	return r.Permits
}
