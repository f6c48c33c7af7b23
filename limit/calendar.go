package limit

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Span is a stretch of the calendar.
type Span uint8

// The spans that windows of a calendar can have. They begin at local midnight: of
// each day, of Monday, of the 1st.
const (
	Day Span = iota + 1
	Week
	Month
)

// Zone is a place on earth and its calendar. It remembers the span that was asked
// for last, so that a check of a window does not work out dates. It is safe for
// concurrent use; two Zones are equal when they are the same one.
type Zone struct {
	loc  *time.Location
	last [Month + 1]atomic.Pointer[stretch]
	near [Month + 1]atomic.Pointer[[4]Instant] // begin of the window before, of the last, its end, and that of the next
}

// stretch is one window of a calendar: from is in it, to is not.
type stretch struct{ from, to Instant }

// NewZone returns the Zone of loc, which must not be nil.
func NewZone(loc *time.Location) *Zone { return &Zone{loc: loc} }

// around returns the window of span that now lies in.
func (z *Zone) around(span Span, now Instant) stretch {
	last := z.last[span].Load()
	if last != nil && last.from <= now && now < last.to {
		return *last
	}
	w := z.find(span, now)
	if last == nil || w.from > last.from { // a late clock shall not make others look again
		z.last[span].Store(&w)
	}
	return w
}

// Edges returns where two windows of span that follow each other begin, meet and
// end: the one that at lies in, and of its neighbours the one whose edge is nearer.
func (z *Zone) Edges(span Span, at Instant) [3]Instant {
	e := z.near[span].Load()
	if e == nil || at < e[1] || at >= e[2] {
		w := z.around(span, at)
		e = &[4]Instant{z.find(span, w.from-1).from, w.from, w.to, z.find(span, w.to).to}
		z.near[span].Store(e)
	}
	if at.Sub(e[1]) < e[2].Sub(at) {
		return [3]Instant(e[:3])
	}
	return [3]Instant(e[1:])
}

// find works out what around returns.
func (z *Zone) find(span Span, now Instant) stretch {
	t := time.Unix(0, int64(now)).In(z.loc)
	year, month, day := t.Date()
	days, months := 1, 0
	switch span {
	case Week:
		day -= (int(t.Weekday()) + 6) % 7
		days = 7
	case Month:
		day = 1
		days, months = 0, 1
	}
	w := stretch{z.midnight(year, month, day), z.midnight(year, month+time.Month(months), day+days)}
	for w.to <= now { // the clocks went back over midnight: that day had begun
		day += days
		month += time.Month(months)
		w.from, w.to = w.to, z.midnight(year, month+time.Month(months), day+days)
	}
	return w
}

// midnight returns when a day begins: the first instant at which its clocks show
// midnight of that day or later. Where the clocks are put on at midnight there is
// no 00:00, where they are put back over it there are two.
//
// It looks at the clocks hour by hour and asks nobody when they change: on the
// last day of a leap year time.Time.ZoneBounds says that the day is over already.
func (z *Zone) midnight(year int, month time.Month, day int) Instant {
	const hour = 60 * 60
	want := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() // what the clocks are to show
	for at := want - 16*hour; ; at += hour {                         // no zone is that far from UTC
		offset, then := z.offset(at), z.offset(at+hour)
		change := at + hour
		if then != offset {
			for before := at; change-before > 1; { // it lies behind before, and at change it has been
				if mid := (before + change) / 2; z.offset(mid) == offset {
					before = mid
				} else {
					change = mid
				}
			}
		}
		switch {
		case want-offset < change:
			return Instant(want-offset) * Instant(time.Second)
		case want-then <= change:
			return Instant(change) * Instant(time.Second)
		}
	}
}

// offset returns how many seconds the clocks are ahead of UTC.
func (z *Zone) offset(at int64) int64 {
	_, offset := time.Unix(at, 0).In(z.loc).Zone()
	return int64(offset)
}

// calendarWindow counts up to n units in each window of a calendar.
type calendarWindow struct {
	n    int64
	span Span
	zone *Zone
}

// NewCalendarWindow returns the Bucket of a fixed window of the calendar: at most
// permits units in each local day, week or month of zone, however long that is,
// and up to 2*permits across an edge. permits is at least 1, else ErrNumbers; zone
// must not be nil.
func NewCalendarWindow(permits int64, span Span, zone *Zone) (Bucket, error) {
	if permits < 1 || permits > maxUnits {
		return nil, fmt.Errorf("%w: %d permits; 1 to %d", ErrNumbers, permits, int64(maxUnits))
	}
	if span < Day || span > Month {
		return nil, fmt.Errorf("%w: no span of a calendar", ErrNumbers)
	}
	return calendarWindow{n: permits, span: span, zone: zone}, nil
}

// Take implements Bucket.
func (b calendarWindow) Take(s State, now Instant, n int64) (State, Result) {
	next, end := b.advance(s, now)
	reset := end.Sub(now)
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
func (b calendarWindow) Adjust(s State, at Instant, n int64) State {
	switch {
	case n <= 0:
		s.Used = charge(s.Used, -n, b.n)
	case b.zone.around(b.span, at).from == s.At:
		s.Used = max(0, s.Used-n)
	}
	return s
}

// Idle implements Bucket.
func (b calendarWindow) Idle(s State, now Instant) bool {
	next, _ := b.advance(s, now)
	return next.Used <= 0
}

// advance moves s into the window of now, unless it is in a later one, and returns
// when its window ends.
func (b calendarWindow) advance(s State, now Instant) (_ State, end Instant) {
	if s.At == 0 && s.Used <= 0 { // never seen: now may lie before 1970
		s.At = now
	}
	w := b.zone.around(b.span, max(now, s.At))
	if w.from > s.At || s.Used <= 0 {
		s.At, s.Used, s.Rem = w.from, 0, 0
	}
	return s, w.to
}
