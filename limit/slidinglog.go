package limit

import "time"

// slidingLog counts units exactly: those taken in the last w nanoseconds, each
// remembered with its instant. The instants are in a list beside the State,
// which alone says the newest of them (At) and how many units there are (Used):
// enough for Idle, and a safe answer for everything else.
type slidingLog struct {
	n, w int64
}

// NewSlidingLog returns the Bucket of an exact sliding window: never more than
// permits in any time of per. It remembers up to permits instants a key, 16
// bytes each, which the Table keeps in a list of its own and accounts for.
// permits is at least 1 and per at most 366 days, else ErrNumbers.
func NewSlidingLog(permits int64, per time.Duration) (Bucket, error) {
	if err := checkRate(permits, per); err != nil {
		return nil, err
	}
	return slidingLog{n: permits, w: int64(per)}, nil
}

// Take implements Bucket as if all units had been taken at s.At: it may refuse
// what takeFrom admits, never the reverse.
func (b slidingLog) Take(s State, now Instant, n int64) (State, Result) {
	l := stamps{}
	if s.Used > 0 {
		l.push(s.At, s.Used)
	}
	return b.takeFrom(&l, s, now, n)
}

// takeFrom is Take with the list of s, which says how many units there are. It
// drops what is too old from the list but does not add the take to it.
func (b slidingLog) takeFrom(l *stamps, s State, now Instant, n int64) (State, Result) {
	at := now
	if l.n > 0 {
		at = max(now, l.newest().at)
	}
	late := at.Sub(now)
	l.dropUntil(at - Instant(b.w))
	next := s
	next.Used = l.units
	left := max(0, b.n-next.Used)
	if n == 0 || n <= left {
		next.Used += n
		if n > 0 {
			next.At = at
		}
		left = max(0, left-n)
		r := Result{OK: true, Remaining: left}
		if n > 0 && left > 0 {
			r.Reset = late + time.Duration(b.w) // the newest is the one just taken
		} else {
			r.Reset = b.reset(l, next.Used, left, at, late, n)
		}
		return next, r
	}
	r := Result{Remaining: left, Wait: Never, Reset: b.reset(l, next.Used, left, at, late, 0)}
	if n <= b.n {
		r.Wait = late + b.until(l, next.Used+n-b.n, at)
	}
	return s, r
}

// reset returns the time until one unit more fits when none is left, and until
// all fit otherwise. taken units at the instant at are not in the list yet.
func (b slidingLog) reset(l *stamps, used, left int64, at Instant, late time.Duration, taken int64) time.Duration {
	switch {
	case used <= 0:
		return 0
	case left > 0:
		return late + l.newest().at.Add(time.Duration(b.w)).Sub(at)
	}
	k := used - b.n + 1
	if k > used-taken { // the units just taken have to go too
		return late + time.Duration(b.w)
	}
	return late + b.until(l, k, at)
}

// until returns the time until the k-th oldest unit is w old.
func (b slidingLog) until(l *stamps, k int64, at Instant) time.Duration {
	for i := range l.n {
		s := l.at(i)
		if k -= s.units; k <= 0 {
			return s.at.Add(time.Duration(b.w)).Sub(at)
		}
	}
	return time.Duration(b.w)
}

// Adjust implements Bucket for a State without its list: see adjustIn.
func (b slidingLog) Adjust(s State, at Instant, n int64) State {
	l := stamps{}
	if s.Used > 0 {
		l.push(s.At, s.Used)
	}
	return b.adjustIn(&l, s, at, n)
}

// adjustIn is Adjust with the list of s. A give-back goes to its own entry, and
// nowhere when that is too old to count.
func (b slidingLog) adjustIn(l *stamps, s State, at Instant, n int64) State {
	if n <= 0 {
		if used := charge(l.units, -n, b.n); used > l.units {
			l.push(at, used-l.units)
		}
	} else {
		l.giveBack(at, n)
	}
	s.Used = l.units
	if l.n > 0 {
		s.At = l.newest().at
	}
	return s
}

// Idle implements Bucket.
func (b slidingLog) Idle(s State, now Instant) bool {
	return s.Used <= 0 || now.Sub(s.At) >= time.Duration(b.w)
}

// stamps is the list of a key in a sliding log: instants with units, oldest
// first, in a ring. The oldest and the newest have units; one between may have
// given all of them back. The zero stamps is empty.
type stamps struct {
	ring  []stamp
	head  int // of the oldest
	n     int
	units int64 // of all of them
}

type stamp struct {
	at    Instant
	units int64
}

const (
	stampBytes = 16
	minRing    = 4
)

// at returns entry i, 0 being the oldest.
func (l *stamps) at(i int) *stamp {
	if i += l.head; i >= len(l.ring) {
		i -= len(l.ring)
	}
	return &l.ring[i]
}

func (l *stamps) newest() *stamp { return l.at(l.n - 1) }

// dropUntil drops the entries at t and older.
func (l *stamps) dropUntil(t Instant) {
	if l.n > 0 && l.newest().at <= t { // all of them, however many there are
		l.head, l.n, l.units = 0, 0, 0
		return
	}
	for l.n > 0 && (l.at(0).at <= t || l.at(0).units == 0) {
		l.units -= l.at(0).units
		if l.head++; l.head == len(l.ring) {
			l.head = 0
		}
		l.n--
	}
}

// grown returns how many places the ring needs for one entry more at the
// instant at: as many as it has if there is room, or enough of its entries have
// no units that to close up is worth it.
func (l *stamps) grown(at Instant) int {
	if l.n < len(l.ring) || l.n > 0 && l.newest().at >= at {
		return len(l.ring)
	}
	empty := 0
	for i := range l.n {
		if l.at(i).units == 0 {
			empty++
		}
	}
	if empty > l.n/4 {
		return len(l.ring)
	}
	return max(minRing, len(l.ring)+(len(l.ring)+1)/2)
}

// enough returns how many places are enough when the ring has far too many, else 0.
func (l *stamps) enough() int {
	if n := max(minRing, 2*l.n); n <= len(l.ring)/2 {
		return n
	}
	return 0
}

// push adds units at the instant at, or at the newest instant if that is later.
func (l *stamps) push(at Instant, units int64) {
	l.units += units
	if l.n > 0 && l.newest().at >= at {
		l.newest().units += units
		return
	}
	if l.n == len(l.ring) {
		if c := l.grown(at); c > len(l.ring) {
			l.resize(c)
		} else {
			l.closeUp()
		}
	}
	l.n++
	*l.newest() = stamp{at, units}
}

// closeUp takes out the entries that have no units.
func (l *stamps) closeUp() {
	n := 0
	for i := range l.n {
		if s := *l.at(i); s.units > 0 {
			*l.at(n) = s
			n++
		}
	}
	l.n = n
}

// resize moves the entries that still hold units to a ring of c places.
func (l *stamps) resize(c int) { l.moveTo(make([]stamp, c)) }

// moveTo is resize with the new ring.
func (l *stamps) moveTo(ring []stamp) {
	l.closeUp()
	for i := range l.n {
		ring[i] = *l.at(i)
	}
	l.ring, l.head = ring, 0
}

// giveBack takes up to n units off the entry of the instant at. Entries are
// found by halving.
func (l *stamps) giveBack(at Instant, n int64) {
	lo, hi := 0, l.n
	for lo < hi {
		if m := (lo + hi) / 2; l.at(m).at < at {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo == l.n || l.at(lo).at != at {
		return
	}
	s := l.at(lo)
	n = min(n, s.units)
	s.units -= n
	l.units -= n
	for l.n > 0 && l.newest().units == 0 {
		l.n--
	}
}
