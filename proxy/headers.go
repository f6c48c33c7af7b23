package proxy

import (
	"net/http"
	"strings"
)

// editAnswer makes the changes of the route to the header of an answer. To a
// problem of the gateway's own is only added what it does not have: a refusal
// stays what it is, and a page on another origin can still read it.
func (x *exchange) editAnswer(h http.Header) {
	switch {
	case x.plan == nil || x.plan.Response.Empty():
	case x.problem:
		x.plan.Response.Complete(h, x.placeholder)
	default:
		x.plan.Response.Apply(h, x.placeholder)
	}
}

// placeholder returns what a placeholder in the value of a header stands for.
// None of it can hold the end of a line: an address, an id that is checked, and
// names of the file.
func (x *exchange) placeholder(name string) string {
	switch name {
	case "ip":
		return x.facts.Client.Unmap().WithZone("").String()
	case "request_id":
		return x.id
	case "tier":
		return x.tier()
	case "route":
		return strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return '?'
			}
			return r
		}, x.routed)
	}
	return ""
}

// tier returns the group under whose numbers the request falls: of the first rule
// in the file that has other numbers for it. It is "" when none has.
func (x *exchange) tier() string {
	for i := range x.hits {
		if tier := x.hits[i].Plan.Tier; tier != "" {
			return tier
		}
	}
	return ""
}
