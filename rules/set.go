package rules

import (
	"iter"

	"gateway/limit"
)

// Set is a compiled list of rules and routes: all that a request needs of a
// File. It is immutable but for the Lives its rules point to, and safe for
// concurrent use.
type Set struct {
	// File is what it was compiled from.
	File *File
	// Rules and Routes are in the order of the file.
	Rules  []*Rule
	Routes []*Route
	// Overload bounds the requests in progress; nil does not.
	Overload *Overload
	// TrustedProxies are the peers whose forwarding headers are believed.
	TrustedProxies Prefixes
	// Hash is the hash of the file's bytes, in hexadecimal.
	Hash string

	byName map[string]*Rule
	// The matches of Rules and of Routes, and those of exempt and block; nil is none.
	byRule, byRoute, exempt, block *index

	verifier *verifier // of tokens; nil where the file has no jwt

	secret *limit.Secret
	budget *limit.Budget
}

// Rule is a compiled rule.
type Rule struct {
	// Name is its identity over reloads and its name in headers, logs and metrics.
	Name string
	// Index is its place in Set.Rules.
	Index int
	// Algorithm is the name of the algorithm, "concurrency" for requests in progress.
	Algorithm string
	// Base are its numbers for clients of no tier, Tiers those for others, in the
	// order of the file.
	Base  *Plan
	Tiers []*Plan
	// Cost is how many units a request takes, unless CostOf says otherwise; with
	// CostFrom what it reserves.
	Cost int64
	// CostFrom, Count and Refund say what an answer changes: see Settle.
	CostFrom      CostFrom
	Count, Refund *Returns
	// Closed says that a request is refused when the rule cannot decide, Open that
	// it passes the rule by.
	Closed, Open bool
	// InProcess says that it is counted in this process alone.
	InProcess bool
	// Quiet says that the rule keeps what is left to itself, but for its own
	// refusals: its key may be the name of somebody else than the client.
	Quiet bool
	// DryRun says that it decides and counts but never refuses, Switched that the file
	// says otherwise.
	DryRun, Switched bool
	// Penalty is what repeated refusals earn.
	Penalty PenaltySpec
	// Reject is the answer to a request it refuses; rules that say the same may share one.
	Reject *Reject
	// Live holds what its plans have counted together, MaxKeys how many keys each
	// of them remembers.
	Live    *Live
	MaxKeys int64
	// Known names the groups of which one must list a key's value; none is no bound.
	Known []string
	// MatchText is its match as written, KeyText its key.
	MatchText, KeyText string
	// Pos is where it is in the file.
	Pos Pos

	zone     *limit.Zone // of its calendar, or nil
	zoneName string

	match  *Match
	recipe *Recipe
	costs  costs
	beyond bool // see Beyond
}

// Plans yields the rule's own numbers, then those of its tiers.
func (r *Rule) Plans() iter.Seq[*Plan] {
	return func(yield func(*Plan) bool) {
		if !yield(r.Base) {
			return
		}
		for _, p := range r.Tiers {
			if !yield(p) {
				return
			}
		}
	}
}

// plan returns the numbers that a request falls under: those of the first tier
// whose group its client is in.
func (r *Rule) plan(f *Facts) *Plan {
	for _, p := range r.Tiers {
		if p.group.Has(f) {
			return p
		}
	}
	return r.Base
}

// ReadsBody reports whether the key, or what stands in for it, is in the body.
func (r *Rule) ReadsBody() bool { return r.recipe.reads(Attribute.InBody) }

// counted returns where a rule is counted.
func (r *Rule) counted() string {
	if r.InProcess {
		return "memory"
	}
	return "redis"
}

// Skips reports whether the rule passes requests by that lack its key.
func (r *Rule) Skips() bool { return r.recipe.missing.Skips() }

// Plan returns the numbers for a tier, "" being the rule's own, or nil; a nil
// Rule has none.
func (r *Rule) Plan(tier string) *Plan {
	if r == nil {
		return nil
	}
	for p := range r.Plans() {
		if p.Tier == tier {
			return p
		}
	}
	return nil
}

// Tables returns what its plans count in, each once.
func (r *Rule) Tables() []*limit.Table {
	tables := []*limit.Table{r.Base.Live.Table}
	for _, p := range r.Tiers {
		if p.slots == nil {
			tables = append(tables, p.Live.Table)
		}
	}
	return tables
}

// Trials returns what its candidate counts in: one Table or none.
func (r *Rule) Trials() []*limit.Table {
	if r.Base.Candidate == nil {
		return nil
	}
	return []*limit.Table{r.Base.Candidate.Live.Table}
}

// Hit is a rule that applies to a request, with the numbers that the request
// falls under, the key it has there and the units it takes.
type Hit struct {
	Rule *Rule
	Plan *Plan
	Key  limit.Digest
	Cost int64
	// Missing says that the key is not in the request and that the rule wants
	// such requests answered with 400 (`missing: reject`). Key is then nothing.
	Missing bool
	// Instead says that the key is not in the request, and Key is that of what stands
	// in for it.
	Instead bool
	// Pending says that the key is in the body, which is not read yet, or in a token
	// that is to be verified later; Resolve finds it then.
	Pending bool
	// Doubt is KeyUnreadable, KeyTooLong or KeyNoMemory for a key that cannot be
	// told from the request, under a rule that is Closed. Key is then nothing.
	Doubt Outcome
}

