package rules

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Describe says in plain numbers what the rule lets through of clients of no
// tier, and what a request takes.
func (r *Rule) Describe() string {
	text := r.Base.Describe()
	switch {
	case len(r.costs.list) > 0:
		text += fmt.Sprintf("; a request takes %s, %d otherwise", r.costs.String(), r.Cost)
	case r.Cost != 1 && r.CostFrom.Header == "":
		text += fmt.Sprintf("; a request takes %d", r.Cost)
	}
	if r.CostFrom.Header != "" {
		text += fmt.Sprintf("; a request takes what %s of its answer says, at most %d", r.CostFrom.Header, r.CostFrom.Max)
	}
	if r.Count != nil {
		text += "; only answers " + r.Count.Statuses.String() + " count"
	}
	if r.Refund != nil {
		text += "; " + r.Refund.String() + " give it back"
	}
	if p := r.Penalty; p != (PenaltySpec{}) {
		text += fmt.Sprintf("; more refusals than %s block for %s", p.AfterText, durationText(p.Block))
		if p.Max > p.Block {
			text += ", each time twice as long, at most " + durationText(p.Max)
		}
	}
	return text
}

// Describe says in plain numbers what the plan lets through, like
// "100 at once, then 1 every 600ms; at most 200 in any minute" or, for a window,
// "100 in each minute by the clock (UTC); up to 200 across an edge".
func (p *Plan) Describe() string {
	switch p.algorithm {
	case concurrency:
		return fmt.Sprintf("%d in progress at the same time", p.Concurrency)
	case fixedWindow:
		if p.zone != "" {
			return fmt.Sprintf("%d in each %s of the calendar (%s); up to %d across an edge", p.Permits, spanText(p.Period), p.zone, 2*p.Permits)
		}
		return fmt.Sprintf("%d in each %s by the clock (UTC); up to %d across an edge", p.Permits, periodText(p.Period), 2*p.Permits)
	case slidingWindow:
		return fmt.Sprintf("about %d in any %s, estimated; never %d", p.Permits, periodText(p.Period), 2*p.Permits)
	case slidingLog:
		return fmt.Sprintf("never more than %d in any %s", p.Permits, periodText(p.Period))
	}
	if p.algorithm == leakyBucket {
		return fmt.Sprintf("1 leaves at once, then %s; %s", pace(p.Permits, p.Period), p.waitText())
	}
	text := fmt.Sprintf("%d at once, then %s; at most %d in any %s", p.Burst, pace(p.Permits, p.Period), p.Burst+p.Permits, periodText(p.Period))
	if p.MaxWait > 0 {
		text += "; " + p.waitText()
	}
	return text
}

// waitText says how many requests wait, and how long.
func (p *Plan) waitText() string {
	return fmt.Sprintf("up to %d wait for their turn, %s at most", p.Places, durationText(p.MaxWait))
}

// String says what the penalty is: "over 10/m: 5m to 20m", or "none".
func (p PenaltySpec) String() string {
	if p == (PenaltySpec{}) {
		return "none"
	}
	return fmt.Sprintf("over %s: %s to %s", p.AfterText, durationText(p.Block), durationText(p.Max))
}

// LimitText returns the rate as written in the file, or "20 in progress".
func (p *Plan) LimitText() string {
	if p.algorithm == concurrency {
		return fmt.Sprintf("%d in progress", p.Concurrency)
	}
	return p.Limit
}

// String lists the statuses as a file would: "401, 4xx".
func (s Statuses) String() string {
	var parts []string
	for class := 1; class <= 5; class++ {
		var codes []string
		for code := class * 100; code < class*100+100; code++ {
			if s.Has(code) {
				codes = append(codes, strconv.Itoa(code))
			}
		}
		if len(codes) == 100 {
			codes = []string{strconv.Itoa(class) + "xx"}
		}
		parts = append(parts, codes...)
	}
	return strings.Join(parts, ", ")
}

// String says which answers those are; "" for none.
func (r *Returns) String() string {
	if r == nil {
		return ""
	}
	var parts []string
	if text := r.Statuses.String(); text != "" {
		parts = append(parts, "answers "+text)
	}
	if r.UpstreamError {
		parts = append(parts, "upstream errors")
	}
	return strings.Join(parts, " and ")
}

// pace says how fast a bucket refills.
func pace(permits int64, period time.Duration) string {
	divisor := new(big.Int).GCD(nil, nil, big.NewInt(permits), big.NewInt(int64(period))).Int64()
	n, w := permits/divisor, period/time.Duration(divisor)
	switch gap := time.Duration(float64(w) / float64(n)); {
	case n == 1:
		return "1 every " + durationText(w)
	case gap < time.Microsecond:
		return fmt.Sprintf("%d a %s", permits, strings.TrimPrefix(periodText(period), "1 "))
	default:
		return "about 1 every " + durationText(roundTo3(gap))
	}
}

// roundTo3 rounds d to three digits.
func roundTo3(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// durationText writes d as one would: "1m", not "1m0s".
func durationText(d time.Duration) string {
	if d > 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// periodText writes a period in the largest unit that divides it: "minute",
// "15 minutes".
func periodText(d time.Duration) string {
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"day", day}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}} {
		if n := d / u.size; d%u.size == 0 {
			if n == 1 {
				return u.name
			}
			return fmt.Sprintf("%d %ss", n, u.name)
		}
	}
	return d.String()
}

// spanText writes the period of a calendar: "day", "week" or "month".
func spanText(d time.Duration) string {
	switch d {
	case day:
		return "day"
	case 7 * day:
		return "week"
	}
	return "month"
}

// PolicyItem returns the parameters of the plan's item in the RateLimit-Policy
// field (draft-ietf-httpapi-ratelimit-headers-11): q units in w whole seconds.
// For a bucket those are its size and the time it takes to fill, rounded up; for
// a leaky bucket its places and its period, for a window its limit and its period, which of a calendar's month is 31 days.
func (p *Plan) PolicyItem() (q, w int64) {
	if p.algorithm == leakyBucket {
		return p.Places, int64(p.Period / time.Second)
	}
	if !hasBurst(p.algorithm) {
		return p.Permits, int64(p.Period / time.Second)
	}
	// ceil(burst * period / (permits * 1s)): the products may not fit 64 bits.
	allHi, allLo := bits.Mul64(uint64(p.Burst), uint64(p.Period))
	eachHi, eachLo := bits.Mul64(uint64(p.Permits), uint64(time.Second))
	if allHi == 0 && eachHi == 0 && allLo <= math.MaxUint64-eachLo {
		return p.Burst, int64((allLo + eachLo - 1) / eachLo)
	}
	all := new(big.Int).Mul(big.NewInt(p.Burst), big.NewInt(int64(p.Period)))
	each := new(big.Int).Mul(big.NewInt(p.Permits), big.NewInt(int64(time.Second)))
	all.Add(all, each).Sub(all, big.NewInt(1))
	return p.Burst, all.Quo(all, each).Int64()
}

// Policy returns the plan's item of the RateLimit-Policy field:
// "per-ip";q=100;w=60, the name of its rule in quotes as there.
func (p *Plan) Policy() string { return p.policy }

// policyItem writes what Policy returns. A rule's name needs no escapes.
func (p *Plan) policyItem(rule string) string {
	if p.algorithm == concurrency {
		return fmt.Sprintf(`"%s";q=%d;qu="concurrent-requests"`, rule, p.Concurrency)
	}
	q, w := p.PolicyItem()
	return `"` + rule + `";q=` + strconv.FormatInt(q, 10) + ";w=" + strconv.FormatInt(w, 10)
}
