package rules

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ParsePattern reads a pattern:
//
//	[METHOD " "] [host] "/" segments
//
// A segment is text, "*" (one segment), "**" (the rest of the path, also none;
// only at the end) or ":name" (one segment, available as path.name). Text is
// normalised as the path of a request is; %2A and %3A stand for a "*" and a ":"
// that mean nothing. "/" is the root alone.
func ParsePattern(text string) (*Pattern, *TextError) {
	p := &Pattern{text: text}
	off, err := p.parseMethod()
	if err != nil {
		return nil, err
	}
	rest := text[off:]
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return nil, noSlash(text, off)
	}
	if err := p.parseHost(off, rest[:slash]); err != nil {
		return nil, err
	}
	if err := p.parsePath(off+slash, false); err != nil {
		return nil, err
	}
	return p, nil
}

// ParsePathPattern reads a value of `path` in a match map: a pattern without
// method and host, in which "*" may also be a part of a segment ("/files/*.pdf").
func ParsePathPattern(text string) (*Pattern, *TextError) {
	p := &Pattern{text: text}
	if text == "" || text[0] != '/' {
		if i := strings.IndexAny(text, " /"); i > 0 && strings.Contains(text, "/") {
			e := &TextError{Len: i, Msg: "a path has no host", Hint: "write it under host"}
			if text[i] == ' ' {
				e.Msg, e.Hint = "a path has no method", "write it under method"
			}
			return nil, e
		}
		return nil, noSlash(text, 0)
	}
	if err := p.parsePath(0, true); err != nil {
		return nil, err
	}
	return p, nil
}

