package rules

import (
	"strings"
	"time"

	"gateway/limit"
)

// calendar reads the zone whose days, weeks or months are a rule's windows.
func (p *parser) calendar(c *section, r *RuleSpec) {
	v := c.get("calendar")
	if v == nil {
		return
	}
	if v.shape == scalar && loadZone(v.text) != nil {
		p.failAt(v, "write { zone: "+v.text+" }", "calendar must be a map of settings, not text")
		return
	}
	m := p.section(v, partCalendar, "calendar", " in calendar")
	m.check()
	switch {
	case r.Algorithm == fixedWindow || c.has("concurrency"): // see concurrency
	case c.has("algorithm"):
		p.failAt(c.key("calendar"), "write algorithm: fixed_window, or leave the calendar out", "calendar with %s: only a fixed window goes by the calendar", r.Algorithm)
	default:
		p.failAt(c.key("calendar"), "add algorithm: fixed_window", "calendar with %s, which has no windows", r.Algorithm)
	}
	n := m.get("zone")
	if n == nil {
		if m.lacks("zone") {
			p.failAt(v, "add zone: UTC, or one like Europe/Berlin", "no zone in calendar")
		}
		return
	}
	text, ok := p.text(n, "zone")
	switch {
	case !ok:
	case loadZone(text) == nil:
		p.failAt(n, likelyZone(text), "zone %s is not in the time zone database", quote(text))
	default:
		r.Zone = text
		p.show(n)
	}
}

// loadZone returns the time zone of that name, or nil. What the machine calls its
// own is none: it would be another one elsewhere.
func loadZone(name string) *time.Location {
	if name == "" || name == "Local" || len(name) > 64 {
		return nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	return loc
}

// likelyZone returns the hint for a zone that there is not: the same written as it
// should be, if there is that one.
func likelyZone(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == ' ' || r == '_' })
	title := func(s, sep string) string {
		parts := strings.Split(s, sep)
		for i, part := range parts {
			if part != "" {
				parts[i] = strings.ToUpper(part[:1]) + part[1:]
			}
		}
		return strings.Join(parts, sep)
	}
	for i := range words {
		words[i] = title(words[i], "/")
	}
	for _, try := range []string{strings.Join(words, "_"), strings.ToUpper(name)} {
		if try != name && loadZone(try) != nil {
			return `did you mean "` + try + `"?`
		}
	}
	return "write a name like Europe/Berlin, America/New_York or UTC"
}

// setZone gives r the zone of its calendar, that of the rule before it if it is the
// same one.
func (r *Rule) setZone(name string, old *Rule) error {
	r.zoneName = name
	switch {
	case name == "":
	case old != nil && old.zoneName == name:
		r.zone = old.zone
	default:
		loc, err := time.LoadLocation(name)
		if err != nil {
			return err
		}
		r.zone = limit.NewZone(loc)
	}
	return nil
}
