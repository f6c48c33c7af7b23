package rules

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// badQuote is a quoted value that does not end where it was meant to.
type badQuote struct {
	line, at int // where it opens, at in bytes
	// closed is the line on which a quote ends it with more text behind; 0 is that none
	// does.
	closed int
	flow   bool // it is within brackets
}

var blockHeader = regexp.MustCompile(`^[|>][-+0-9]*[ \t]*(?:#.*)?$`)

// badQuote returns the first quoted value that is never closed, or closed where more
// text follows; nil if there is none. It passes
// over what is in comments, blocks and values without quotes.
func (s *source) badQuote() *badQuote {
	q := quoteScan{source: s, block: -1}
	for n := 1; n <= len(s.lines); n++ {
		if q.bad != nil {
			return q.bad
		}
		n = q.scan(n)
	}
	return q.bad
}

// quoteScan goes over a text from token to token, as far as quotes need it.
type quoteScan struct {
	*source
	bad   *badQuote
	depth int // of brackets
	block int // a block goes on as long as lines are indented by more; -1 without one
	plain int // so is a value without quotes that the line before ended in; -1 is none
}

// scan goes over line n and returns the line at whose end it is then: a later one
// after a value of several.
func (q *quoteScan) scan(n int) int {
	line := q.line(n)
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if strings.TrimSpace(line) == "" || q.block >= 0 && indent > q.block {
		return n
	}
	q.block = -1
	begins := q.plain < 0 || indent <= q.plain // a token can begin here
	inPlain, goesOn, parent, single := !begins, !begins, indent, true
	for i := indent; i < len(line); {
		c, next := line[i], byte(' ')
		if i+1 < len(line) {
			next = line[i+1]
		}
		blank := next == ' ' || next == '\t'
		switch {
		case c == ' ' || c == '\t':
			i++
			continue
		case c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t'):
			i = len(line)
			continue
		case begins && (c == '"' || c == '\''):
			to, end := q.quoted(n, i)
			if q.bad != nil {
				return n
			}
			if to != n {
				n, line = to, q.line(to)
			}
			i, begins, inPlain, single = end, false, false, false
			continue
		case begins && (c == '|' || c == '>') && q.depth == 0 && blockHeader.MatchString(line[i:]):
			q.block, q.plain = parent, -1
			return n
		case begins && (c == '-' || c == '?') && blank:
			parent = i
		case begins && (c == '&' || c == '!'):
			for i < len(line) && line[i] != ' ' {
				i++
			}
			continue
		case begins && (c == '[' || c == '{'):
			q.depth++
		case q.depth > 0 && (c == ']' || c == '}'):
			q.depth--
			begins, inPlain = false, false
		case q.depth > 0 && c == ',', c == ':' && (blank || !inPlain || q.depth > 0 && strings.IndexByte(",[]{}", next) >= 0):
			begins, inPlain, goesOn = true, false, false
		default:
			if begins && q.depth == 0 && single {
				parent = i // where the name begins whose value may be a block
			}
			begins, inPlain, single = false, true, false
		}
		i++
	}
	switch {
	case !inPlain:
		q.plain = -1
	case !goesOn:
		q.plain = indent
	}
	return n
}

// quoted returns the line on which the quoted value at byte i of line n ends, and where
// what follows it begins.
func (q *quoteScan) quoted(n, i int) (to, end int) {
	mark, rest := q.line(n)[i], q.line(n)[i+1:]
	from := i + 1
	for to = n; ; {
		for j := 0; j < len(rest); j++ {
			switch {
			case rest[j] == '\\' && mark == '"':
				j++
			case rest[j] == mark && mark == '\'' && j+1 < len(rest) && rest[j+1] == mark:
				j++
			case rest[j] == mark:
				after := rest[j+1:]
				text := strings.TrimLeft(after, " \t")
				if text != "" && !strings.ContainsAny(text[:1], ",]}:") && (text[0] != '#' || text == after) {
					q.bad = &badQuote{n, i, to, q.depth > 0}
				}
				return to, from + j + 1
			}
		}
		if to == len(q.lines) {
			q.bad = &badQuote{n, i, 0, q.depth > 0}
			return n, 0
		}
		to++
		rest, from = q.line(to), 0
	}
}

// failQuote reports a quoted value that does not end.
func (s *source) failQuote(q *badQuote) {
	line := s.line(q.line)
	mark, value := line[q.at:q.at+1], strings.TrimRight(line[q.at+1:], " \t")
	msg, hint := "a quote opens here and is never closed", "put a "+mark+" where the value ends"
	switch q.closed {
	case 0:
	case q.line:
		msg = "a quote opens here, and more text follows the one that closes it"
	default:
		msg = fmt.Sprintf("a quote opens here and is not closed before line %d, where more text follows", q.closed)
	}
	if !q.flow && value != "" && !strings.Contains(value, "#") && !strings.Contains(value, mark) {
		hint = "write " + mark + value + mark
	}
	s.fail(q.line, utf8.RuneCountInString(line[:q.at])+1, utf8.RuneCountInString(value)+1, hint, "%s", msg)
}
