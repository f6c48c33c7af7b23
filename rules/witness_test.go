package rules

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A witness is taken by the match it is of, and so by all that cover this one: no
// warning is missed for want of a comparison.
func TestWhateverCoversAMatchIsCompared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		matches := drawMatches(t)
		x := newIndexOf(matches, 1)
		for i, n := range matches {
			var f Facts
			if n.witness(&f) && !n.Matches(&f) {
				t.Fatalf("%+v does not take its witness %+v", n, f)
			}
			compared := x.mayCover(n, &f, nil)
			if !slices.IsSorted(compared) || len(slices.Compact(slices.Clone(compared))) != len(compared) {
				t.Fatalf("compared %v", compared)
			}
			for j, m := range matches {
				if m.Covers(n) && !slices.Contains(compared, j) && n.Never() == "" {
					t.Fatalf("%+v covers %+v, number %d, and is not compared", m, n, i)
				}
			}
		}
	})
}

func TestWitnesses(t *testing.T) {
	var f Facts
	one := func(conditions ...string) *Match { return &Match{Any: []Clause{clause(t, conditions...)}} }
	for _, m := range []*Match{
		nil,
		matchOf(t, "POST *.example.com/users/:id/*/**"),
		one("path: /a/b*c/**", "method: PUT", "host: *.x a.y", "ip: 10.0.0.0/8 ::1", "header.X-A: * 1", "header.X-B: a*b"),
	} {
		if !m.witness(&f) || !m.Matches(&f) {
			t.Errorf("%+v: witness %+v", m, f)
		}
	}
	for _, m := range []*Match{{}, one("query.a: 1")} {
		if m.witness(&f) {
			t.Errorf("%+v: witness %+v", m, f)
		}
	}
}

// Every request has an address, so that of all of them is any.
func TestAMatchOfAllAddressesIsCompared(t *testing.T) {
	x := newIndexOf([]*Match{{Any: []Clause{clause(t, "ip: 0.0.0.0/0 ::/0")}}}, 1)
	if got := x.mayCover(nil, &Facts{}, nil); len(got) != 1 {
		t.Errorf("compared %v, want the one there is", got)
	}
}
