package rules

import (
	"cmp"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"gateway/limit"
)

// Rate is a number of permits in a time. Both are at least 1; the period is at
// most 366 days.
type Rate struct {
	Permits int64
	Period  time.Duration
	// Span is limit.Week or limit.Month for a period of that name, which only a
	// calendar has; Period is then 7 or 31 days. Else it is 0.
	Span limit.Span
}

const (
	day = 24 * time.Hour
	// maxPeriod bounds every duration of the file.
	maxPeriod = 366 * day
	// maxNumber bounds every whole number of the file, so that sums of some fit.
	maxNumber = 1_000_000_000_000_000
)

// units are the names of the units of a rate.
var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": day, "day": day, "days": day,
}

// unitNames are the units that are long enough to be misspelled.
var unitNames = []string{"sec", "min", "day", "second", "seconds", "minute", "minutes", "hour", "hours", "days"}

// whole is an error about all of text.
func whole(text, msg, hint string) *TextError {
	return &TextError{Len: len(text), Msg: msg, Hint: hint}
}

// parseRate reads "100/m", "10r/s", "5/15m" or "5 per 15 minutes".
func parseRate(text string) (Rate, *TextError) {
	count, period, ok := cutRate(strings.TrimSpace(text))
	if !ok || period == "" {
		if n, err := parseWhole(count); err == nil {
			count = strconv.FormatInt(n, 10)
			return Rate{}, whole(text, count+" in how long?", "write "+count+"/s, "+count+"/m, "+count+"/h or "+count+"/d")
		}
		return Rate{}, whole(text, "not a rate", rateHint(text))
	}
	digits := len(period) - len(strings.TrimLeft(period, "+-.0123456789_"))
	number, unit := period[:digits], strings.TrimSpace(period[digits:])
	permits, err := parseWhole(count)
	if err != nil {
		if hint := wholeRate(count, number, unit); hint != "" {
			return Rate{}, whole(text, "a fraction of a request cannot be counted", "write "+hint)
		}
		if strings.HasPrefix(count, "-") && digitsOnly().MatchString(count[1:]) {
			return Rate{}, whole(text, "a limit is at least 1", "")
		}
		if plain := plainCount(count); err.Hint == "" && plain != "" {
			err.Hint = "write " + plain
		}
		if err.Hint != "" {
			err.Hint += strings.TrimPrefix(strings.TrimSpace(text), count)
		}
		return Rate{}, whole(text, err.Msg, err.Hint)
	}
	if permits < 1 {
		return Rate{}, whole(text, "a limit is at least 1", "to refuse requests altogether, use block")
	}
	length, span, err := parsePeriod(number, unit)
	if err != nil {
		if digits, ok := strings.CutPrefix(err.Hint, "write "); ok && digitsOnly().MatchString(digits) { // of the number alone
			err.Hint = "write " + count + "/" + digits + unit
		}
		return Rate{}, whole(text, err.Msg, err.Hint)
	}
	return Rate{Permits: permits, Period: length, Span: span}, nil
}

// plainRate reads a rate whose period needs no calendar.
func plainRate(text string) (Rate, *TextError) {
	rate, err := parseRate(text)
	switch {
	case err != nil:
		return Rate{}, err
	case rate.Span == limit.Week:
		return Rate{}, whole(text, "a week needs a calendar", "write 7d, or add algorithm: fixed_window and calendar: { zone: UTC }")
	case rate.Span == limit.Month:
		return Rate{}, whole(text, "a month needs a calendar", "write 30d, or add algorithm: fixed_window and calendar: { zone: UTC }")
	}
	return rate, nil
}

// calendarRate reads a rate whose period is one day, week or month.
func calendarRate(text string) (Rate, *TextError) {
	rate, err := parseRate(text)
	if err != nil {
		return Rate{}, err
	}
	if rate.Period == day {
		rate.Span = limit.Day
	}
	if rate.Span == 0 {
		count := strconv.FormatInt(rate.Permits, 10)
		return Rate{}, whole(text, "a calendar has windows of a day, a week or a month", "write "+count+"/day, "+count+"/week or "+count+"/month, or leave the calendar out")
	}
	return rate, nil
}

