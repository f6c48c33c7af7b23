package limit

import (
	"math/big"
	"sync"
	"testing"
	"time"
	_ "time/tzdata" // the zones are the same wherever the tests run
)

func zone(tb failer, name string) *Zone {
	tb.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	return NewZone(loc)
}

func calendar(tb failer, permits int64, span Span, z *Zone) Bucket {
	tb.Helper()
	b, err := NewCalendarWindow(permits, span, z)
	if err != nil {
		tb.Fatalf("NewCalendarWindow(%d, %d): %v", permits, span, err)
	}
	return b
}

func utc(tb failer, text string) Instant {
	tb.Helper()
	at, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	return InstantOf(at)
}

// A month in which the clocks are changed, in three zones, on a virtual clock that
// goes on by ten minutes. Every edge is by hand: Berlin puts its clocks on by an
// hour on 30 March 2025 at 02:00, New York back by an hour on 2 November 2025 at
// 02:00, Lord Howe back by half an hour on 6 April 2025 at 02:00.
func TestCalendarWindowsOverAMonthWithAClockChange(t *testing.T) {
	for _, c := range []struct {
		zone  string
		first string // the 1st at midnight, in UTC
		days  int
		short int           // the day that is not 24 hours long
		by    time.Duration // how much longer it is
		week  int           // the first Monday, as a day of the month
		month time.Duration
	}{
		{"Europe/Berlin", "2025-02-28 23:00:00", 31, 30, -time.Hour, 3, 743 * time.Hour},
		{"America/New_York", "2025-11-01 04:00:00", 30, 2, time.Hour, 3, 721 * time.Hour},
		{"Australia/Lord_Howe", "2025-03-31 13:00:00", 30, 6, 30 * time.Minute, 7, 720*time.Hour + 30*time.Minute},
	} {
		t.Run(c.zone, func(t *testing.T) {
			first := utc(t, c.first)
			midnight := func(day int) Instant { // that a day of the month begins with, the 1st of the next included
				at := first.Add(time.Duration(day-1) * day24)
				if day > c.short {
					at = at.Add(c.by)
				}
				return at
			}
			end := first.Add(c.month)
			if midnight(c.days+1) != end {
				t.Fatal("the table contradicts itself")
			}
			z := zone(t, c.zone)
			b := NewBudget(1 << 20)
			table := func(span Span) *Table { return NewTable(Numbers{Bucket: calendar(t, 10, span, z)}, 10, b) }
			daily, weekly, monthly := table(Day), table(Week), table(Month)
			// The days of the table before the month do not matter: it begins anew.
			passed := map[int]int{}
			byWeek, byMonth := 0, 0
			for at := first; at < end; at = at.Add(10 * time.Minute) {
				today := 1
				for midnight(today+1) <= at {
					today++
				}
				if _, r := take(daily, at, key(1), 1); r.OK {
					passed[today]++
				} else if want := midnight(today + 1).Sub(at); r.Wait != want || r.Reset != want {
					t.Fatalf("on the %d. at %v: wait %v, reset %v, want %v", today, at.Time(), r.Wait, r.Reset, want)
				}
				if _, r := take(weekly, at, key(1), 1); r.OK {
					byWeek++
				} else if today >= c.week && today < c.week+21 {
					monday := c.week
					for midnight(monday) <= at {
						monday += 7
					}
					if want := midnight(monday).Sub(at); r.Wait != want {
						t.Fatalf("on the %d. at %v: wait for Monday %v, want %v", today, at.Time(), r.Wait, want)
					}
				}
				if _, r := take(monthly, at, key(1), 1); r.OK {
					byMonth++
				} else if r.Wait != end.Sub(at) {
					t.Fatalf("at %v: wait for the 1st %v, want %v", at.Time(), r.Wait, end.Sub(at))
				}
			}
			for day := 1; day <= c.days; day++ {
				if passed[day] != 10 {
					t.Errorf("on the %d. %d passed, want 10", day, passed[day])
				}
			}
			weeks := (c.days-c.week)/7 + 1 // Mondays of the month
			if c.week > 1 {
				weeks++ // and what is before the first
			}
			if byWeek != 10*weeks || byMonth != 10 {
				t.Errorf("%d passed by the week and %d by the month, want %d and 10", byWeek, byMonth, 10*weeks)
			}
			// The edge to the nanosecond: the wait is sufficient and minimal.
			if _, r := take(monthly, end-1, key(1), 1); r.OK || r.Wait != 1 {
				t.Errorf("1 ns before the month is over: %+v", r)
			}
			if _, r := take(monthly, end, key(1), 1); !r.OK || r.Remaining != 9 {
				t.Errorf("when the next month begins: %+v", r)
			}
		})
	}
}

