package limit

import (
	"math/big"
	"time"
)

// queueModel keeps the instant at which the next request may leave, TAT, in exact
// rationals. A leaky bucket has a burst of 1.
type queueModel struct {
	permits, burst int64
	per, maxWait   time.Duration
	leaky          bool
	events         []event
}

func (m *queueModel) spacing(units *big.Rat) *big.Rat {
	x := new(big.Rat).SetFrac(big.NewInt(int64(m.per)), big.NewInt(m.permits))
	return x.Mul(x, units)
}

// ahead is how many units may be waited for beyond those that show.
func (m *queueModel) ahead() *big.Rat {
	if m.leaky {
		return rat(0)
	}
	return new(big.Rat).Quo(new(big.Rat).SetInt64(int64(m.maxWait)), m.spacing(rat(1)))
}

// depth is how many units fit with all places taken.
func (m *queueModel) depth() *big.Rat {
	return plus(rat(m.burst), new(big.Rat).Quo(new(big.Rat).SetInt64(int64(m.maxWait)), m.spacing(rat(1))))
}

// used is how many units are in use at now, those that wait included.
func (m *queueModel) used(now Instant) *big.Rat {
	tat := rat(-1 << 62)
	for _, e := range m.events {
		t := instantRat(e.at)
		used := new(big.Rat).Quo(minus(most(tat, t), t), m.spacing(rat(1)))
		switch {
		case e.back > 0 && e.taken >= e.at: // at once: all of it
			tat = minus(tat, m.spacing(rat(e.back)))
		case e.back > 0 && (m.leaky || used.Cmp(rat(m.burst)) > 0):
		case e.back > 0:
			owed := minus(m.spacing(rat(e.back)), minus(t, instantRat(e.taken)))
			tat = minus(tat, most(rat(0), owed))
		case e.charged:
			whole := rat(floorOf(m.depth()))
			limit := plus(t, m.spacing(plus(whole, whole)))
			tat = most(tat, least(plus(most(tat, t), m.spacing(rat(e.units))), limit))
		default:
			tat = plus(most(tat, t), m.spacing(rat(e.units)))
		}
	}
	t := instantRat(now)
	return new(big.Rat).Quo(minus(most(tat, t), t), m.spacing(rat(1)))
}

func (m *queueModel) left(now Instant) *big.Rat { return minus(m.depth(), m.used(now)) }

// turn is how long a request of n units that is taken at now has to wait.
func (m *queueModel) turn(now Instant, n int64) time.Duration {
	if n == 0 {
		return 0
	}
	short := minus(plus(m.used(now), rat(n)), rat(max(n, m.burst)))
	if short.Sign() <= 0 {
		return 0
	}
	return time.Duration(-floorOf(new(big.Rat).Neg(m.spacing(short))))
}

func (m *queueModel) add(e event) { m.events = append(m.events, e) }

func (m *queueModel) most(from, to Instant) *big.Rat {
	passed := new(big.Rat).SetInt(new(big.Int).Sub(big.NewInt(int64(to)), big.NewInt(int64(from))))
	return plus(m.depth(), passed.Quo(passed, m.spacing(rat(1))))
}

// patience is how long requests wait in the rows: for about so many units and a
// third of one.
func patience(permits int64, per time.Duration, units int64) time.Duration {
	d, ok := fillTime(3*min(units, 1<<40)+1, permits, per)
	if !ok {
		return MaxWait
	}
	return min(MaxWait, d/3+1)
}

// queueRows are in the laws but not in the tests that know nothing of waiting.
var queueRows = []algorithm{
	{
		name: "leaky_bucket",
		make: func(permits int64, per time.Duration, burst int64) (Bucket, error) {
			return NewLeakyBucket(permits, per, patience(permits, per, burst))
		},
		model: func(permits int64, per time.Duration, burst int64) model {
			return &queueModel{permits: permits, burst: 1, per: per, maxWait: patience(permits, per, burst), leaky: true}
		},
		bursts: true,
		pers:   shortPeriods,
	},
	{
		name: "token_bucket with max_wait",
		make: func(permits int64, per time.Duration, burst int64) (Bucket, error) {
			return NewPatientBucket(permits, per, burst, patience(permits, per, burst))
		},
		model: func(permits int64, per time.Duration, burst int64) model {
			return &queueModel{permits: permits, burst: burst, per: per, maxWait: patience(permits, per, burst)}
		},
		bursts: true,
		pers:   shortPeriods,
	},
}

// shortPeriods are such that in a minute at least one unit comes back.
var shortPeriods = []time.Duration{1, 7, 1000, time.Second, 7 * time.Second, time.Minute}
