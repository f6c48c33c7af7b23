package rules

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
)

// costs reads cost, count, refund and fail.
func (p *parser) costs(c *section, r *RuleSpec) {
	r.Cost = 1
	if v := c.get("cost"); v != nil {
		p.cost(c, v, r)
	}
	if v := c.get("count"); v != nil {
		r.Count = p.returns(v, partCount, "count")
		if r.Algorithm == concurrency {
			p.failAt(c.key("count"), "remove it", "count with concurrency: a slot always comes back when its request ends")
		}
	}
	if v := c.get("refund"); v != nil {
		r.Refund = p.returns(v, partRefund, "refund")
		switch {
		case r.Algorithm == concurrency:
			p.failAt(c.key("refund"), "remove it", "refund with concurrency: a slot always comes back when its request ends")
		case c.has("count"):
			p.failAt(c.key("refund"), "keep one of the two", "refund with count: every answer that count does not name gives back already")
		}
	}
	if v := c.get("fail"); v != nil {
		p.oneOf(v, "fail", failures, &r.Fail)
	}
}

// cost reads a number, a map from patterns to numbers, or {header, reserve, max}.
func (p *parser) cost(c *section, v *node, r *RuleSpec) {
	if r.Algorithm == concurrency {
		p.failAt(c.key("cost"), "remove it", "cost with concurrency: a request takes one slot")
		return
	}
	if v.shape != mapping {
		if cost, ok := p.whole(v, "cost", 0, maxNumber); ok {
			r.Cost = cost
			p.fits(v, cost, r)
		}
		return
	}
	if len(v.keys) == 0 {
		p.failAt(v, "write a number, or { /search: 10 }", "cost is empty")
		return
	}
	if p.areCosts(v) {
		p.patternCosts(v, r)
		return
	}
	m := p.section(v, partCost, "cost", " in cost")
	m.check()
	from := CostFrom{Reserve: 1, Max: 100}
	if h := m.get("header"); h != nil {
		if text, ok := p.text(h, "header"); ok {
			if a, err := ParseAttribute("header." + text); err != nil {
				p.failAt(h, "write a name like X-Cost", "header %s: not the name of a header", quote(text))
			} else {
				from.Header = http.CanonicalHeaderKey(a.name)
			}
		}
	} else if m.lacks("header") {
		p.failAt(v, "add header: X-Cost", "no header in cost")
	}
	reserve := m.get("reserve")
	if reserve != nil {
		if n, ok := p.whole(reserve, "reserve", 0, maxNumber); ok {
			from.Reserve = n
			p.fits(reserve, n, r)
		}
	}
	if n := m.get("max"); n != nil {
		if most, ok := p.whole(n, "max", 1, maxNumber); ok {
			from.Max = most
		}
	}
	if from.Reserve > from.Max {
		p.failAt(cmp.Or(reserve, v), "", "reserve %d is more than max %d", from.Reserve, from.Max)
	}
	r.CostFrom, r.Cost = from, from.Reserve
}

// areCosts reports whether a map is one from patterns to numbers: a key holds a
// slash, or none is, or looks like, a setting.
func (p *parser) areCosts(v *node) bool {
	for _, key := range v.keys {
		if strings.Contains(key.text, "/") {
			return true
		}
	}
	for i, key := range v.keys {
		if value := v.items[i]; value.word != wordNumber || nearest(key.text, partCost.names()) != "" {
			return false
		}
	}
	return true
}

// maxCosts is the most patterns of one cost; each is compared with all others.
const maxCosts = 1000

// patternCosts reads a map from patterns to numbers.
func (p *parser) patternCosts(v *node, r *RuleSpec) {
	if len(v.keys) > maxCosts {
		p.failAt(v, "", "cost has %d patterns; the most is %d", len(v.keys), maxCosts)
		return
	}
	for i, key := range v.keys {
		if p.tooMany(key) {
			return
		}
		value := v.items[i]
		switch {
		case slices.Contains(partCost.names(), key.text):
			p.failAt(key, "make two rules of it", "%s beside patterns in cost: the gateway or the answer says what a request costs", quote(key.text))
			continue
		case value.isNull():
			p.failAt(key, "give it a value, or remove the line", "cost %s has no value", quote(key.text))
			continue
		case value.shape == broken:
			continue
		}
		pattern, ok := readOne(p.source, key, "cost", ParsePattern)
		cost, whole := p.whole(value, "cost", 0, maxNumber)
		if !ok || !whole {
			continue
		}
		p.fits(value, cost, r)
		if p.file.LoosePaths {
			pattern = pattern.loosened()
		}
		c := PatternCost{Pattern: pattern, Cost: cost, Pos: p.posOf(key)}
		if other := asSpecific(r.Costs, pattern); other != nil {
			p.failAt(key, "remove one of them", "cost %s is as specific as %s at %s, and a request may be both",
				quote(key.text), quote(other.Pattern.text), other.Pos)
			continue
		}
		r.Costs = append(r.Costs, c)
	}
}

// asSpecific returns the first of list that is as specific as p and takes some
// request that p takes, or nil.
func asSpecific(list []PatternCost, p *Pattern) *PatternCost {
	for i := range list {
		if q := list[i].Pattern; p.moreSpecific(q) == 0 && p.meets(q) {
			return &list[i]
		}
	}
	return nil
}

// fits reports a cost that no client can ever pay, or none of some tier.
func (p *parser) fits(v *node, cost int64, r *RuleSpec) {
	check := func(s *PlanSpec, of string) bool {
		size, what := s.Rate.Permits, "limit"
		if hasBurst(r.Algorithm) {
			size, what = s.Burst, "burst"
		}
		if r.Algorithm == leakyBucket && r.MaxWait > 0 { // one leaves at once, and so many wait
			size, what = 1+r.places(s), "queue, and what leaves at once,"
		}
		fits := size == 0 || cost <= size
		if !fits {
			p.failAt(v, "", "cost %d can never pass: the %s%s is %d", cost, what, of, size)
		}
		return fits
	}
	if !check(&r.PlanSpec, "") {
		return
	}
	if r.Candidate != nil && !check(r.Candidate, " of the candidate") {
		return
	}
	for i := range r.Tiers {
		if t := &r.Tiers[i]; !check(&t.PlanSpec, " of tier "+quote(t.Group)) {
			return
		}
	}
}

// returns reads {status: …, upstream_error: true}.
func (p *parser) returns(v *node, of part, name string) *Returns {
	c := p.section(v, of, name, " in "+name)
	c.check()
	ret := &Returns{}
	if s := c.get("status"); s != nil {
		ret.Statuses = p.statuses(s)
	}
	if e := c.get("upstream_error"); e != nil {
		ret.UpstreamError = p.boolean(e, "upstream_error")
	}
	if v.shape == mapping && c.lacks("status") && !c.has("upstream_error") {
		p.failAt(v, map[string]string{"count": "add status: 401", "refund": "add status: 5xx"}[name], "no status in %s", name)
	}
	return ret
}
