package rules

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

const (
	// maxRegexp is how large a regular expression may be once it is written out:
	// steps that a path may have to be compared with, one byte after another.
	maxRegexp = 2000
	// maxRegexps is how large all of a file may be together; a step takes some 50 bytes.
	maxRegexps = 200_000
)

// regexpMark is what the text of a pattern begins with that is a regular expression.
const regexpMark = "{ regex: "

// ParsePathRegexp reads the regular expression that a match map has for a path, in
// the syntax of RE2. It must take the whole of a path in normal form; "." takes any
// character of it, also a line break that a client has written as %0A.
func ParsePathRegexp(text string) (*Pattern, *TextError) {
	p, _, err := parseRegexp(text)
	return p, err
}

// parseRegexp is ParsePathRegexp, and says how large the expression is.
func parseRegexp(text string) (*Pattern, int, *TextError) {
	tree, err := syntax.Parse(text, syntax.Perl|syntax.DotNL)
	if err != nil {
		return nil, 0, regexpError(text, err)
	}
	size := regexpSize(tree)
	if size > maxRegexp {
		return nil, 0, &TextError{
			Len: len(text), Msg: "the regular expression is too large once its repetitions are written out",
			Hint: "repeat fewer times, or use + or *",
		}
	}
	p := &Pattern{text: regexpMark + text + " }", source: text, rest: true}
	prefix, whole := literalStart(text)
	switch {
	case text == "":
		return nil, 0, &TextError{Msg: "an empty expression takes no path", Hint: "write /.* for every path"}
	case prefix != "" && prefix[0] != '/':
		e := &TextError{Len: len(text), Msg: `the path does not begin with "/", as every path does`}
		if !whole || !strings.Contains(prefix, ".") {
			e.Hint = "write /" + strings.TrimPrefix(text, "^")
		}
		return nil, 0, e
	case whole && !isNormalText(prefix):
		return nil, 0, &TextError{
			Len: len(text), Msg: "no path in normal form reads so", Hint: `there is no "//" in it, no dot segment, no "/" at its end; codes are decoded`,
		}
	}
	p.bound(prefix)
	if p.re, err = regexp.Compile(anchored("s", text)); err != nil {
		return nil, 0, regexpError(text, err)
	}
	return p, size, nil
}

// anchored returns the expression that takes what text takes as a whole.
func anchored(flags, text string) string { return `\A(?` + flags + `:` + text + `)\z` }

// literalStart returns what every text that the expression takes begins with, and
// whether that is all of it.
func literalStart(text string) (prefix string, whole bool) {
	re, err := regexp.Compile("(?s:" + strings.TrimPrefix(text, "^") + ")")
	if err != nil {
		return "", false
	}
	return re.LiteralPrefix()
}

// isNormalText reports whether a text is the normal form of some path.
func isNormalText(text string) bool {
	normal, err := NormalPath(escapePath(text))
	return err == nil && normal == text
}

// bound makes of the whole segments that a path must begin with those under which
// an index finds p: it takes no path that does not begin so.
func (p *Pattern) bound(prefix string) {
	end := strings.LastIndexByte(prefix, '/')
	if end <= 0 {
		return
	}
	for seg := range strings.SplitSeq(prefix[1:end], "/") {
		p.segs = append(p.segs, segment{kind: segText, text: seg})
	}
}

// regexpError says what is wrong with a regular expression.
func regexpError(text string, err error) *TextError {
	e := &TextError{Len: len(text), Msg: "not a regular expression: " + err.Error()}
	bad, ok := err.(*syntax.Error)
	if !ok {
		return e
	}
	e.Msg = "not a regular expression: " + bad.Code.String()
	if at := strings.Index(text, bad.Expr); at >= 0 && bad.Expr != "" {
		e.Off, e.Len = at, len(bad.Expr)
	}
	switch bad.Code {
	case syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape:
		e.Hint = "the syntax is that of RE2, which has no look-ahead, no look-behind and no back-references"
	case syntax.ErrInvalidRepeatSize, syntax.ErrLarge:
		e.Hint = "the most repetitions are 1000, those inside one another multiplied"
	case syntax.ErrMissingRepeatArgument:
		e.Hint = `any run of characters is ".*", without a "/" in it "[^/]*"`
	}
	return e
}

// regexpSize returns how many steps an expression has when its repetitions are
// written out, about. A class of many ranges counts for more than one. It does not
// count far above maxRegexp.
func regexpSize(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)/16
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpRepeat:
		size = 0
	}
	for _, sub := range re.Sub {
		if size += regexpSize(sub); size > maxRegexp {
			break
		}
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max)
	}
	return min(size, 2*maxRegexp)
}
