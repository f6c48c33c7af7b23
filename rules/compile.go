package rules

import (
	"fmt"
	"slices"
	"strconv"

	"gateway/limit"
)

// Compile makes the Set of f. prev is the Set in force, or nil at the start.
//
// A rule of prev with the same name, algorithm and key (with what stands in for
// a missing one and the bits of an address that count) is the same rule, and a
// plan of it for the same tier and, for a window, with the same period is the same
// plan: the new one has its Live, by pointer, and what clients used stays used.
// All else starts afresh, with a Live of its own. Different numbers are a new
// generation of the Table, which comes into being with Activate.
//
// Compile has no effects: prev, its Tables and its counters are as before, also
// when the Set is dropped. The error is an ErrorList; of a File that Parse made
// there is none.
func (f *File) Compile(prev *Set) (*Set, error) {
	s := &Set{
		File: f, TrustedProxies: f.TrustedProxies, Hash: f.Hash,
		Rules: make([]*Rule, 0, len(f.Rules)), byName: make(map[string]*Rule, len(f.Rules)),
	}
	if prev != nil {
		s.secret, s.budget = prev.secret, prev.budget
	} else {
		secret := limit.NewSecret()
		s.secret, s.budget = &secret, limit.NewBudget(f.MaxMemory)
	}
	if m := f.unread(); m != nil {
		return nil, ErrorList{m.File.Error(fmt.Sprintf("file %q has not been read", m.File.Path), "")}
	}
	groups := f.groupSet()
	var errs ErrorList
	var pauses pauses
	for i := range f.Rules {
		pauses.step()
		r, err := f.Rules[i].compile(f, groups, s.budget, prev, prev.near(i, f.Rules[i].Name))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.Index = i
		if r.recipe.fixed == (limit.Digest{}) {
			r.recipe.fix(s.secret)
		}
		s.Rules = append(s.Rules, r)
		s.byName[r.Name] = r
	}
	s.Overload = f.Overload.compile(s.budget, prev)
	for i := range f.Routes {
		route := &Route{RouteSpec: f.Routes[i], hash: f.affinity(f.Routes[i].Upstream)}
		route.Match = route.Match.bind(groups)
		s.Routes = append(s.Routes, route)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	s.verifier = s.newVerifier(prev)
	s.index(f.Exempt.bind(groups), f.Block.bind(groups))
	return s, nil
}

// index makes the indexes of s, of which Parse may have made some.
func (s *Set) index(exempt, block *Match) {
	s.byRule = indexOf(s.Rules, func(r *Rule) *Match { return r.match }, s.File.byRule)
	s.byRoute = indexOf(s.Routes, func(r *Route) *Match { return r.Match }, s.File.byRoute)
	if exempt != nil {
		s.exempt = newIndex([]*Match{exempt})
	}
	if block != nil {
		s.block = newIndex([]*Match{block})
	}
}

// compile makes the Rule of r, with the Live of old, the rule of that name of prev,
// if there is one and it is the same rule.
func (r *RuleSpec) compile(f *File, groups groupSet, budget *limit.Budget, prev *Set, old *Rule) (*Rule, *Error) {
	var recipe *Recipe
	var keyText, identity string
	if old != nil && r.keyedAs(&prev.File.Rules[old.Index], f, prev.File) {
		recipe, keyText, identity = old.recipe, old.KeyText, old.Live.identity
	} else {
		recipe = r.recipe(f, groups)
		keyText, identity = recipe.String(), r.identity(f.IPv6Prefix)
	}
	rule := &Rule{
		Name: r.Name, Algorithm: r.Algorithm,
		costs: newCosts(r.Costs), Cost: r.Cost, CostFrom: r.CostFrom, Count: r.Count, Refund: r.Refund,
		Closed: r.Fail == "closed", Open: r.Fail == "open", Quiet: recipe.reads(Attribute.named),
		InProcess: !r.shares(f.Store),
		DryRun:    r.DryRun, Penalty: r.Penalty, Reject: r.Reject, MaxKeys: r.MaxKeys,
		MatchText: r.MatchText, KeyText: keyText, Pos: r.Pos,
		Known: r.Known, match: r.Match.bind(groups), recipe: recipe,
	}
	if err := rule.setZone(r.Zone, old); err != nil {
		return nil, &Error{Pos: r.Pos, Len: 1, Rule: r.Name, Msg: fmt.Sprintf("zone %s: %v", quote(r.Zone), err)}
	}
	if old != nil && old.Live.identity == identity {
		rule.Live = old.Live
	} else {
		rule.Live = &Live{identity: identity}
	}
	var err *Error
	if rule.Base, err = r.compilePlan("", &r.PlanSpec, identity, budget, old.Plan(""), nil, f.Store, rule.zone); err != nil {
		return nil, err
	}
	if r.Candidate != nil {
		var was *Plan
		if old != nil {
			was = old.Base.Candidate
		}
		if rule.Base.Candidate, err = r.compilePlan(candidateTier, r.Candidate, identity, budget, was, nil, f.Store, rule.zone); err != nil {
			return nil, err
		}
	}
	for i := range r.Tiers {
		t := &r.Tiers[i]
		plan, err := r.compilePlan(t.Group, &t.PlanSpec, identity, budget, old.Plan(t.Group), rule.Base, f.Store, rule.zone)
		if err != nil {
			return nil, err
		}
		plan.group = groups[t.Group]
		rule.Tiers = append(rule.Tiers, plan)
	}
	rule.beyond = rule.looksBeyond()
	return rule, nil
}

// recipe returns how the key of r is made.
func (r *RuleSpec) recipe(f *File, groups groupSet) *Recipe {
	recipe := NewRecipe(r.Key, r.Missing, f.IPv6Prefix)
	recipe.local, recipe.loose = r.Fail == "local", f.LoosePaths
	recipe.know(groups.named(r.Known))
	if r.shares(f.Store) {
		recipe.shared = f.Store.secret()
	}
	return recipe
}

// keyedAs reports whether the recipe and the identity of r, a rule of f, are those of
// was, a rule of g of the same name, so that they need not be made again. It looks at
// all that these are made of, and says no where that is more than r and a setting.
func (r *RuleSpec) keyedAs(was *RuleSpec, f, g *File) bool {
	return slices.Equal(r.Key, was.Key) && r.Missing == was.Missing && r.Algorithm == was.Algorithm &&
		(r.Fail == "local") == (was.Fail == "local") && f.IPv6Prefix == g.IPv6Prefix && f.LoosePaths == g.LoosePaths &&
		len(r.Known) == 0 && len(was.Known) == 0 && !r.shares(f.Store) && !was.shares(g.Store)
}

// identity returns a text that two rules of one name share exactly if counters
// of the one mean the same for the other, as far as all their plans go.
func (r *RuleSpec) identity(ipv6Prefix int) string {
	text := append(make([]byte, 0, 128), r.Algorithm...)
	text = appendIdentity(append(text, ' '), r.Key)
	byAddress := slices.ContainsFunc(r.Key, Attribute.IsIP)
	if len(r.Known) > 0 || slices.ContainsFunc(r.Key, Attribute.MayLack) { // only these can be missing
		text = append(append(text, " missing "...), r.Missing.String()...)
		_, falls := r.Missing.Attribute()
		byAddress = byAddress || falls
	}
	if byAddress {
		text = strconv.AppendInt(append(text, " ipv6/"...), int64(ipv6Prefix), 10)
	}
	return string(text)
}

// planIdentity returns the same of two plans of one tier. identity is the rule's.
func (r *RuleSpec) planIdentity(p *PlanSpec, identity string) string {
	if r.Zone != "" {
		return identity + " " + p.Rate.Period.String() + " in " + r.Zone
	}
	if isWindow(r.Algorithm) {
		return identity + " " + p.Rate.Period.String()
	}
	return identity
}

// Activate makes the numbers of s those of its Tables, from now on. Only the swap
// that puts s in force calls it, after everything that can fail; it cannot. To
// call it again changes nothing.
func (s *Set) Activate(now limit.Instant) {
	s.budget.SetMax(s.File.MaxMemory)
	s.Overload.activate(now)
	for _, r := range s.Rules {
		for p := range r.Plans() {
			p.activate(now, r.MaxKeys)
		}
	}
}
