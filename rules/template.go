package rules

import (
	"slices"
	"strings"
)

// Template is a text with places to fill in, like "/new/{path.rest}". It is
// immutable; the zero Template is empty.
type Template struct {
	text  string
	parts []templatePart
}

// templatePart is a piece of text, or a placeholder without its braces.
type templatePart struct {
	text  string
	place bool
}

// String returns the template as it is written.
func (t Template) String() string { return t.text }

// Empty reports whether there is nothing in it.
func (t Template) Empty() bool { return t.text == "" }

// fill returns the text with each placeholder replaced by its value.
func (t Template) fill(value func(name string) string) string {
	if len(t.parts) == 1 && !t.parts[0].place {
		return t.text
	}
	var b strings.Builder
	for _, p := range t.parts {
		if p.place {
			b.WriteString(value(p.text))
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// parseTemplate splits text at its placeholders. A brace that begins none is text.
func parseTemplate(text string) Template {
	t := Template{text: text}
	from := 0
	for at := 0; at < len(text); at++ {
		name, ok := placeholder(text[at:])
		if !ok {
			continue
		}
		if from < at {
			t.parts = append(t.parts, templatePart{text: text[from:at]})
		}
		t.parts = append(t.parts, templatePart{text: name, place: true})
		from = at + len(name) + len("{}")
		at = from - 1
	}
	if from < len(text) {
		t.parts = append(t.parts, templatePart{text: text[from:]})
	}
	return t
}

// placeholder returns the word in braces that s begins with.
func placeholder(s string) (name string, ok bool) {
	if s[0] != '{' {
		return "", false
	}
	name, _, closed := strings.Cut(s[1:], "}")
	return name, closed && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r < 0x80 && isAlnum(byte(r)) || r == '_' || r == '.' || r == '-')
	})
}

// unknownPlace finds the first placeholder that is none of known, for messages.
func (t Template) unknownPlace(known []string) *TextError {
	off := 0
	for _, p := range t.parts {
		if p.place && !slices.Contains(known, p.text) {
			e := &TextError{Off: off, Len: len(p.text) + 2, Msg: "unknown placeholder {" + p.text + "}"}
			if near := nearest(p.text, known); near != "" {
				e.Hint = "did you mean {" + near + "}?"
			} else if len(known) > 0 {
				e.Hint = "use {" + strings.Join(known, "}, {") + "}"
			}
			return e
		}
		off += len(p.text)
		if p.place {
			off += len("{}")
		}
	}
	return nil
}