// cutRate splits a rate where it says "per".
func cutRate(text string) (count, period string, ok bool) {
	if count, period, ok = strings.Cut(text, "/"); ok {
		count = strings.TrimSuffix(strings.TrimSpace(count), "r")
	} else {
		count, period, ok = strings.Cut(text, " per ")
	}
	return strings.TrimSpace(count), strings.TrimSpace(period), ok
}

// parsePeriod reads the second half of a rate: a unit, or some of it.
func parsePeriod(number, unit string) (time.Duration, limit.Span, *TextError) {
	n, per := int64(1), units[unit]
	if number != "" {
		var err *TextError
		switch n, err = parseWhole(number); {
		case err != nil && strings.Contains(number, "."):
			return 0, 0, whole(unit, "a period is a whole number of units", "write it in a smaller unit: 90s for 1.5m")
		case err != nil:
			return 0, 0, err
		case n < 1:
			return 0, 0, whole(unit, "a period of "+number+" "+unit, "a period is at least 1s")
		}
	}
	switch name := strings.TrimSuffix(unit, "s"); {
	case unit == "":
		return 0, 0, whole(unit, "a period needs a unit", "write "+number+"s, "+number+"m, "+number+"h or "+number+"d")
	case (name == "week" || name == "month") && n > 1:
		days := map[string]int64{"week": 7, "month": 30}[name] * min(n, 366)
		return 0, 0, whole(unit, "a calendar has windows of one "+name, "write "+strconv.FormatInt(days, 10)+"d")
	case name == "week":
		return 7 * day, limit.Week, nil
	case name == "month":
		return 31 * day, limit.Month, nil
	case per == 0:
		return 0, 0, whole(unit, "unknown unit "+quote(unit)+"; use s, m, h or d", unitHint(number, unit))
	case n > int64(maxPeriod/per):
		return 0, 0, whole(unit, "a period over 366d", "")
	}
	return time.Duration(n) * per, 0, nil
}

var fraction = lazily(`^\d{1,15}\.\d{1,15}$`)

// wholeRate writes a rate whose count is a fraction with a whole one: "1/2s" for
// 0.5/s. It returns "" when there is none.
func wholeRate(count, number, unit string) string {
	r, ok := new(big.Rat).SetString(count)
	if n, err := parseWhole(number); number != "" && err == nil && ok && n > 0 {
		r.Quo(r, new(big.Rat).SetInt64(n))
	}
	if !ok || !fraction().MatchString(count) || r.Sign() <= 0 || units[unit] == 0 {
		return ""
	}
	times := r.Denom().String()
	if times == "1" {
		times = ""
	}
	return r.Num().String() + "/" + times + unit
}

var (
	digitsOnly  = lazily(`^\d+(_\d+)*$`)
	otherNumber = lazily(`^[+-]?(0[xXoObB][0-9A-Fa-f_]+|[0-9_]*\.?[0-9_]+([eE][+-]?\d+)?|[0-9_]+\.)$`)
)

// parseWhole reads a whole number from 0 to maxNumber, written in decimal digits
// and perhaps _ between them.
func parseWhole(text string) (int64, *TextError) {
	plain := strings.ReplaceAll(text, "_", "")
	switch {
	case !digitsOnly().MatchString(text):
		return 0, whole(text, quote(text)+" is not a whole number", decimal(plain))
	case len(plain) > 1 && plain[0] == '0':
		return 0, whole(text, quote(text)+" begins with 0, which may mean octal", decimal(cmp.Or(strings.TrimLeft(plain, "0"), "0")))
	case len(plain) > 16:
		return 0, whole(text, "a number over 1,000,000,000,000,000", "")
	}
	n, _ := strconv.ParseInt(plain, 10, 64)
	if n > maxNumber {
		return 0, whole(text, "a number over 1,000,000,000,000,000", "")
	}
	return n, nil
}

