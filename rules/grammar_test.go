package rules

import (
	"maps"
	"math/big"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRatesAreRead(t *testing.T) {
	for _, tt := range []struct {
		text    string
		permits int64
		period  time.Duration
	}{
		{"100/m", 100, time.Minute},
		{"10r/s", 10, time.Second},
		{"10 r/s", 10, time.Second},
		{"5/15m", 5, 15 * time.Minute},
		{"5 per 15 minutes", 5, 15 * time.Minute},
		{"1 per day", 1, 24 * time.Hour},
		{"1_000/h", 1000, time.Hour},
		{"20/1h", 20, time.Hour},
		{"100 / m", 100, time.Minute},
		{"100/sec", 100, time.Second},
		{"100/second", 100, time.Second},
		{"100/30seconds", 100, 30 * time.Second},
		{"100/min", 100, time.Minute},
		{"100/minute", 100, time.Minute},
		{"100/hours", 100, time.Hour},
		{"100/hour", 100, time.Hour},
		{"100/d", 100, 24 * time.Hour},
		{"100/7 days", 100, 7 * 24 * time.Hour},
		{"1/366d", 1, 366 * 24 * time.Hour},
		{"1000000000000000/s", 1e15, time.Second},
	} {
		got, err := parseRate(tt.text)
		if err != nil || got != (Rate{Permits: tt.permits, Period: tt.period}) {
			t.Errorf("parseRate(%q) = %v, %v; want %d in %v", tt.text, got, err, tt.permits, tt.period)
		}
	}
}

func TestRatesThatCannotBeMeantAreRefused(t *testing.T) {
	for _, tt := range []struct{ text, msg, hint string }{
		{"100", "100 in how long?", "write 100/s, 100/m, 100/h or 100/d"},
		{"1_000", "1000 in how long?", "write 1000/s, 1000/m, 1000/h or 1000/d"},
		{"", "not a rate", "write it like 100/m, 5/15m or 1_000/h"},
		{"/m", `"" is not a whole number`, ""},
		{"0/m", "a limit is at least 1", "to refuse requests altogether, use block"},
		{"-1/m", "a limit is at least 1", ""},
		{"+1/m", `"+1" is not a whole number`, "write 1/m"},
		{"NaN/m", `"NaN" is not a whole number`, ""},
		{"inf/m", `"inf" is not a whole number`, ""},
		{"0.5/s", "a fraction of a request cannot be counted", "write 1/2s"},
		{"0.5/1s", "a fraction of a request cannot be counted", "write 1/2s"},
		{"1.5/m", "a fraction of a request cannot be counted", "write 3/2m"},
		{"2.5 per 10 minutes", "a fraction of a request cannot be counted", "write 1/4minutes"},
		{"100.0/m", "a fraction of a request cannot be counted", "write 100/m"},
		{"0.001/h", "a fraction of a request cannot be counted", "write 1/1000h"},
		{"1e3/m", `"1e3" is not a whole number`, "write 1000/m"},
		{"0x10/m", `"0x10" is not a whole number`, "write 16/m"},
		{"010/m", `"010" begins with 0, which may mean octal`, "write 10/m"},
		{"1__0/m", `"1__0" is not a whole number`, "write 10/m"},
		{"5/0m", "a period of 0 m", "a period is at least 1s"},
		{"5/015m", `"015" begins with 0, which may mean octal`, "write 5/15m"},
		{"5/-1m", `"-1" is not a whole number`, ""},
		{"5/1.5m", "a period is a whole number of units", "write it in a smaller unit: 90s for 1.5m"},
		{"5/15", "a period needs a unit", "write 15s, 15m, 15h or 15d"},
		{"5/m/s", `unknown unit "m/s"; use s, m, h or d`, ""},
		{"100/fortnight", `unknown unit "fortnight"; use s, m, h or d`, ""},
		{"100/minuet", `unknown unit "minuet"; use s, m, h or d`, `did you mean "minute"?`},
		{"100/mins", `unknown unit "mins"; use s, m, h or d`, `did you mean "min"?`},
		{"100/ms", `unknown unit "ms"; use s, m, h or d`, "a period is at least 1s"},
		{"100/500ms", `unknown unit "ms"; use s, m, h or d`, "a period is at least 1s"},
		{"100/hr", `unknown unit "hr"; use s, m, h or d`, `did you mean "h"?`},
		{"100/H", `unknown unit "H"; use s, m, h or d`, `did you mean "h"?`},
		{"100/M", `unknown unit "M"; use s, m, h or d`, "write m for a minute, 30d for a month"},
		{"100/2w", `unknown unit "w"; use s, m, h or d`, "write 14d"},
		{"100/year", `unknown unit "year"; use s, m, h or d`, "write 365d"},
		{"100/2years", `unknown unit "years"; use s, m, h or d`, ""},
		{"100/1h30m", `unknown unit "h30m"; use s, m, h or d`, "write the period in one unit: 90m"},
		{"100/1m30.5s", `unknown unit "m30.5s"; use s, m, h or d`, ""},
		{"100/m, 1000/h", `unknown unit "m, 1000/h"; use s, m, h or d`, "a rule has one limit; make two rules of it"},
		{"1,000/h", `"1,000" is not a whole number`, "write 1000/h"},
		{" 1 000 000 / d", `"1 000 000" is not a whole number`, "write 1000000 / d"},
		{"1,00/h", `"1,00" is not a whole number`, ""},
		{"1k/m", `"1k" is not a whole number`, "write 1000/m"},
		{"2M/d", `"2M" is not a whole number`, "write 2000000/d"},
		{"100 requests per minute", `"100 requests" is not a whole number`, "write 100 per minute"},
		{"100req/m", `"100req" is not a whole number`, "write 100/m"},
		{"10rps", "not a rate", "write 10/s"},
		{"600 rpm", "not a rate", "write 600/m"},
		{"100 Per Minute", "not a rate", "write 100 per minute"},
		{"off", "not a rate", "for no limit remove the rule"},
		{"Unlimited", "not a rate", "for no limit remove the rule"},
		{"1/week", "a week needs a calendar", "write 7d, or add algorithm: fixed_window and calendar: { zone: UTC }"},
		{"1 per month", "a month needs a calendar", "write 30d, or add algorithm: fixed_window and calendar: { zone: UTC }"},
		{"1/2months", "a calendar has windows of one month", "write 60d"},
		{"1/367d", "a period over 366d", ""},
		{"1/99999999999999999s", "a number over 1,000,000,000,000,000", ""},
		{"1000000000000001/s", "a number over 1,000,000,000,000,000", ""},
	} {
		got, err := plainRate(tt.text)
		if err == nil {
			t.Errorf("parseRate(%q) = %v; want an error", tt.text, got)
		} else if err.Msg != tt.msg || err.Hint != tt.hint {
			t.Errorf("parseRate(%q): %q, %q; want %q, %q", tt.text, err.Msg, err.Hint, tt.msg, tt.hint)
		}
	}
}

func TestDurationsAreRead(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0":         0,
		"0s":        0,
		"500ms":     500 * time.Millisecond,
		"1.5s":      1500 * time.Millisecond,
		"1h30m":     90 * time.Minute,
		"1d":        24 * time.Hour,
		"1d12h":     36 * time.Hour,
		"366d":      366 * 24 * time.Hour,
		"365d24h0s": 366 * 24 * time.Hour,
		"1.5d":      36 * time.Hour,
		".5d":       12 * time.Hour,
		"1h1d":      25 * time.Hour, // in any order, as Go's units are
		"1.s":       time.Second,
		"0d":        0,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("parseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for text, msg := range map[string]string{
		"":            "not a duration",
		"s":           "not a duration",
		"30":          `"30" of what?`,
		"-1s":         "a negative duration",
		"-1d12h":      "a negative duration",
		"1d-1h":       "not a duration",
		"1.2.3s":      "not a duration",
		".s":          "not a duration",
		"+1s":         "not a duration",
		"1 s":         "not a duration",
		"1x":          "not a duration",
		"NaN":         "not a duration",
		"d":           "not a duration",
		"367d":        "a time over 366d",
		"366d1ns":     "a time over 366d",
		"3000000h":    "a time over 366d",
		"99999d":      "a time over 366d",
		"366.1d":      "a time over 366d",
		"300d300d":    "a time over 366d",
		"9999999999h": "a time over 366d",
	} {
		if got, err := parseDuration(text); err == nil || err.Msg != msg {
			t.Errorf("parseDuration(%q) = %v, %v; want %q", text, got, err, msg)
		}
	}
}

func TestSizesAreRead(t *testing.T) {
	for text, want := range map[string]int64{
		"0B": 0, "64KiB": 65536, "64 KiB": 65536, "10MB": 10_000_000, "1GiB": 1 << 30, "1_000kB": 1_000_000, "2TiB": 2 << 40,
		"1024TiB": 1 << 50,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("parseSize(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for text, hint := range map[string]string{
		"":         "write it like 64KiB or 10MB",
		"KiB":      "write it like 64KiB or 10MB",
		"64":       "write 64B, 64KiB or 64MiB",
		"64k":      `did you mean "64KB"?`,
		"64Ki":     `did you mean "64KiB"?`,
		"64kib":    `did you mean "64KiB"?`,
		"1.5GiB":   "write it in a smaller unit: 1536KiB for 1.5MiB",
		"1025TiB":  "",
		"-1KiB":    "write it like 64KiB or 10MB",
		"64parsec": "write it like 64KiB or 10MB",
	} {
		if got, err := parseSize(text); err == nil || err.Hint != hint {
			t.Errorf("parseSize(%q) = %v, %v; want the hint %q", text, got, err, hint)
		}
	}
	for n, want := range map[int64]string{64 << 10: "64KiB", 16 << 20: "16MiB", 1 << 50: "1024TiB", 1000: "1000B", 0: "0B"} {
		if got := sizeText(n); got != want {
			t.Errorf("sizeText(%d) = %q, want %q", n, got, want)
		}
	}
}

// written is a value in one of its spellings.
type written[T any] struct {
	text  string
	value T
}

// wholeNumber draws a number and a way to write it: with or without _.
func wholeNumber(t *rapid.T, low, high int64, label string) written[int64] {
	n := rapid.Int64Range(low, high).Draw(t, label)
	plain := strconv.FormatInt(n, 10)
	text := plain[:1]
	for _, digit := range plain[1:] {
		if rapid.Bool().Draw(t, "underscore") {
			text += "_"
		}
		text += string(digit)
	}
	return written[int64]{text, n}
}

// rate = number ( "/" | " per " | "r/" ) [ number ] unit
func TestEverySpellingOfARateIsRead(t *testing.T) {
	spellings := map[time.Duration][]string{
		time.Second:    {"s", "sec", "second", "seconds"},
		time.Minute:    {"m", "min", "minute", "minutes"},
		time.Hour:      {"h", "hour", "hours"},
		24 * time.Hour: {"d", "day", "days"},
	}
	rapid.Check(t, func(t *rapid.T) {
		permits := wholeNumber(t, 1, 1_000_000_000_000_000, "permits")
		unit := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "unit")
		per := rapid.SampledFrom([]string{"/", " per ", "r/"}).Draw(t, "per")
		want := Rate{Permits: permits.value, Period: unit}
		text := permits.text + per
		if rapid.Bool().Draw(t, "times") {
			times := wholeNumber(t, 1, int64(366*24*time.Hour/unit), "times")
			want.Period *= time.Duration(times.value)
			text += times.text
			if rapid.Bool().Draw(t, "space") {
				text += " "
			}
		}
		text += rapid.SampledFrom(spellings[unit]).Draw(t, "name")
		if got, err := parseRate(text); err != nil || got != want {
			t.Fatalf("parseRate(%q) = %v, %v; want %v", text, got, err, want)
		}
		// One more unit than fits is said to be too long, and nothing else.
		tooLong := permits.text + per + strconv.FormatInt(int64(366*24*time.Hour/unit)+1, 10) + spellings[unit][0]
		if got, err := parseRate(tooLong); err == nil || err.Msg != "a period over 366d" {
			t.Fatalf("parseRate(%q) = %v, %v", tooLong, got, err)
		}
	})
}

// duration = Go's, plus d. The sum is reckoned in exact fractions.
func TestEverySpellingOfADurationIsRead(t *testing.T) {
	spellings := map[string]time.Duration{
		"ns": 1, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, "ms": time.Millisecond,
		"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	}
	rapid.Check(t, func(t *rapid.T) {
		text, want, days := "", new(big.Rat), false
		parts := rapid.IntRange(1, 4).Draw(t, "parts")
		for range parts {
			number := strconv.Itoa(rapid.IntRange(0, 400).Draw(t, "number"))
			if rapid.Bool().Draw(t, "fraction") {
				number += "." + strconv.Itoa(rapid.IntRange(0, 999).Draw(t, "digits"))
			}
			unit := rapid.SampledFrom(slices.Sorted(maps.Keys(spellings))).Draw(t, "unit")
			days = days || unit == "d"
			n, _ := new(big.Rat).SetString(number)
			want.Add(want, n.Mul(n, new(big.Rat).SetInt64(int64(spellings[unit]))))
			text += number + unit
		}
		got, err := parseDuration(text)
		if want.Cmp(new(big.Rat).SetInt64(int64(366*24*time.Hour))) > 0 {
			if err == nil || err.Msg != "a time over 366d" {
				t.Fatalf("parseDuration(%q) = %v, %v; want too long", text, got, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("parseDuration(%q): %v", text, err)
		}
		// A part is cut to whole nanoseconds, or in days to 24 of them.
		off := new(big.Rat).Sub(want, new(big.Rat).SetInt64(int64(got)))
		if most := new(big.Rat).SetInt64(int64(25 * parts)); off.Sign() < 0 || off.Cmp(most) > 0 {
			t.Fatalf("parseDuration(%q) = %v, off by %v ns", text, got, off.FloatString(3))
		}
		if theirs, err := time.ParseDuration(text); !days && (err != nil || theirs != got) {
			t.Fatalf("parseDuration(%q) = %v, and Go's own %v, %v", text, got, theirs, err)
		}
	})
}

// size = 64KiB, 10MB
func TestEverySpellingOfASizeIsRead(t *testing.T) {
	units := map[string]int64{
		"B": 1, "kB": 1000, "KB": 1000, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom(slices.Sorted(maps.Keys(units))).Draw(t, "unit")
		n := wholeNumber(t, 0, min(1<<50/units[unit], 1_000_000_000_000_000), "number")
		space := rapid.SampledFrom([]string{"", " "}).Draw(t, "space")
		text := n.text + space + unit
		if got, err := parseSize(text); err != nil || got != n.value*units[unit] {
			t.Fatalf("parseSize(%q) = %v, %v; want %d", text, got, err, n.value*units[unit])
		}
		if got, err := parseSize(sizeText(n.value * units[unit])); n.value*units[unit] <= maxNumber && (err != nil || got != n.value*units[unit]) {
			t.Fatalf("sizeText(%d) = %q, which reads as %d, %v", n.value*units[unit], sizeText(n.value*units[unit]), got, err)
		}
	})
}

func FuzzGrammarGivesAnErrorOrSomethingInRange(f *testing.F) {
	for _, seed := range []string{"100/m", "0.5/s", "5 per 15 minutes", "1d12h", "64KiB", "1e9999999/m", "0x/s", "999999999.999999999/9m"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := parseRate(text); err == nil && (r.Permits < 1 || r.Permits > maxNumber || r.Period < time.Second || r.Period > maxPeriod) {
			t.Errorf("parseRate(%q) = %v", text, r)
		}
		if d, err := parseDuration(text); err == nil && (d < 0 || d > maxPeriod) {
			t.Errorf("parseDuration(%q) = %v", text, d)
		}
		if n, err := parseSize(text); err == nil && (n < 0 || n > 1<<50) {
			t.Errorf("parseSize(%q) = %v", text, n)
		}
	})
}
