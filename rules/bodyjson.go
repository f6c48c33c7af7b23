package rules

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting is how deep JSON may be nested; many servers stop about there.
const maxNesting = 512

// json looks for the field in a JSON object. A body that RFC 8259 does not allow
// is unreadable, whole: with a byte order mark, with something behind it, or with
// what only lenient servers take.
func (r *bodyReader) json(body []byte) presence {
	s := jsonScanner{bodyReader: *r, rest: body} // by value, so that neither is on the heap
	s.space()
	sound := utf8.Valid(body) && s.value(s.field, 0)
	r.out, r.text = s.out, s.text
	if s.space(); !sound || len(s.rest) > 0 || s.doubt {
		return unreadable
	}
	return s.found
}

// jsonScanner reads one JSON text from its front to its end and picks a field
// out of it on the way.
type jsonScanner struct {
	bodyReader
	rest  []byte
	found presence
	given bool // the field was there, whatever its value
	doubt bool // the text is JSON, but servers may read the field in different ways
}

func (s *jsonScanner) space() {
	for len(s.rest) > 0 {
		switch s.rest[0] {
		case ' ', '\t', '\n', '\r':
			s.rest = s.rest[1:]
		default:
			return
		}
	}
}

// next takes the byte c, and the space behind it, if it is next.
func (s *jsonScanner) next(c byte) bool {
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	s.space()
	return true
}

// value reads a value and reports whether it is one. field is what to look for
// in it, below it, or "" for nothing.
func (s *jsonScanner) value(field string, depth int) bool {
	if len(s.rest) == 0 {
		return false
	}
	switch c := s.rest[0]; {
	case c == '{':
		return depth < maxNesting && s.object(field, depth)
	case c == '[':
		return depth < maxNesting && s.array(depth)
	case c == '"':
		_, ok := s.string()
		return ok
	case c == '-' || '0' <= c && c <= '9':
		_, ok := s.number()
		return ok
	}
	_, ok := s.word()
	return ok
}

func (s *jsonScanner) array(depth int) bool {
	s.next('[')
	if s.next(']') {
		return true
	}
	for {
		if !s.value("", depth+1) {
			return false
		}
		if s.space(); !s.next(',') {
			return s.next(']')
		}
	}
}

func (s *jsonScanner) object(field string, depth int) bool {
	s.next('{')
	if s.next('}') {
		return true
	}
	var seen uint32 // which first parts of the field were there, by their number
	for {
		if len(s.rest) == 0 || s.rest[0] != '"' {
			return false
		}
		name, ok := s.string()
		if s.space(); !ok || !s.next(':') {
			return false
		}
		if below, parts, is := s.part(name, field); !is {
			ok = s.value("", depth+1)
		} else {
			s.doubt = s.doubt || seen&(1<<parts) != 0
			seen |= 1 << parts
			if below != "" {
				ok = s.value(below, depth+1)
			} else {
				ok = s.take(depth + 1)
			}
		}
		if s.space(); !ok {
			return false
		}
		if !s.next(',') {
			return s.next('}')
		}
	}
}

// part reports whether a name, as it is between its quotes, is the field, or the
// first part or parts of a dotted one; below is then what is left of the field.
func (s *jsonScanner) part(name []byte, field string) (below string, parts int, is bool) {
	if field == "" {
		return "", 0, false
	}
	if bytes.IndexByte(name, '\\') >= 0 {
		text, sound := appendUnescaped(s.text[:0], name)
		s.text, name = text, text
		// A NUL ends a name for servers in C.
		if !sound || bytes.IndexByte(text, 0) >= 0 {
			s.doubt = true
			return "", 0, false
		}
	}
	for i := 0; i <= len(field); i++ {
		if i < len(field) && field[i] != '.' {
			continue
		}
		if equalFold(name, field[:i]) {
			return field[min(i+1, len(field)):], parts, true
		}
		parts++
	}
	return "", 0, false
}

