package rules

import (
	"testing"
	"time"
)

func TestRulesAreDescribedInPlainNumbers(t *testing.T) {
	const bucket, window = "token_bucket", "fixed_window"
	for _, tt := range []struct {
		algorithm string
		permits   int64
		period    time.Duration
		burst     int64
		want      string
		q, w      int64
	}{
		// 100 in 60 s is one in 600 ms; in a minute the bucket and what refills: 200.
		{bucket, 100, time.Minute, 100, "100 at once, then 1 every 600ms; at most 200 in any minute", 100, 60},
		{bucket, 10, time.Second, 20, "20 at once, then 1 every 100ms; at most 30 in any second", 20, 2},
		{bucket, 5, 15 * time.Minute, 5, "5 at once, then 1 every 3m; at most 10 in any 15 minutes", 5, 900},
		{bucket, 60, time.Minute, 1, "1 at once, then 1 every 1s; at most 61 in any minute", 1, 1},
		{bucket, 1, 24 * time.Hour, 1, "1 at once, then 1 every 1d; at most 2 in any day", 1, 86400},
		{bucket, 24, 24 * time.Hour, 24, "24 at once, then 1 every 1h; at most 48 in any day", 24, 86400},
		{bucket, 30, 10 * time.Second, 10, "10 at once, then about 1 every 333ms; at most 40 in any 10 seconds", 10, 4},
		{bucket, 7, time.Minute, 7, "7 at once, then about 1 every 8.57s; at most 14 in any minute", 7, 60},
		{bucket, 10_000_000, time.Second, 65_535, "65535 at once, then 1 every 100ns; at most 10065535 in any second", 65_535, 1},
		{bucket, 1_000_003, time.Second, 10, "10 at once, then 1000003 a second; at most 1000013 in any second", 10, 1},
		{bucket, 1, 366 * 24 * time.Hour, 100, "100 at once, then 1 every 366d; at most 101 in any 366 days", 100, 3_162_240_000},
		{bucket, 3, 2 * time.Second, 1, "1 at once, then about 1 every 667ms; at most 4 in any 2 seconds", 1, 1},
		{window, 100, time.Minute, 0, "100 in each minute by the clock (UTC); up to 200 across an edge", 100, 60},
		{"gcra", 100, time.Minute, 100, "100 at once, then 1 every 600ms; at most 200 in any minute", 100, 60},
		{"sliding_window", 100, time.Minute, 0, "about 100 in any minute, estimated; never 200", 100, 60},
		{"sliding_window_log", 5, 15 * time.Minute, 0, "never more than 5 in any 15 minutes", 5, 900},
		{window, 5, 90 * time.Second, 0, "5 in each 90 seconds by the clock (UTC); up to 10 across an edge", 5, 90},
	} {
		p := &Plan{algorithm: tt.algorithm, Permits: tt.permits, Period: tt.period, Burst: tt.burst}
		if got := p.Describe(); got != tt.want {
			t.Errorf("%d/%v burst %d: %q, want %q", tt.permits, tt.period, tt.burst, got, tt.want)
		}
		if q, w := p.PolicyItem(); q != tt.q || w != tt.w {
			t.Errorf("%d/%v burst %d: q=%d w=%d, want q=%d w=%d", tt.permits, tt.period, tt.burst, q, w, tt.q, tt.w)
		}
	}
}

func TestCalendarsAreDescribedByTheirZone(t *testing.T) {
	for limit, want := range map[string][2]string{
		"1000/day":     {"1000 in each day of the calendar (Europe/Berlin); up to 2000 across an edge", `"a";q=1000;w=86400`},
		"5 per week":   {"5 in each week of the calendar (Europe/Berlin); up to 10 across an edge", `"a";q=5;w=604800`},
		"7 / 1 month":  {"7 in each month of the calendar (Europe/Berlin); up to 14 across an edge", `"a";q=7;w=2678400`},
		"7 / 1 months": {"7 in each month of the calendar (Europe/Berlin); up to 14 across an edge", `"a";q=7;w=2678400`},
	} {
		p := compile(t, oneRule("limit: "+limit+", algorithm: fixed_window, calendar: {zone: Europe/Berlin}"), nil).Rules[0].Base
		if p.Describe() != want[0] || p.Policy() != want[1] {
			t.Errorf("%s: %q and %s, want %q and %s", limit, p.Describe(), p.Policy(), want[0], want[1])
		}
	}
}

func TestQueuesAndPenaltiesAreDescribed(t *testing.T) {
	for rule, want := range map[string][2]string{
		// ⌊1.25 s · 10/s⌋ = 12 places.
		"limit: 10/s, algorithm: leaky_bucket, max_wait: 1250ms": {
			"1 leaves at once, then 1 every 100ms; up to 12 wait for their turn, 1.25s at most", `"a";q=12;w=1`,
		},
		"limit: 100/m, max_wait: 3s": {
			"100 at once, then 1 every 600ms; at most 200 in any minute; up to 5 wait for their turn, 3s at most", `"a";q=100;w=60`,
		},
		"limit: 10/s, penalty: {after: 20/m, block: 1m}": {
			"10 at once, then 1 every 100ms; at most 20 in any second; more refusals than 20/m block for 1m, each time twice as long, at most 4m", `"a";q=10;w=1`,
		},
		"concurrency: 3, penalty: {after: 5/m, block: 1h, max: 1h}": {
			"3 in progress at the same time; more refusals than 5/m block for 1h", `"a";q=3;qu="concurrent-requests"`,
		},
	} {
		r := compile(t, oneRule(rule), nil).Rules[0]
		if r.Describe() != want[0] || r.Base.Policy() != want[1] {
			t.Errorf("%s: %q and %s, want %q and %s", rule, r.Describe(), r.Base.Policy(), want[0], want[1])
		}
	}
}

func TestPolicyIsAnItemOfTheField(t *testing.T) {
	s := compile(t, "upstream: http://a\nrules: [{name: per-key, limit: 10/s, burst: 20}]\n", nil)
	if got, want := s.Rules[0].Base.Policy(), `"per-key";q=20;w=2`; got != want {
		t.Errorf("Policy() = %s, want %s", got, want)
	}
}
