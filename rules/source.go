package rules

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

const (
	// maxFile is the most bytes of a file.
	maxFile = 2 << 20
	// maxValues is the most values of a file, aliases counted as what they stand for.
	maxValues = 200_000
	// maxMarks is the most places at which a value may begin; a file with more
	// is refused before a tree is built of it, which would take 200 bytes and
	// more for each.
	maxMarks = 240_000
	// maxDepth is how deep lists and maps may be nested.
	maxDepth = 32
	// maxPatterns is how many alternatives the matches of a file have together;
	// each takes some hundred bytes.
	maxPatterns = 100_000
	// maxErrors is how many errors of a file are kept, to be sorted; of the others
	// it is only known that they are there.
	maxErrors = 1000
	// maxShown is how many of them are shown.
	maxShown = 100
)

// source is the text of a file in lines as YAML counts them, and what was found
// wrong with it.
type source struct {
	name    string
	outside Outside
	lines   []string
	errs    ErrorList
	warns   ErrorList
	rule    string // the rule being read, for errors
	// How many errors and warnings there were beside those that are kept.
	moreErrs, moreWarns int
	at                  mark // the place asked for last

	searched int             // the line looked at last for a secret
	secretAt []int           // where one is there, as of FindStringIndex
	masked   string          // that line without clients' secrets
	hidden   map[string]bool // the tokens of these

	// The files that are included: where each begins in lines, all that were read, and
	// which each pattern stands for. isIncluded says that this is the text of one.
	parts      []sourcePart
	included   []Included
	listed     map[string][]Included
	isIncluded bool
	incomplete bool // one of them is missing: what is missed may be in it

	foreign  bool // the file is none of ours: a $ means nothing in it
	patterns int  // alternatives of all matches so far
	regexps  int  // the size of all regular expressions so far
	// harmless, unless it is nil, takes the nodes whose value can be shown wherever
	// it comes from.
	harmless map[*node]bool
}

// mark is a place in a file.
type mark struct {
	line, col, off int
	ascii          bool // all of the line is ASCII
}

// readSource splits data into lines and refuses what is no text, or too much of it.
func readSource(o Outside, name string, data []byte) (*source, []byte) {
	s := &source{name: name, outside: o}
	if len(data) > maxFile {
		s.fail(0, 0, 1, "", "the file is larger than 2 MiB, which is the most")
		return s, nil
	}
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		s.fail(1, 0, 1, "save it as UTF-8", "the file is UTF-16, not UTF-8")
		return s, nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	s.lines = splitLines(string(data))
	s.checkText()
	if s.errs == nil && countMarks(s.lines) > maxMarks {
		s.fail(1, 0, 1, "", "the file holds more than %d values", maxValues)
	}
	return s, data
}

// splitLines splits text where YAML does: after CR LF, CR, LF, NEL, LS and PS.
func splitLines(text string) []string {
	if !strings.Contains(text, "\r") && !strings.Contains(text, "\u0085") && !strings.Contains(text, "\u2028") && !strings.Contains(text, "\u2029") {
		return strings.Split(text, "\n")
	}
	var lines []string
	for text != "" {
		i := strings.IndexAny(text, "\r\n\u0085\u2028\u2029")
		if i < 0 {
			break
		}
		lines = append(lines, text[:i])
		_, width := utf8.DecodeRuneInString(text[i:])
		if strings.HasPrefix(text[i:], "\r\n") {
			width = 2
		}
		text = text[i+width:]
	}
	return append(lines, text)
}

// checkText refuses what cannot be in a YAML file, the first such place of it.
func (s *source) checkText() {
	var pauses pauses
	for i, line := range s.lines {
		pauses.step()
		if isPlainASCII(line) {
			continue
		}
		col := 0
		for j, r := range line {
			col++
			switch {
			case r == utf8.RuneError && isBroken(line[j:]):
				s.fail(i+1, col, 1, "save it as UTF-8", "byte %#02x is not UTF-8", line[j])
			case r == 0:
				s.fail(i+1, col, 1, "", "a NUL; this is no text file, or it is UTF-16")
			case r < ' ' && r != '\t', 0x7f <= r && r < 0xa0, r == 0xfeff, r == 0xfffe, r == 0xffff:
				s.fail(i+1, col, 1, "", "control character U+%04X", r)
			default:
				continue
			}
			return
		}
	}
}

