package rules

import (
	"time"

	"gateway/limit"
)

// maxWait reads how long requests are held for their turn.
func (p *parser) maxWait(c *section, r *RuleSpec) {
	v := c.get("max_wait")
	switch {
	case c.has("concurrency"): // see concurrency
	case v == nil && r.Algorithm == leakyBucket && c.lacks("max_wait"):
		p.failAt(c.key("algorithm"), "add max_wait: 1s", "leaky_bucket without max_wait: how long may a request wait for its turn?")
	case v == nil:
	case isWindow(r.Algorithm):
		p.failAt(c.key("max_wait"), "use token_bucket or leaky_bucket, or remove it", "max_wait with %s, which gives nobody a turn", r.Algorithm)
	default:
		var d time.Duration
		switch p.duration(v, "max_wait", &d); {
		case d > limit.MaxWait:
			p.failAt(v, "write 60s or less; clients and proxies in between give up", "max_wait %s: over 60s", quote(v.text))
		case d == 0 && r.Algorithm == leakyBucket && isZero(v):
			p.failAt(v, "write max_wait: 1s, or use token_bucket", "max_wait %s with leaky_bucket: nobody could wait for a turn", quote(v.text))
		default:
			r.MaxWait = d
		}
	}
}

// hasPlace reports a leaky bucket in which nobody could wait.
func (p *parser) hasPlace(n *node, r *RuleSpec, to *PlanSpec) {
	if r.MaxWait == 0 || r.places(to) > 0 { // what is wrong with no wait has been said
		return
	}
	each := to.Rate.Period / time.Duration(to.Rate.Permits)
	if to.Rate.Period%time.Duration(to.Rate.Permits) > 0 {
		each++
	}
	hint := "write max_wait: " + durationText(each) + " or more"
	if each > limit.MaxWait {
		hint = "use token_bucket, which refuses what comes too soon"
	}
	p.failAt(n, hint, "limit %s with max_wait %s: not one request could wait, since one leaves every %s", quote(to.Limit), durationText(r.MaxWait), durationText(each))
}

// turns reports what takes back a turn that is over.
func (p *parser) turns(c *section, r *RuleSpec) {
	if r.Algorithm != leakyBucket {
		return
	}
	const hint = "use token_bucket, with max_wait if requests are to wait"
	for _, name := range []string{"count", "refund"} {
		if c.has(name) {
			p.failAt(c.key(name), hint, "%s with leaky_bucket: a request that has left has had its turn, whatever its answer", name)
		}
	}
	if r.CostFrom.Header != "" {
		p.failAt(c.key("cost"), hint, "cost from an answer with leaky_bucket: how many turns a request takes must be known before it leaves")
	}
}

// penalty reads what repeated refusals earn.
func (p *parser) penalty(c *section, r *RuleSpec) {
	v := c.get("penalty")
	if v == nil {
		return
	}
	m := p.section(v, partPenalty, "penalty", " in penalty")
	m.check()
	if v.shape != mapping {
		return
	}
	var spec PenaltySpec
	good := true
	if n := m.get("after"); n != nil {
		text, ok := p.textLike(n, "after", "a rate like 10/m")
		if ok {
			rate, err := plainRate(text)
			if err != nil {
				p.failText(n, "after", err)
			}
			p.show(n)
			spec.After, spec.AfterText, ok = rate, text, err == nil
		}
		good = good && ok
	} else {
		good = false
		if m.lacks("after") {
			p.failAt(v, "add after: 10/m, the refusals that go unpunished", "no after in penalty")
		}
	}
	if n := m.get("block"); n != nil {
		p.duration(n, "block", &spec.Block)
		good = good && p.longEnough(n, "block", spec.Block)
	} else {
		good = false
		if m.lacks("block") {
			p.failAt(v, "add block: 5m", "no block in penalty")
		}
	}
	spec.Max = min(4*spec.Block, maxPeriod)
	if n := m.get("max"); n != nil {
		spec.Max = 0
		p.duration(n, "max", &spec.Max)
		switch {
		case spec.Max == 0 && !isZero(n):
			good = false
		case good && spec.Max < spec.Block:
			p.failAt(n, "write "+durationText(spec.Block)+" or more", "max %s is below block %s", quote(n.text), durationText(spec.Block))
			good = false
		}
	}
	if good {
		r.Penalty = spec
	}
}

// longEnough reports a block that would be over before a client could come back:
// it is told in whole seconds.
func (p *parser) longEnough(n *node, what string, d time.Duration) bool {
	if d >= time.Second {
		return true
	}
	if d > 0 || isZero(n) {
		p.failAt(n, "write 1s or more", "%s %s: too short", what, quote(n.text))
	}
	return false
}

// isZero reports whether n is a duration of nothing, and not one that is wrong.
func isZero(n *node) bool {
	d, err := parseDuration(n.text)
	return n.shape == scalar && err == nil && d == 0
}
