package limit

import (
	"fmt"
	"math/bits"
	"time"
)

// tokenBucket refills permits units each period, evenly, up to burst.
//
// All is exact: a State counts the units in use and, in rem, the parts of a
// unit that have come back beyond whole ones. One unit has w parts and each
// nanosecond brings n of them, with n/w = permits/period in lowest terms.
type tokenBucket struct {
	n, w  uint64
	burst int64
}

// NewTokenBucket returns the Bucket of a token bucket: it starts full with
// burst units, refills permits of them per period continuously, and admits
// whatever it holds. At most burst + permits*T/period units pass in any time T.
//
// permits and burst are at least 1, per is at most 366 days, and filling an
// empty bucket takes at most 100 years; anything else is ErrNumbers.
func NewTokenBucket(permits int64, per time.Duration, burst int64) (Bucket, error) {
	if err := checkRate(permits, per); err != nil {
		return nil, err
	}
	if burst < 1 || burst > maxUnits {
		return nil, fmt.Errorf("%w: a burst of %d; 1 to %d", ErrNumbers, burst, int64(maxUnits))
	}
	if _, ok := fillTime(burst, permits, per); !ok {
		return nil, fmt.Errorf("%w: filling a burst of %d at %d per %v takes over 100 years", ErrNumbers, burst, permits, per)
	}
	d := gcd(uint64(permits), uint64(per))
	return tokenBucket{n: uint64(permits) / d, w: uint64(per) / d, burst: burst}, nil
}

// Take implements Bucket.
func (b tokenBucket) Take(s State, now Instant, n int64) (State, Result) {
	next := s
	var r Result
	if b.take(&next, now, n, &r); !r.OK {
		return s, r
	}
	return next, r
}

// take is Take in place: s is advanced also when it is refused. It is what runs
// for every request, and a State is too large to be handed around in registers.
func (b *tokenBucket) take(s *State, now Instant, n int64, r *Result) {
	used, rem, at := s.Used, s.Rem, s.At
	switch {
	case used <= 0:
		used, rem = 0, 0
		if now > at || at == 0 { // 0: never seen, so now may lie before 1970
			at = now
		}
	case now > at:
		hi, lo := bits.Mul64(uint64(now-at), b.n)
		lo, carry := bits.Add64(lo, rem, 0)
		if at, rem = now, lo; hi+carry > 0 || lo >= b.w { // else no whole unit came back: the usual case under load
			used, rem = b.refill(used, hi+carry, lo)
		}
	}
	late := at.Sub(now) // 0 but for a caller whose clock lags behind the State
	left := b.burst - used
	ok, wait, reset := n <= left || n == 0, time.Duration(0), time.Duration(0)
	if ok {
		used += n
		left -= n
	} else {
		wait = Never
		if n <= b.burst {
			wait = late + b.until(rem, n-left)
		}
	}
	if used > 0 {
		k := used
		if left <= 0 {
			k = 1 - left
		}
		reset = late + b.until(rem, k)
	}
	s.Used, s.Rem, s.At = used, rem, at
	r.OK, r.Remaining, r.Wait, r.Reset = ok, max(0, left), wait, reset
}

// Adjust implements Bucket.
func (b tokenBucket) Adjust(s State, at Instant, n int64) State {
	if n <= 0 {
		used := charge(s.Used, -n, b.burst)
		if used-s.Used < -n {
			s.Rem = 0 // the whole debt of one burst, not a part of a unit less
		}
		s.Used = used
		return s
	}
	// In parts: what the take holds is n*w, less what refilled since.
	giveHi, giveLo := bits.Mul64(uint64(n), b.w)
	if s.At > at {
		hi, lo := bits.Mul64(uint64(s.At-at), b.n)
		var borrow uint64
		giveLo, borrow = bits.Sub64(giveLo, lo, 0)
		giveHi, borrow = bits.Sub64(giveHi, hi, borrow)
		if borrow != 0 {
			return s
		}
	}
	useHi, useLo := bits.Mul64(uint64(s.Used), b.w)
	useLo, borrow := bits.Sub64(useLo, s.Rem, 0)
	useHi -= borrow
	useLo, borrow = bits.Sub64(useLo, giveLo, 0)
	useHi, borrow = bits.Sub64(useHi, giveHi, borrow)
	if borrow != 0 {
		s.Used, s.Rem = 0, 0
		return s
	}
	q, r := bits.Div64(useHi, useLo, b.w) // fits: it is at most s.Used
	s.Used, s.Rem = int64(q), 0
	if r > 0 {
		s.Used, s.Rem = int64(q)+1, b.w-r
	}
	return s
}

// holds returns the burst, of which a State has at most twice as much in use, and how
// many parts a unit has, of which its Rem is less.
func (b tokenBucket) holds() (units int64, parts uint64) { return b.burst, b.w }

// Idle implements Bucket.
func (b tokenBucket) Idle(s State, now Instant) bool {
	b.advance(&s, now)
	return s.Used <= 0
}

// advance refills s up to now, in place.
func (b *tokenBucket) advance(s *State, now Instant) {
	if s.Used <= 0 {
		s.Used, s.Rem = 0, 0
		if now > s.At || s.At == 0 { // At 0: never seen, so now may lie before 1970
			s.At = now
		}
		return
	}
	if now <= s.At {
		return
	}
	hi, lo := bits.Mul64(uint64(now-s.At), b.n)
	lo, carry := bits.Add64(lo, s.Rem, 0)
	s.At = now
	s.Used, s.Rem = b.refill(s.Used, hi+carry, lo)
}

// refill returns what of used units, more than none, is in use once so many parts have
// come back, those of a unit that had before included; and the parts of the next.
func (b *tokenBucket) refill(used int64, hi, lo uint64) (int64, uint64) {
	// All of them, as a rule: a product tells that at a fraction of what a division costs.
	if fullHi, fullLo := bits.Mul64(uint64(used), b.w); hi > fullHi || hi == fullHi && lo >= fullLo {
		return 0, 0
	}
	q, r := bits.Div64(hi, lo, b.w) // fits: it is less than used
	return used - int64(q), r
}

// until returns the time until k more units have come back, rounded up, when
// rem parts of the first already have.
func (b *tokenBucket) until(rem uint64, k int64) time.Duration {
	hi, lo := bits.Mul64(uint64(k), b.w)
	lo, borrow := bits.Sub64(lo, rem, 0)
	hi -= borrow
	if b.n == 1 && hi == 0 {
		return time.Duration(lo)
	}
	q, r := bits.Div64(hi, lo, b.n) // fits: 2*maxFill < 2^63
	if r > 0 {
		q++
	}
	return time.Duration(q)
}
