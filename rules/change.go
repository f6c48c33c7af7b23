package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Change is what differs between two Sets.
type Change struct {
	// Added and Removed are rules that only the one has, in its order.
	Added, Removed []string
	// Changed are rules of one name that differ, in the order of the new Set.
	Changed []RuleChange
	// GroupsAdded and GroupsRemoved are groups that only the one has, GroupsChanged
	// those of which both have other values; in the order of the file.
	GroupsAdded, GroupsChanged, GroupsRemoved []string
	// Settings are the other top-level settings that differ; sorted.
	Settings []string
}

// RuleChange is what differs between two rules of one name.
type RuleChange struct {
	Name string
	// What are the differences: "limit 100/m → 10/m"; of the first 20 rules, as String
	// names no more.
	What []string
	// Kept says that the counters go on; otherwise they start afresh.
	Kept bool
}

// Change returns what is different in s from prev, the Set before it. With a nil
// prev every rule is added.
func (s *Set) Change(prev *Set) Change {
	var c Change
	var pauses pauses
	for i, r := range s.Rules {
		pauses.step()
		old := prev.near(i, r.Name)
		if old == nil {
			c.Added = append(c.Added, r.Name)
			continue
		}
		d := differences{told: len(c.Changed) < mostNamed}
		if r.differ(old, &d); d.any {
			c.Changed = append(c.Changed, RuleChange{Name: r.Name, What: d.what, Kept: r.Base.Live == old.Base.Live})
		}
	}
	if prev == nil {
		return c
	}
	for i, old := range prev.Rules {
		if s.near(i, old.Name) == nil {
			c.Removed = append(c.Removed, old.Name)
		}
	}
	c.groups(s.File, prev.File)
	c.Settings = s.File.changedSettings(prev.File)
	return c
}

// groups notes how the groups of f differ from those of old.
func (c *Change) groups(f, old *File) {
	before := map[string]*Group{}
	for i := range old.Groups {
		before[old.Groups[i].Name] = &old.Groups[i]
	}
	for i := range f.Groups {
		g := &f.Groups[i]
		was := before[g.Name]
		delete(before, g.Name)
		switch {
		case was == nil:
			c.GroupsAdded = append(c.GroupsAdded, g.Name)
		case !g.same(was):
			c.GroupsChanged = append(c.GroupsChanged, fmt.Sprintf("%q (%d → %d listed)", g.Name, was.Size(), g.Size()))
		}
	}
	for i := range old.Groups {
		if name := old.Groups[i].Name; before[name] != nil {
			c.GroupsRemoved = append(c.GroupsRemoved, name)
		}
	}
}

// differences are those of two rules.
type differences struct {
	told bool // what they are is to be said, not only that there are some
	any  bool
	what []string
}

// add notes a difference.
func (d *differences) add(is bool, text func() string) {
	if !is {
		return
	}
	d.any = true
	if d.told {
		d.what = append(d.what, text())
	}
}

// differ notes that something was and is now, if that is not the same.
func differ[T comparable](d *differences, name string, was, is T) {
	d.add(was != is, func() string { return fmt.Sprintf("%s %v → %v", name, was, is) })
}

// differ notes how r differs from old.
func (r *Rule) differ(old *Rule, d *differences) {
	named := func(name string) func() string { return func() string { return name } }
	differ(d, "limit", old.Base.Limit, r.Base.Limit)
	if old.Base.Burst > 0 && r.Base.Burst > 0 {
		differ(d, "burst", old.Base.Burst, r.Base.Burst)
	}
	r.differTiers(old, d)
	r.differCandidate(old, d)
	differ(d, "algorithm", old.Algorithm, r.Algorithm)
	differ(d, "calendar", cmp.Or(old.zoneName, "none"), cmp.Or(r.zoneName, "none"))
	if old.Base.MaxWait != r.Base.MaxWait {
		differ(d, "max_wait", durationText(old.Base.MaxWait), durationText(r.Base.MaxWait))
	}
	differ(d, "penalty", old.Penalty, r.Penalty)
	differ(d, "key", old.KeyText, r.KeyText)
	differ(d, "missing", old.recipe.missing, r.recipe.missing)
	differ(d, "known", orAny(old.Known), orAny(r.Known))
	differ(d, "cost", old.Cost, r.Cost)
	d.add(old.CostFrom != r.CostFrom || !old.costs.equal(&r.costs), named("cost"))
	d.add(!old.Count.equal(r.Count), named("count"))
	d.add(!old.Refund.equal(r.Refund), named("refund"))
	differ(d, "store", old.counted(), r.counted())
	differ(d, "fail", old.fail(), r.fail())
	differ(d, "match", old.MatchText, r.MatchText)
	differ(d, "dry_run", old.DryRun, r.DryRun)
	differ(d, "max_keys", old.MaxKeys, r.MaxKeys)
	d.add(!old.Reject.equal(r.Reject), named("reject"))
	if r.Base.Live != old.Base.Live { // which may be why
		differ(d, "ipv6_prefix", old.recipe.ipv6Bits, r.recipe.ipv6Bits)
	}
}

// equal reports whether r and o give units back alike; nil does not.
func (r *Returns) equal(o *Returns) bool { return r == o || r != nil && o != nil && *r == *o }

