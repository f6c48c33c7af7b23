package rules

import (
	"maps"
	"slices"
)

// WithDryRun returns a Set that is s but for one rule, which is a dry run or is none,
// whatever its file says. Its counters and all else are those of s. It returns s
// itself where nothing changes, or no rule has the name.
func (s *Set) WithDryRun(name string, on bool) *Set {
	return s.switched(on, func(r *Rule) bool { return r.Name == name })
}

// AllDryRun returns a Set that is s but for its rules, all of which are dry runs.
func (s *Set) AllDryRun() *Set {
	return s.switched(true, func(*Rule) bool { return true })
}

func (s *Set) switched(on bool, which func(*Rule) bool) *Set {
	with := *s
	with.Rules, with.byName = slices.Clone(s.Rules), maps.Clone(s.byName)
	changed := false
	for i, r := range s.Rules {
		if !which(r) || r.DryRun == on {
			continue
		}
		changed = true
		one := *r // requests in progress keep what they began with
		one.DryRun, one.Switched = on, !r.Switched
		with.Rules[i], with.byName[one.Name] = &one, &one
	}
	if !changed {
		return s
	}
	return &with
}

// Switched reports whether some rule is, or is not, a dry run otherwise than the
// file says.
func (s *Set) Switched() bool {
	return slices.ContainsFunc(s.Rules, func(r *Rule) bool { return r.Switched })
}
