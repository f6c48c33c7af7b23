package proxy

import (
	"net/http"
	"time"

	"gateway/rules"
)

// overloadTag marks the one claim that no rule makes: a place among the requests
// in progress of the whole gateway.
const overloadTag = -1

// reducedCapacity is the type of a refusal for overload
// (draft-ietf-httpapi-ratelimit-headers).
const reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"

// claimPlace claims a place for the request, also for one that no rule is for.
// It is part of the one decision: a request that is shed is charged nothing, and
// one that a rule refuses takes no place.
func (x *exchange) claimPlace(o *rules.Overload) {
	if o == nil {
		return
	}
	c := o.Claim(x.plan.Priority)
	c.Tag = overloadTag
	x.overload = o.Live
	x.claims = append(x.claims, c)
}

// leavePlace gives the place back before the request has ended: it has become a
// tunnel, which may be open for hours and costs next to nothing.
func (x *exchange) leavePlace() {
	if x.overload != nil && x.granted {
		now := x.g.clock.Now()
		x.hold.Release(x.overload.Table, now)
		x.grant.Release(x.overload.Table, now)
	}
}

// shed answers a request for which there was no place. When a rule refuses too it
// is the rule's refusal that the client gets, which says more of what it should do.
func (x *exchange) shed() {
	x.overload.Shed[x.plan.Priority].Add(1)
	x.fail(problem{
		status: http.StatusServiceUnavailable, kind: reducedCapacity, title: "Temporarily reduced capacity", wait: time.Second,
		detail: "Too many requests are in progress here; try again in 1 second.",
	})
	x.result = resultShed
}