// equal reports whether r and o are the same answer.
func (r *Reject) equal(o *Reject) bool {
	return r == o || r.Status == o.Status && r.Detail == o.Detail && slices.Equal(r.Headers, o.Headers) &&
		r.Body == o.Body && r.ContentType == o.ContentType && r.Jitter == o.Jitter
}

// fail returns what the file says of a rule that cannot decide.
func (r *Rule) fail() string {
	switch {
	case r.Closed:
		return "closed"
	case r.Open:
		return "open"
	}
	return "local"
}

// orAny writes the groups that list the keys a rule knows.
func orAny(known []string) string {
	if len(known) == 0 {
		return "any"
	}
	return strings.Join(known, ", ")
}

// differTiers notes how the tiers of r differ from those of old.
func (r *Rule) differTiers(old *Rule, d *differences) {
	same := true
	note := func(format string, args ...any) {
		same = false
		d.add(true, func() string { return fmt.Sprintf(format, args...) })
	}
	for _, p := range r.Tiers {
		was := old.Plan(p.Tier)
		switch {
		case was == nil:
			note("tier %s added", p.Tier)
			continue
		case was.Limit != p.Limit:
			note("tier %s: limit %s → %s", p.Tier, was.Limit, p.Limit)
		case was.Burst != p.Burst:
			note("tier %s: burst %d → %d", p.Tier, was.Burst, p.Burst)
		}
		if was.Live != p.Live && r.Base.Live == old.Base.Live {
			note("tier %s starts afresh", p.Tier)
		}
	}
	for _, p := range old.Tiers {
		if r.Plan(p.Tier) == nil {
			note("tier %s removed", p.Tier)
		}
	}
	names := func(plans []*Plan) (all []string) {
		for _, p := range plans {
			all = append(all, p.Tier)
		}
		return all
	}
	if is := names(r.Tiers); same && !slices.Equal(is, names(old.Tiers)) {
		note("tiers in the order %s", strings.Join(is, ", "))
	}
}

// differCandidate notes how the candidate of r differs from that of old.
func (r *Rule) differCandidate(old *Rule, d *differences) {
	was, is := old.Base.Candidate, r.Base.Candidate
	switch {
	case was == nil && is == nil:
	case was == nil:
		d.add(true, func() string { return "candidate " + is.Limit + " added" })
	case is == nil:
		d.add(true, func() string { return "candidate " + was.Limit + " removed" })
	default:
		differ(d, "candidate", was.Limit, is.Limit)
		if was.Limit == is.Limit {
			differ(d, "candidate: burst", was.Burst, is.Burst)
		}
		d.add(was.Live != is.Live && r.Base.Live == old.Base.Live, func() string { return "candidate starts afresh" })
	}
}

// Empty reports whether nothing is different.
func (c Change) Empty() bool {
	return len(c.Added) == 0 && len(c.Removed) == 0 && len(c.Changed) == 0 && len(c.Settings) == 0 &&
		len(c.GroupsAdded) == 0 && len(c.GroupsChanged) == 0 && len(c.GroupsRemoved) == 0
}

// String returns the change as one line, like
//
//	added "b"; changed "a" (limit 100/m → 10/m; counters kept); removed "c"; groups changed "vip" (3 → 2 listed); settings log
//
// and "nothing" when it is empty. Of many rules the first are named.
func (c Change) String() string {
	var parts []string
	if len(c.Added) > 0 {
		parts = append(parts, "added "+quoteAll(c.Added))
	}
	if len(c.Changed) > 0 {
		parts = append(parts, "changed "+some(c.Changed, RuleChange.String))
	}
	if len(c.Removed) > 0 {
		parts = append(parts, "removed "+quoteAll(c.Removed))
	}
	var groups []string
	if len(c.GroupsAdded) > 0 {
		groups = append(groups, "added "+quoteAll(c.GroupsAdded))
	}
	if len(c.GroupsChanged) > 0 {
		groups = append(groups, "changed "+strings.Join(c.GroupsChanged, ", "))
	}
	if len(c.GroupsRemoved) > 0 {
		groups = append(groups, "removed "+quoteAll(c.GroupsRemoved))
	}
	if len(groups) > 0 {
		parts = append(parts, "groups "+strings.Join(groups, ", "))
	}
	if len(c.Settings) > 0 {
		parts = append(parts, "settings "+strings.Join(c.Settings, ", "))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}

// String returns the change of one rule: "a" (limit 100/m → 10/m; counters kept).
func (r RuleChange) String() string {
	counters := "counters start afresh"
	if r.Kept {
		counters = "counters kept"
	}
	return fmt.Sprintf("%q (%s; %s)", r.Name, strings.Join(r.What, ", "), counters)
}

func quoteAll(names []string) string { return some(names, strconv.Quote) }

// mostNamed is how many rules a line names one by one.
const mostNamed = 20

// some writes the first of a list, and how many more there are.
func some[T any](list []T, text func(T) string) string {
	var texts []string
	for _, e := range list[:min(len(list), mostNamed)] {
		texts = append(texts, text(e))
	}
	if more := len(list) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}
