package rules

import (
	"fmt"
	"slices"
	"strings"
)

// Change is what differs between two Sets.
type Change struct {
	// Added and Removed are rules that only the one has, in its order.
	Added, Removed []string
	// Changed are rules of one name that differ, in the order of the new Set.
	Changed []RuleChange
	// Settings are the other top-level settings that differ; sorted.
	Settings []string
}

// RuleChange is what differs between two rules of one name.
type RuleChange struct {
	Name string
	// What are the differences: "limit 100/m → 10/m".
	What []string
	// Kept says that the counters go on; otherwise they start afresh.
	Kept bool
}

// Change returns what is different in s from prev, the Set before it. With a nil
// prev every rule is added.
func (s *Set) Change(prev *Set) Change {
	var c Change
	for _, r := range s.Rules {
		old := prev.Rule(r.Name)
		if old == nil {
			c.Added = append(c.Added, r.Name)
		} else if what := r.differences(old); len(what) > 0 {
			c.Changed = append(c.Changed, RuleChange{Name: r.Name, What: what, Kept: r.Base.Live == old.Base.Live})
		}
	}
	if prev == nil {
		return c
	}
	for _, old := range prev.Rules {
		if s.Rule(old.Name) == nil {
			c.Removed = append(c.Removed, old.Name)
		}
	}
	c.Settings = s.File.changedSettings(prev.File)
	return c
}

// differences says how r differs from old.
func (r *Rule) differences(old *Rule) []string {
	var what []string
	differ := func(name string, was, is any) {
		if was != is {
			what = append(what, fmt.Sprintf("%s %v → %v", name, was, is))
		}
	}
	differ("limit", old.Base.Limit, r.Base.Limit)
	if old.Base.Burst > 0 && r.Base.Burst > 0 {
		differ("burst", old.Base.Burst, r.Base.Burst)
	}
	differ("algorithm", old.Algorithm, r.Algorithm)
	differ("key", old.KeyText, r.KeyText)
	differ("missing", old.recipe.missing, r.recipe.missing)
	differ("cost", old.Cost, r.Cost)
	if old.CostFrom != r.CostFrom {
		what = append(what, "cost")
	}
	if old.Count != r.Count {
		what = append(what, "count")
	}
	if old.Refund != r.Refund {
		what = append(what, "refund")
	}
	differ("fail: closed", old.Closed, r.Closed)
	differ("match", old.MatchText, r.MatchText)
	differ("dry_run", old.DryRun, r.DryRun)
	differ("max_keys", old.MaxKeys, r.MaxKeys)
	if old.Reject.Status != r.Reject.Status || old.Reject.text() != r.Reject.text() {
		what = append(what, "reject")
	}
	if len(what) == 0 && r.Base.Live != old.Base.Live {
		differ("ipv6_prefix", old.recipe.ipv6Bits, r.recipe.ipv6Bits)
	}
	return what
}

// text returns all of r, to compare it.
func (r Reject) text() string { return fmt.Sprintf("%+v", r) }

// Empty reports whether nothing is different.
func (c Change) Empty() bool {
	return len(c.Added) == 0 && len(c.Removed) == 0 && len(c.Changed) == 0 && len(c.Settings) == 0
}

// String returns the change as one line, like
//
//	added "b"; changed "a" (limit 100/m → 10/m; counters kept); removed "c"; settings log, timeouts
//
// and "nothing" when it is empty.
func (c Change) String() string {
	var parts []string
	if len(c.Added) > 0 {
		parts = append(parts, "added "+quoteAll(c.Added))
	}
	if len(c.Changed) > 0 {
		texts := make([]string, len(c.Changed))
		for i, r := range c.Changed {
			texts[i] = r.String()
		}
		parts = append(parts, "changed "+strings.Join(texts, ", "))
	}
	if len(c.Removed) > 0 {
		parts = append(parts, "removed "+quoteAll(c.Removed))
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

func quoteAll(names []string) string {
	quoted := slices.Clone(names)
	for i, name := range quoted {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(quoted, ", ")
}
