package rules

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"
)

// Path is the path of a request: as the client sent it and as rules match it.
type Path struct {
	Sent   string // escaped, byte for byte
	Normal string // see NormalPath
	Dots   bool   // Sent holds a dot segment, which Normal has folded
}

// The reasons for which a path is refused, whatever the rules.
var (
	errPathRelative = errors.New(`the path does not begin with "/"`)
	errPathCode     = errors.New("the path holds a broken percent code")
	errPathNUL      = errors.New("the path holds a NUL")
	errPathUTF8     = errors.New("the path is not UTF-8")
	errPathTwoWays  = errors.New(`".." meets an empty segment in the path, which servers fold in two ways`)
	errPathHidden   = errors.New("the path hides a dot segment: " +
		"it is one to servers that split at %2F or a backslash, cut at a semicolon or decode twice")
)

// NormalPath returns the normal form of an escaped path, the one on which
// everything is matched: percent codes decoded once, "//", "/./" and "/../"
// folded, no slash at the end but in "/" itself. Two codes stay, as "%2F" and
// "%25", so that an encoded slash is text and no separator and so that the
// normal form of a normal form is itself.
//
// The error is to be answered with 400 and says why: a broken percent code, a
// NUL, text that is not UTF-8, ".." after an empty segment, or a dot segment
// that is one only for servers that take "%2F", "%5C" or "\" for a separator,
// cut segments at ";" or decode twice. An empty path is "/".
func NormalPath(escaped string) (normal string, err error) {
	p, err := ReadPath(escaped)
	return p.Normal, err
}

// ReadPath normalises an escaped path as NormalPath does, and remembers what is
// needed to forward it.
func ReadPath(escaped string) (Path, error) {
	if isNormalPath(escaped) {
		return Path{Sent: escaped, Normal: escaped}, nil
	}
	if n := len(escaped) - 1; n > 0 && escaped[n] == '/' && isNormalPath(escaped[:n]) {
		return Path{Sent: escaped, Normal: escaped[:n]}, nil
	}
	if escaped == "" {
		return Path{Sent: "/", Normal: "/"}, nil
	}
	if escaped[0] != '/' {
		return Path{}, errPathRelative
	}
	normal, dots, err := foldPath(escaped, false)
	if err != nil {
		return Path{}, err
	}
	return Path{Sent: escaped, Normal: normal, Dots: dots}, nil
}

// Forward returns the escaped path to join to the base path of an upstream: the
// bytes as sent, or the normal form if those hold dot segments, which could
// climb out of the base path.
func (p Path) Forward() string {
	if !p.Dots {
		return p.Sent
	}
	return escapePath(p.Normal)
}

// Cut returns what Forward does without its first segments, those of prefix,
// which is a path in normal form. It reports whether the path is prefix or lies
// below it. What is left begins with "/", or is "": of /api is left nothing, of
// /api/ a slash.
func (p Path) Cut(prefix string) (rest string, ok bool) {
	rest = p.Forward()
	if prefix == "/" {
		return rest, true
	}
	below, ok := strings.CutPrefix(p.Normal, prefix)
	if !ok || below != "" && below[0] != '/' {
		return "", false
	}
	// Without dot segments the segments sent are those of the normal form, but
	// for empty ones.
	for range strings.Count(prefix, "/") {
		rest = strings.TrimLeft(rest, "/")
		rest = rest[len(firstSegment(rest)):]
	}
	return rest, true
}

// firstSegment returns s up to its first slash.
func firstSegment(s string) string {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[:i]
	}
	return s
}

// isNormalPath reports whether s plainly is a normal form, so that most paths
// need no memory. It may say false of one.
func isNormalPath(s string) bool {
	if s == "/" {
		return true
	}
	if s == "" || s[0] != '/' || s[len(s)-1] == '/' {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '/':
			if seg := s[i+1:]; seg[0] == '/' || seg[0] == '.' && isDots(firstSegment(seg)) {
				return false
			}
		case c == '%', c == '\\', c == ';', c == 0, c >= utf8.RuneSelf:
			return false
		}
	}
	return true
}

// isNormalSegment reports whether isNormalPath takes a path of this segment alone.
func isNormalSegment(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '/', c == '%', c == '\\', c == ';', c == 0, c >= utf8.RuneSelf:
			return false
		}
	}
	return !isDots(s)
}

// isDots reports whether s is a dot segment.
func isDots[T string | []byte](s T) bool { return string(s) == "." || string(s) == ".." }

