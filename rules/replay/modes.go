package replay

import (
	"strings"

	"gateway/rules"
)

// mode is how a rule is judged by the lines of a format.
type mode uint8

const (
	judged  mode = iota // by the line
	logged              // by what the log says of the rule
	ignored             // not at all
)

// view is what a format lets a rule see.
type view struct {
	mode mode
	// notes say what it cannot see, and what is done about it.
	notes []string
}

// viewOf returns how rule r is judged by the lines of format f.
func viewOf(r *rules.Rule, f *Format) view {
	if f.own {
		if r.Beyond() {
			return view{mode: logged}
		}
		return view{}
	}
	var v view
	reads := r.Reads()
	lacks := func(list []rules.Attribute) string {
		var names []string
		for _, a := range list {
			if name := a.String(); !f.Holds(name) && !strings.Contains(strings.Join(names, " ")+" ", name+" ") {
				names = append(names, name)
			}
		}
		return strings.Join(names, ", ")
	}
	note := func(text string) { v.notes = append(v.notes, text) }
	switch {
	case r.Base.Concurrency > 0 && !f.durations:
		return view{ignored, []string{"not judged: " + f.Name + " does not say how long a request took"}}
	case r.Pending() && !f.durations:
		note("answers are taken to come at once, since " + f.Name + " does not say how long a request took")
	}
	if names := lacks(reads.Key); names != "" {
		switch {
		case r.Skips():
			return view{ignored, []string{"not judged: " + f.Name + " does not hold " + names + ", and `missing` is skip"}}
		case len(reads.Instead) == 0:
			return view{ignored, []string{"not judged: " + f.Name + " does not hold " + names + ", and `missing` is reject"}}
		case lacks(reads.Instead) != "":
			note(f.Name + " does not hold " + names + ", nor " + lacks(reads.Instead) + ": counted by address")
		default:
			note(f.Name + " does not hold " + names + ": counted by " + by(reads.Instead[0]))
		}
	}
	if names := lacks(reads.Match); names != "" {
		note(f.Name + " does not hold " + names + ", which `match` looks at: taken for absent")
	}
	if names := lacks(reads.Tiers); names != "" {
		note(f.Name + " does not hold " + names + ", by which tiers are told: all have the rule's own limit")
	}
	if names := lacks(reads.Cost); names != "" {
		note(f.Name + " does not hold " + names + ", which `cost` looks at")
	}
	if h := r.CostFrom.Header; h != "" && !f.Holds("answer."+h) && !f.Holds("answer") {
		note(f.Name + " does not hold " + h + " of the answer: each request takes the reserve")
	}
	return v
}

// by says for people what a rule counts by.
func by(a rules.Attribute) string {
	if a.IsIP() {
		return "address"
	}
	return a.String()
}
