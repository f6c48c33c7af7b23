package peers

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// match is which requests: any of its clauses takes them. Without a clause it is none.
type match []clause

// clause takes a request that meets all conds and that not does not take.
type clause struct {
	conds []cond
	not   match
}

// cond wants one of some values of what a match of ours calls field.
type cond struct {
	field  string
	values []string
	regexp bool // the one value is a regular expression
}

// everything takes every request.
func everything() match { return match{{}} }

func is(field string, values ...string) match {
	return match{{conds: []cond{{field: field, values: values}}}}
}

// maxClauses bounds what a match may become.
const maxClauses = 300

// and takes what both take. It is nil and false when that would be too large.
func (m match) and(n match) (match, bool) {
	if len(m)*len(n) > maxClauses {
		return nil, false
	}
	var all match
	for _, a := range m {
		for _, b := range n {
			all = append(all, a.and(b))
		}
	}
	return all, true
}

func (c clause) and(d clause) clause {
	with := clause{conds: slices.Clone(c.conds), not: slices.Concat(c.not, d.not)}
	for _, one := range d.conds {
		i := slices.IndexFunc(with.conds, func(have cond) bool { return have.field == one.field })
		switch {
		case i < 0:
			with.conds = append(with.conds, one)
		case with.conds[i].regexp != one.regexp || !slices.Equal(with.conds[i].values, one.values):
			// A map holds a name once, so the second is what is not otherwise.
			with.not = append(with.not, clause{not: match{{conds: []cond{one}}}})
		}
	}
	return with
}

// without takes what m takes and n does not.
func (m match) without(n match) match {
	if len(n) == 0 {
		return m
	}
	all := make(match, len(m))
	for i, c := range m {
		all[i] = clause{conds: c.conds, not: slices.Concat(c.not, n)}
	}
	return all
}

// text writes m in YAML, on one line; "" is every request.
func (m match) text() string {
	if slices.ContainsFunc(m, func(c clause) bool { return len(c.conds) == 0 && len(c.not) == 0 }) {
		return ""
	}
	parts := make([]string, len(m))
	for i, c := range m {
		parts[i] = c.text()
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (c clause) text() string {
	var parts []string
	for _, one := range c.conds {
		value := listed(one.values)
		if one.regexp {
			value = "{ regex: " + value + " }"
		}
		parts = append(parts, quoted(one.field)+": "+value)
	}
	if len(c.not) > 0 {
		parts = append(parts, "not: "+c.not.text())
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

func listed(values []string) string {
	if len(values) == 1 {
		return quoted(values[0])
	}
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = quoted(v)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

var plain = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9/._-]*$`)

// quoted writes a text as a YAML value that is nothing but that text.
func quoted(text string) string {
	switch strings.ToLower(text) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
	default:
		if plain.MatchString(text) {
			return text
		}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(strings.ReplaceAll(text, "$", "$$")); err != nil {
		panic("peers: a text that is no JSON: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// literal reports whether a text that is compared as it is there can be compared here,
// where * stands for any letters.
func literal(text string) bool { return !strings.Contains(text, "*") }