func isPlainASCII(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

func isBroken(text string) bool {
	_, width := utf8.DecodeRuneInString(text)
	return width == 1
}

// countMarks returns the number of places at which a value or a comment may
// begin. It is never below half the number of values.
func countMarks(lines []string) int {
	marks := 0
	var pauses pauses
	for _, line := range lines {
		pauses.step()
		if strings.HasPrefix(strings.TrimLeft(line, " \t"), "#") {
			marks++
			continue
		}
		before := byte(' ')
		for i := 0; i < len(line); i++ {
			after := byte(' ')
			if i+1 < len(line) {
				after = line[i+1]
			}
			switch c := line[i]; c {
			case '[', '{', ',':
				marks++
			case ':':
				if strings.IndexByte(" \t,[]{}\"'", after) >= 0 || strings.IndexByte("\"'[]{},", before) >= 0 {
					marks++
				}
			case '-', '?':
				if after == ' ' || after == '\t' {
					marks++
				}
			case '#':
				if before == ' ' || before == '\t' {
					marks++
				}
			}
			before = line[i]
		}
	}
	return marks
}

// show notes that the value of n can be shown.
func (s *source) show(n *node) {
	if s.harmless != nil {
		s.harmless[n] = true
	}
}

// line returns line n, counted from 1, or "".
func (s *source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return s.lines[n-1]
}

// offset returns the byte at which column col of line n begins. Columns of one
// line are mostly asked for in order, and most lines are ASCII, so that a file
// of one long line takes no longer than another.
func (s *source) offset(n, col int) int {
	line := s.line(n)
	if s.at.line != n {
		s.at = mark{line: n, col: 1, ascii: strings.IndexFunc(line, func(r rune) bool { return r >= utf8.RuneSelf }) < 0}
	}
	if s.at.ascii {
		return min(col-1, len(line))
	}
	if col < s.at.col {
		s.at.col, s.at.off = 1, 0
	}
	for ; s.at.col < col && s.at.off < len(line); s.at.col++ {
		_, width := utf8.DecodeRuneInString(line[s.at.off:])
		s.at.off += width
	}
	return s.at.off
}

// from returns what line n holds from column col on.
func (s *source) from(n, col int) string { return s.line(n)[s.offset(n, col):] }

// pos returns the place of a line of s, in the file that it is of.
func (s *source) pos(line, col int) Pos {
	// The parts that begin before the line; the last of them holds it.
	before := sort.Search(len(s.parts), func(i int) bool { return s.parts[i].base >= line })
	if before > 0 {
		part := s.parts[before-1]
		return Pos{File: part.name, Line: line - part.base, Col: col}
	}
	return Pos{File: s.name, Line: line, Col: col}
}

// lineAt returns the line of s that a place is on.
func (s *source) lineAt(pos Pos) int {
	if pos.File != s.name {
		for _, p := range s.parts {
			if p.name == pos.File {
				return pos.Line + p.base
			}
		}
	}
	return pos.Line
}

// full reports whether there are so many errors that no more are kept. Who asks
// has one more.
func (s *source) full() bool {
	if len(s.errs) < maxErrors {
		return false
	}
	s.moreErrs++
	return true
}

// fail adds an error that spans n characters.
func (s *source) fail(line, col, n int, hint, format string, args ...any) *Error {
	if s.full() {
		return &Error{}
	}
	e := s.report(line, col, n, hint, format, args...)
	s.errs = append(s.errs, e)
	return e
}

// warn adds a warning.
func (s *source) warn(pos Pos, n int, hint, format string, args ...any) {
	if len(s.warns) >= maxErrors {
		s.moreWarns++
		return
	}
	e := s.report(s.lineAt(pos), pos.Col, n, hint, format, args...)
	e.Warning = true
	s.warns = append(s.warns, e)
}

func (s *source) report(line, col, n int, hint, format string, args ...any) *Error {
	e := &Error{at: line, Pos: s.pos(line, col), Len: max(1, n), Rule: s.rule, Msg: oneLine(fmt.Sprintf(format, args...)), Hint: oneLine(hint)}
	if col == 0 {
		return e
	}
	text := s.line(line)
	if line != s.searched { // a line may be long, and have thousands of errors
		s.searched, s.secretAt = line, nil
		if mayHoldSecret(text) {
			s.secretAt = writtenSecret().FindStringIndex(text)
		}
		s.masked, s.hidden = s.maskValues(line, text)
	}
	hide := func(token string) string {
		if s.hidden[token] {
			return masked
		}
		return token
	}
	if at := s.secretAt; at == nil {
		e.excerpt, e.caret = excerpt(s.masked, s.offset(line, col))
	} else {
		hide = func(token string) string {
			if len(token) > 3 && strings.Contains(text[at[1]-1:], token) {
				return masked
			}
			return token
		}
	}
	if s.secretAt != nil || s.hidden != nil {
		e.Msg, e.Hint = mapTokens(e.Msg, hide), mapTokens(e.Hint, hide)
	}
	return e
}

// writtenSecret finds a line with a secret written out, which is not shown, also
// when something else is wrong with it: one of the gateway, one of a header that is
// set on messages, or the URL of a store with one.
var writtenSecret = lazily(`(?i)(?:\b(?:token|password|secret)|(?:^|[ \t{,"'])(?:(?:set-)?cookie|(?:proxy-)?authorization|[a-z0-9-]*(?:api-?key|passw|auth-token|-auth\b)))["']?[ \t]*[:=：][ \t]*[^ \t{#]|(?:redis|valkey)[a-z-]*://[^\s/"']+@`)

// oneLine makes of text one line of some hundred characters at most.
func oneLine(text string) string {
	const most = 300
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if isUnseen(r) {
			return '\ufffd'
		}
		return r
	}, text)
}

// errors returns the errors, sorted. What is wrong with a value that aliases use
// again is said once.
func (s *source) errors() ErrorList {
	s.errs.sort()
	s.errs = slices.CompactFunc(s.errs, func(a, b *Error) bool { return a.Pos == b.Pos && a.Msg == b.Msg })
	return s.cut(s.errs, s.moreErrs)
}

// warnings returns the warnings, sorted.
func (s *source) warnings() ErrorList {
	s.warns.sort()
	return s.cut(s.warns, s.moreWarns)
}

// cut returns the first of list, of which there are so many more than in it, and
// how many are left out.
func (s *source) cut(list ErrorList, more int) ErrorList {
	if len(list) <= maxShown {
		return list
	}
	rest := list[maxShown:]
	e := &Error{Pos: s.pos(0, 0), Len: 1, Warning: rest[0].Warning, more: len(rest) + more - 1}
	e.Msg = fmt.Sprintf("%s more; these are the first %d", ErrorList{e}.Count(), maxShown)
	return append(list[:maxShown:maxShown], e)
}
