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

// numbers returns what a Table needs to know of a plan.
// zone is that of its calendar, nil without one.
func (r *RuleSpec) numbers(p *PlanSpec, zone *limit.Zone) (n limit.Numbers, err error) {
	if zone != nil {
		n.Bucket, err = limit.NewCalendarWindow(p.Rate.Permits, p.Rate.Span, zone)
		if r.Refund.Set {
			n.Refunds = n.Bucket
		}
		return n, err
	}
	switch r.Algorithm {
	case concurrency:
		n.Slots = true
		n.Bucket, err = limit.NewConcurrency(p.Concurrency)
	case fixedWindow:
		n.Bucket, err = limit.NewFixedWindow(p.Rate.Permits, p.Rate.Period)
	case slidingWindow:
		n.Bucket, err = limit.NewSlidingWindow(p.Rate.Permits, p.Rate.Period)
	case slidingLog:
		n.Bucket, err = limit.NewSlidingLog(p.Rate.Permits, p.Rate.Period)
	case gcra:
		n.Carry = p.Burst
		n.Bucket, err = limit.NewGCRA(p.Rate.Permits, p.Rate.Period, p.Burst)
	default:
		n.Carry = p.Burst
		n.Bucket, err = limit.NewTokenBucket(p.Rate.Permits, p.Rate.Period, p.Burst)
	}
	if err == nil && r.Refund.Set {
		// At most the limit's own number comes back in a period.
		n.Refunds, err = limit.NewFixedWindow(p.Rate.Permits, p.Rate.Period)
	}
	return n, err
}
