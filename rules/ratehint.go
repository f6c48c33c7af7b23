package rules

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// otherUnits are what people write for a unit, or for a time that is none.
var otherUnits = map[string]string{
	"hr": "h", "hrs": "h", "secs": "s", "sek": "s", "D": "d", "H": "h", "S": "s",
	"M":    "write m for a minute, 30d for a month",
	"week": "7d", "weeks": "7d", "w": "7d", "wk": "7d", "y": "365d", "yr": "365d", "year": "365d", "years": "365d",
	"ms": shortest, "us": shortest, "µs": shortest, "ns": shortest, "msec": shortest, "millisecond": shortest, "milliseconds": shortest,
}

const shortest = "a period is at least 1s"

// unitHint says what to write instead of a unit that is not known, of which number
// is what stands before it.
func unitHint(number, unit string) string {
	if strings.ContainsAny(unit, ",;&") {
		return "a rule has one limit; make two rules of it"
	}
	if strings.ContainsAny(unit, "0123456789") { // of several units, as a duration has
		if d, err := parseDuration(number + unit); err == nil && d >= time.Second && d%time.Second == 0 {
			return "write the period in one unit: " + inOneUnit(d)
		}
		return ""
	}
	switch other := otherUnits[unit]; {
	case len(other) > 4:
		return other
	case len(other) > 1:
		n, err := parseWhole(number)
		if err != nil || number == "" {
			n = 1
		}
		days, _ := strconv.ParseInt(strings.TrimSuffix(other, "d"), 10, 64)
		if n > 366/days {
			return ""
		}
		return "write " + strconv.FormatInt(n*days, 10) + "d"
	case other != "":
		return `did you mean "` + other + `"?`
	case isWord(unit):
		return didYouMean(unit, unitNames)
	}
	return ""
}

// inOneUnit writes a period of whole seconds in the largest unit that divides it.
func inOneUnit(d time.Duration) string {
	for _, unit := range []string{"d", "h", "m"} {
		if d%units[unit] == 0 {
			return strconv.FormatInt(int64(d/units[unit]), 10) + unit
		}
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

var (
	groupedCount = lazily(`^\d{1,3}([,.' ]\d{3})+$`)
	shortCount   = lazily(`^(\d{1,12})([kKM])$`)
	countOfWhat  = lazily(`^(\d[\d_]*) ?(?:requests?|reqs?|calls?|hits?|queries|x|times)$`)
	perSecond    = lazily(`^(\d[\d_]*) ?[rq]?p([smhd])$`)
)

// plainCount returns the number of permits that people write otherwise, as digits;
// or "".
func plainCount(count string) string {
	if groupedCount().MatchString(count) {
		return strings.Map(func(r rune) rune {
			if r < '0' || r > '9' {
				return -1
			}
			return r
		}, count)
	}
	if m := shortCount().FindStringSubmatch(count); m != nil {
		return m[1] + map[string]string{"k": "000", "K": "000", "M": "000000"}[m[2]]
	}
	if m := countOfWhat().FindStringSubmatch(count); m != nil {
		return m[1]
	}
	return ""
}

// rateHint says what to write instead of what is no rate.
func rateHint(text string) string {
	if m := perSecond().FindStringSubmatch(text); m != nil {
		return "write " + m[1] + "/" + m[2]
	}
	if slices.Contains([]string{"off", "none", "no", "false", "unlimited", "infinite", "never"}, strings.ToLower(text)) {
		return "for no limit remove the rule"
	}
	if lower := strings.ToLower(text); lower != text {
		if _, err := parseRate(lower); err == nil {
			return "write " + lower
		}
	}
	return "write it like 100/m, 5/15m or 1_000/h"
}