// noSlash says what to write instead of a pattern without a slash, of which a
// method takes the first off bytes.
func noSlash(text string, off int) *TextError {
	rest := text[off:]
	e := &TextError{Off: off, Len: len(rest), Msg: `the path does not begin with "/"`}
	switch {
	case off == 0 && isPrefix(rest):
		e.Msg, e.Hint = "an address, where a pattern is meant", "write { ip: "+quoteIPv6(rest)+" }"
	case rest == "":
		e.Msg, e.Hint = "no path", "write "+strconv.Quote(text[:off]+"/**")+" for every path"
	case rest == "*" || rest == "**":
		e.Hint = "write " + strconv.Quote(text[:off]+"/**") + " for every path"
	case off == 0 && slices.Contains(commonMethods, rest):
		e.Hint = "write " + strconv.Quote(rest+" /**") + " for every path"
	case strings.Contains(rest, ".") && off == 0 && !strings.ContainsAny(rest, `^$\`):
		e.Hint = "write " + strconv.Quote("/"+rest) + ", or " + strconv.Quote(rest+"/**") + " if it is a host"
	case strings.ContainsAny(rest, `^$\ `):
	default:
		e.Hint = "write " + strconv.Quote(text[:off]+"/"+rest)
	}
	return e
}

// isPrefix reports whether text is an address or a CIDR.
func isPrefix(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	_, err := netip.ParsePrefix(text)
	return err == nil
}

// quoteIPv6 puts what YAML would not take in a map into quotes.
func quoteIPv6(text string) string {
	if strings.Contains(text, ":") {
		return strconv.Quote(text)
	}
	return text
}

// parseMethod reads the method and returns where what follows it begins.
func (p *Pattern) parseMethod() (off int, err *TextError) {
	space := strings.IndexAny(p.text, " \t")
	if space < 0 || strings.Contains(p.text[:space], "/") {
		return 0, nil
	}
	if space == 0 {
		return 0, &TextError{Len: 1, Msg: "a pattern does not begin with a space"}
	}
	if p.method, err = ParseMethod(p.text[:space]); err != nil {
		return 0, err
	}
	return len(p.text) - len(strings.TrimLeft(p.text[space:], " \t")), nil
}

// parseHost reads the host, which begins at off.
func (p *Pattern) parseHost(off int, host string) *TextError {
	if host == "" {
		return nil
	}
	rest := p.text[off:]
	e := &TextError{Off: off, Len: len(host)}
	switch {
	case strings.HasPrefix(rest[len(host):], "//") && strings.HasSuffix(host, ":"):
		e.Len += 2
		e.Msg, e.Hint = "a pattern has no scheme", "write "+strconv.Quote(p.text[:off]+rest[e.Len:])
		return e
	case off == 0 && isPrefix(rest):
		// It would be a rule for a host of that name, which never bites.
		e.Len = len(rest)
		e.Msg, e.Hint = "addresses, where a pattern is meant", "write { ip: "+quoteIPv6(rest)+" }"
		return e
	case host == "*" || host == "**":
		e.Msg, e.Hint = "any host needs no word", "write "+strconv.Quote(p.text[:off]+rest[len(host):])
		return e
	case host[0] == '^' || host[0] == '~':
		e.Msg, e.Hint = "a pattern is no regular expression", "use * for one segment and ** for the rest"
		return e
	case !strings.ContainsAny(host, ".[]*:") && !strings.EqualFold(host, "localhost") || host[0] == ':':
		// "users/:id" would be a rule for a host called "users", which never bites.
		e.Msg, e.Hint = `the path does not begin with "/"`, "write "+strconv.Quote(p.text[:off]+"/"+rest)
		return e
	}
	glob, err := ParseHostGlob(host)
	if err != nil {
		err.Off += off
		return err
	}
	p.host = &glob
	return nil
}

// parsePath reads the segments of the path, which begins at off with a slash.
// With globs, a star may be a part of a segment.
func (p *Pattern) parsePath(off int, globs bool) *TextError {
	if err := notInPath(p.text, off); err != nil {
		return err
	}
	p.segs = make([]segment, 0, strings.Count(p.text[off:], "/"))
	for rest, more := p.text[off+1:], true; more; {
		var sent string
		at := len(p.text) - len(rest)
		sent, rest, more = strings.Cut(rest, "/")
		if sent == "" {
			continue
		}
		if p.rest {
			return &TextError{
				Off: strings.LastIndex(p.text[:at], "**"), Len: 2,
				Msg: `"**" is the rest of the path and stands at its end only`, Hint: `write "*" for one segment`,
			}
		}
		if sent == "**" {
			p.rest = true
			continue
		}
		seg, err := parseSegment(sent, globs)
		if err != nil {
			err.Off += at
			return err
		}
		if seg.kind == segName {
			if slices.Contains(p.names, seg.text) {
				return &TextError{
					Off: at, Len: len(sent), Msg: "a second segment named " + strconv.Quote(seg.text), Hint: "give each its own name",
				}
			}
			p.names = append(p.names, seg.text)
		}
		p.segs = append(p.segs, seg)
	}
	if !p.rest && !slices.ContainsFunc(p.segs, func(s segment) bool { return s.kind != segText }) {
		p.plain = joined(p.segs)
	}
	return nil
}

// joined returns the path of segments that are all text.
func joined(segs []segment) string {
	if len(segs) == 0 {
		return "/"
	}
	var b strings.Builder
	for i := range segs {
		b.WriteByte('/')
		b.WriteString(segs[i].text)
	}
	return b.String()
}

// parseSegment reads one segment, which is neither empty nor "**".
func parseSegment(sent string, globs bool) (segment, *TextError) {
	name, named := strings.CutPrefix(sent, ":")
	switch {
	case sent == "*":
		return segment{kind: segOne}, nil
	case named:
		if bad := badName(name); bad >= 0 {
			return segment{}, &TextError{
				Off: 1 + bad, Len: min(1, len(name)-bad), Msg: nameRule, Hint: "a colon that is text is written %3A",
			}
		}
		return segment{kind: segName, text: name}, nil
	case strings.Contains(sent, "**"):
		return segment{}, &TextError{Off: strings.Index(sent, "**"), Len: 2, Msg: `"**" is a whole segment or none of it`}
	case strings.Contains(sent, "*") && !globs:
		return segment{}, &TextError{
			Off: strings.Index(sent, "*"), Len: 1, Msg: `"*" is a whole segment or none of it`,
			Hint: "a map takes part of one: { path: " + strconv.Quote("/"+sent) + " }; a text that holds a star is written %2A",
		}
	}
	return textSegment(sent)
}

// textSegment reads a segment that is text, perhaps with stars in it.
func textSegment(sent string) (segment, *TextError) {
	if !strings.Contains(sent, "*") {
		text, err := literalSegment(sent)
		if err == nil && isDots(text) {
			err = &TextError{Len: len(sent), Msg: "a dot segment", Hint: "write the path without it"}
		}
		return segment{text: text}, err
	}
	// Piece by piece, so that a %2A is told from a star.
	pieces := strings.Split(sent, "*")
	for i, off := 0, 0; i < len(pieces); i++ {
		text, err := literalSegment(pieces[i])
		if err == nil && strings.Contains(text, "*") {
			err = &TextError{Len: len(pieces[i]), Msg: "a star that is text stands beside one that is a wildcard"}
		}
		if err != nil {
			err.Off += off
			return segment{}, err
		}
		off += len(pieces[i]) + 1
		pieces[i] = text
	}
	glob := newGlob(strings.Join(pieces, "*"))
	return segment{kind: segGlob, text: glob.text, glob: &glob}, nil
}

// literalSegment normalises the text of a segment, as that of a request is.
func literalSegment(sent string) (string, *TextError) {
	if isNormalSegment(sent) {
		return sent, nil
	}
	e := &TextError{Len: len(sent)}
	seg, err := appendSegment(nil, sent)
	switch {
	case err == errPathCode:
		e.Off = brokenCode(sent)
		e.Len = min(3, len(sent)-e.Off)
		e.Msg, e.Hint = "a broken percent code", "a percent sign is written %25"
		return "", e
	case err != nil:
		e.Msg, e.Hint = err.Error(), "no request with such a path is let in"
		return "", e
	}
	return string(seg), nil
}

// brokenCode returns the place of the first broken percent code in s.
func brokenCode(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		if _, ok := percentByte(s[i:]); !ok {
			return i
		}
	}
	return 0
}

// notRegexp is what is said of what looks like a regular expression.
const (
	notRegexp     = "a pattern is no regular expression"
	notRegexpHint = "use * for one segment and ** for the rest"
)

// notInPath finds what is no part of a path in text from off: a query, another
// gateway's wildcard, a regular expression.
func notInPath(text string, off int) *TextError {
	path := text[off:]
	i := strings.IndexAny(path, "?#{}<>[]^|\\\"` \t")
	if i < 0 {
		if strings.HasSuffix(path, "$") {
			return &TextError{Off: len(text) - 1, Len: 1, Msg: notRegexp, Hint: "leave out the $, or write it %24 if it is text"}
		}
		return nil
	}
	e := &TextError{Off: off + i, Len: 1}
	switch c := path[i]; c {
	case '?':
		e.Len, e.Msg, e.Hint = len(path)-i, "a pattern has no query", "leave out "+path[i:]
	case '#':
		e.Len, e.Msg, e.Hint = len(path)-i, "a pattern has no fragment", "leave out "+path[i:]
	case '{':
		e.bracket(path[i:], "}")
	case '<':
		e.bracket(path[i:], ">")
	case '[':
		e.bracket(path[i:], "]")
	case '^', '|', '\\':
		e.Msg, e.Hint = notRegexp, notRegexpHint
	case ' ', '\t':
		e.Msg, e.Hint = "a space in a path", "write it %20"
	default:
		e.Msg, e.Hint = "a path as sent holds no "+string(c), "write it "+escapePath(path[i:i+1])+" if it is text"
	}
	return e
}

// bracket says what is written here for what other gateways put in brackets; s
// begins with the open one.
func (e *TextError) bracket(s, closing string) {
	inside, _, closed := strings.Cut(s[1:], closing)
	if !closed {
		e.Msg, e.Hint = "an open bracket", "write it "+escapePath(s[:1])+" if it is text"
		return
	}
	e.Len = len(inside) + 2
	name, _, _ := strings.Cut(inside, ":")
	switch {
	case strings.Contains(name, "*") || strings.Contains(name, "..."):
		e.Msg, e.Hint = "the rest of a path is written otherwise here", "write **"
	case badName(name) < 0:
		e.Msg, e.Hint = "a named segment is written otherwise here", "write :"+name
	default:
		e.Msg, e.Hint = notRegexp, notRegexpHint
	}
}
