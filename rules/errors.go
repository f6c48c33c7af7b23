package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Pos is a place in a file. Line and Col count from 1, Col in characters; a Col
// of 0 means that only the line is known, a Line of 0 that only the file is.
type Pos struct {
	File string
	Line int
	Col  int
}

// String returns "file:line:col", without the parts that are not known.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Col == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

func (p Pos) compare(q Pos) int {
	if p.Line != q.Line {
		return p.Line - q.Line
	}
	return p.Col - q.Col
}

// Error is one thing wrong with a file, or one warning about it.
type Error struct {
	// Pos is where it is.
	Pos Pos
	// Len is the number of characters it spans on its line; at least 1.
	Len int
	// Rule is the name of the rule it is in, or "".
	Rule string
	// Msg says what is wrong, in one line.
	Msg string
	// Hint says what to write instead, or is "".
	Hint string
	// Warning says that the file can be used all the same.
	Warning bool
	// excerpt is what is shown of the line, or "" when none of it is to be; caret
	// is the character of it that the error begins at, counted from 1.
	excerpt string
	caret   int
	at      int // the line it is on, those of all files together counted
	more    int // errors that it stands for beside itself
}

// Error returns "file:line:column: message": one line, without the hint.
func (e *Error) Error() string {
	if e.Warning {
		return e.Pos.String() + ": warning: " + e.Msg
	}
	return e.Pos.String() + ": " + e.Msg
}

// Text returns the error as an operator reads it: its one line, then the line of
// the file with a caret below what is meant, and the hint.
func (e *Error) Text() string {
	var b strings.Builder
	b.WriteString(e.Error())
	if e.excerpt == "" {
		if e.Hint != "" {
			b.WriteString("\n     | " + e.Hint)
		}
		return b.String()
	}
	width := max(1, min(e.Len, utf8.RuneCountInString(e.excerpt)+1-e.caret))
	fmt.Fprintf(&b, "\n%4d | %s\n     | %s%s", e.Pos.Line, e.excerpt, strings.Repeat(" ", e.caret-1), strings.Repeat("^", width))
	if e.Hint != "" {
		b.WriteString("  " + e.Hint)
	}
	return b.String()
}

// excerptWidth is how many characters of a line are shown at most.
const excerptWidth = 100

// excerpt returns what to show of a line for an error at byte off, and which
// character of it that is, counted from 1. What a terminal would obey is not
// passed on.
func excerpt(line string, off int) (text string, caret int) {
	from, to := off, off
	for n := 0; from > 0 && n <= excerptWidth; n++ {
		_, width := utf8.DecodeLastRuneInString(line[:from])
		from -= width
	}
	for n := 0; to < len(line) && n <= excerptWidth; n++ {
		_, width := utf8.DecodeRuneInString(line[to:])
		to += width
	}
	chars, at := []rune(line[from:to]), utf8.RuneCountInString(line[from:off])
	for i, r := range chars {
		if r == '\t' {
			chars[i] = ' '
		} else if isUnseen(r) {
			chars[i] = '\ufffd'
		}
	}
	first, last := 0, min(len(chars), excerptWidth)
	if len(chars) > excerptWidth && at > excerptWidth/2 {
		first, last = at-excerptWidth/2, min(len(chars), at+excerptWidth/2)
	}
	text, caret = string(chars[first:last]), at-first+1
	if to < len(line) || last < len(chars) {
		text += "…"
	}
	if from > 0 || first > 0 {
		text, caret = "…"+text, caret+1
	}
	return strings.TrimRight(text, " "), caret
}

// isUnseen reports whether a terminal would do something with r rather than show
// it: control characters and those that turn the direction of writing.
func isUnseen(r rune) bool {
	return r < ' ' || 0x7f <= r && r < 0xa0 || r == 0xfeff || 0x200b <= r && r <= 0x200f || 0x2028 <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069
}

// ErrorList holds all that is wrong with a file, sorted by place.
type ErrorList []*Error

// Error prints every error with its line and caret, each as Text does. The line
// that says how many there are and what becomes of the settings is the caller's,
// who knows: see Count.
func (l ErrorList) Error() string {
	lines := make([]string, len(l))
	for i, e := range l {
		lines[i] = e.Text()
	}
	return strings.Join(lines, "\n")
}

// Count returns "1 error" or "2 errors", and the same of warnings when all are.
func (l ErrorList) Count() string {
	word := "error"
	if len(l) > 0 && !slices.ContainsFunc(l, func(e *Error) bool { return !e.Warning }) {
		word = "warning"
	}
	n := len(l)
	for _, e := range l {
		n += e.more
	}
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// Lines returns each error as one line, as Error.Error does: for logs.
func (l ErrorList) Lines() []string {
	lines := make([]string, len(l))
	for i, e := range l {
		lines[i] = e.Error()
	}
	return lines
}

// Unwrap returns the errors one by one.
func (l ErrorList) Unwrap() []error {
	errs := make([]error, len(l))
	for i, e := range l {
		errs[i] = e
	}
	return errs
}

// Err returns l as an error, or nil when it is empty.
func (l ErrorList) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

func (l ErrorList) sort() {
	slices.SortStableFunc(l, func(a, b *Error) int { return cmp.Or(a.at-b.at, a.Pos.compare(b.Pos)) })
}

// quote returns text between quotes for a message, cut when it is long.
func quote(text string) string {
	const most = 60
	if len(text) > most { // in bytes, of which a character has one at least
		if chars := []rune(text); len(chars) > most {
			text = string(chars[:most-1]) + "…"
		}
	}
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return strconv.Quote(text)
		}
	}
	return `"` + text + `"` // the same, sooner
}
