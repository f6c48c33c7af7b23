package limit

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// State is all that is remembered of one key under one rule. It is plain data
// without pointers, so that the garbage collector never walks a Table, and it
// never depends on the numbers of the limit: it says what was used, not what is
// left. The zero State is a client never seen.
type State struct {
	// At is the instant Used is counted at: the last refill of a token bucket,
	// the start of the window of a fixed window.
	At Instant
	// Used is the number of units in use, rounded up. It is above the burst
	// only for a bucket in debt.
	Used int64
	// Rem is what a token bucket has refilled beyond whole units, in parts of a
	// unit (the limit's period, reduced, says how many parts make one): exactly
	// Used - Rem/parts units are in use. Windows leave it 0.
	Rem uint64
	Life
}

// Life says which life of a key a State belongs to. It is a struct of its own so
// that a State has four fields: the compiler keeps no more than that in
// registers, and a State is handed around for every request.
type Life struct {
	// Gen is the generation of numbers the State was last counted under.
	Gen uint32
	// Born tells two lives of one key apart, so that a Grant of the first gives
	// nothing back to the second. The Table sets it.
	Born uint32
}

// Never is the Wait of a request that can never pass, however long it waits:
// it asks for more than the limit can ever hold.
const Never time.Duration = -1

// Result is what one Bucket says of one take.
type Result struct {
	// OK says that the units were there. A Result that is not OK took nothing.
	OK bool
	// Remaining is the number of whole units left after the take; never negative.
	Remaining int64
	// Wait is 0 when OK. Otherwise it is the least time after which the same
	// take passes if nobody else comes, or Never.
	Wait time.Duration
	// Reset is the time until another unit can be had when Remaining is 0, and
	// until all of them can be had otherwise.
	Reset time.Duration
}

// countFrom makes r, the answer at the instant at, count its times from now, of
// a caller whose clock lags behind what the shard has seen.
func (r *Result) countFrom(now, at Instant) {
	if at <= now {
		return
	}
	if r.Wait > 0 {
		r.Wait += at.Sub(now)
	}
	if r.Reset > 0 {
		r.Reset += at.Sub(now)
	}
}

// Bucket is an algorithm with its numbers filled in. It holds no state, no
// clock and no key; its methods are pure and may be called at the same time.
// Values are comparable: two that are equal decide alike.
type Bucket interface {
	// Take asks for n units (0 or more) at now. When they are there it returns
	// the State after the take, else s itself. A now before s.At counts as s.At.
	// A take of 0 units always passes and only brings the State up to now.
	Take(s State, now Instant, n int64) (State, Result)
	// Adjust gives back n units that were taken at the instant at, when n is
	// positive: what has refilled since is not given twice, and a window that is
	// over takes nothing back. s must have been brought up to the present by a
	// Take of 0. When n is negative it charges -n units afterwards (at is now),
	// down to a debt of one burst.
	Adjust(s State, at Instant, n int64) State
	// Idle says that from now on s cannot be told from the zero State, so that
	// forgetting it changes no decision.
	Idle(s State, now Instant) bool
}

const (
	// maxUnits bounds permits and burst, so that sums of a few of them fit.
	maxUnits  = 1_000_000_000_000_000
	maxPeriod = 366 * 24 * time.Hour
	// maxFill bounds how long a bucket may take to fill, so that no wait
	// overflows an int64 of nanoseconds (292 years), debt included.
	maxFill = 100 * 366 * 24 * time.Hour
)

// ErrNumbers is the error of every constructor here that got numbers no limit can have.
var ErrNumbers = errors.New("limit: unusable numbers")

func checkRate(permits int64, per time.Duration) error {
	if permits < 1 || permits > maxUnits {
		return fmt.Errorf("%w: %d permits; 1 to %d", ErrNumbers, permits, int64(maxUnits))
	}
	if per < 1 || per > maxPeriod {
		return fmt.Errorf("%w: a period of %v; 1ns to 366 days", ErrNumbers, per)
	}
	return nil
}

// fillTime returns ceil(units*per/permits), or false when it is over maxFill.
func fillTime(units, permits int64, per time.Duration) (time.Duration, bool) {
	hi, lo := bits.Mul64(uint64(units), uint64(per))
	if hi >= uint64(permits) {
		return 0, false
	}
	q, r := bits.Div64(hi, lo, uint64(permits))
	if r > 0 {
		q++
	}
	return time.Duration(q), q <= uint64(maxFill)
}

// charge returns used after n more units were charged that were not asked for
// beforehand: a debt of one burst at most, and never less than there was.
func charge(used, n, burst int64) int64 {
	return max(used, min(used+min(n, 2*burst), 2*burst))
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
