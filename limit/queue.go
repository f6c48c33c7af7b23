package limit

import (
	"fmt"
	"math/bits"
	"time"
)

// queue is a token bucket in which a request that does not fit yet is not refused
// but given a turn, up to a while ahead. It counts what waits as used, so that a
// State is that of a token bucket: used is above the burst while somebody waits.
//
// With a leaky bucket the burst is 1: each request leaves a period/permits after
// the one before, and TAT, when the next may, is At + (Used - Rem/parts)*W/N.
type queue struct {
	tokenBucket
	// whole units, and extra parts of one, fit with all places taken.
	whole int64
	extra uint64
	leaky bool
}

// MaxWait is the longest that a request may wait for its turn.
const MaxWait = time.Minute

// NewLeakyBucket returns the Bucket of a leaky bucket: requests leave a
// period/permits apart, and one that comes while another's turn is not over waits
// for its own, maxWait at most: Result.Wait says how long when it is OK. So many
// wait as Places says. A request of n units keeps the next from leaving for n
// turns.
//
// permits and per are bound as for NewTokenBucket; maxWait is at most MaxWait and
// makes at least one place; anything else is ErrNumbers.
func NewLeakyBucket(permits int64, per, maxWait time.Duration) (Bucket, error) {
	b, err := newQueue(permits, per, 1, maxWait)
	if err != nil {
		return nil, err
	}
	if b.whole < 2 {
		return nil, fmt.Errorf("%w: a wait of %v makes no place at %d per %v", ErrNumbers, maxWait, permits, per)
	}
	b.leaky = true
	return b, nil
}

// NewPatientBucket returns the Bucket of a token bucket that lets a request wait for the
// units it lacks, maxWait at most, instead of refusing it: Result.Wait says how long
// when it is OK. Remaining and Reset are of what can be had without a wait. The
// numbers are bound as for NewTokenBucket, and maxWait by MaxWait.
func NewPatientBucket(permits int64, per time.Duration, burst int64, maxWait time.Duration) (Bucket, error) {
	b, err := newQueue(permits, per, burst, maxWait)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func newQueue(permits int64, per time.Duration, burst int64, maxWait time.Duration) (queue, error) {
	b, err := NewTokenBucket(permits, per, burst)
	if err != nil {
		return queue{}, err
	}
	if maxWait < 0 || maxWait > MaxWait {
		return queue{}, fmt.Errorf("%w: a wait of %v; at most %v", ErrNumbers, maxWait, MaxWait)
	}
	q := queue{tokenBucket: b.(tokenBucket)}
	hi, lo := bits.Mul64(uint64(maxWait), q.n)
	if hi >= q.w {
		return queue{}, fmt.Errorf("%w: over 2^64 places", ErrNumbers)
	}
	places, extra := bits.Div64(hi, lo, q.w)
	if places > maxUnits {
		return queue{}, fmt.Errorf("%w: %d places; at most %d", ErrNumbers, places, int64(maxUnits))
	}
	q.whole, q.extra = burst+int64(places), extra
	return q, nil
}

// Places returns how many requests can wait at permits per period for maxWait at
// most: ⌊maxWait·permits/per⌋. All are at least 1, maxWait is at least 0.
func Places(permits int64, per, maxWait time.Duration) int64 {
	hi, lo := bits.Mul64(uint64(maxWait), uint64(permits))
	if hi >= uint64(per) {
		return maxUnits
	}
	q, _ := bits.Div64(hi, lo, uint64(per))
	return int64(min(q, maxUnits))
}

// free returns how many whole units fit into s, those that are to wait included.
func (b *queue) free(s *State) int64 {
	n := b.whole - s.Used
	if s.Rem+b.extra >= b.w {
		n++
	}
	return n
}

// holds returns what a State has in use at most, those that wait included, and how many
// parts a unit has.
func (b queue) holds() (units int64, parts uint64) { return b.whole, b.w }

// most is the most units that a request can ever have.
func (b *queue) most() int64 {
	if b.leaky {
		return b.whole
	}
	return b.burst
}

// Take implements Bucket.
func (b queue) Take(s State, now Instant, n int64) (State, Result) {
	next := s
	b.advance(&next, now)
	late := next.At.Sub(now)
	free := b.free(&next)
	var r Result
	switch {
	case n == 0:
		r.OK = true
	case n <= free && n <= b.most():
		r.OK = true
		if short := next.Used + n - max(n, b.burst); short > 0 {
			r.Wait = late + b.until(next.Rem, short)
		}
		next.Used += n
		free -= n
	case n > b.most():
		r.Wait = Never
	default:
		r.Wait = late + b.until(next.Rem+b.extra, next.Used+n-b.whole)
	}
	// What a leaky bucket has left are places, what a token bucket has are tokens.
	rem, left := next.Rem+b.extra, free
	if !b.leaky {
		rem, left = next.Rem, b.burst-next.Used
	}
	r.Remaining = max(0, left)
	switch {
	case next.Used <= 0:
	case left > 0:
		r.Reset = late + b.until(next.Rem, next.Used)
	case b.leaky:
		r.Reset = late + b.until(rem, next.Used+1-b.whole)
	default:
		r.Reset = late + b.until(rem, 1-left)
	}
	if !r.OK {
		return s, r
	}
	return next, r
}

// Adjust implements Bucket. While somebody waits nothing comes back but at the
// instant of the take: what was taken later has its turn already. A leaky bucket
// gives no turn back that is over.
func (b queue) Adjust(s State, at Instant, n int64) State {
	switch {
	case n <= 0:
		used := charge(s.Used, -n, b.whole)
		if used-s.Used < -n {
			s.Rem = 0
		}
		s.Used = used
		return s
	case at < s.At && (b.leaky || s.Used > b.burst):
		return s
	}
	return b.tokenBucket.Adjust(s, at, n)
}

// after is Take for a request that is not to leave before turn, since it waits
// for that elsewhere: what is left of the queue up to then stays empty.
func (b *queue) after(s State, now, turn Instant, n int64) (State, Result) {
	next := s
	b.advance(&next, now)
	if ahead := turn.Sub(next.At); ahead > 0 {
		// What has come back at turn, in parts, is in use until then.
		hi, lo := bits.Mul64(uint64(min(ahead, 2*MaxWait)), b.n)
		used, rem := bits.Div64(hi, lo, b.w) // fits: twice the places at most
		if rem > 0 {
			used, rem = used+1, b.w-rem
		}
		if int64(used) > next.Used || int64(used) == next.Used && rem < next.Rem {
			next.Used, next.Rem = int64(used), rem
		}
	}
	took, r := b.Take(next, now, n)
	if !r.OK {
		return s, r
	}
	return took, r
}

// isLast says that nobody has taken anything after the take that left mine, so
// that its turn can be given to another. Both are States of b.
func (b *queue) isLast(s, mine State, now Instant) bool {
	b.advance(&s, now)
	b.advance(&mine, s.At)
	return s.Used > 0 && s.Used == mine.Used && s.Rem == mine.Rem
}
