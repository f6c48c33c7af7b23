package rules

import (
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"gateway/limit"
)

// PlanSpec are the numbers of a rule as the file says them: its own, or those of
// one of its tiers.
type PlanSpec struct {
	// Limit is the rate as written, Rate what it says.
	Limit string
	Rate  Rate
	// Burst is the size of the bucket: as written, or Rate.Permits. A window has
	// none: 0.
	Burst int64
	// BurstGiven says that the file has a burst for it.
	BurstGiven bool
	// Concurrency is how many requests may be in progress; 0 with a Rate.
	Concurrency int64
	// LimitPos is where the limit, or the concurrency, is.
	LimitPos Pos
}

// plans yields the rule's own numbers, then those of its tiers.
func (r *RuleSpec) plans() iter.Seq[*PlanSpec] {
	return func(yield func(*PlanSpec) bool) {
		if !yield(&r.PlanSpec) {
			return
		}
		for i := range r.Tiers {
			if !yield(&r.Tiers[i].PlanSpec) {
				return
			}
		}
	}
}

// Plan is a rule's numbers for some of its clients: for all of them, or for
// those of a tier, with what these have used. It is immutable but for its Live.
type Plan struct {
	// Tier is the group whose clients it is for; "" for the rule's own numbers.
	Tier string
	// Limit is the rate as written in the file.
	Limit string
	// Concurrency is how many requests may be in progress; 0 with Permits.
	Concurrency int64
	// Permits are admitted per Period; Burst is the size of a bucket, 0 for a window.
	Permits int64
	Period  time.Duration
	Burst   int64
	// Places is how many requests of a key can wait for their turn, MaxWait how long
	// at most; 0 where none does.
	Places  int64
	MaxWait time.Duration
	// Live holds its counters.
	Live *PlanLive
	// Gen is the generation of the Table that holds Numbers: what a Claim names.
	Gen     uint32
	Numbers limit.Numbers
	// Candidate are numbers that are counted beside it and never enforced, with a Live
	// of their own; nil is none.
	Candidate *Plan
	// Shared says how a store counts it; nil is not at all. Its Table, and Numbers,
	// have then this gateway's share, for while the store is away.
	Shared *limit.Shared

	algorithm string
	zone      string // of its calendar; "" is none
	policy    string
	group     *Group        // of the tier
	slots     *atomic.Int64 // of a tier that counts requests in progress: see limit.Claim.Most
	inTable   int64         // as many of these as the Table allows
}

// PlanLive is what of a Plan outlives a list of rules. It is safe for concurrent
// use.
type PlanLive struct {
	// Table holds what each key has used. The plans of a rule with a concurrency
	// have one Table together, so that a client that changes its tier keeps its
	// requests in progress counted.
	Table *limit.Table
	// What was decided under the plan, counted by the front door; for a candidate,
	// what would have been. Allowed are those that passed at once, Waited those that
	// were given a turn; Blocked were refused for what the key did before.
	Allowed, Waited, Rejected, DryRunRejected, FailedClosed, Blocked atomic.Int64

	slots    atomic.Int64 // as many requests in progress as the plan in force allows
	identity string       // what it was made for: see RuleSpec.planIdentity
}

// candidateTier stands for the candidate among the tiers of a rule; no group has such
// a name.
const candidateTier = "its candidate"

// compilePlan makes the Plan of a tier of r, "" for its own numbers, with the
// PlanLive of was, the same plan of the same rule of the list in force, if there
// is one. ruleIdentity is what the identity of r is; base is the rule's own Plan, and nil
// when that is to be made; zone is that of the rule's calendar, or nil.
func (r *RuleSpec) compilePlan(tier string, spec *PlanSpec, ruleIdentity string, budget *limit.Budget, was, base *Plan, store *StoreSpec, zone *limit.Zone) (*Plan, *Error) {
	here, identity := *spec, r.planIdentity(spec, ruleIdentity)
	var shared *limit.Shared
	var err error
	if r.shares(store) {
		here = r.share(spec, store.Replicas)
		shared, err = r.shared(spec, tier, identity, zone)
	}
	numbers := limit.Numbers{}
	if err == nil {
		numbers, err = r.numbers(&here, zone)
	}
	if err != nil {
		return nil, &Error{Pos: spec.LimitPos, Len: 1, Rule: r.Name, Msg: fmt.Sprintf("limit %s: %v", quote(spec.Limit), err)}
	}
	p := &Plan{
		Tier: tier, Limit: spec.Limit, Concurrency: spec.Concurrency,
		Permits: spec.Rate.Permits, Period: spec.Rate.Period, Burst: spec.Burst,
		Numbers: numbers, Shared: shared, algorithm: r.Algorithm, inTable: here.Concurrency,
		zone: r.Zone, MaxWait: r.MaxWait, Places: r.places(spec),
	}
	if tier == candidateTier {
		p.Tier = ""
	}
	p.policy = p.policyItem(r.Name)
	shares := base != nil && p.Concurrency > 0
	switch {
	case was != nil && was.Live.identity == identity && !(shares && was.Live.Table != base.Live.Table):
		p.Live = was.Live
	case shares:
		p.Live = &PlanLive{Table: base.Live.Table, identity: identity}
		p.Live.slots.Store(p.inTable)
	default:
		p.Live = &PlanLive{Table: limit.NewTable(numbers, r.MaxKeys, budget), identity: identity}
	}
	if shares {
		p.slots, p.Gen = &p.Live.slots, base.Gen
		return p, nil
	}
	p.Gen = p.Live.Table.Generation()
	if p.Live.Table.Numbers() != numbers {
		p.Gen++
	}
	return p, nil
}

// Calendar reports whether its windows go by a calendar.
func (p *Plan) Calendar() bool { return p.zone != "" }

// activate makes the numbers of p those of its Table.
func (p *Plan) activate(now limit.Instant, maxKeys int64) {
	if p.slots != nil {
		p.slots.Store(p.inTable)
		return
	}
	p.Live.Table.Renew(p.Gen, now, p.Numbers, maxKeys)
	if p.Candidate != nil {
		p.Candidate.activate(now, maxKeys)
	}
}

// Size returns the most units that a client can have at once: the burst of a
// bucket, the limit of a window, the places of a leaky bucket, the requests in progress.
func (p *Plan) Size() int64 {
	switch {
	case p.algorithm == concurrency:
		return p.Concurrency
	case hasBurst(p.algorithm):
		return p.Burst
	case p.algorithm == leakyBucket:
		return p.Places
	}
	return p.Permits
}
