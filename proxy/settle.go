package proxy

import (
	"gateway/limit"
	"gateway/proxy/upstream"
)

// settle gives back what the answer does not use up, and the slots of requests
// in progress; and counts what is used up for good.
func (x *exchange) settle(now limit.Instant) {
	x.hold.Done(now, nil)
	if x.settles {
		x.answer.ClientFailed = x.clientFailed()
	}
	if len(x.trials) > 0 {
		x.settleTrials(now)
	}
	if !x.granted {
		return
	}
	var outcome limit.Outcome
	if x.settles {
		outcome = x.outcome
	}
	x.grant.Done(now, outcome)
	for i := range x.claims {
		c := &x.claims[i]
		if !c.Result.OK || c.Tag == overloadTag || c.Fate == limit.LetPass {
			continue // a dry run that had no room, or what is nothing used up
		}
		hit := &x.hits[c.Tag]
		rule := hit.Rule
		kept, returned := c.N-c.Returned, max(0, c.Returned)
		if hit.Plan.Concurrency > 0 {
			kept, returned = c.N, 0 // a slot is nothing that is used up
		}
		x.settled = max(x.settled, kept)
		if rule.Live.Settled(kept, returned) {
			x.g.log.Warn("a rule has given back every unit it took so far: do its count or refund name the right answers?",
				"rule", rule.Name, "count", rule.Count.String(), "refund", rule.Refund.String())
		}
	}
}

func (x *exchange) outcome(c *limit.Claim) int64 {
	return x.hits[c.Tag].Rule.Settle(c.N, x.answer)
}

// clientFailed says that the client's side failed: its body, its connection, or
// that it left before it had the whole answer. One that closes the connection
// once it has it has not failed.
func (x *exchange) clientFailed() bool {
	return x.status == upstream.StatusClientGone || x.w.failed || x.body != nil && x.body.failed.Load() ||
		x.aborted && x.Left()
}
