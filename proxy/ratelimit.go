package proxy

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"gateway/limit"
)

// limitHeaders are the kinds of headers that tell clients of their limits.
type limitHeaders struct {
	draft  bool // RateLimit and RateLimit-Policy
	legacy bool // RateLimit-Limit, X-RateLimit-Limit and so on
}

func limitHeadersOf(word string) limitHeaders {
	return limitHeaders{draft: word == "draft-11" || word == "both", legacy: word == "legacy" || word == "both"}
}

// decorate makes the changes of the route to a final answer and puts the
// gateway's own headers on it: the request id, when to try again, and the limit
// headers. It runs once, when the header is about to go out.
func (x *exchange) decorate(h http.Header) {
	x.editAnswer(h)
	h["X-Request-Id"] = x.fields.of(x.id)
	rates := len(x.text)
	if x.retry > 0 {
		x.text = strconv.AppendInt(x.text, x.retry, 10)
	}
	text := string(x.text)
	if x.retry > 0 {
		h["Retry-After"] = x.fields.of(text[rates:])
	}
	if x.policy > 0 {
		// Both fields are lists: what the upstream sent is kept and ours come after.
		// The upstream's may stand under net/http's spelling.
		appendField(h, "RateLimit-Policy", "Ratelimit-Policy", x.fields.of(text[:x.policy]))
		appendField(h, "RateLimit", "Ratelimit", x.fields.of(text[x.policy:rates]))
	}
	if x.tightest != nil {
		x.legacyFields(h)
	}
}

func appendField(h http.Header, name, canonical string, value []string) {
	if theirs, ok := h[canonical]; ok {
		delete(h, canonical)
		value = append(theirs[:len(theirs):len(theirs)], value...)
	}
	h[name] = value
}

// legacyNames are the fields from before the draft, as they are sent and as
// net/http spells what an upstream sends: limit, remaining and reset, twice.
var legacyNames = [...][2]string{
	{"RateLimit-Limit", "Ratelimit-Limit"}, {"X-RateLimit-Limit", "X-Ratelimit-Limit"},
	{"RateLimit-Remaining", "Ratelimit-Remaining"}, {"X-RateLimit-Remaining", "X-Ratelimit-Remaining"},
	{"RateLimit-Reset", "Ratelimit-Reset"}, {"X-RateLimit-Reset", "X-Ratelimit-Reset"},
}

// legacyFields tells of the tightest rule in the way from before the draft. They
// are single values, so they take the place of what the upstream sent.
func (x *exchange) legacyFields(h http.Header) {
	c := x.tightest
	plan := x.hits[c.Tag].Plan
	left := shownLeft(plan, c.Result.Remaining)
	values := [...]int64{
		plan.Size(), plan.Size(), left, left,
		// In seconds from now, and as a Unix time.
		ceilSeconds(c.Result.Reset), ceilSeconds(time.Duration(x.asOf.Add(c.Result.Reset))),
	}
	for i, name := range legacyNames {
		delete(h, name[1])
		if i < 4 || plan.Concurrency == 0 { // nobody knows when a request ends
			h[name[0]] = []string{strconv.FormatInt(values[i], 10)}
		}
	}
}

// describeLimits makes the two fields of draft-ietf-httpapi-ratelimit-headers-11
// from the claims of the enforced rules: the tightest first, that is refusing
// ones, then those with fewest units left, then with the longer time, then as
// in the file. A rule that is Quiet tells only those whom it refuses.
func (x *exchange) describeLimits() {
	if x.headers == (limitHeaders{}) {
		return
	}
	order := x.order[:0]
	for i := range x.claims {
		c := &x.claims[i]
		if c.Tag == overloadTag || c.Fate >= limit.Unasked { // of which nothing is known
			continue
		}
		if rule := x.hits[c.Tag].Rule; !rule.DryRun && (!rule.Quiet || !c.Result.OK) {
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
	if x.headers.legacy {
		x.tightest = &x.claims[order[0]]
	}
	if !x.headers.draft {
		return
	}
	text := x.text[:0]
	for n, i := range order {
		if n > 0 {
			text = append(text, ", "...)
		}
		text = append(text, x.hits[x.claims[i].Tag].Plan.Policy()...)
	}
	x.policy = len(text)
	for n, i := range order {
		if n > 0 {
			text = append(text, ", "...)
		}
		c := &x.claims[i]
		hit := &x.hits[c.Tag]
		text = append(text, '"')
		text = append(text, hit.Rule.Name...)
		text = append(text, `";r=`...)
		text = strconv.AppendInt(text, shownLeft(hit.Plan, c.Result.Remaining), 10)
		if hit.Plan.Concurrency == 0 { // nobody knows when a request ends
			text = append(text, ";t="...)
			text = strconv.AppendInt(text, ceilSeconds(c.Result.Reset), 10)
		}
	}
	x.text = text
}