// foldPath normalises a path that begins with "/"; loosely without what follows a
// ";" in each segment.
func foldPath(escaped string, loosely bool) (normal string, dots bool, err error) {
	// Empty segments stay until the end, so that a ".." that meets one is seen.
	out := make([]byte, 0, len(escaped))
	for rest, more := escaped[1:], true; more; {
		var sent string
		sent, rest, more = strings.Cut(rest, "/")
		before := len(out)
		out, err = appendSegment(append(out, '/'), sent)
		if err != nil {
			return "", false, err
		}
		seg := out[before+1:]
		if loosely {
			seg = cutParams(seg)
			out = out[:before+1+len(seg)]
		}
		if !isDots(seg) {
			continue
		}
		dots = true
		up := len(seg) == 2
		out = out[:before]
		if up && before > 0 {
			last := bytes.LastIndexByte(out, '/')
			if last == before-1 {
				return "", false, errPathTwoWays
			}
			out = out[:last]
		}
	}
	return string(mergeSlashes(out)), dots, nil
}

// appendSegment appends a segment, decoded once but for %2F and %25.
func appendSegment(out []byte, sent string) ([]byte, error) {
	start, odd := len(out), false
	for i := 0; i < len(sent); i++ {
		c := sent[i]
		if c == '%' {
			var ok bool
			if c, ok = percentByte(sent[i:]); !ok {
				return out, errPathCode
			}
			i += 2
		}
		switch c {
		case 0:
			return out, errPathNUL
		case '/':
			odd = true
			out = append(out, "%2F"...)
		case '%':
			odd = true
			out = append(out, "%25"...)
		case '\\', ';':
			odd = true
			out = append(out, c)
		default:
			out = append(out, c)
		}
	}
	seg := out[start:]
	if !utf8.Valid(seg) {
		return out, errPathUTF8
	}
	if odd && hidesDots(seg) {
		return out, errPathHidden
	}
	return out, nil
}

// hidesDots reports whether a segment as appendSegment leaves it holds a dot
// segment for a server that splits at "%2F" and "\", cuts at ";" and decodes
// once more. One reading that does all of it finds what any lesser one would:
// more separators only uncover more, and no second decoding swallows a
// separator or a dot.
func hidesDots(seg []byte) bool {
	var dots, others int
	cut := false
	for len(seg) > 0 {
		c, n := readTwice(seg)
		seg = seg[n:]
		switch {
		case c == '/' || c == '\\':
			if others == 0 && (dots == 1 || dots == 2) {
				return true
			}
			dots, others, cut = 0, 0, false
		case cut:
		case c == ';':
			cut = true
		case c == '.':
			dots++
		default:
			others++
		}
	}
	return others == 0 && (dots == 1 || dots == 2)
}

// readTwice returns the first byte of a non-empty segment with what is encoded
// twice decoded, and the bytes it takes.
func readTwice(seg []byte) (c byte, n int) {
	if seg[0] != '%' {
		return seg[0], 1
	}
	if seg[2] == 'F' {
		return '/', 3
	}
	if c, ok := percentByte(seg[2:]); ok { // seg[2] is the 5 of %25: only the digits after it count
		return c, 5
	}
	return '%', 3
}

// percentByte returns the byte that the two hex digits after the first byte of
// s stand for.
func percentByte[T string | []byte](s T) (c byte, ok bool) {
	if len(s) < 3 {
		return 0, false
	}
	hi, lo := unhex(s[1]), unhex(s[2])
	return hi<<4 | lo, hi|lo < 16
}

// unhex returns the value of a hex digit, or one of 16 and above.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}

// mergeSlashes drops the empty segments of a path, in place.
func mergeSlashes(path []byte) []byte {
	out := path[:0]
	for i, c := range path {
		if c == '/' && (i+1 == len(path) || path[i+1] == '/') {
			continue
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return append(out, '/')
	}
	return out
}

// escapePath writes a normal form as it goes into a request line.
func escapePath(normal string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(normal); i++ {
		// A % is the start of a code that the normal form has kept.
		if c := normal[i]; isAlnum(c) || strings.IndexByte("-._~!$&'()*+,;=:@/%", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// isAlnum reports whether c is an ASCII letter or digit.
func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// escapeQuery writes a query as it goes into a Location: what no URL may hold is
// percent-encoded, everything else stays.
func escapeQuery(query string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(query); i++ {
		if c := query[i]; c > ' ' && c <= '~' && strings.IndexByte("\"<>\\^`{|}#", c) < 0 {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}