const day24 = 24 * time.Hour

// Days that begin or end oddly, each instant by hand.
func TestCalendarDaysThatBeginOddly(t *testing.T) {
	for _, c := range []struct {
		name, zone string
		span       Span
		at         string
		from, to   string
	}{
		{"UTC", "UTC", Day, "2024-02-29 12:00:00", "2024-02-29 00:00:00", "2024-03-01 00:00:00"},
		{"a leap February", "UTC", Month, "2024-02-29 12:00:00", "2024-02-01 00:00:00", "2024-03-01 00:00:00"},
		{"December", "UTC", Month, "2024-12-31 23:59:59", "2024-12-01 00:00:00", "2025-01-01 00:00:00"},
		{"a week over New Year", "UTC", Week, "2025-01-01 00:00:00", "2024-12-30 00:00:00", "2025-01-06 00:00:00"},
		{"a Sunday", "UTC", Week, "2025-01-05 23:59:59", "2024-12-30 00:00:00", "2025-01-06 00:00:00"},
		{"before 1970", "UTC", Day, "1969-12-31 23:00:00", "1969-12-31 00:00:00", "1970-01-01 00:00:00"},
		// Beirut puts its clocks on from 00:00 to 01:00: the day begins at 01:00, 22:00 UTC.
		{"no midnight", "Asia/Beirut", Day, "2024-03-31 10:00:00", "2024-03-30 22:00:00", "2024-03-31 21:00:00"},
		{"the day before", "Asia/Beirut", Day, "2024-03-30 21:59:59", "2024-03-29 22:00:00", "2024-03-30 22:00:00"},
		// Havana puts them back from 01:00 to 00:00: the day begins at the first midnight, 04:00 UTC.
		{"two midnights", "America/Havana", Day, "2024-11-03 05:30:00", "2024-11-03 04:00:00", "2024-11-04 05:00:00"},
		{"before both", "America/Havana", Day, "2024-11-03 03:59:59", "2024-11-02 04:00:00", "2024-11-03 04:00:00"},
		// St John's put them back at 00:01 to 23:01 of the day before, whose window is over by then.
		{"back over midnight", "America/St_Johns", Day, "2010-11-07 02:45:00", "2010-11-07 02:30:00", "2010-11-08 03:30:00"},
		{"not yet", "America/St_Johns", Day, "2010-11-07 02:29:59", "2010-11-06 02:30:00", "2010-11-07 02:30:00"},
		// Samoa had no 30 December 2011.
		{"a day that was left out", "Pacific/Apia", Day, "2011-12-30 12:00:00", "2011-12-30 10:00:00", "2011-12-31 10:00:00"},
		{"the last before it", "Pacific/Apia", Day, "2011-12-30 09:59:59", "2011-12-29 10:00:00", "2011-12-30 10:00:00"},
		{"far east", "Pacific/Kiritimati", Day, "2025-06-30 10:00:00", "2025-06-30 10:00:00", "2025-07-01 10:00:00"},
		{"45 minutes", "Asia/Kathmandu", Day, "2025-06-30 18:14:59", "2025-06-29 18:15:00", "2025-06-30 18:15:00"},
	} {
		z := zone(t, c.zone)
		for range 2 { // looked for, and remembered
			if got, want := z.around(c.span, utc(t, c.at)), (stretch{utc(t, c.from), utc(t, c.to)}); got != want {
				t.Errorf("%s: from %v to %v, want %v to %v", c.name, got.from.Time(), got.to.Time(), want.from.Time(), want.to.Time())
			}
		}
	}
}

