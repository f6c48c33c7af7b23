package proxy

import (
	"time"

	"gateway/limit"
	"gateway/rules"
)

// isBlocked answers a request whose key under h an operator has blocked. It costs
// nothing and charges no other rule.
func (x *exchange) isBlocked(h *rules.Hit) bool {
	if h.Pending || h.Rule.DryRun {
		return false
	}
	until, ok := h.Rule.Live.Blocks.Until(h.Key, x.at)
	if !ok {
		return false
	}
	wait := until.Sub(x.at)
	h.Plan.Live.Blocked.Add(1)
	h.Rule.Live.Refusals.Add(h.Key, x.facts.Client, x.at, wait)
	x.ruleNames = h.Rule.Name
	x.fail(problem{
		status: h.Rule.Reject.Status, kind: abnormalUsage, title: "Blocked", rules: []string{h.Rule.Name}, wait: wait,
		detail: `Blocked under rule "` + h.Rule.Name + `" for a while.`,
	})
	x.result = resultBlocked
	return true
}

// Usage is what a key has left under a plan of a rule.
type Usage struct {
	Plan *rules.Plan
	// Left is how many whole units there are. A request that comes now passes the
	// rule when OK, for which it may have to wait for its turn for Wait; else after
	// Wait, or never when that is limit.Never.
	Left int64
	OK   bool
	Wait time.Duration
	// Blocked is how long the key is blocked for its refusals; Wait is longer when it
	// has no room by then. 0 is that it is not.
	Blocked time.Duration
	// Reset is the time until another unit comes back, or, unless Left is 0, all.
	Reset time.Duration
}

// Usage looks at a key under all plans of r and takes nothing.
func (g *Gateway) Usage(r *rules.Rule, key limit.Digest) []Usage {
	var list []Usage
	for p := range r.Plans() {
		ask := func(n int64) limit.Claim {
			claims := make([]limit.Claim, 1)
			h := rules.Hit{Rule: r, Plan: p, Key: key, Cost: n}
			h.Claim(&claims[0])
			g.limiter.Peek(g.Now(), claims)
			return claims[0]
		}
		have, want := ask(0), ask(max(1, r.Cost))
		u := Usage{Plan: p, Left: shownLeft(p, have.Result.Remaining), OK: want.Result.OK, Wait: want.Result.Wait, Reset: have.Result.Reset}
		if have.Blocked {
			u.Blocked = have.Result.Wait // for which nothing has room
		}
		list = append(list, u)
	}
	return list
}

// Free makes a key of r new: its block ends and what it has used is forgotten. It
// reports whether all of that was; what requests in progress hold stays.
func (g *Gateway) Free(r *rules.Rule, key limit.Digest) (all bool) {
	all = true
	for p := range r.Plans() {
		all = g.limiter.Forget(p.Live.Table, p.Shared, key) && all
		if c := p.Candidate; c != nil {
			all = g.limiter.Forget(c.Live.Table, c.Shared, key) && all
		}
	}
	r.Live.Blocks.Remove(key, g.Now())
	r.Live.Refusals.Forget(key)
	return all
}

// Block refuses all requests with a key of r for so long, whatever it has left;
// name is how the key is shown. It returns when that ends.
func (g *Gateway) Block(r *rules.Rule, key limit.Digest, name string, d time.Duration) (time.Time, error) {
	now := g.Now()
	until := now.Add(d)
	err := r.Live.Blocks.Add(rules.Block{Key: key, Name: name, Until: until}, now)
	return until.Time(), err
}
