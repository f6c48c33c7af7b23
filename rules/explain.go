package rules

import (
	"fmt"
	"net/netip"
	"strings"
)

// Explanation says what a rule makes of a request, and why.
type Explanation struct {
	// Rule is the rule, Plan the numbers that the request falls under.
	Rule *Rule
	Plan *Plan
	// WhyNot says why the rule does not apply; it is empty when it does.
	WhyNot string
	// Key is what the request is counted by: each part of the rule's key, or what
	// stands in for it. Instead then says why.
	Key     []KeyPart
	Instead string
	// Refuses says why the rule refuses the request for its key, whatever has been
	// counted: it is missing, or it cannot be told. It is empty when it does not.
	Refuses string
	// Cost is how many units the request takes, CostBy the pattern that says so, or nil.
	Cost   int64
	CostBy *Pattern

	hit Hit
}

// KeyPart is one part of a key.
type KeyPart struct {
	// Attribute is what was looked at, Value what was found.
	Attribute Attribute
	Value     string
}

// Explain says of each rule, in the order of the file, what it makes of the
// request. Those without a WhyNot are the hits of Match, once the body is in f. It
// shows values of the request and is for whoever runs the gateway; like Match it
// counts what it skips, so it is for a Set that is not in force.
func (s *Set) Explain(f *Facts) []Explanation {
	exempt := s.Exempt(f)
	list := make([]Explanation, len(s.Rules))
	for i, r := range s.Rules {
		list[i].Rule, list[i].Plan = r, r.Base
		if exempt {
			list[i].WhyNot = "the request is exempt"
			continue
		}
		list[i].explain(s, f)
	}
	return list
}

// explain fills in e for a request that is not exempt.
func (e *Explanation) explain(s *Set, f *Facts) {
	r := e.Rule
	w := s.byRule.way(r.Index, f)
	if w == nil {
		e.WhyNot = r.match.WhyNot(f)
		return
	}
	lack := r.recipe.lack(f, w)
	_, outcome := r.recipe.Digest(s.secret, f, w)
	hits := r.hit(s.secret, f, w, nil)
	if len(hits) == 0 {
		e.WhyNot = lack + ", and fail: open"
		if outcome == KeySkip {
			e.WhyNot = lack + ", and missing: skip"
		}
		return
	}
	e.hit = hits[0]
	e.Plan = e.hit.Plan
	e.Cost, e.CostBy = r.CostOf(f)
	switch {
	case e.hit.Missing:
		e.Refuses = lack + ", and missing: reject"
	case e.hit.Doubt != KeyFound:
		e.Refuses = lack + ", and fail: closed"
	default:
		e.Key = r.recipe.parted(f, w, outcome == KeyFallback)
		e.Instead = lack
	}
}

// way returns the first way in which the match of that number takes the request,
// or nil.
func (x *index) way(owner int, f *Facts) *way {
	for i := range x.ways {
		if w := &x.ways[i]; int(w.owner) == owner && w.matches(f) {
			return w
		}
	}
	return nil
}

// lack says why the request has not the key of r, or is empty when it has.
func (r *Recipe) lack(f *Facts, m captor) string {
	text := ""
	for i, a := range r.parts {
		_, is := r.appendValue(nil, a, f, m)
		switch {
		case is == absent:
			return a.String() + " is not in the request" + f.tokenAside(a)
		case is == present && !r.isKnown(i, f):
			return a.String() + " is not a known one"
		case is == present || text != "":
		default:
			text = a.String() + " " + map[presence]string{
				unread:     "is in the body, which was not read",
				unreadable: "cannot be told for sure",
				tooLong:    "is in a body over body_limit",
				noMemory:   "is in a body for which no memory was left",
			}[is]
		}
	}
	return text
}

// parted returns the parts of the key of the request, or of what stands in for it
// when that is lacking.
func (r *Recipe) parted(f *Facts, m captor, lacking bool) []KeyPart {
	parts := r.parts
	if lacking {
		a, _ := r.missing.Attribute()
		if _, is := r.appendValue(nil, a, f, m); is != present {
			a = Attribute{kind: kindIP}
		}
		parts = []Attribute{a}
	}
	list := make([]KeyPart, len(parts))
	for i, a := range parts {
		list[i].Attribute = a
		value, _ := r.appendValue(nil, a, f, m)
		if list[i].Value = string(value); a.IsIP() {
			list[i].Value = prefixText(value)
		}
	}
	return list
}

// prefixText writes what appendAddr has made of an address.
func prefixText(part []byte) string {
	if len(part) < 5 {
		return ""
	}
	a, ok := netip.AddrFromSlice(part[1:])
	if !ok {
		return ""
	}
	if int(part[0]) == a.BitLen() {
		return a.String()
	}
	return netip.PrefixFrom(a, int(part[0])).String()
}

// String returns the part for people: "header.X-Api-Key = abc".
func (k KeyPart) String() string {
	if k.Attribute.IsGlobal() {
		return "global"
	}
	return fmt.Sprintf("%v = %s", k.Attribute, strings.TrimSpace(quoteOdd(k.Value)))
}

// quoteOdd returns a value as it is, or in quotes when it holds more than a word.
func quoteOdd(value string) string {
	if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == '"' || isUnseen(r) }) {
		return fmt.Sprintf("%q", value)
	}
	return value
}

// PassedRoute is a route that does not take a request, and why.
type PassedRoute struct {
	Route  *Route
	WhyNot string
}

// ExplainRoute returns the route that takes the request, or nil, and those before
// it that do not.
func (s *Set) ExplainRoute(f *Facts) (taken *Route, passed []PassedRoute) {
	taken = s.Route(f)
	for _, r := range s.Routes {
		if r == taken {
			break
		}
		passed = append(passed, PassedRoute{r, r.Match.WhyNot(f)})
	}
	return taken, passed
}
