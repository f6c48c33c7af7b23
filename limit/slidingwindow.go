package limit

import (
	"math/bits"
	"time"
)

// slidingWindow estimates the units of the last w nanoseconds from two windows
// aligned to the Unix epoch: those of the present one (Used) and, in
// proportion, those of the one before (Rem).
type slidingWindow struct {
	n, w int64
}

// NewSlidingWindow returns the Bucket of a sliding window estimated from two
// fixed ones: c units pass while prev*(1 - e/per) + cur + c <= permits, e being
// the time since the present window began. Less than 2*permits pass in any
// time of per. permits is at least 1 and per at most 366 days, else ErrNumbers.
func NewSlidingWindow(permits int64, per time.Duration) (Bucket, error) {
	if err := checkRate(permits, per); err != nil {
		return nil, err
	}
	return slidingWindow{n: permits, w: int64(per)}, nil
}

// Take implements Bucket.
func (b slidingWindow) Take(s State, now Instant, n int64) (State, Result) {
	next := b.advance(s, now)
	at := max(now, next.At) // a window of the future counts from its start
	late := at.Sub(now)
	e := int64(at - next.At)
	left := b.left(next, e)
	if n == 0 || n <= left {
		next.Used += n
		left = max(0, left-n)
		return next, Result{OK: true, Remaining: left, Reset: b.reset(next, e, left, late)}
	}
	r := Result{Remaining: left, Wait: Never, Reset: b.reset(next, e, left, late)}
	if n <= b.n {
		r.Wait = late + b.wait(next, e, n)
	}
	return s, r
}

// left returns floor(N - estimate): whole units that fit now, at least 0.
func (b slidingWindow) left(s State, e int64) int64 {
	if s.Used >= b.n {
		return 0
	}
	// ceil(prev*(w-e)/w) of the last window count; the rest of N is free.
	hi, lo := bits.Mul64(s.Rem, uint64(b.w-e))
	q, r := bits.Div64(hi, lo, uint64(b.w)) // fits: at most prev
	if r > 0 {
		q++
	}
	return max(0, b.n-s.Used-int64(q))
}

// wait returns the least time after which c units fit, c <= N, when they do not
// fit e nanoseconds into the window.
func (b slidingWindow) wait(s State, e, c int64) time.Duration {
	if s.Used+c <= b.n {
		return time.Duration(b.faded(s.Rem, b.n-s.Used-c) - e)
	}
	// Not in this window: in the next one its units are the last window's.
	return time.Duration(b.w - e + b.faded(uint64(s.Used), b.n-c))
}

// faded returns how far into a window prev units of the window before weigh at
// most free: the least e with prev*(w-e) <= free*w.
func (b slidingWindow) faded(prev uint64, free int64) int64 {
	if prev <= uint64(free) {
		return 0
	}
	hi, lo := bits.Mul64(uint64(free), uint64(b.w))
	q, _ := bits.Div64(hi, lo, prev) // floor(free*w/prev) < w
	return b.w - int64(q)
}

func (b slidingWindow) reset(s State, e, left int64, late time.Duration) time.Duration {
	switch {
	case s.Used > 0 && left > 0:
		return late + time.Duration(2*b.w-e)
	case s.Used <= 0 && s.Rem == 0:
		return 0
	case left == 0:
		return late + b.wait(s, e, 1)
	default:
		return late + time.Duration(b.w-e)
	}
}

// Adjust implements Bucket. Units go back to the window they were taken in, if
// the State still has it.
func (b slidingWindow) Adjust(s State, at Instant, n int64) State {
	if n <= 0 {
		s.Used = charge(s.Used, -n, b.n)
		return s
	}
	switch fixedWindow(b).start(at) {
	case s.At:
		s.Used = max(0, s.Used-n)
	case s.At - Instant(b.w):
		s.Rem -= min(s.Rem, uint64(n))
	}
	return s
}

// Idle implements Bucket.
func (b slidingWindow) Idle(s State, now Instant) bool {
	s = b.advance(s, now)
	return s.Used <= 0 && s.Rem == 0
}

// advance moves s into the window of now, unless it is in a later one.
func (b slidingWindow) advance(s State, now Instant) State {
	start := fixedWindow(b).start(now)
	never := s.At == 0 && s.Used <= 0 && s.Rem == 0 // then now may lie before 1970
	if start <= s.At && !never {
		return s
	}
	if start-Instant(b.w) == s.At {
		s.Rem = uint64(max(0, s.Used))
	} else {
		s.Rem = 0
	}
	s.At, s.Used = start, 0
	return s
}
