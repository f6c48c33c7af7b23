package rules

import (
	"strconv"
	"strings"
)

// Glob is text in which each "*" stands for any run of characters, also none.
type Glob struct {
	text  string
	parts []string // what is between the stars; one part if there is no star
}

// newGlob splits a text at its stars.
func newGlob(text string) Glob { return Glob{text: text, parts: strings.Split(text, "*")} }

// ParseGlob reads a value of a match map: of a header, a cookie or a query
// parameter. Its case counts.
func ParseGlob(text string) (Glob, *TextError) {
	if isBlank(text) {
		return Glob{}, &TextError{
			Len: len(text), Msg: "an empty value counts as missing and never matches", Hint: `write "*" for any value`,
		}
	}
	if trimSpace(text) != text {
		return Glob{}, &TextError{
			Len: len(text), Msg: "a value never begins or ends with a space", Hint: "write " + strconv.Quote(trimSpace(text)),
		}
	}
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' && c != '\t' || c == 0x7f {
			return Glob{}, &TextError{Off: i, Len: 1, Msg: "a value never holds a control character"}
		}
	}
	return newGlob(text), nil
}

// ParseHostGlob reads a value of `host` in a match map: a host without a port,
// in which "*" stands for any run of characters, dots included. So
// "*.example.com" is every name below example.com, but not example.com.
func ParseHostGlob(text string) (Glob, *TextError) {
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		return Glob{}, &TextError{Len: len(scheme) + 3, Msg: "a host has no scheme", Hint: "write " + rest}
	}
	if i := strings.IndexByte(text, '/'); i >= 0 {
		return Glob{}, &TextError{Off: i, Len: len(text) - i, Msg: "a host has no path", Hint: "write it under path"}
	}
	if strings.Count(text, ":") > 1 && text[0] != '[' {
		return Glob{}, &TextError{Len: len(text), Msg: "an IPv6 address is in brackets", Hint: "write [" + text + "]"}
	}
	bracketed := strings.HasPrefix(text, "[")
	if port := strings.LastIndexByte(text, ':'); port >= 0 && (!bracketed || strings.Contains(text[:port], "]")) {
		return Glob{}, &TextError{
			Off: port, Len: len(text) - port, Msg: "hosts are matched without their port", Hint: "write " + text[:port],
		}
	}
	if !strings.Contains(text, "*") {
		host, err := NormalHost(text)
		if err != nil {
			return Glob{}, &TextError{Len: len(text), Msg: hostProblem(err)}
		}
		return newGlob(host), nil
	}
	// A star may stand for the start of a label or a whole one, as a letter
	// may.
	if _, err := normalName(strings.ReplaceAll(text, "*", "x")); err != nil {
		return Glob{}, &TextError{Len: len(text), Msg: hostProblem(err)}
	}
	return newGlob(strings.ToLower(strings.TrimSuffix(text, "."))), nil
}

// hostProblem says of a host in the file what NormalHost says of one in a
// request.
func hostProblem(err error) string {
	if err == errHostEmpty {
		return "an empty host"
	}
	return err.Error()
}

// any reports whether g takes every text.
func (g Glob) any() bool { return len(g.parts) > 1 && strings.Trim(g.text, "*") == "" }

// exact reports whether g takes one text only.
func (g *Glob) exact() bool { return len(g.parts) < 2 }

// String returns the text in the form in which it is compared.
func (g Glob) String() string { return g.text }

// matches reports whether g takes s. The zero Glob takes the empty text only.
func (g *Glob) matches(s string) bool {
	n := len(g.parts)
	if n < 2 {
		return s == g.text
	}
	s, ok := strings.CutPrefix(s, g.parts[0])
	if !ok {
		return false
	}
	// The first place each part is found at leaves the most for those after it.
	for _, part := range g.parts[1 : n-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return strings.HasSuffix(s, g.parts[n-1])
}

// covers reports whether every text that h takes is taken by g too. A star of h
// can only be taken by a star of g, because no part of g holds one; so g takes
// whatever h does if it takes h's text.
func (g *Glob) covers(h Glob) bool {
	return g.matches(h.text)
}
