package rules

import (
	"testing"
	"time"
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
		if err != nil || got != (Rate{tt.permits, tt.period}) {
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
		{"5/015m", `"015" begins with 0, which may mean octal`, "write 15"},
		{"5/-1m", `"-1" is not a whole number`, ""},
		{"5/1.5m", "a period is a whole number of units", "write it in a smaller unit: 90s for 1.5m"},
		{"5/15", "a period needs a unit", "write 15s, 15m, 15h or 15d"},
		{"5/m/s", `unknown unit "m/s"; use s, m, h or d`, ""},
		{"100/fortnight", `unknown unit "fortnight"; use s, m, h or d`, ""},
		{"100/minuet", `unknown unit "minuet"; use s, m, h or d`, `did you mean "minute"?`},
		{"100/ms", `unknown unit "ms"; use s, m, h or d`, ""},
		{"1/week", "a week needs a calendar, which is not supported by this version", "write 7d"},
		{"1/2months", "a month needs a calendar, which is not supported by this version", "write 60d"},
		{"1/367d", "a period over 366d", ""},
		{"1/99999999999999999s", "a number over 1,000,000,000,000,000", ""},
		{"1000000000000001/s", "a number over 1,000,000,000,000,000", ""},
	} {
		got, err := parseRate(tt.text)
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
		"1d-1h":       "a negative duration",
		"+1s":         "not a duration",
		"1 s":         "not a duration",
		"1x":          "not a duration",
		"NaN":         "not a duration",
		"d":           "not a duration",
		"1h1d":        "not a duration",
		"367d":        "a time over 366d",
		"366d1ns":     "a time over 366d",
		"3000000h":    "a time over 366d",
		"99999d":      "not a duration",
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
