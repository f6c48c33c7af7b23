package proxy

import (
	"gateway/limit"
	"gateway/rules"
)

// readKeys reads the body if a key, or what picks the server, may be in it. It
// returns false when the request is answered already.
//
// A request that is refused whatever its body says is answered before anything is
// read, and before its client is told to go on. While the body is read the request
// holds the slots that it has by then, and nothing else; acquire asks for the rest.
func (x *exchange) readKeys(snap *Snapshot) bool {
	if x.body == nil || !x.pendingBody() && !x.plan.NeedsBody() {
		return !x.pending() || x.verify(snap)
	}
	x.readsBody = true
	if !x.holdSlots(snap) {
		return false
	}
	x.result = resultFailed // unless it comes to a decision
	state, err := x.readEarly(snap.bodyLimit)
	if err != nil {
		x.Fail(nil, nil, err)
		x.result = resultFailed
		return false
	}
	x.result = resultNone
	x.facts.SetBody(state)
	x.hits = snap.rules.Resolve(&x.facts, x.hits)
	if x.plan.NeedsBody() {
		x.forward.Key = x.plan.Affinity(&x.facts)
	}
	x.facts.SetBody(rules.Body{}) // its bytes are given away once they are sent on
	x.at = x.g.clock.Now()
	found := x.keysFound()
	x.tagHeld()
	return found
}

// tagHeld gives the claims that are held the numbers of their hits, some of which
// may have gone.
func (x *exchange) tagHeld() {
	for i := range x.claims {
		c := &x.claims[i]
		for j := range x.hits {
			if c.Tag != overloadTag && x.hits[j].Plan.Live.Table == c.Table {
				c.Tag = int32(j)
				break
			}
		}
	}
}

// verify verifies the token, of which some keys are, unless the request is refused
// whatever the token says.
func (x *exchange) verify(snap *Snapshot) bool {
	x.claimPlace(snap.rules.Overload)
	for i := range x.hits {
		if !x.hits[i].Pending {
			x.claim(i)
		}
	}
	if len(x.claims) > 0 {
		if v := x.g.limiter.Try(x.at, x.claims); !v.OK {
			x.asOf = x.at
			return x.decided(v)
		}
		clear(x.claims)
		x.claims = x.claims[:0]
	}
	x.hits = snap.rules.Resolve(&x.facts, x.hits)
	return x.keysFound()
}

// pendingBody reports whether a key is in the body.
func (x *exchange) pendingBody() bool {
	for i := range x.hits {
		if h := &x.hits[i]; h.Pending && h.Rule.ReadsBody() {
			return true
		}
	}
	return false
}

// pending reports whether a key is in the body, or in a token not verified yet.
func (x *exchange) pending() bool {
	for i := range x.hits {
		if x.hits[i].Pending {
			return true
		}
	}
	return false
}

// holdSlots peeks at all rules whose keys are known, answers what they refuse,
// and takes the slots among them. They are then the first of x.claims.
func (x *exchange) holdSlots(snap *Snapshot) bool {
	if most := len(x.hits) + 1; cap(x.claims) < most {
		x.claims = make([]limit.Claim, 0, most) // and stays where it is, since the grant refers to it
	}
	x.claimPlace(snap.rules.Overload)
	for i := range x.hits {
		if !x.hits[i].Pending {
			x.claim(i)
		}
	}
	if v := x.g.limiter.Try(x.at, x.claims); !v.OK {
		x.asOf = x.at
		return x.decided(v)
	}
	slots := 0
	for i := range x.claims {
		if x.isSlot(&x.claims[i]) {
			x.claims[i], x.claims[slots] = x.claims[slots], x.claims[i]
			slots++
		}
	}
	clear(x.claims[slots:])
	x.claims = x.claims[:slots]
	var v limit.Verdict
	x.hold, v = x.g.limiter.Acquire(x.r.Context(), x.at, x.claims)
	if !v.OK { // another was faster
		x.asOf = x.at
		return x.decided(v)
	}
	return true
}

// isSlot reports whether a claim is of requests in progress.
func (x *exchange) isSlot(c *limit.Claim) bool {
	return c.Tag == overloadTag || x.hits[c.Tag].Plan.Concurrency > 0
}

// readEarly reads the body, unless it is known before that no key will be found.
func (x *exchange) readEarly(most int64) (rules.Body, error) {
	switch {
	case x.facts.Hopeless(nil):
		return rules.Body{State: rules.BodyHopeless}, nil
	case x.r.ContentLength > most:
		return rules.Body{State: rules.BodyTooLong}, nil
	}
	begun := x.g.clock.Now()
	state, err := x.body.readEarly(most, &x.facts, &x.g.bodies)
	x.awaited = x.g.clock.Now().Sub(begun)
	return state, err
}
