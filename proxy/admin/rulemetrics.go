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
	count  func(*rules.PlanLive) int64
	can    func(*rules.Rule) bool // whether the rule can ever decide so
}{
	{"allowed", func(l *rules.PlanLive) int64 { return l.Allowed.Load() }, func(*rules.Rule) bool { return true }},
	{"blocked", func(l *rules.PlanLive) int64 { return l.Blocked.Load() }, func(r *rules.Rule) bool { return r.Penalty != (rules.PenaltySpec{}) && !r.DryRun }},
	{"dry_run_rejected", func(l *rules.PlanLive) int64 { return l.DryRunRejected.Load() }, func(r *rules.Rule) bool { return r.DryRun }},
	{"failed_closed", func(l *rules.PlanLive) int64 { return l.FailedClosed.Load() }, func(r *rules.Rule) bool { return r.Closed && !r.DryRun }},
	{"rejected", func(l *rules.PlanLive) int64 { return l.Rejected.Load() }, func(r *rules.Rule) bool { return !r.DryRun }},
	{"waited", func(l *rules.PlanLive) int64 { return l.Waited.Load() }, func(r *rules.Rule) bool { return r.Base.MaxWait > 0 && !r.DryRun }},
}

// ruleMetrics passes on the counters of all rules. What a rule cannot decide, and
// has not before an edit, is left out.
func ruleMetrics(set *rules.Set, counter, gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	all := slices.SortedFunc(slices.Values(set.Rules), func(a, b *rules.Rule) int { return strings.Compare(a.Name, b.Name) })
	for _, v := range verdicts {
		for _, r := range all {
			for p := range r.Plans() {
				if n := v.count(p.Live); n > 0 || v.can(r) {
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
