package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// emitter writes nodes as the text of a file.
type emitter struct{ b strings.Builder }

// flowWidth is how long a list or map may be to stand on one line.
const flowWidth = 90

// block writes the lines of a list or map that is not empty.
func (e *emitter) block(n *node, indent string) {
	for i, item := range n.items {
		e.b.WriteString(indent)
		if n.shape == mapping {
			e.b.WriteString(plainOrQuoted(n.keys[i]) + ":")
			e.value(item, indent+"  ")
			continue
		}
		e.b.WriteByte('-')
		if item.shape == scalar || flows(item) {
			e.value(item, indent+"  ")
			continue
		}
		var inner emitter
		inner.block(item, indent+"  ")
		e.b.WriteString(" " + strings.TrimPrefix(inner.b.String(), indent+"  "))
	}
}

// value writes what follows a name or a dash, up to the end of its last line.
func (e *emitter) value(n *node, indent string) {
	if n.shape != scalar && !flows(n) {
		e.b.WriteByte('\n')
		e.block(n, indent)
		return
	}
	e.b.WriteString(" " + flow(n) + "\n")
}

// flows reports whether a list or map stands on one line: when it is short, and
// simple.
func flows(n *node) bool {
	if len(n.items) == 0 {
		return true
	}
	for _, item := range n.items {
		if n.shape == mapping && item.shape == mapping && len(item.items) > 0 || len(n.items) > 12 {
			return false
		}
	}
	text := flow(n)
	return utf8.RuneCountInString(text) <= flowWidth
}

// flow writes n on one line.
func flow(n *node) string {
	if n.shape == scalar {
		return plainOrQuoted(n)
	}
	parts := make([]string, len(n.items))
	for i, item := range n.items {
		if n.shape == mapping {
			parts[i] = plainOrQuoted(n.keys[i]) + ": "
		}
		parts[i] += flow(item)
	}
	text := strings.Join(parts, ", ")
	switch {
	case n.shape == sequence:
		return "[" + text + "]"
	case text == "":
		return "{}"
	}
	return "{ " + text + " }"
}

// safe is a text that YAML reads as it is, also inside brackets.
var safe = lazily(`^[A-Za-z/_.][A-Za-z0-9_/.@+*=%~-]*([: ][A-Za-z0-9_/.@+*=%~-]+)*$`)

// safeNumber is one that is written in digits, perhaps with a unit.
var safeNumber = lazily(`^[0-9][A-Za-z0-9_/.%]*$`)

// plainOrQuoted writes a scalar so that it is read as what it is.
func plainOrQuoted(n *node) string {
	text := n.fileText()
	number := wordOf(text) == wordNumber
	switch {
	case n.word == wordBool || n.word == wordNumber && number:
		return text
	case n.word != wordBool && wordOf(text) == wordBool, number, isNullWord(text):
	case safe().MatchString(text), safeNumber().MatchString(text) && !looksLikeDate().MatchString(text):
		return text
	}
	return doubleQuoted(text)
}

var looksLikeDate = lazily(`^\d{4}-`)

func isNullWord(text string) bool {
	return text == "" || text == "~" || strings.EqualFold(text, "null") || strings.EqualFold(text, "yes") || strings.EqualFold(text, "no") ||
		strings.EqualFold(text, "on") || strings.EqualFold(text, "y") || strings.EqualFold(text, "n") || strings.HasPrefix(text, ".")
}

// fileText returns the text that stands for a scalar in a file: with ${…} where
// it was substituted, with $$ for a $ that would begin something.
func (n *node) fileText() string {
	if n.origin != nil {
		return n.origin.written
	}
	if !strings.Contains(n.text, "$") {
		return n.text
	}
	var b strings.Builder
	for i := 0; i < len(n.text); i++ {
		b.WriteByte(n.text[i])
		if n.text[i] == '$' && i+1 < len(n.text) && (n.text[i+1] == '$' || n.text[i+1] == '{') {
			b.WriteByte('$')
		}
	}
	return b.String()
}

// doubleQuoted writes a text with the escapes of YAML.
func doubleQuoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xffff && (isUnseen(r) || r >= 0xe0000):
			fmt.Fprintf(&b, `\U%08X`, r)
		case isUnseen(r) || r == 0x85 || 0xd7ff < r && r < 0xe000 || r == 0xfffe || r == 0xffff:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

var jsonNumber = lazily(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// json writes n as JSON.
func (e *emitter) json(n *node, indent string) {
	if n.shape == scalar {
		e.jsonScalar(n)
		return
	}
	open, end := "[", "]"
	if n.shape == mapping {
		open, end = "{", "}"
	}
	e.b.WriteString(open)
	for i, item := range n.items {
		if i > 0 {
			e.b.WriteByte(',')
		}
		e.b.WriteString("\n" + indent + "  ")
		if n.shape == mapping {
			e.jsonText(n.keys[i].text)
			e.b.WriteString(": ")
		}
		e.json(item, indent+"  ")
	}
	if len(n.items) > 0 {
		e.b.WriteString("\n" + indent)
	}
	e.b.WriteString(end)
	if indent == "" {
		e.b.WriteByte('\n')
	}
}

func (e *emitter) jsonScalar(n *node) {
	switch plain := strings.ReplaceAll(n.text, "_", ""); {
	case n.origin == nil && n.word == wordBool:
		e.b.WriteString(strings.ToLower(n.text))
	case n.origin == nil && n.word == wordNumber && jsonNumber().MatchString(plain):
		e.b.WriteString(plain)
	default:
		e.jsonText(n.fileText())
	}
}

func (e *emitter) jsonText(text string) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.Encode(text) // a string always can be
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		if isUnseen(r) || r == 0xfffe || r == 0xffff { // YAML takes none of these as they are
			fmt.Fprintf(&e.b, `\u%04x`, r)
		} else {
			e.b.WriteRune(r)
		}
	}
}
