package rules

import (
	"fmt"
	"slices"
	"strings"
)

// This file says why a request is not taken. What it says must agree with what
// matches decide, beside which it stands; a test holds it to that.

// maxWhys is how many alternatives of a match are told of.
const maxWhys = 3

// WhyNot says why m does not take the request, and is empty when it does. Of
// several alternatives each says its own.
func (m *Match) WhyNot(f *Facts) string {
	if m == nil {
		return ""
	}
	var whys []string
	for i := range m.Any {
		why := m.Any[i].whyNot(f)
		if why == "" {
			return ""
		}
		if !slices.Contains(whys, why) {
			whys = append(whys, why)
		}
	}
	switch n := len(whys); {
	case n == 0:
		return "the match has no alternative"
	case n > maxWhys:
		return strings.Join(whys[:maxWhys], "; ") + fmt.Sprintf("; and %d more", n-maxWhys)
	}
	return strings.Join(whys, "; ")
}

// whyNot says why c does not take the request, or is empty.
func (c *Clause) whyNot(f *Facts) string {
	if len(c.Paths) > 0 && c.path(f) == nil {
		return "path " + f.pathFor(c.Paths[0].loose) + " is not " + someOf(c.Paths, (*Pattern).String)
	}
	if c.Pattern != nil {
		if why := c.Pattern.whyNot(f); why != "" {
			return why
		}
	}
	if len(c.Methods) > 0 && !slices.ContainsFunc(c.Methods, func(m string) bool { return methodCovers(m, f.Method) }) {
		return "method " + f.Method + " is not " + someOf(c.Methods, func(m string) string { return m })
	}
	if len(c.Hosts) > 0 && !matchesAny(c.Hosts, f.Host) {
		return "host " + f.Host + " is not " + someOf(c.Hosts, Glob.String)
	}
	if !c.IP.Empty() && !c.IP.Contains(f.Client) {
		return fmt.Sprintf("ip %v is not in the list", f.Client)
	}
	for i := range c.Values {
		if is := &c.Values[i]; !is.matches(f) {
			return is.whyNot(f)
		}
	}
	if len(c.Groups) > 0 && !slices.ContainsFunc(c.Groups, func(g InGroup) bool { return g.group.Has(f) }) {
		return "the client is not in group " + someOf(c.Groups, func(g InGroup) string { return g.Name })
	}
	if c.Not != nil && c.Not.Matches(f) {
		return "not: the request is one that is excluded"
	}
	return ""
}

// whyNot says why is does not have one of its values.
func (is *Is) whyNot(f *Facts) string {
	value, ok := f.appendChosen(nil, is.Attribute)
	if !ok {
		return is.Attribute.String() + " is not in the request" + f.tokenAside(is.Attribute)
	}
	return fmt.Sprintf("%v %s is not %s", is.Attribute, quote(string(value)), someOf(is.Globs, Glob.String))
}

// whyNot says why p does not take the request, or is empty.
func (p *Pattern) whyNot(f *Facts) string {
	switch {
	case !p.matchesPath(f.pathFor(p.loose)):
		return "path " + f.pathFor(p.loose) + " is not " + p.path()
	case p.method != "" && !methodCovers(p.method, f.Method):
		return "method " + f.Method + " is not " + p.method
	case p.host != nil && !p.host.matches(f.Host):
		return "host " + f.Host + " is not " + p.host.String()
	}
	return ""
}

// path returns the pattern's path as it is written.
func (p *Pattern) path() string {
	text := p.text[strings.LastIndexByte(p.text, ' ')+1:]
	if i := strings.IndexByte(text, '/'); i > 0 {
		return text[i:]
	}
	return text
}

// someOf lists what one of must hold, the first of many.
func someOf[T any](all []T, text func(T) string) string {
	const most = 4
	texts := make([]string, 0, most)
	for i, e := range all {
		if i == most {
			return strings.Join(texts, ", ") + fmt.Sprintf(" or one of %d more", len(all)-most)
		}
		texts = append(texts, text(e))
	}
	return list(texts)
}
