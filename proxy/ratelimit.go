package proxy

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
)

// decorate makes the changes of the route to a final answer and puts the
// gateway's own headers on it: the request id and the limit headers. It runs
// once, when the header is about to go out.
func (x *exchange) decorate(h http.Header) {
	x.editAnswer(h)
	h["X-Request-Id"] = []string{x.id}
	if x.policy == "" {
		return
	}
	// Both fields are lists: what the upstream sent is kept and ours come after.
	// The upstream's may stand under net/http's spelling.
	appendField(h, "RateLimit-Policy", "Ratelimit-Policy", x.policy)
	appendField(h, "RateLimit", "Ratelimit", x.rates)
}

func appendField(h http.Header, name, canonical, value string) {
	theirs := h[canonical]
	delete(h, canonical)
	h[name] = append(theirs[:len(theirs):len(theirs)], value)
}

// describeLimits makes the two fields of draft-ietf-httpapi-ratelimit-headers-11
// from the claims of the enforced rules: the tightest first, that is refusing
// ones, then those with fewest units left, then with the longer time, then as
// in the file.
func (x *exchange) describeLimits() {
	order := x.order[:0]
	for i := range x.claims {
		if c := &x.claims[i]; c.Tag != overloadTag && !x.hits[c.Tag].Rule.DryRun {
			order = append(order, i)
		}
	}
	x.order = order
	if len(order) == 0 {
		return
	}
	if len(order) > 1 {
		slices.SortFunc(order, func(i, j int) int {
			a, b := &x.claims[i], &x.claims[j]
			if a.Result.OK != b.Result.OK {
				if b.Result.OK {
					return -1
				}
				return 1
			}
			return cmp.Or(
				cmp.Compare(a.Result.Remaining, b.Result.Remaining),
				cmp.Compare(b.Result.Reset, a.Result.Reset),
				cmp.Compare(a.Tag, b.Tag),
			)
		})
	}
	buf := x.buf[:0]
	for n, i := range order {
		if n > 0 {
			buf = append(buf, ", "...)
		}
		buf = append(buf, x.hits[x.claims[i].Tag].Plan.Policy()...)
	}
	x.policy = string(buf)
	buf = buf[:0]
	for n, i := range order {
		if n > 0 {
			buf = append(buf, ", "...)
		}
		c := &x.claims[i]
		hit := &x.hits[c.Tag]
		buf = append(buf, '"')
		buf = append(buf, hit.Rule.Name...)
		buf = append(buf, `";r=`...)
		buf = strconv.AppendInt(buf, max(0, c.Result.Remaining), 10)
		if hit.Plan.Concurrency == 0 { // nobody knows when a request ends
			buf = append(buf, ";t="...)
			buf = strconv.AppendInt(buf, ceilSeconds(c.Result.Reset), 10)
		}
	}
	x.rates = string(buf)
	x.buf = buf
}