// Claim makes c, which is zero, what the request wants of the plan's Table. Its
// Tag is left to the caller.
func (h *Hit) Claim(c *limit.Claim) {
	c.Table, c.Gen, c.Key, c.N, c.Most = h.Plan.Live.Table, h.Plan.Gen, h.Key, h.Cost, h.Plan.slots
	c.Closed, c.Pending = h.Rule.Closed, h.Rule.Pending()
	c.Shared, c.Open = h.Plan.Shared, h.Rule.Open
	if h.Rule.DryRun {
		c.Mode = limit.DryRun
	}
}

// Trial makes c, which is zero, what the request would want of the plan's
// candidate, which there is. It never refuses. Its Tag is left to the caller.
func (h *Hit) Trial(c *limit.Claim) {
	p := h.Plan.Candidate
	c.Table, c.Gen, c.Key, c.N = p.Live.Table, p.Gen, h.Key, h.Cost
	c.Mode, c.Pending, c.Shared = limit.DryRun, h.Rule.Pending(), p.Shared
}

// Route returns the first route that takes the request, or nil.
func (s *Set) Route(f *Facts) *Route {
	f.verifier = s.verifier
	if i := s.byRoute.first(f); i >= 0 {
		return s.Routes[i]
	}
	return nil
}

// Blocked reports whether the request is to be answered with 403 before any rule.
func (s *Set) Blocked(f *Facts) bool {
	f.verifier = s.verifier
	return s.block != nil && s.block.first(f) >= 0
}

// Exempt reports whether no rule applies to the request; Match then has no hits.
func (s *Set) Exempt(f *Facts) bool {
	f.verifier = s.verifier
	return s.exempt != nil && s.exempt.first(f) >= 0
}

// Match appends to hits all rules that apply to the request, in the order of the
// file. A rule whose key is missing and that wants such requests skipped has no
// hit; its Live counts it. Nor has one that fails open and cannot tell its key. The
// time it takes hardly grows with the rules that do not apply.
func (s *Set) Match(f *Facts, hits []Hit) []Hit {
	if s.Exempt(f) {
		return hits
	}
	last := int32(-1)
	for _, n := range s.byRule.find(f) {
		w := &s.byRule.ways[n]
		if w.owner == last || !w.matches(f) {
			continue
		}
		last = w.owner
		hits = s.Rules[w.owner].hit(s.secret, f, w, hits)
	}
	return hits
}

// hit appends the hit of r on a request that it applies to by way of w.
func (r *Rule) hit(secret *limit.Secret, f *Facts, w *way, hits []Hit) []Hit {
	n := len(hits)
	hits = append(hits, Hit{Rule: r})
	h := &hits[n]
	if !h.find(secret, f, w) {
		*h = Hit{} // which would keep the list in memory
		return hits[:n]
	}
	h.Plan = r.plan(f)
	h.Cost, _ = r.CostOf(f)
	return hits
}

// Resolve finds the keys of the hits that are Pending, once f has the body and its
// token may be verified. It
// returns hits without those whose rule turns out not to apply.
func (s *Set) Resolve(f *Facts, hits []Hit) []Hit {
	kept := hits[:0]
	for _, h := range hits {
		if !h.Pending || h.find(s.secret, f, h.Rule.match) {
			kept = append(kept, h)
		}
	}
	clear(hits[len(kept):])
	return kept
}

// find finds the key of h on a request that m took, and reports whether the rule
// applies.
func (h *Hit) find(secret *limit.Secret, f *Facts, m captor) bool {
	key, outcome := h.Rule.recipe.Digest(secret, f, m)
	h.Key, h.Missing, h.Pending, h.Instead = key, outcome == KeyReject, outcome == KeyPending, outcome == KeyFallback
	switch {
	case outcome == KeySkip:
		h.Rule.Live.Skipped.Add(1)
		return false
	case outcome > KeyPending && h.Rule.Open:
		h.Rule.Live.FailedOpen.Add(1)
		return false
	case outcome > KeyPending:
		h.Doubt = outcome
	}
	return true
}

// Rule returns the rule of that name, or nil; a nil Set has none.
func (s *Set) Rule(name string) *Rule {
	if s == nil {
		return nil
	}
	return s.byName[name]
}

// near returns Rule(name), looked for at place i first: most rules are where they were
// in the list before.
func (s *Set) near(i int, name string) *Rule {
	if s != nil && i < len(s.Rules) && s.Rules[i].Name == name {
		return s.Rules[i]
	}
	return s.Rule(name)
}

// Tables returns all that counts something, to be swept.
func (s *Set) Tables() []*limit.Table {
	tables := make([]*limit.Table, 0, len(s.Rules)+1)
	for _, r := range s.Rules {
		tables = append(append(tables, r.Tables()...), r.Trials()...)
	}
	if s.Overload != nil {
		tables = append(tables, s.Overload.Live.Table)
	}
	return tables
}

// Secret returns the key of all digests of keys. It is the same over reloads.
func (s *Set) Secret() *limit.Secret { return s.secret }

// Budget returns the memory all Tables share. It is the same over reloads.
func (s *Set) Budget() *limit.Budget { return s.budget }