// decimal returns the hint to write a number in digits, if it is a whole one.
func decimal(text string) string {
	if text == "" || len(text) > 20 || !otherNumber().MatchString(text) || strings.ContainsAny(text, "eE") && len(text) > 6 {
		return ""
	}
	if n, err := strconv.ParseInt(text, 0, 64); err == nil && strings.ContainsAny(text, "xXoObB") && n >= 0 {
		return "write " + strconv.FormatInt(n, 10)
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || !r.IsInt() || r.Sign() < 0 || len(r.Num().String()) > 16 {
		return ""
	}
	return "write " + r.Num().String()
}

var (
	durationShape = lazily(`^((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h|d))+$`)
	durationPart  = lazily(`[\d.]+[^\d.]+`)
)

// ParseDuration reads a duration as the file has it: Go's, and days as 2d. Its
// error is a *TextError.
func ParseDuration(text string) (time.Duration, error) {
	d, err := parseDuration(text)
	if err != nil {
		return 0, err
	}
	return d, nil
}

// parseDuration reads a duration as Go writes them, with days as another unit:
// "1d12h", "1.5d". A 0 needs no unit.
func parseDuration(text string) (time.Duration, *TextError) {
	const like = "write it like 500ms, 30s, 5m, 1h30m or 2d"
	switch {
	case text == "0":
		return 0, nil
	case digitsOnly().MatchString(text):
		return 0, whole(text, quote(text)+" of what?", "write "+text+"s or "+text+"ms")
	case strings.HasPrefix(text, "-") && durationShape().MatchString(text[1:]):
		return 0, whole(text, "a negative duration", like)
	case !durationShape().MatchString(text):
		return 0, whole(text, "not a duration", like)
	}
	sum := time.Duration(0)
	for _, part := range durationPart().FindAllString(text, -1) {
		unit := time.Duration(1)
		if number, ok := strings.CutSuffix(part, "d"); ok {
			part, unit = number+"h", 24
		}
		d, err := time.ParseDuration(part)
		if err != nil || d > maxPeriod/unit || sum > maxPeriod-d*unit {
			return 0, whole(text, "a time over 366d", "")
		}
		sum += d * unit
	}
	return sum, nil
}

// sizes are the units of a size, largest first.
var sizes = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6},
	{"KiB", 1 << 10}, {"KB", 1e3}, {"kB", 1e3}, {"B", 1},
}

// parseSize reads a number of bytes: "64KiB", "10MB".
func parseSize(text string) (int64, *TextError) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789_"))
	unit := strings.TrimSpace(text[digits:])
	if text == "0" { // of which bytes are as many as KiB
		return 0, nil
	}
	n, err := parseWhole(text[:digits])
	if err != nil {
		if digits == 0 {
			return 0, whole(text, "not a size", "write it like 64KiB or 10MB")
		}
		return 0, err
	}
	if unit == "" {
		return 0, whole(text, quote(text)+" of what?", "write "+text+"B, "+text+"KiB or "+text+"MiB")
	}
	for _, u := range sizes {
		if u.name == unit {
			if n > 1<<50/u.bytes {
				return 0, whole(text, "a size over 1024TiB", "")
			}
			return n * u.bytes, nil
		}
	}
	hint := "write it like 64KiB or 10MB"
	for _, u := range sizes {
		if strings.EqualFold(u.name, unit) || strings.EqualFold(strings.TrimSuffix(u.name, "B"), unit) {
			hint = `did you mean "` + text[:digits] + u.name + `"?`
			break
		}
	}
	if strings.HasPrefix(unit, ".") {
		return 0, whole(text, "a size is a whole number of units", "write it in a smaller unit: 1536KiB for 1.5MiB")
	}
	return 0, whole(text, "unknown unit "+quote(unit)+"; use B, KiB, MiB, GiB, KB, MB or GB", hint)
}

// sizeText writes a number of bytes in the largest unit that divides it.
func sizeText(n int64) string {
	i := slices.IndexFunc(sizes, func(u struct {
		name  string
		bytes int64
	}) bool {
		return n%u.bytes == 0 && strings.Contains(u.name, "i") && n > 0
	})
	if i < 0 {
		return strconv.FormatInt(n, 10) + "B"
	}
	return strconv.FormatInt(n/sizes[i].bytes, 10) + sizes[i].name
}