// Windows follow each other without a gap for forty years, in zones that change
// their clocks in odd ways, whatever was asked before.
func TestCalendarWindowsLeaveNoGap(t *testing.T) {
	alone(t)
	for _, name := range []string{"Europe/Berlin", "America/St_Johns", "Asia/Beirut", "America/Havana", "Pacific/Apia", "Africa/Casablanca"} {
		for span := Day; span <= Month; span++ {
			z := zone(t, name)
			w := z.around(span, utc(t, "2005-01-10 12:00:00"))
			for w.to < utc(t, "2045-01-01 00:00:00") {
				next := z.around(span, w.to)
				if next.from != w.to || next.to <= next.from || z.around(span, w.to-1) != w || z.find(span, next.to-1) != next {
					t.Fatalf("%s, span %d: %v to %v, then %v to %v", name, span, w.from.Time(), w.to.Time(), next.from.Time(), next.to.Time())
				}
				w = next
			}
		}
	}
}

// Edges are those of the window asked for and of the neighbour that is nearer, in
// whatever order they are asked for, also by many at once.
func TestCalendarEdges(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia"} {
		for span := Day; span <= Month; span++ {
			z := zone(t, name)
			var wg sync.WaitGroup
			for worker := range 2 {
				wg.Go(func() {
					for i := range 700 {
						at := utc(t, "2010-10-20 12:34:56").Add(time.Duration(worker+i*i*7919%700) * 13 * time.Hour)
						e, w := z.Edges(span, at), z.find(span, at)
						before, after := at.Sub(w.from), w.to.Sub(at)
						want := [3]Instant{w.from, w.to, z.find(span, w.to).to}
						if before < after {
							want = [3]Instant{z.find(span, w.from-1).from, w.from, w.to}
						}
						if e != want {
							t.Errorf("%s, span %d at %v: %v, want %v", name, span, at.Time(), e, want)
							return
						}
					}
				})
			}
			wg.Wait()
		}
	}
	z := zone(t, "Europe/Berlin")
	at := utc(t, "2025-03-30 12:00:00")
	z.Edges(Day, at)
	if n := testing.AllocsPerRun(100, func() { z.Edges(Day, at) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// calendarModel counts the events of the same local day, week or month, told by
// their dates alone.
type calendarModel struct {
	permits int64
	span    Span
	loc     *time.Location
	events  []event
}

func (m *calendarModel) number(at Instant) int64 {
	t := at.Time().In(m.loc)
	date := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC).Unix() / 86400 // days since 1970-01-01, a Thursday
	switch m.span {
	case Week:
		return floorOf(big.NewRat(date+3, 7))
	case Month:
		return int64(t.Year())*12 + int64(t.Month())
	}
	return date
}

func (m *calendarModel) left(now Instant) *big.Rat {
	w, used := m.number(now), int64(0)
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

func (m *calendarModel) add(e event) { m.events = append(m.events, e) }

func (m *calendarModel) most(from, to Instant) *big.Rat {
	return new(big.Rat).Mul(rat(m.number(to)-m.number(from)+1), rat(m.permits))
}

// calendarRow is a row of the laws; the period says the span.
func calendarRow(name string, span Span, per time.Duration) algorithm {
	loc, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return algorithm{
		name: "calendar " + per.String() + " " + name,
		make: func(permits int64, _ time.Duration, _ int64) (Bucket, error) {
			return NewCalendarWindow(permits, span, NewZone(loc))
		},
		model: func(permits int64, _ time.Duration, _ int64) model {
			return &calendarModel{permits: permits, span: span, loc: loc}
		},
		pers: []time.Duration{per},
	}
}

// calendarRows are in the laws but not in the tests that want periods of their own.
var calendarRows = []algorithm{
	calendarRow("Europe/Berlin", Day, day),
	calendarRow("America/New_York", Week, 7*day),
	calendarRow("Australia/Lord_Howe", Month, 31*day),
}
