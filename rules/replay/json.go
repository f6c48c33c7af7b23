package replay

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// cursor reads JSON, in place and without allocating: texts are unescaped where
// they stand. Its first error stays, and ends all loops.
type cursor struct {
	b     []byte
	i     int
	depth int
	err   error
}

var (
	errJSON     = errors.New("this is no sound JSON")
	errJSONEnd  = errors.New("the JSON ends too early")
	errJSONDeep = errors.New("the JSON is nested too deeply")
)

// maxDepth is how deep a line may be nested.
const maxDepth = 32

func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// peek skips white space and returns the next byte, 0 at the end.
func (c *cursor) peek() byte {
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; ch {
		case ' ', '\t', '\r', '\n':
			c.i++
		default:
			return ch
		}
	}
	return 0
}

func (c *cursor) expect(ch byte) bool {
	switch got := c.peek(); {
	case c.err != nil:
		return false
	case got == ch:
		c.i++
		return true
	case c.i >= len(c.b):
		c.fail(errJSONEnd)
	default:
		c.fail(errJSON)
	}
	return false
}

// open enters an object or a list, whose first byte is ch.
func (c *cursor) open(ch byte) bool {
	if c.depth++; c.depth > maxDepth {
		c.fail(errJSONDeep)
	}
	return c.expect(ch)
}

// more goes on to the next member of what was opened, or leaves it at its end,
// which is ch. first is true before the first member, and is set to false.
func (c *cursor) more(ch byte, first *bool) bool {
	if c.err != nil {
		return false
	}
	if c.peek() == ch {
		c.i++
		c.depth--
		return false
	}
	if !*first && !c.expect(',') {
		return false
	}
	*first = false
	return true
}

// key reads the name of a member and its colon.
func (c *cursor) key() []byte {
	k := c.text()
	c.expect(':')
	return k
}

// text reads a string.
func (c *cursor) text() []byte {
	if !c.expect('"') {
		return nil
	}
	n := bytes.IndexByte(c.b[c.i:], '"')
	if n < 0 {
		c.fail(errJSONEnd)
		return nil
	}
	part := c.b[c.i : c.i+n]
	if bytes.IndexByte(part, '\\') >= 0 {
		return c.escaped()
	}
	for _, ch := range part {
		if ch < ' ' {
			c.fail(errJSON)
			return nil
		}
	}
	c.i += n + 1
	return part
}

// escaped reads the rest of a string with escapes in it.
func (c *cursor) escaped() []byte {
	start := c.i
	out := c.b[start:start]
	for c.i < len(c.b) {
		ch := c.b[c.i]
		c.i++
		switch {
		case ch == '"':
			return out
		case ch < ' ':
			c.fail(errJSON)
			return nil
		case ch != '\\':
			out = append(out, ch)
			continue
		}
		if c.i >= len(c.b) {
			break
		}
		esc := c.b[c.i]
		c.i++
		switch esc {
		case '"', '\\', '/':
			out = append(out, esc)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := c.unit()
			if utf16.IsSurrogate(r) && c.i+1 < len(c.b) && c.b[c.i] == '\\' && c.b[c.i+1] == 'u' {
				c.i += 2
				r = utf16.DecodeRune(r, c.unit())
			}
			out = utf8.AppendRune(out, r) // never longer than the escapes
		default:
			c.fail(errJSON)
			return nil
		}
	}
	c.fail(errJSONEnd)
	return nil
}

// unit reads the four digits after \u.
func (c *cursor) unit() rune {
	if c.i+4 > len(c.b) {
		c.fail(errJSONEnd)
		return 0
	}
	n, err := strconv.ParseUint(text(c.b[c.i:c.i+4]), 16, 16)
	if err != nil {
		c.fail(errJSON)
		return 0
	}
	c.i += 4
	return rune(n)
}

// number reads a number and returns its text.
func (c *cursor) number() []byte {
	c.peek()
	start := c.i
	for c.i < len(c.b) && bytes.IndexByte([]byte("+-.0123456789eE"), c.b[c.i]) >= 0 {
		c.i++
	}
	if c.i == start {
		if c.i >= len(c.b) {
			c.fail(errJSONEnd)
		} else {
			c.fail(errJSON)
		}
		return nil
	}
	if _, err := strconv.ParseFloat(text(c.b[start:c.i]), 64); err != nil {
		c.fail(errJSON)
	}
	return c.b[start:c.i]
}

// whole reads a whole number.
func (c *cursor) whole() int64 {
	b := c.number()
	if c.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(text(b), 10, 64)
	if err != nil {
		c.fail(errors.New("a number that should be whole is not"))
	}
	return n
}

// scalar reads a string or a number, and skips what else there may be.
func (c *cursor) scalar() []byte {
	switch ch := c.peek(); {
	case ch == '"':
		return c.text()
	case ch == '-' || '0' <= ch && ch <= '9':
		return c.number()
	}
	c.skip()
	return nil
}

// word reads true, false or null.
func (c *cursor) word() (isTrue bool) {
	c.peek()
	for _, w := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(c.b[c.i:], []byte(w)) {
			c.i += len(w)
			return w == "true"
		}
	}
	if n := len(c.b) - c.i; n < 5 {
		c.fail(errJSONEnd)
	} else {
		c.fail(errJSON)
	}
	return false
}

// skip reads a value of any kind.
func (c *cursor) skip() {
	switch c.peek() {
	case '"':
		c.text()
	case '{':
		c.open('{')
		for first := true; c.more('}', &first); {
			c.key()
			c.skip()
		}
	case '[':
		c.open('[')
		for first := true; c.more(']', &first); {
			c.skip()
		}
	case 't', 'f', 'n':
		c.word()
	default:
		c.number()
	}
}

// end wants nothing to follow.
func (c *cursor) end() error {
	if c.err == nil && (c.peek() != 0 || c.i < len(c.b)) {
		c.fail(errors.New("there is something after the JSON"))
	}
	return c.err
}
