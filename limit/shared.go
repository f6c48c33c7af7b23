package limit

import (
	"fmt"
	"math/bits"
	"time"
)

// Algorithm names what a Bucket does, for a Store that has to do the same.
type Algorithm uint8

// The algorithms that a Store can be asked for.
const (
	TokenBucket Algorithm = iota + 1 // and GCRA, which decides alike
	FixedWindow
	SlidingWindow
	SlidingLog
	Concurrency
)

// CalendarWindow is a fixed window of the calendar; in the others requests can have to
// wait for their turn. A store keeps the numbers of all, so they never change.
const (
	CalendarWindow Algorithm = 7
	LeakyBucket    Algorithm = 8
	PatientBucket  Algorithm = 9 // a TokenBucket with a wait
)

// Terms are the numbers of a Bucket in the units of a Store, which counts in
// doubles: all of them, and all products that an algorithm makes of them, are
// whole and below 2^53. The zero Terms are none. They are comparable.
type Terms struct {
	Algorithm Algorithm
	// Grain is how finely time is told: 1µs, or 10µs, 100µs or 1ms where the
	// numbers are too large for that.
	Grain time.Duration
	// A bucket gets N units back in W grains, in lowest terms, and holds Burst. A
	// window is W grains long and admits Burst. Concurrency has Burst alone.
	N, W, Burst int64
	// Whole units, and Extra parts of the W of one, fit into a bucket that lets
	// requests wait when all its places are taken.
	Whole, Extra int64
	// A window of the calendar admits Burst in each Span of Zone: see Zone.Edges. Its
	// Grain is 1µs.
	Span Span
	Zone *Zone
}

// PenaltyTerms are the numbers of a Penalty in the units of a Store. The zero
// PenaltyTerms are none. They are comparable.
type PenaltyTerms struct {
	// After is the bucket that refusals are counted in.
	After Terms
	// Block and Max are how long the first block and the longest one take, in whole
	// microseconds.
	Block, Max time.Duration
}

// waits says that requests can have to wait for their turn.
func (t *Terms) waits() bool { return t.Algorithm == LeakyBucket || t.Algorithm == PatientBucket }

// Shared is how the States of one plan are counted in a Store, together with all
// gateways whose Shared has the same ID. It is immutable but for the refusals it
// remembers, and safe for concurrent use.
type Shared struct {
	// ID names the counters: printable ASCII without spaces and braces, at most 76
	// bytes.
	ID string
	// Terms are the numbers; Refunds those of what bounds a refund, or zero.
	Terms, Refunds Terms
	// Penalty is what refusals earn, or zero.
	Penalty PenaltyTerms
	// Returns says that units may come back once a request is answered: then no
	// refusal is remembered, since it may not last.
	Returns bool

	refused refusals
}

// NewShared returns how n is counted under the name id. The error says that it
// cannot be: the algorithm is none that a Store knows, or the numbers are too
// large to be counted in doubles even by the millisecond.
func NewShared(id string, n Numbers) (*Shared, error) {
	s := &Shared{ID: id}
	var err error
	if s.Terms, err = termsOf(n.Bucket); err == nil && n.Refunds != nil {
		s.Refunds, err = termsOf(n.Refunds)
	}
	if p := n.Penalty; err == nil && p.After != nil {
		s.Penalty = PenaltyTerms{Block: wholeMicros(p.Block), Max: wholeMicros(p.Max)}
		s.Penalty.After, err = termsOf(p.After)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// wholeMicros rounds d up.
func wholeMicros(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

// Punishes says that refusals count for a penalty.
func (s *Shared) Punishes() bool { return s.Penalty.Block > 0 }

// exact is what a double counts to without a gap.
const exact = 1 << 53

// grains are how finely a Store may tell time, the finest first.
var grains = [...]time.Duration{time.Microsecond, 10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond}

// termsOf returns the numbers of b with the finest grain that can be counted.
func termsOf(b Bucket) (Terms, error) {
	for _, g := range grains {
		if t, ok := termsAt(b, g); ok {
			return t, nil
		} else if t.Algorithm == 0 {
			return Terms{}, fmt.Errorf("%w: an algorithm that no store counts", ErrNumbers)
		}
	}
	return Terms{}, fmt.Errorf("%w: too large to be counted by the millisecond in a store", ErrNumbers)
}

// termsAt returns the numbers of b in grains of g, and whether they can be
// counted so.
func termsAt(b Bucket, g time.Duration) (t Terms, ok bool) {
	t.Grain = g
	switch b := b.(type) {
	case tokenBucket:
		return b.terms(g)
	case gcra:
		return b.terms(g)
	case queue:
		return b.terms(g)
	case fixedWindow:
		t.Algorithm, t.W, t.Burst = FixedWindow, b.w/int64(g), b.n
		return t, b.w%int64(g) == 0 && 4*b.n < exact
	case calendarWindow:
		t.Algorithm, t.Burst, t.Span, t.Zone = CalendarWindow, b.n, b.span, b.zone
		return t, 4*b.n < exact
	case slidingWindow:
		t.Algorithm, t.W, t.Burst = SlidingWindow, b.w/int64(g), b.n
		return t, b.w%int64(g) == 0 && below(uint64(2*b.n), uint64(t.W))
	case slidingLog:
		t.Algorithm, t.W, t.Burst = SlidingLog, b.w/int64(g), b.n
		return t, b.w%int64(g) == 0 && 4*b.n < exact
	case concurrency:
		t.Algorithm, t.Burst = Concurrency, b.n
		return t, 4*b.n < exact
	}
	return t, false
}

func (b tokenBucket) terms(g time.Duration) (t Terms, ok bool) { return b.termsUpTo(b.burst, g) }

// termsUpTo are the terms of b when units may be in use.
func (b tokenBucket) termsUpTo(units int64, g time.Duration) (t Terms, ok bool) {
	t = Terms{Algorithm: TokenBucket, Grain: g, Burst: b.burst}
	hi, n := bits.Mul64(b.n, uint64(g))
	if hi != 0 {
		return t, false
	}
	d := gcd(n, b.w)
	t.N, t.W = int64(n/d), int64(b.w/d)
	// The most that a wait is for is a debt of a burst and a burst on top, and the
	// instant at its end is counted too.
	fill, ok := fillTime(units, int64(b.n), time.Duration(b.w))
	const present = 2_000_000_000_000_000 // in µs, of the year 2033
	return t, ok && t.N < exact && below(uint64(3*units), uint64(t.W)) && 3*int64(fill/time.Microsecond)+2*present < exact
}

func (b queue) terms(g time.Duration) (t Terms, ok bool) {
	t, ok = b.termsUpTo(b.whole, g)
	if !ok {
		return t, false
	}
	t.Algorithm, t.Whole = PatientBucket, b.whole
	if b.leaky {
		t.Algorithm = LeakyBucket
	}
	// A unit has fewer parts here than in memory, each of which is so many of those.
	// What is less than one of them admits nothing more at any whole grain.
	t.Extra = int64(b.extra / (b.w / uint64(t.W)))
	return t, below(uint64(t.N), uint64(2*MaxWait/g))
}

// below says that a*b can be counted in doubles.
func below(a, b uint64) bool {
	hi, lo := bits.Mul64(a, b)
	return hi == 0 && lo < exact
}
