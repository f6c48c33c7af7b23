package rules

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// width returns how many characters n spans on its line, for the caret.
func (s *source) width(n *node) int {
	text := s.from(n.line(), n.col())
	switch {
	case n.shape == mapping && len(n.keys) > 0 && !strings.HasPrefix(text, "{"):
		return s.width(n.keys[0])
	case n.shape != scalar && n.shape != broken:
		return 1
	}
	if raw, ok := quoted(text); ok {
		return utf8.RuneCountInString(raw)
	}
	if written := n.written(); written != "" && strings.HasPrefix(text, written) {
		return utf8.RuneCountInString(written)
	}
	if at := strings.Index(text, " #"); at >= 0 {
		text = text[:at]
	}
	return max(1, utf8.RuneCountInString(strings.TrimRight(text, " \t\r")))
}

// quoted returns the quoted text that text begins with, quotes included. It is
// false when there is none, or when it goes on on another line.
func quoted(text string) (string, bool) {
	if text == "" || text[0] != '"' && text[0] != '\'' {
		return "", false
	}
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && text[0] == '"':
			i++
		case text[i] == '\'' && text[0] == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++
		case text[i] == text[0]:
			return text[:i+1], true
		}
	}
	return "", false
}

// written returns the text of n as it is in the file.
func (n *node) written() string {
	if n.origin != nil {
		return n.origin.written
	}
	return n.text
}

// within returns the place of size bytes from byte off on of the text of n. Where
// that text is not in the file as it is (escapes, blocks), it is n's own place.
func (s *source) within(n *node, off, size int) (line, col, width int) {
	if off == 0 && size == len(n.text) || n.origin != nil {
		return n.line(), n.col(), s.width(n)
	}
	text := s.from(n.line(), n.col())
	quote := 0
	if raw, ok := quoted(text); ok {
		text, quote = raw[1:len(raw)-1], 1
		if text != n.text {
			return n.line(), n.col(), s.width(n)
		}
	}
	if off < 0 || size < 0 || off+size > len(n.text) || !strings.HasPrefix(text, n.text) {
		return n.line(), n.col(), s.width(n)
	}
	col = n.col() + quote + utf8.RuneCountInString(n.text[:off])
	return n.line(), col, max(1, utf8.RuneCountInString(n.text[off:off+size]))
}

// failAt adds an error about n.
func (s *source) failAt(n *node, hint, format string, args ...any) {
	if !s.full() {
		msg, hint := n.origin.hide(fmt.Sprintf(format, args...), hint)
		s.fail(n.line(), n.col(), s.width(n), hint, "%s", msg)
	}
}

// failText adds an error about a part of the text of n.
func (s *source) failText(n *node, what string, e *TextError) {
	if s.full() {
		return
	}
	line, col, width := s.within(n, e.Off, e.Len)
	msg := what + " " + e.Msg
	if !strings.HasPrefix(e.Msg, quote(n.text)+" ") {
		msg = what + " " + quote(n.text) + ": " + e.Msg
	}
	msg, hint := n.origin.hide(msg, e.Hint)
	s.fail(line, col, width, hint, "%s", msg)
}

// folder returns the folder that files are named from, also in an included one, as if
// that stood in the file itself.
func (s *source) folder() string { return filepath.Dir(s.name) }

// posOf returns the place of n.
func (s *source) posOf(n *node) Pos { return s.pos(n.line(), n.col()) }