// take reads the value of the field.
func (s *jsonScanner) take(depth int) bool {
	s.doubt = s.doubt || s.given
	s.given = true
	if len(s.rest) == 0 {
		return false
	}
	sound := true
	switch c := s.rest[0]; {
	case c == '"':
		raw, ok := s.string()
		if !ok {
			return false
		}
		if bytes.IndexByte(raw, '\\') >= 0 {
			s.text, sound = appendUnescaped(s.text[:0], raw)
			raw = s.text
		}
		s.found = s.put(raw)
		sound = sound && s.found != unreadable
	case c == '-' || '0' <= c && c <= '9':
		text, ok := s.number()
		if !ok {
			return false
		}
		s.out, sound = appendNumber(s.out, text)
		s.found = present
	case c == '{' || c == '[':
		return s.value("", depth)
	default:
		word, ok := s.word()
		if !ok {
			return false
		}
		if word[0] != 'n' { // null is none
			s.out = append(s.out, word...)
			s.found = present
		}
	}
	s.doubt = s.doubt || !sound
	return true
}

// string reads a string and returns what is between its quotes.
func (s *jsonScanner) string() ([]byte, bool) {
	for i := 1; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c < ' ':
			return nil, false
		case c == '"':
			text := s.rest[1:i]
			s.rest = s.rest[i+1:]
			return text, true
		case c != '\\':
		case i+1 == len(s.rest):
			return nil, false
		case s.rest[i+1] == 'u':
			if _, ok := hexQuad(s.rest[i+2:]); !ok {
				return nil, false
			}
			i += 5
		case bytes.IndexByte([]byte(`"\/bfnrt`), s.rest[i+1]) < 0:
			return nil, false
		default:
			i++
		}
	}
	return nil, false
}

// number reads a number and returns its text.
func (s *jsonScanner) number() ([]byte, bool) {
	i := 0
	digits := func() int {
		from := i
		for i < len(s.rest) && '0' <= s.rest[i] && s.rest[i] <= '9' {
			i++
		}
		return i - from
	}
	at := func(set string) bool { return i < len(s.rest) && bytes.IndexByte([]byte(set), s.rest[i]) >= 0 }
	if at("-") {
		i++
	}
	if zero, n := at("0"), digits(); n == 0 || zero && n > 1 {
		return nil, false
	}
	if at(".") {
		if i++; digits() == 0 {
			return nil, false
		}
	}
	if at("eE") {
		if i++; at("+-") {
			i++
		}
		if digits() == 0 {
			return nil, false
		}
	}
	text := s.rest[:i]
	s.rest = s.rest[i:]
	return text, true
}

// word reads true, false or null.
func (s *jsonScanner) word() (string, bool) {
	for _, word := range [...]string{"true", "false", "null"} {
		if rest, ok := bytes.CutPrefix(s.rest, []byte(word)); ok {
			s.rest = rest
			return word, true
		}
	}
	return "", false
}

// appendUnescaped appends what stands between the quotes of a JSON string that is
// sound so far. It reports false for half of a surrogate pair, which servers read
// in different ways.
func appendUnescaped(out, raw []byte) ([]byte, bool) {
	sound := true
	for len(raw) > 0 {
		if raw[0] != '\\' {
			i := bytes.IndexByte(raw, '\\')
			if i < 0 {
				i = len(raw)
			}
			out, raw = append(out, raw[:i]...), raw[i:]
			continue
		}
		c := raw[1]
		raw = raw[2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, _ := hexQuad(raw)
			raw = raw[4:]
			if utf16.IsSurrogate(r) {
				low := rune(0)
				if len(raw) > 1 && raw[0] == '\\' && raw[1] == 'u' {
					low, _ = hexQuad(raw[2:])
				}
				if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
					sound = false
				} else {
					raw = raw[6:]
				}
			}
			out = utf8.AppendRune(out, r)
			continue
		}
		out = append(out, c)
	}
	return out, sound
}

// hexQuad reads the four digits of \u.
func hexQuad(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
