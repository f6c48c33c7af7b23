package replay

import (
	"errors"
	"strconv"
	"time"

	"gateway/limit"
)

var errTime = errors.New("the time cannot be read")

// timeCache remembers the last time of a log, since thousands of lines share one.
type timeCache struct {
	text   [clfLen]byte
	at     limit.Instant
	second int
	full   bool
}

// clfLen is the length of 02/Jan/2006:15:04:05 -0700.
const clfLen = 26

var months = [...]string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}

// clfTime reads 02/Jan/2006:15:04:05 -0700, or the same with milliseconds and
// without a zone, as HAProxy writes it; that is local time.
func clfTime(b []byte, cache *timeCache) (limit.Instant, error) {
	if len(b) == clfLen && cache != nil && cache.full {
		if string(b) == string(cache.text[:]) {
			return cache.at, nil
		}
		if at, ok := cache.sameMinute(b); ok {
			return at, nil
		}
	}
	if len(b) < 20 || b[2] != '/' || b[6] != '/' || b[11] != ':' || b[14] != ':' || b[17] != ':' {
		return 0, errTime
	}
	month := 0
	for i, name := range months {
		if string(b[3:6]) == name {
			month = i + 1
		}
	}
	day, ok1 := digits(b[0:2])
	year, ok2 := digits(b[7:11])
	hour, ok3 := digits(b[12:14])
	minute, ok4 := digits(b[15:17])
	second, ok5 := digits(b[18:20])
	if month == 0 || !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || year < 1970 || year > 2200 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60 {
		return 0, errTime
	}
	rest := b[20:]
	if len(rest) == 4 && rest[0] == '.' {
		milli, ok := digits(rest[1:])
		if !ok {
			return 0, errTime
		}
		return limit.InstantOf(time.Date(year, time.Month(month), day, hour, minute, second, milli*1e6, time.Local)), nil
	}
	if len(rest) != 6 || rest[0] != ' ' || rest[1] != '+' && rest[1] != '-' {
		return 0, errTime
	}
	zh, ok6 := digits(rest[2:4])
	zm, ok7 := digits(rest[4:6])
	if !ok6 || !ok7 || zh > 23 || zm > 59 {
		return 0, errTime
	}
	zone := time.Duration(zh)*time.Hour + time.Duration(zm)*time.Minute
	if rest[1] == '-' {
		zone = -zone
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if t.Day() != day {
		return 0, errTime // 31/Feb
	}
	at := limit.InstantOf(t).Add(-zone)
	if cache != nil {
		copy(cache.text[:], b)
		cache.at, cache.second, cache.full = at, second, true
	}
	return at, nil
}

// sameMinute reads a time that differs in its second alone from the last one.
func (c *timeCache) sameMinute(b []byte) (limit.Instant, bool) {
	if string(b[:18]) != string(c.text[:18]) || string(b[20:]) != string(c.text[20:]) {
		return 0, false
	}
	second, ok := digits(b[18:20])
	if !ok || second > 59 {
		return 0, false
	}
	c.at = c.at.Add(time.Duration(second-c.second) * time.Second)
	c.second = second
	copy(c.text[:], b)
	return c.at, true
}

// digits reads a number of digits alone.
func digits(b []byte) (n int, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// isoTime reads RFC 3339, with or without a fraction.
func isoTime(b []byte) (limit.Instant, error) {
	t, err := time.Parse(time.RFC3339Nano, text(b))
	if err != nil {
		if t, err = time.Parse("2006-01-02T15:04:05.999999999Z0700", text(b)); err != nil {
			return 0, errTime
		}
	}
	return checkTime(t)
}

func checkTime(t time.Time) (limit.Instant, error) {
	if y := t.Year(); y < 1970 || y > 2200 {
		return 0, errTime
	}
	return limit.InstantOf(t), nil
}

// unixTime reads a number of seconds, of milliseconds, of microseconds or of
// nanoseconds since 1970: which of them is plain from its size.
func unixTime(b []byte) (limit.Instant, error) {
	n, err := scaled(b, 1e9)
	if err != nil {
		if f, bad := strconv.ParseFloat(text(b), 64); bad == nil && f > 0 { // 1.7e+09, or too many digits for scaled
			n, err = int64(f), nil
			if f < 1e11 {
				n = int64(f * 1e9)
			} else {
				return fromUnit(n)
			}
		}
		if whole, ok := digits(b); ok {
			return fromUnit(int64(whole))
		}
	}
	switch {
	case err != nil || n < 0:
		return 0, errTime
	case n >= 7_300_000_000*1e9:
		return 0, errTime
	}
	return limit.Instant(n), nil
}

// fromUnit tells milliseconds, microseconds and nanoseconds apart.
func fromUnit(n int64) (limit.Instant, error) {
	switch {
	case n < 1e11:
		return 0, errTime
	case n < 1e14:
		return limit.Instant(n * 1e6), nil
	case n < 1e17:
		return limit.Instant(n * 1e3), nil
	}
	return limit.Instant(n), nil
}

// scaled reads a decimal number and returns so many times it, exactly; digits
// beyond that are dropped.
func scaled(b []byte, by int64) (int64, error) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	whole, fraction := b, []byte(nil)
	for i, c := range b {
		if c == '.' {
			whole, fraction = b[:i], b[i+1:]
			if len(fraction) == 0 {
				return 0, errTime
			}
			break
		}
	}
	n, ok := digits(whole)
	if !ok || int64(n) > (1<<63-1)/by-1 {
		return 0, errTime
	}
	value := int64(n) * by
	for _, c := range fraction {
		if c < '0' || c > '9' {
			return 0, errTime
		}
		by /= 10
		value += int64(c-'0') * by
	}
	if neg {
		value = -value
	}
	return value, nil
}

// durationIn reads a duration in so many nanoseconds.
func durationIn(b []byte, unit time.Duration) (time.Duration, bool) {
	n, err := scaled(b, int64(unit))
	if err != nil {
		f, bad := strconv.ParseFloat(text(b), 64) // 1.2e-05
		if bad != nil || !(f*float64(unit) < 1<<62) {
			return 0, false
		}
		n = int64(f * float64(unit))
	}
	return time.Duration(n), n >= 0
}
