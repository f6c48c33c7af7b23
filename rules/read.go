package rules

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// section is a map of the file whose settings are being read.
type section struct {
	*source
	node   *node
	part   part
	where  string          // " in rule \"per-ip\"", for messages; "" at the top
	empty  []string        // settings without a value, which has been reported
	meant  map[string]bool // settings that are probably there, misspelled
	unsure bool            // some name is unknown, and was not compared with any
}

// mainNumber is the setting of a map that a number in its place is probably for.
var mainNumber = map[part]string{
	partOverload: "max_in_flight", partReject: "status", partRespond: "status", partCount: "status", partRefund: "status",
}

// section reads n, which should be a map of the settings of part p, and reports
// those it does not know. what says what n is.
func (s *source) section(n *node, p part, what, where string) *section {
	c := &section{source: s, node: n, part: p, where: where}
	if n.shape != mapping {
		hint := ""
		if main := mainNumber[p]; main != "" && n.shape == scalar && n.word == wordNumber {
			hint = "write { " + main + ": " + n.text + " }"
		}
		s.misshapen(n, hint, what, "a map of settings")
	}
	return c
}

// key returns the name of a setting as it is in the file, or nil. A map has few: to
// look through them takes less than to make a table of them.
func (c *section) key(name string) *node { return c.node.key(name) }

// value returns the value of a setting as it is in the file, or nil.
func (c *section) value(name string) *node {
	for i, key := range c.node.keys {
		if key.text == name {
			return c.node.items[i]
		}
	}
	return nil
}

// check reports the settings that the section's part has not.
func (c *section) check() {
	known := settings[c.part]
	for _, key := range c.node.keys {
		switch {
		case slices.Contains(known, key.text):
		case c.full():
			c.unsure = true
		default:
			if c.meant == nil {
				c.meant = map[string]bool{}
			}
			c.meant[cmp.Or(familiar[c.part][key.text], nearest(key.text, c.part.names()))] = true
			c.failAt(key, c.part.suggest(key.text), "unknown setting %s%s", quote(key.text), c.where)
		}
	}
}

// get returns the value of a setting; nil when it is not there, or cannot be
// looked at, which has been reported then.
func (c *section) get(name string) *node {
	n := c.value(name)
	if n == nil || n.shape == broken {
		return nil
	}
	if n.isNull() {
		if !slices.Contains(c.empty, name) {
			c.failAt(c.key(name), "give it a value, or remove the line", "%s%s has no value", quote(name), c.where)
			c.empty = append(c.empty, name)
		}
		return nil
	}
	return n
}

// has reports whether the setting is in the file, with whatever value.
func (c *section) has(name string) bool { return c.key(name) != nil }

// lacks reports whether the setting is to be missed: it is not in the file, nor
// does anything look as if it was meant.
func (c *section) lacks(name string) bool {
	return !c.has(name) && !c.meant[name] && !c.unsure && !c.node.partial && c.node.shape == mapping
}

// isEmptyList reports whether the setting is a list without items.
func (c *section) isEmptyList(name string) bool {
	v := c.value(name)
	return v != nil && v.shape == sequence && len(v.items) == 0
}

func (n *node) isNull() bool { return n.shape == scalar && n.word == wordNull }

// wrongShape reports that n is not what it should be.
func (s *source) wrongShape(n *node, what, want string) { s.misshapen(n, "", what, want) }

// misshapen is wrongShape with a hint.
func (s *source) misshapen(n *node, hint, what, want string) {
	if n.shape == broken {
		return
	}
	is := map[shape]string{scalar: "text", sequence: "a list", mapping: "a map"}[n.shape]
	switch {
	case n.isNull():
		is = "nothing"
	case n.shape == scalar && n.word == wordNumber:
		is = "a number"
	}
	s.failAt(n, hint, "%s must be %s, not %s", what, want, is)
}

// list returns the items of n, a list, without those that cannot be looked at.
func (s *source) list(n *node, what string) []*node {
	if n.shape != sequence {
		s.wrongShape(n, what, "a list")
		return nil
	}
	var items []*node
	for _, item := range n.items {
		switch {
		case item.isNull():
			s.failAt(item, "remove it, or give it a value", "an item of %s is empty", what)
		case item.shape != broken:
			items = append(items, item)
		}
	}
	return items
}

// oneOrMore returns n itself, or its items when it is a list.
func (s *source) oneOrMore(n *node, what string) []*node {
	if n.shape == sequence {
		return s.list(n, what)
	}
	return []*node{n}
}

// maxText is the most bytes of a text that something is made of, like a pattern.
const maxText = 4096

// text returns the text of n, whatever YAML takes it for.
func (s *source) text(n *node, what string) (string, bool) { return s.textLike(n, what, "text") }

