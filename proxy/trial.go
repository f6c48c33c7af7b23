package proxy

import "gateway/limit"

// measure asks the candidates of the rules that apply, once the request has been
// decided: each sees every request that all other rules admit, also one that its own
// rule refuses. They have Tables of their own and refuse nothing, so that nothing
// here changes what was decided or what a rule has counted. A request whose keys are
// not all known when it is refused is not measured: nobody knows what the others say.
func (x *exchange) measure() {
	for i := range x.hits {
		if h := &x.hits[i]; h.Plan.Candidate != nil && !x.pending() && x.othersAdmit(int32(i)) {
			x.trials = append(x.trials, limit.Claim{})
			c := &x.trials[len(x.trials)-1]
			h.Trial(c)
			c.Tag = int32(i)
			x.settles = x.settles || h.Rule.Settles()
		}
	}
	if len(x.trials) == 0 {
		return
	}
	x.trial, _ = x.g.limiter.Acquire(x.r.Context(), x.at, x.trials)
	for i := range x.trials {
		c := &x.trials[i]
		h := &x.hits[c.Tag]
		if c.Result.OK {
			h.Plan.Candidate.Live.Allowed.Add(1)
			continue
		}
		h.Plan.Candidate.Live.Rejected.Add(1)
		x.candidates = join(x.candidates, h.Rule.Name)
	}
}

// othersAdmit reports whether no rule but that of hit i, nor the bound of the whole
// gateway, has refused the request.
func (x *exchange) othersAdmit(i int32) bool {
	for j := range x.claims {
		if c := &x.claims[j]; c.Tag != i && !c.Result.OK && c.Mode == limit.Enforce {
			return false
		}
	}
	return true
}

// settleTrials gives back what the answer does not use up of the candidates' units.
// Of a request that was refused nobody knows what the answer would have been: where
// only some answers count it counts for nothing, else it counts.
func (x *exchange) settleTrials(now limit.Instant) {
	x.trial.Done(now, func(c *limit.Claim) int64 {
		rule := x.hits[c.Tag].Rule
		switch {
		case !rule.Settles():
			return 0
		case !x.granted && rule.Count != nil:
			return c.N
		case !x.granted:
			return 0
		}
		return rule.Settle(c.N, x.answer)
	})
}
