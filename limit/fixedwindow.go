package limit

import "time"

// fixedWindow counts up to n units in each window of w nanoseconds. Windows
// are aligned to the Unix epoch.
type fixedWindow struct {
	n, w int64
}

// NewFixedWindow returns the Bucket of a fixed window: at most permits units in
// each window of per, windows aligned to Unix time. Across the edge of two
// windows up to 2*permits can pass in less than per; that is what the algorithm
// is. permits is at least 1 and per at most 366 days, else ErrNumbers.
func NewFixedWindow(permits int64, per time.Duration) (Bucket, error) {
	if err := checkRate(permits, per); err != nil {
		return nil, err
	}
	return fixedWindow{n: permits, w: int64(per)}, nil
}

// Take implements Bucket.
func (b fixedWindow) Take(s State, now Instant, n int64) (State, Result) {
	next := b.advance(s, now)
	reset := next.At.Add(time.Duration(b.w)).Sub(now)
	left := max(0, b.n-next.Used)
	if n == 0 || n <= left {
		next.Used += n
		if next.Used <= 0 {
			reset = 0 // all of them are there
		}
		return next, Result{OK: true, Remaining: max(0, left-n), Reset: reset}
	}
	r := Result{Remaining: left, Wait: Never, Reset: reset}
	if n <= b.n {
		r.Wait = reset
	} else if next.Used <= 0 {
		r.Reset = 0
	}
	return s, r
}

// Adjust implements Bucket.
func (b fixedWindow) Adjust(s State, at Instant, n int64) State {
	switch {
	case n <= 0:
		s.Used = charge(s.Used, -n, b.n)
	case b.start(at) == s.At:
		s.Used = max(0, s.Used-n)
	}
	return s
}

// Idle implements Bucket.
func (b fixedWindow) Idle(s State, now Instant) bool { return b.advance(s, now).Used <= 0 }

// advance moves s into the window of now, unless it is in a later one.
func (b fixedWindow) advance(s State, now Instant) State {
	start := b.start(now)
	if start > s.At || s.At == 0 && s.Used <= 0 { // At 0: never seen, so now may lie before 1970
		s.At, s.Used, s.Rem = start, 0, 0
	}
	return s
}

func (b fixedWindow) start(now Instant) Instant {
	m := int64(now) % b.w
	if m < 0 {
		m += b.w
	}
	return now - Instant(m)
}
