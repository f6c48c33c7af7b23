package replay

import (
	"context"

	"gateway/limit"
)

// candidate counts what the candidate of a rule has decided.
type candidate struct {
	requests, refused int64
	keys              keyTable
}

// measure asks the candidates of the rules that apply, as the front door does: each
// sees every request that all other rules admit, and refuses nothing.
func (s *Run) measure(rec *Record, passed bool, n int64) {
	for i := range s.claims {
		c := &s.claims[i]
		h := &s.hits[c.Tag]
		if h.Plan.Candidate == nil || !s.othersAdmit(i) {
			continue
		}
		r := s.rules[h.Rule.Index]
		if r.candidate == nil {
			r.candidate = &candidate{keys: keyTable{most: r.keys.most}}
		}
		for left := n; left > 0; {
			claims := make([]limit.Claim, 1)
			h.Trial(&claims[0])
			grant, _ := s.limiter.Acquire(context.Background(), rec.At, claims)
			times := int64(1)
			if !claims[0].Result.OK {
				times = left // of requests alike at one instant, once one is refused all are
			}
			left -= times
			r.candidate.decided(h.Key, s, claims[0].Result.OK, times)
			if !claims[0].Result.OK {
				break
			}
			s.holdTrial(rec, r, grant, &claims[0], passed)
		}
	}
}

// othersAdmit reports whether no rule but that of claim i has refused the request.
func (s *Run) othersAdmit(i int) bool {
	for j := range s.claims {
		if c := &s.claims[j]; j != i && !c.Result.OK && c.Mode == limit.Enforce {
			return false
		}
	}
	return true
}

func (c *candidate) decided(key limit.Digest, s *Run, ok bool, n int64) {
	c.requests += n
	row := c.keys.find(key, s.facts.Client)
	if !ok {
		c.refused += n
		if row != nil {
			row.refused += n
		}
	}
}

// holdTrial plans when what a candidate took comes back.
func (s *Run) holdTrial(rec *Record, r *ruleRun, grant limit.Grant, c *limit.Claim, passed bool) {
	slots := r.rule.Base.Concurrency > 0
	if !slots && !r.rule.Settles() {
		return
	}
	e := s.ends.blank()
	*e = end{
		at: rec.At.Add(max(0, rec.Duration)), grant: grant, claim: c, rule: r, answer: answerOf(rec), said: -1, slots: slots, trial: true,
		refused: !passed,
	}
	if o := rec.Own.rule(r.rule.Name); o != nil {
		e.said = o.Said
		if o.SettledSeq != 0 {
			e.at, e.seq = o.SettledAt, o.SettledSeq
		}
	}
	s.ends.add(e)
}

// CandidateReport is what a candidate would have done.
type CandidateReport struct {
	Limit string `json:"limit"`
	// Requests are those that all other rules admit.
	Requests       int64   `json:"requests"`
	Refused        int64   `json:"refused"`
	Share          float64 `json:"share"`
	Clients        int64   `json:"clients"`
	ClientsRefused int64   `json:"clients_refused"`
}

// report returns the figures, or nil without a candidate.
func (c *candidate) report(r *ruleRun) *CandidateReport {
	if r.rule.Base.Candidate == nil {
		return nil
	}
	rep := &CandidateReport{Limit: r.rule.Base.Candidate.LimitText()}
	if c != nil {
		rep.Requests, rep.Refused, rep.Share = c.requests, c.refused, share(c.refused, c.requests)
		rep.Clients = c.keys.count(func(*keyRow) bool { return true })
		rep.ClientsRefused = c.keys.count(func(k *keyRow) bool { return k.refused > 0 })
	}
	return rep
}
