package main

import (
	"strings"
	"testing"

	"gateway/proxy/admin"
)

// A candidate is told of wherever a rule is, and by the same figures.
func TestACandidateIsToldOfWhereverItsRuleIs(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	const tail = "\nrules:\n  - { name: per-ip, limit: 4/365d, candidate: { limit: 2/365d } }\n"
	g := serve(t, ports+"upstream: "+up.URL+tail)
	for i := range 6 {
		if got, want := g.get("/").status, []int{200, 200, 200, 200, 429, 429}[i]; got != want {
			t.Errorf("request %d: %d, want %d", i, got, want)
		}
	}
	want := admin.CandidateStatus{Limit: "2/365d", WouldAllow: 2, WouldRefuse: 4, Means: "2 at once, then 1 every 182.5d; at most 4 in any 365 days"}
	rule := g.status().Rules[0]
	if rule.Candidate != nil {
		want.Means = rule.Candidate.Means // what numbers mean is tested elsewhere
	}
	if rule.Candidate == nil || *rule.Candidate != want {
		t.Errorf("status: %+v, want %+v", rule.Candidate, want)
	}
	if rule.Plans[0].Allowed != 4 || rule.Plans[0].Refused != 2 || rule.Keys != 1 {
		t.Errorf("the rule itself: %+v, %d keys", rule.Plans[0], rule.Keys)
	}
	if got := g.metrics()[`gateway_rule_decisions_total{result="candidate_rejected",rule="per-ip",tier=""}`]; got != 4 {
		t.Errorf("candidate_rejected %v, want 4", got)
	}
	out, err := g.command("status")
	do(t, err)
	if !strings.Contains(out, "candidate  2/365d  would: 2") || !strings.Contains(out, "would: 4") {
		t.Errorf("gateway status says\n%s", out)
	}
	g.stop()
	if n := strings.Count(g.out.String(), `"candidate_rule":"per-ip"`); n != 4 {
		t.Errorf("%d lines of the access log name the rule, want 4", n)
	}
}
