package limit

import (
	"math/big"
	"time"
)

// model is the slow, obvious limiter the Buckets are compared with: it keeps a
// list of all events, goes through all of it for each question, and calculates
// in exact rationals. It knows nothing of State.
type model interface {
	// left is how many units could be taken at the instant now if nothing
	// happens before; it is fractional for a bucket and may be negative in debt.
	left(now Instant) *big.Rat
	// add notes that an event happened.
	add(e event)
	// most is the most units that can be admitted from one instant to another,
	// both included.
	most(from, to Instant) *big.Rat
}

type event struct {
	at Instant
	// units taken, when positive, or charged afterwards, when charged is set.
	units   int64
	charged bool
	// back is how many of units taken at the instant taken come back.
	back  int64
	taken Instant
}

func rat(n int64) *big.Rat { return big.NewRat(n, 1) }

func least(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

func most(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) >= 0 {
		return a
	}
	return b
}

// floorOf returns the largest integer not above x.
func floorOf(x *big.Rat) int64 {
	q, m := new(big.Int).DivMod(x.Num(), x.Denom(), new(big.Int))
	_ = m
	return q.Int64()
}

// tokenModel is a bucket with a real-valued level.
type tokenModel struct {
	permits, burst int64
	per            time.Duration
	events         []event
}

func (m *tokenModel) refill(from, to Instant) *big.Rat {
	if to <= from {
		return rat(0)
	}
	x := new(big.Rat).SetFrac(big.NewInt(m.permits), big.NewInt(int64(m.per)))
	return x.Mul(x, new(big.Rat).SetInt(new(big.Int).Sub(big.NewInt(int64(to)), big.NewInt(int64(from)))))
}

func (m *tokenModel) left(now Instant) *big.Rat {
	full := rat(m.burst)
	level := rat(m.burst)
	var last Instant
	for i, e := range m.events {
		if i > 0 {
			level = least(full, new(big.Rat).Add(level, m.refill(last, e.at)))
		}
		last = e.at
		switch {
		case e.back > 0: // what has not come back by itself
			owed := new(big.Rat).Sub(rat(e.back), m.refill(e.taken, e.at))
			level = new(big.Rat).Add(level, most(rat(0), owed))
		case e.charged:
			level = most(rat(-m.burst), new(big.Rat).Sub(level, rat(e.units)))
		default:
			level = new(big.Rat).Sub(level, rat(e.units))
		}
		if level.Cmp(full) > 0 {
			panic("model: a bucket above its burst")
		}
	}
	if len(m.events) > 0 {
		level = least(full, new(big.Rat).Add(level, m.refill(last, now)))
	}
	return level
}

func (m *tokenModel) add(e event) { m.events = append(m.events, e) }

func (m *tokenModel) most(from, to Instant) *big.Rat {
	return new(big.Rat).Add(rat(m.burst), m.refill(from, to))
}

// windowModel counts the events of the window now lies in.
type windowModel struct {
	permits int64
	per     time.Duration
	events  []event
}

// number is which window of Unix time an instant lies in.
func (m *windowModel) number(at Instant) int64 {
	return new(big.Int).Div(big.NewInt(int64(at)), big.NewInt(int64(m.per))).Int64() // rounds down, also below 0
}

func (m *windowModel) left(now Instant) *big.Rat {
	w := m.number(now)
	used := int64(0)
	for _, e := range m.events {
		switch {
		case m.number(e.at) != w:
		case e.back > 0:
			if m.number(e.taken) == w {
				used = max(0, used-e.back)
			}
		case e.charged:
			used = min(used+e.units, 2*m.permits)
		default:
			used += e.units
		}
	}
	return rat(m.permits - used)
}

func (m *windowModel) add(e event) { m.events = append(m.events, e) }

func (m *windowModel) most(from, to Instant) *big.Rat {
	return new(big.Rat).Mul(rat(m.number(to)-m.number(from)+1), rat(m.permits))
}
