package limit

import (
	"math/big"
	"time"
)

// gcraModel keeps one theoretical arrival time in exact rationals, as ITU-T
// I.371 has it; nothing in it is a level or a refill. It and tokenModel are the
// two oracles of one algorithm.
type gcraModel struct {
	permits, burst int64
	per            time.Duration
	events         []event
}

// spacing is the time of one unit, W/N.
func (m *gcraModel) spacing(units int64) *big.Rat {
	x := new(big.Rat).SetFrac(big.NewInt(int64(m.per)), big.NewInt(m.permits))
	return x.Mul(x, rat(units))
}

func instantRat(at Instant) *big.Rat { return new(big.Rat).SetInt64(int64(at)) }

func plus(a, b *big.Rat) *big.Rat  { return new(big.Rat).Add(a, b) }
func minus(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }

func (m *gcraModel) left(now Instant) *big.Rat {
	tat := rat(-1 << 62)
	for _, e := range m.events {
		t := instantRat(e.at)
		switch {
		case e.back > 0: // nW/N of the take at e.taken, less the time that went by
			owed := minus(m.spacing(e.back), minus(t, instantRat(e.taken)))
			tat = minus(tat, most(rat(0), owed))
		case e.charged: // at most 2B units ahead: a debt of one burst
			tat = least(plus(most(tat, t), m.spacing(e.units)), plus(t, m.spacing(2*m.burst)))
		default:
			tat = plus(most(tat, t), m.spacing(e.units))
		}
	}
	t := instantRat(now)
	free := minus(m.spacing(m.burst), minus(most(tat, t), t)) // BW/N + t - max(TAT, t)
	return free.Quo(free, m.spacing(1))
}

func (m *gcraModel) add(e event) { m.events = append(m.events, e) }

func (m *gcraModel) most(from, to Instant) *big.Rat {
	passed := new(big.Rat).SetInt(new(big.Int).Sub(big.NewInt(int64(to)), big.NewInt(int64(from))))
	return plus(rat(m.burst), passed.Quo(passed, m.spacing(1)))
}

// slidingModel weighs the units of two windows of Unix time.
type slidingModel struct {
	windowModel
}

// count is how many units the window of that number has in the end.
func (m *slidingModel) count(w int64) int64 {
	used := int64(0)
	for _, e := range m.events {
		switch {
		case e.back > 0:
			if m.number(e.taken) == w && m.number(e.at)-w <= 1 { // later it is forgotten
				used = max(0, used-e.back)
			}
		case m.number(e.at) != w:
		case e.charged:
			used = max(used, min(used+e.units, 2*m.permits))
		default:
			used += e.units
		}
	}
	return used
}

func (m *slidingModel) left(now Instant) *big.Rat {
	w := m.number(now)
	begin := new(big.Int).Mul(big.NewInt(w), big.NewInt(int64(m.per)))
	e := new(big.Int).Sub(big.NewInt(int64(now)), begin)
	part := minus(rat(1), new(big.Rat).SetFrac(e, big.NewInt(int64(m.per)))) // 1 - e/W
	estimate := plus(part.Mul(part, rat(m.count(w-1))), rat(m.count(w)))
	return minus(rat(m.permits), estimate)
}

// most: N a window, and less than 2N in any time of W.
func (m *slidingModel) most(from, to Instant) *big.Rat {
	all := m.windowModel.most(from, to)
	if to.Sub(from) <= m.per {
		return least(all, rat(2*m.permits-1))
	}
	return all
}

// logModel lists every unit's instant and counts those later than now - W.
type logModel struct {
	permits int64
	per     time.Duration
	events  []event
}

func (m *logModel) left(now Instant) *big.Rat {
	type held struct {
		at    Instant
		units int64
	}
	var list []held
	counted := func(at Instant) (n int64) {
		for _, h := range list {
			if h.at > at-Instant(m.per) {
				n += h.units
			}
		}
		return n
	}
	for _, e := range m.events {
		switch {
		case e.back > 0:
			n := e.back
			for i := range list {
				if list[i].at == e.taken {
					k := min(n, list[i].units)
					list[i].units -= k
					n -= k
				}
			}
		case e.charged:
			used := counted(e.at)
			list = append(list, held{e.at, max(0, min(e.units, 2*m.permits-used))})
		default:
			list = append(list, held{e.at, e.units})
		}
	}
	return rat(m.permits - counted(now))
}

func (m *logModel) add(e event) { m.events = append(m.events, e) }

// most: exactly N in any half-open span of W.
func (m *logModel) most(from, to Instant) *big.Rat {
	spans := int64(to.Sub(from)/m.per) + 1
	return new(big.Rat).Mul(rat(spans), rat(m.permits))
}

// slotModel counts what is in progress; time is nothing to it.
type slotModel struct {
	n, inflight int64
}

func (m *slotModel) left(Instant) *big.Rat { return rat(m.n - m.inflight) }

func (m *slotModel) add(e event) {
	if e.charged {
		m.inflight += e.units
		return
	}
	m.inflight += e.units - e.back
}

// most counts what was never given back: that is in progress to the end.
func (m *slotModel) most(_, _ Instant) *big.Rat { return rat(m.n) }
