package rules

import (
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// match reads a match: a pattern, a map (all of) or a list (any of). It returns
// nil when there is an error in it. what is the setting's name.
func (p *parser) match(n *node, what string) *Match {
	before := len(p.errs)
	m := &Match{}
	items := p.oneOrMore(n, what)
	for _, item := range items {
		if p.tooMany(item) {
			break
		}
		switch item.shape {
		case scalar:
			if pattern, ok := readOne(p.source, item, what, ParsePattern); ok {
				m.Any = append(m.Any, Clause{Pattern: pattern})
			}
		case mapping:
			m.Any = append(m.Any, p.clause(item, what))
		case sequence:
			p.failAt(item, "take its items out of the inner list", "%s: a list inside a list", what)
		}
	}
	if len(p.errs) > before || n.shape == broken || len(items) == 0 {
		return nil
	}
	if why := m.Never(); why != "" {
		p.failAt(n, "", "%s can match nothing: %s", what, why)
		return nil
	}
	return m
}

// clause reads a match that is a map.
func (p *parser) clause(n *node, what string) Clause {
	var c Clause
	if len(n.keys) == 0 {
		p.failAt(n, "leave it out to take every request", "%s: an empty map", what)
	}
	for i, key := range n.keys {
		value := n.items[i]
		if value.isNull() {
			p.failAt(key, "give it a value, or remove the line", "%s in %s has no value", quote(key.text), what)
			continue
		}
		switch key.text {
		case "path":
			c.Paths = p.paths(value)
		case "method":
			c.Methods = readAll(p.source, value, "method", ParseMethod)
		case "host":
			c.Hosts = readAll(p.source, value, "host", ParseHostGlob)
		case "ip":
			c.IP = p.prefixes(value, "ip")
		case "group":
			c.Groups = p.inGroups(value)
		case "not":
			c.Not = p.match(value, "not")
		default:
			is, ok := p.valueIs(key, value, what)
			if ok && slices.ContainsFunc(c.Values, func(other Is) bool { return other.Attribute == is.Attribute }) {
				p.failAt(key, "put all its values into one list", "%s has %s twice", what, quote(key.text))
			} else if ok {
				c.Values = append(c.Values, is)
			}
		}
	}
	return c
}

// valueIs reads a setting of a match map that is an attribute.
func (p *parser) valueIs(key, value *node, what string) (Is, bool) {
	name := key.text
	family, _, dotted := strings.Cut(name, ".")
	switch {
	case dotted && family == "body":
		p.failAt(key, "use what stands in the head of a request, like header.<Name>", "%s in %s: the body is read later", quote(name), what)
		return Is{}, false
	case !dotted || !slices.Contains([]string{"header", "query", "cookie", "basic", "jwt"}, family):
		hint := partMatch.suggest(name)
		for _, family := range []string{"header", "query", "cookie", "jwt"} {
			if rest, ok := strings.CutPrefix(name, family+":"); ok {
				hint = "write " + family + "." + rest
			}
		}
		p.failAt(key, hint, "unknown setting %s in %s; use path, method, host, ip, group, header.<Name>, query.<name>, cookie.<name>, basic.username, jwt.<claim> or not", quote(name), what)
		return Is{}, false
	}
	attribute, err := ParseAttribute(name)
	if err != nil {
		line, col, width := p.within(key, err.Off, err.Len)
		p.fail(line, col, width, err.Hint, "%s: %s", quote(name), err.Msg)
		return Is{}, false
	}
	p.looksAt(key, attribute)
	parse := ParseGlob
	if attribute.named() {
		parse = func(text string) (Glob, *TextError) { return ParseGlob(string(appendFolded(nil, []byte(text)))) }
	}
	return Is{Attribute: attribute, Globs: readAll(p.source, value, name, parse)}, true
}

// inGroups reads the names of groups.
func (p *parser) inGroups(n *node) []InGroup {
	var all []InGroup
	for _, item := range p.someOf(n, "group") {
		if p.tooMany(item) {
			break
		}
		if name, ok := p.groupNamed(item, "group"); ok {
			all = append(all, InGroup{Name: name})
		}
	}
	return all
}

// readAll reads a text, or each of a list of them, with parse.
func readAll[T any](s *source, n *node, what string, parse func(string) (T, *TextError)) []T {
	var all []T
	for _, item := range s.someOf(n, what) {
		if s.tooMany(item) {
			break
		}
		if v, ok := readOne(s, item, what, parse); ok {
			all = append(all, v)
		}
	}
	return all
}

// paths reads a path of a match map: patterns, and regular expressions.
func (p *parser) paths(n *node) []*Pattern {
	var all []*Pattern
	for _, item := range p.someOf(n, "path") {
		if p.tooMany(item) {
			break
		}
		pattern, ok := (*Pattern)(nil), false
		if item.shape == mapping {
			pattern, ok = p.regexp(item)
		} else {
			pattern, ok = readOne(p.source, item, "path", ParsePathPattern)
		}
		if ok {
			all = append(all, pattern)
		}
	}
	return all
}

// regexp reads { regex: … }.
func (p *parser) regexp(n *node) (*Pattern, bool) {
	c := p.section(n, partPath, "a path", " in path")
	c.check()
	v := c.get("regex")
	if v == nil {
		if c.lacks("regex") {
			p.failAt(n, "write { regex: /users/[0-9]+ }, or a pattern", "no regex in path")
		}
		return nil, false
	}
	size := 0
	pattern, ok := readOne(p.source, v, "regex", func(text string) (pattern *Pattern, err *TextError) {
		pattern, size, err = parseRegexp(text)
		return pattern, err
	})
	if before := p.regexps; ok {
		if p.regexps += size; before <= maxRegexps && p.regexps > maxRegexps {
			p.failAt(v, "use patterns, which an index finds", "the regular expressions of the file are too large together")
		}
	}
	return pattern, ok && p.regexps <= maxRegexps
}

// someOf returns n itself, or its items when it is a list, which must have some.
func (s *source) someOf(n *node, what string) []*node {
	if n.shape == sequence && len(n.items) == 0 {
		s.failAt(n, "", "%s: an empty list matches nothing", what)
	}
	return s.oneOrMore(n, what)
}

// readOne reads a text with parse.
func readOne[T any](s *source, n *node, what string, parse func(string) (T, *TextError)) (v T, ok bool) {
	text, ok := s.text(n, what)
	if !ok {
		return v, false
	}
	v, err := parse(text)
	if err != nil {
		s.failText(n, what, err)
		return v, false
	}
	if p, ok := any(v).(*Pattern); ok && n.origin != nil {
		p.text = n.origin.written
	}
	return v, true
}

// tooMany counts another alternative of a match, n, and reports whether there
// are too many.
func (s *source) tooMany(n *node) bool {
	if s.patterns++; s.patterns == maxPatterns+1 {
		s.failAt(n, "", "the matches of the file have more than %d alternatives", maxPatterns)
	}
	return s.patterns > maxPatterns
}

// prefixes reads addresses, CIDRs and `private`.
func (s *source) prefixes(n *node, what string) Prefixes {
	var all []netip.Prefix
	for _, item := range s.someOf(n, what) {
		if some, ok := readOne(s, item, what, ParsePrefix); ok {
			all = append(all, some...)
			s.show(item)
		}
	}
	return NewPrefixes(all)
}

// matchText writes a match as it is in the file, on one line and shortened.
func matchText(n *node) string {
	const short = 80
	if text := n.written(); n.shape == scalar && len(text) <= short && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	writeFlow(&b, n, true)
	if text := []rune(b.String()); len(text) > short {
		return string(text[:short-1]) + "…"
	}
	return b.String()
}

func writeFlow(b *strings.Builder, n *node, top bool) {
	if b.Len() > 400 {
		return
	}
	switch n.shape {
	case scalar:
		b.WriteString(strings.ToValidUTF8(n.written(), ""))
	case sequence, mapping:
		begin, end := "[", "]"
		if n.shape == mapping {
			begin, end = "{", "}"
		}
		if n.shape == sequence && top {
			begin, end = "", ""
		}
		b.WriteString(begin)
		for i, item := range n.items {
			if i > 0 {
				b.WriteString(", ")
			}
			if n.shape == mapping {
				b.WriteString(n.keys[i].text + ": ")
			}
			writeFlow(b, item, false)
		}
		b.WriteString(end)
	}
}
