package rules

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSubstituted is the most bytes that values of variables may add to a file.
const maxSubstituted = maxFile

var (
	variableName = lazily(`^[A-Za-z_][A-Za-z0-9_]*$`)
	variable     = lazily(`^([A-Za-z_][A-Za-z0-9_]*)(:-|:\?)`)
)

// substitute replaces in the text of n, a scalar, ${NAME}, ${NAME:-default} and
// ${NAME:?message} by what the variable holds, and $$ by $; any other $ is text.
// It runs after YAML has been read, so that a value cannot become anything but a
// value. What YAML would take the outcome for is found out again, also in quotes:
// in { max_keys: "${N}" } YAML itself demands them.
func (c *converter) substitute(n *node) {
	var b strings.Builder
	written, names := n.text, []string(nil)
	for i := 0; i < len(written); {
		at := strings.IndexByte(written[i:], '$')
		if at < 0 {
			b.WriteString(written[i:])
			break
		}
		b.WriteString(written[i : i+at])
		switch rest := written[i+at:]; {
		case strings.HasPrefix(rest, "$$"):
			b.WriteByte('$')
			i += at + len("$$")
		case strings.HasPrefix(rest, "${"):
			value, name, width := c.variable(n, i+at)
			if name == "" {
				n.shape = broken
				return
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			b.WriteString(value)
			i += at + width
		default:
			b.WriteByte('$')
			i += at + 1
		}
	}
	n.text = b.String()
	if names != nil {
		n.origin = &origin{written: written, text: n.text, names: names}
		n.word = wordOf(n.text)
	}
}

// variable reads the ${…} at byte off of the text of n. It returns no name when
// there is an error in it, which has been reported then.
func (c *converter) variable(n *node, off int) (value, name string, width int) {
	inside, _, closed := strings.Cut(n.text[off+len("${"):], "}")
	width = len("${}") + len(inside)
	fail := func(hint, format string, args ...any) (string, string, int) {
		line, col, wide := c.within(n, off, min(width, len(n.text)-off))
		c.fail(line, col, wide, hint, format, args...)
		return "", "", 0
	}
	const dollar = "for the text ${ itself write $${"
	if !closed {
		return fail(dollar, "${ without }")
	}
	name, operator, word := inside, "", ""
	if m := variable().FindStringSubmatch(inside); m != nil {
		name, operator, word = m[1], m[2], inside[len(m[0]):]
	}
	switch {
	case strings.Contains(word, "${"):
		return fail("", "${…} inside ${…}")
	case !variableName().MatchString(name) && startsVariable(name):
		return fail("use ${NAME}, ${NAME:-default} or ${NAME:?message}", "%s is no substitution", quote("${"+inside+"}"))
	case !variableName().MatchString(name):
		return fail(dollar, "%s is not the name of a variable", quote(inside))
	}
	value, set := c.outside.env(name)
	state := "is not set"
	if set {
		state = "is empty"
	}
	switch {
	case operator == ":-" && value == "":
		value = word
	case operator == ":?" && value == "" && word != "":
		return fail("", "variable %s %s: %s", name, state, word)
	case operator == ":?" && value == "":
		return fail("", "variable %s %s", name, state)
	case !set:
		return fail("set it, or write ${"+name+":-default}", "variable %s is not set", name)
	case !utf8.ValidString(value):
		return fail("", "variable %s holds bytes that are not UTF-8", name)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f }):
		return fail("", "variable %s holds a control character", name)
	}
	if c.substituted += len(value); c.substituted > maxSubstituted {
		return fail("", "with variable %s the file is larger than 2 MiB", name)
	}
	return value, name, width
}

// startsVariable reports whether what stands in ${…} begins as a variable would,
// so that the form alone is wrong.
func startsVariable(inside string) bool {
	end := strings.IndexAny(inside, ":-+?=#%/^,")
	return end > 0 && variableName().MatchString(inside[:end])
}

// wordOf returns what YAML takes a plain scalar for. One that says nothing, in
// whatever way, is text all the same: there is a value.
func wordOf(text string) word {
	switch text {
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return wordBool
	}
	if otherNumber().MatchString(text) && strings.ContainsAny(text, "0123456789") {
		return wordNumber
	}
	return wordText
}

// origin says where a text comes from that is not in the file as it is.
type origin struct {
	written string   // the text in the file, with its ${…}
	text    string   // what came of it
	names   []string // the variables, each once
}

// hide returns a message and a hint about a value without what was substituted
// into it: it may be a secret that got into the wrong place. The value is quoted
// as it is written in the file instead.
func (o *origin) hide(msg, hint string) (string, string) {
	if o == nil {
		return msg, hint
	}
	text := strings.ToLower(o.text)
	own := tokens(text)
	var b strings.Builder
	for msg != "" {
		segment, inside := cutSegment(msg)
		msg = msg[len(segment):]
		switch plain := strings.ToLower(strings.TrimSuffix(inside, "…")); {
		case inside == o.text || plain != "" && len(plain) < len(inside) && strings.HasPrefix(text, plain):
			b.WriteString(quote(o.written))
		case len(tokens(plain)) > 0 && strings.Contains(text, plain):
			b.WriteString("…")
		case segment[0] == '"':
			b.WriteString(segment)
		default:
			b.WriteString(mapTokens(segment, func(token string) string {
				if slices.Contains(own, strings.ToLower(token)) && strings.ContainsAny(token, "0123456789") {
					return "…"
				}
				return token
			}))
		}
	}
	msg = b.String()
	if !strings.Contains(msg, "${") {
		msg += " (from " + strings.Join(o.names, ", ") + ")"
	}
	tells := strings.HasPrefix(hint, "write ") && !strings.HasPrefix(hint, "write it like ") ||
		slices.ContainsFunc(tokens(strings.ToLower(hint)), func(t string) bool { return slices.Contains(own, t) })
	if tells {
		hint = ""
	}
	return msg, cmp.Or(hint, "the value is that of "+strings.Join(o.names, ", "))
}

// cutSegment returns the text in quotes that msg begins with, and what is inside;
// or else all up to the next quote.
func cutSegment(msg string) (segment, inside string) {
	if prefix, err := strconv.QuotedPrefix(msg); err == nil && msg[0] == '"' {
		inside, _ = strconv.Unquote(prefix)
		return prefix, inside
	}
	if end := strings.IndexByte(msg[1:], '"'); end >= 0 {
		return msg[:1+end], ""
	}
	return msg, ""
}

func isTokenRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// tokens returns the runs of letters and digits in text.
func tokens(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !isTokenRune(r) })
}

// mapTokens returns text with each of its tokens replaced.
func mapTokens(text string, with func(string) string) string {
	var b strings.Builder
	for text != "" {
		if end := strings.IndexFunc(text, isTokenRune); end != 0 {
			if end < 0 {
				end = len(text)
			}
			b.WriteString(text[:end])
			text = text[end:]
			continue
		}
		end := strings.IndexFunc(text, func(r rune) bool { return !isTokenRune(r) })
		if end < 0 {
			end = len(text)
		}
		b.WriteString(with(text[:end]))
		text = text[end:]
	}
	return b.String()
}