// textLike returns the text of n, which is to be what want says.
func (s *source) textLike(n *node, what, want string) (string, bool) {
	text, ok := s.longText(n, what, want)
	if len(text) > maxText {
		s.failAt(n, "", "%s has %d bytes; the most is %d", what, len(text), maxText)
		return "", false
	}
	return text, ok
}

// longText returns the text of n, however long it is.
func (s *source) longText(n *node, what, want string) (string, bool) {
	if n.shape != scalar || n.isNull() {
		s.wrongShape(n, what, want)
		return "", false
	}
	return n.text, true
}

// whole returns the whole number n, which must be from low to high.
func (s *source) whole(n *node, what string, low, high int64) (int64, bool) {
	switch {
	case n.shape != scalar || n.isNull():
		s.wrongShape(n, what, "a whole number")
		return 0, false
	case n.word == wordQuoted:
		s.failAt(n, "write it without quotes", "%s must be a whole number, not text", what)
		return 0, false
	}
	v, err := parseWhole(n.text)
	if digits, ok := strings.CutPrefix(n.text, "-"); ok && digitsOnly().MatchString(digits) {
		v, err = -1, nil
	}
	switch {
	case err != nil:
		s.failAt(n, err.Hint, "%s: %s", what, err.Msg)
	case (v < low || v > high) && high < maxNumber:
		s.failAt(n, "", "%s %s: must be %d to %d", what, quote(n.text), low, high)
	case v < low:
		s.failAt(n, "", "%s %s: must be at least %d", what, quote(n.text), low)
	default:
		s.show(n)
		return v, true
	}
	return 0, false
}

// boolean returns n, which must be true or false.
func (s *source) boolean(n *node, what string) bool {
	if n.shape == scalar && n.word == wordBool {
		s.show(n)
		return strings.EqualFold(n.text, "true")
	}
	if n.shape != scalar || n.isNull() {
		s.wrongShape(n, what, "true or false")
		return false
	}
	hint := "write true or false"
	switch strings.ToLower(n.text) {
	case "yes", "y", "on", "1", "true":
		hint = "write true"
	case "no", "n", "off", "0", "false":
		hint = "write false"
	}
	s.failAt(n, hint, "%s %s: must be true or false", what, quote(n.text))
	return false
}

// duration sets *d to the duration n.
func (s *source) duration(n *node, what string, d *time.Duration) {
	text, ok := s.textLike(n, what, "a duration like 30s")
	if !ok {
		return
	}
	v, err := parseDuration(text)
	if err != nil {
		s.failText(n, what, err)
		return
	}
	*d = v
	s.show(n)
}

// size sets *v to the size n, which must be from low to high.
func (s *source) size(n *node, what string, v *int64, low, high int64) {
	text, ok := s.textLike(n, what, "a size like 64KiB")
	if !ok {
		return
	}
	size, err := parseSize(text)
	switch {
	case err != nil:
		s.failText(n, what, err)
	case size < low:
		s.failAt(n, "", "%s %s: must be at least %s", what, quote(text), sizeText(low))
	case size > high:
		s.failAt(n, "", "%s %s: must be at most %s", what, quote(text), sizeText(high))
	default:
		*v = size
		s.show(n)
	}
}

// oneOf sets *v to the word n, which must be one of a choice.
func (s *source) oneOf(n *node, what string, from choice, v *string) {
	text, ok := s.textLike(n, what, list(from))
	switch {
	case !ok:
	case slices.Contains(from, text):
		*v = text
		s.show(n)
	case n.word == wordBool && slices.Contains(from, "off") && strings.EqualFold(text, "false"):
		s.failAt(n, "write off", "%s %s: must be %s", what, quote(text), list(from))
	default:
		hint := didYouMean(text, from)
		if ours := otherValues[strings.ToLower(text)]; slices.Contains(from, ours) {
			hint = "write " + ours
		}
		s.failAt(n, hint, "%s %s: must be %s", what, quote(text), list(from))
	}
}

// otherValues are words that other programs have for values of ours.
var otherValues = map[string]string{
	"warning": "warn", "trace": "debug", "fatal": "error", "common": "combined", "least_connections": "least_conn", "leastconnections": "least_conn",
	"rr": "round_robin", "token": "token_bucket", "bucket": "token_bucket", "leaky": "leaky_bucket", "fixed": "fixed_window", "sliding": "sliding_window",
	"sliding_log": "sliding_window_log", "log": "sliding_window_log", "high": "critical", "low": "sheddable", "none": "off",
	"deny": "closed", "allow": "open",
}

// canonical writes n so that two values that differ are written differently.
func (n *node) canonical(b *strings.Builder) {
	switch n.shape {
	case scalar:
		if n.word == wordNull {
			b.WriteByte('~')
		}
		b.WriteString(strconv.Quote(n.text))
	case sequence, mapping:
		b.WriteByte("[{"[n.shape-sequence])
		for i, item := range n.items {
			if n.shape == mapping {
				n.keys[i].canonical(b)
				b.WriteByte(':')
			}
			item.canonical(b)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	}
}
