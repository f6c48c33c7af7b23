package rules

import "slices"

// tiers reads the numbers of a rule for the clients of some groups.
func (p *parser) tiers(c *section, r *RuleSpec) {
	n := c.get("tiers")
	if n == nil {
		return
	}
	if n.shape != mapping {
		p.wrongShape(n, "tiers", "a map of groups, like premium: { limit: 100/s }")
		return
	}
	if len(n.keys) == 0 {
		p.failAt(n, "remove it", "tiers is empty")
	}
	if len(n.keys) > maxTiers {
		p.failAt(n.keys[maxTiers], "", "more than %d tiers", maxTiers)
		return
	}
	for i, key := range n.keys {
		t := TierSpec{Group: key.text}
		p.isGroup(key, key.text, "tiers")
		p.otherNumbers(n.items[i], key, partTier, "tier "+quote(t.Group), r, &t.PlanSpec)
		r.Tiers = append(r.Tiers, t)
	}
}

// candidate reads the numbers that are counted beside those in force.
func (p *parser) candidate(c *section, r *RuleSpec) {
	if v := c.get("candidate"); v != nil {
		r.Candidate = &PlanSpec{}
		p.otherNumbers(v, c.key("candidate"), partTrial, "candidate", r, r.Candidate)
	}
}

// otherNumbers reads n, of part of, that has other numbers for a rule: those of a
// tier, or a candidate. They are of the kind that the rule has. what is what it is
// called, key its name.
func (p *parser) otherNumbers(n, key *node, of part, what string, r *RuleSpec, to *PlanSpec) {
	if n.shape == scalar && !n.isNull() {
		kind := "limit"
		if r.Algorithm == concurrency {
			kind = "concurrency"
		}
		p.failAt(n, "write { "+kind+": "+n.text+" }", "%s must be a map of settings, not text", what)
		return
	}
	if n.isNull() {
		p.failAt(key, "give it a value, or remove the line", "%s has no value", what)
		return
	}
	c := p.section(n, of, what, " in "+what)
	c.check()
	if n.shape != mapping {
		return
	}
	if r.Algorithm == concurrency {
		for _, name := range []string{"limit", "burst"} {
			if c.has(name) {
				p.failAt(c.key(name), "write concurrency: …", "%s in %s of a rule that counts requests in progress", name, what)
			}
		}
		if v := c.get("concurrency"); v != nil {
			p.slots(v, to)
		} else if c.lacks("concurrency") && !c.has("limit") && !c.has("burst") {
			p.failAt(n, "add concurrency: 10", "no concurrency in %s", what)
		}
		return
	}
	if c.has("concurrency") {
		p.failAt(c.key("concurrency"), "write limit: …, or make a rule of its own", "concurrency in %s of a rule with a limit", what)
		return
	}
	p.rate(c, r, to, " in "+what)
}

// known reads the groups of which one must list the value of a key.
func (p *parser) known(c *section, r *RuleSpec) {
	v := c.get("known")
	if v == nil {
		return
	}
	if v.shape == sequence && len(v.items) == 0 {
		p.failAt(v, "remove it", "known: an empty list knows nobody")
	}
	if len(v.items) > maxTiers {
		p.failAt(v.items[maxTiers], "", "known: more than %d groups", maxTiers)
		return
	}
	for _, item := range p.oneOrMore(v, "known") {
		name, ok := p.groupNamed(item, "known")
		switch {
		case !ok:
		case slices.Contains(r.Known, name):
			p.failAt(item, "remove it", "known: group %s is named twice", quote(name))
		default:
			g := &p.file.Groups[p.named[name]]
			if !p.membersBroken && !slices.ContainsFunc(r.Key, g.lists) {
				p.failAt(item, "give the group values of what the rule is keyed on",
					"known: group %s lists no %s, so no key would be known", quote(name), NewRecipe(r.Key, r.Missing, 0))
			}
			r.Known = append(r.Known, name)
		}
	}
}
