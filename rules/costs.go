package rules

import (
	"fmt"
	"slices"
	"strings"
)

// PatternCost is what the requests cost that a pattern takes.
type PatternCost struct {
	Pattern *Pattern
	Cost    int64
	// Pos is where the pattern stands.
	Pos Pos
}

// costs are the costs of a rule by pattern, the most specific first.
type costs struct {
	list  []PatternCost
	index *index // of the patterns; nil for a few, which are asked in turn
}

// newCosts returns the costs of list.
func newCosts(list []PatternCost) costs {
	c := costs{list: slices.Clone(list)}
	slices.SortStableFunc(c.list, func(a, b PatternCost) int { return a.Pattern.moreSpecific(b.Pattern) })
	if len(list) > fewWays {
		matches := make([]*Match, len(list))
		for i := range c.list {
			matches[i] = &Match{Any: []Clause{{Pattern: c.list[i].Pattern}}}
		}
		c.index = newIndex(matches)
	}
	return c
}

// of returns the most specific entry for the request, or nil.
func (c *costs) of(f *Facts) *PatternCost {
	if c.index != nil {
		if i := c.index.firstWith(f, &f.costs); i >= 0 {
			return &c.list[i]
		}
		return nil
	}
	for i := range c.list {
		if c.list[i].Pattern.Matches(f) {
			return &c.list[i]
		}
	}
	return nil
}

// CostOf returns how many units the request takes of a rule that applies to it,
// and the pattern of the rule's cost that says so; nil when there is none or none
// that takes the request.
func (r *Rule) CostOf(f *Facts) (int64, *Pattern) {
	if c := r.costs.of(f); c != nil {
		return c.Cost, c.Pattern
	}
	return r.Cost, nil
}

// mostCosts is how many costs are told one by one.
const mostCosts = 10

// String says the costs: "10 for /search, 5 for POST /orders".
func (c *costs) String() string {
	var parts []string
	for i := range c.list {
		if i == mostCosts {
			parts = append(parts, fmt.Sprintf("others for %d more", len(c.list)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%d for %s", c.list[i].Cost, c.list[i].Pattern))
	}
	return strings.Join(parts, ", ")
}

// equal reports whether c and d are the same costs of the same patterns as
// written.
func (c *costs) equal(d *costs) bool {
	return slices.EqualFunc(c.list, d.list, func(a, b PatternCost) bool {
		return a.Cost == b.Cost && a.Pattern.text == b.Pattern.text
	})
}
