package admin

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"gateway/rules"
)

// verdicts are the results of a rule's plans. Sorted, as a scrape wants them:
// what comes in order costs little to sort, and ten thousand rules are many lines.
var verdicts = []struct {
	result string
	count  func(*rules.Plan) int64
	can    func(*rules.Rule, *rules.Plan) bool // whether the plan of the rule can ever decide so
}{
	{"allowed", func(p *rules.Plan) int64 { return p.Live.Allowed.Load() }, func(*rules.Rule, *rules.Plan) bool { return true }},
	{"blocked", func(p *rules.Plan) int64 { return p.Live.Blocked.Load() }, func(r *rules.Rule, _ *rules.Plan) bool { return r.Penalty != (rules.PenaltySpec{}) && !r.DryRun }},
	{"candidate_rejected", candidateRejected, func(_ *rules.Rule, p *rules.Plan) bool { return p.Candidate != nil }},
	{"dry_run_rejected", func(p *rules.Plan) int64 { return p.Live.DryRunRejected.Load() }, func(r *rules.Rule, _ *rules.Plan) bool { return r.DryRun }},
	{"failed_closed", func(p *rules.Plan) int64 { return p.Live.FailedClosed.Load() }, func(r *rules.Rule, _ *rules.Plan) bool { return r.Closed && !r.DryRun }},
	{"rejected", func(p *rules.Plan) int64 { return p.Live.Rejected.Load() }, func(r *rules.Rule, _ *rules.Plan) bool { return !r.DryRun }},
	{"waited", func(p *rules.Plan) int64 { return p.Live.Waited.Load() }, func(r *rules.Rule, p *rules.Plan) bool { return p.MaxWait > 0 && !r.DryRun }},
}

// candidateRejected returns how many requests the candidate of p would have refused.
func candidateRejected(p *rules.Plan) int64 {
	if p.Candidate == nil {
		return 0
	}
	return p.Candidate.Live.Rejected.Load()
}

// ruleMetrics passes on the counters of all rules. What a rule cannot decide, and
// has not before an edit, is left out.
func ruleMetrics(set *rules.Set, counter, gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	all := slices.SortedFunc(slices.Values(set.Rules), func(a, b *rules.Rule) int { return strings.Compare(a.Name, b.Name) })
	for _, v := range verdicts {
		for _, r := range all {
			for p := range r.Plans() {
				if n := v.count(p); n > 0 || v.can(r, p) {
					counter(decisions, float64(n), r.Name, p.Tier, v.result)
				}
			}
		}
	}
	for _, r := range all {
		// Both before any tier is looked for.
		if n := r.Live.FailedOpen.Load(); n > 0 || r.Open && r.Quiet {
			counter(decisions, float64(n), r.Name, "", "failed_open")
		}
		if n := r.Live.Skipped.Load(); n > 0 || r.Skips() {
			counter(decisions, float64(n), r.Name, "", "skipped")
		}
		counter(units, float64(r.Live.Units.Load()), r.Name)
		counter(nearLimit, float64(r.Live.NearLimit.Load()), r.Name)
		remembered, evicted := held(r)
		gauge(keys, float64(remembered), r.Name)
		counter(evictions, float64(evicted), r.Name)
	}
}
