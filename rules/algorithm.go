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
	leakyBucket   = "leaky_bucket"
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
	if err := r.bucket(&n, p, zone); err != nil {
		return n, err
	}
	switch {
	case r.Refund == nil:
	case zone != nil:
		n.Refunds = n.Bucket
	default: // at most the limit's own number comes back in a period
		if n.Refunds, err = limit.NewFixedWindow(p.Rate.Permits, p.Rate.Period); err != nil {
			return n, err
		}
	}
	if r.Penalty != (PenaltySpec{}) {
		n.Penalty, err = limit.NewPenalty(r.Penalty.After.Permits, r.Penalty.After.Period, r.Penalty.Block, r.Penalty.Max)
	}
	return n, err
}

// bucket fills in what counts.
func (r *RuleSpec) bucket(n *limit.Numbers, p *PlanSpec, zone *limit.Zone) (err error) {
	switch r.Algorithm {
	case concurrency:
		n.Slots = true
		n.Bucket, err = limit.NewConcurrency(p.Concurrency)
	case fixedWindow:
		if zone != nil {
			n.Bucket, err = limit.NewCalendarWindow(p.Rate.Permits, p.Rate.Span, zone)
			break
		}
		n.Bucket, err = limit.NewFixedWindow(p.Rate.Permits, p.Rate.Period)
	case slidingWindow:
		n.Bucket, err = limit.NewSlidingWindow(p.Rate.Permits, p.Rate.Period)
	case slidingLog:
		n.Bucket, err = limit.NewSlidingLog(p.Rate.Permits, p.Rate.Period)
	case leakyBucket:
		n.Carry = 1 + r.places(p)
		if n.Carry == 1 { // one gateway's share of a limit: who comes before its turn is refused
			n.Bucket, err = limit.NewTokenBucket(p.Rate.Permits, p.Rate.Period, 1)
			break
		}
		n.Bucket, err = limit.NewLeakyBucket(p.Rate.Permits, p.Rate.Period, r.MaxWait)
	default:
		n.Carry = p.Burst + r.places(p)
		switch {
		case r.MaxWait > 0:
			n.Bucket, err = limit.NewPatientBucket(p.Rate.Permits, p.Rate.Period, p.Burst, r.MaxWait)
		case r.Algorithm == gcra:
			n.Bucket, err = limit.NewGCRA(p.Rate.Permits, p.Rate.Period, p.Burst)
		default:
			n.Bucket, err = limit.NewTokenBucket(p.Rate.Permits, p.Rate.Period, p.Burst)
		}
	}
	return err
}

// places returns how many requests of a key can wait for their turn.
func (r *RuleSpec) places(p *PlanSpec) int64 {
	if r.MaxWait == 0 {
		return 0
	}
	return limit.Places(p.Rate.Permits, p.Rate.Period, r.MaxWait)
}
