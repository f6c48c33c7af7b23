package rules

import (
	"cmp"
	"net/http"
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
			p.failAt(c.keys["count"], "remove it", "count with concurrency: a slot always comes back when its request ends")
		}
	}
	if v := c.get("refund"); v != nil {
		r.Refund = p.returns(v, partRefund, "refund")
		switch {
		case r.Algorithm == concurrency:
			p.failAt(c.keys["refund"], "remove it", "refund with concurrency: a slot always comes back when its request ends")
		case c.has("count"):
			p.failAt(c.keys["refund"], "keep one of the two", "refund with count: every answer that count does not name gives back already")
		}
	}
	if v := c.get("fail"); v != nil {
		p.oneOf(v, "fail", failures, &r.Fail)
	}
}

// cost reads a number, or {header, reserve, max}.
func (p *parser) cost(c *section, v *node, r *RuleSpec) {
	if r.Algorithm == concurrency {
		p.failAt(c.keys["cost"], "remove it", "cost with concurrency: a request takes one slot")
		return
	}
	if v.shape != mapping {
		if cost, ok := p.whole(v, "cost", 0, maxNumber); ok {
			r.Cost = cost
			p.fits(v, cost, r)
		}
		return
	}
	for i, key := range v.keys {
		if strings.Contains(key.text, "/") {
			p.failAt(v.keys[i], "", "cost for each pattern %s", notYet)
			return
		}
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

// fits reports a cost that no client can ever pay, or none of some tier.
func (p *parser) fits(v *node, cost int64, r *RuleSpec) {
	check := func(s *PlanSpec, of string) bool {
		size, what := s.Rate.Permits, "limit"
		if hasBurst(r.Algorithm) {
			size, what = s.Burst, "burst"
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
	for i := range r.Tiers {
		if t := &r.Tiers[i]; !check(&t.PlanSpec, " of tier "+quote(t.Group)) {
			return
		}
	}
}

// returns reads {status: …, upstream_error: true}.
func (p *parser) returns(v *node, of part, name string) Returns {
	c := p.section(v, of, name, " in "+name)
	c.check()
	ret := Returns{Set: true}
	if s := c.get("status"); s != nil {
		ret.Statuses = p.statuses(s)
	}
	if e := c.get("upstream_error"); e != nil {
		ret.UpstreamError = p.boolean(e, "upstream_error")
	}
	if v.shape == mapping && c.lacks("status") && !c.has("upstream_error") {
		p.failAt(v, "add status: 401", "no status in %s", name)
	}
	return ret
}
