package rules

import (
	"errors"
	"strings"
)

// The reasons for which a query that a rule reads is refused.
var (
	errQueryCode  = errors.New("the query holds a broken percent code")
	errQueryPairs = errors.New("the query holds more than 1000 pairs")
)

// maxPairs is the most pairs of a query that is read.
const maxPairs = 1000

// queryState says what is known of the query of one request.
type queryState struct {
	checked bool  // whether flaw is known
	flaw    error // what is wrong with it
	err     error // flaw, once somebody has asked for a value
}

// QueryError reports why the query of the request could not be read, or nil. A
// query is read only when a match or a key asks for a value of it, so call this
// after those; the answer to an error is 400, because whatever they decided was
// decided without the value.
func (f *Facts) QueryError() error { return f.query.err }

// ReadQuery reads the query, if nothing has yet, and reports why that cannot be
// done. It is read as the documentation says: pairs are separated by "&" only,
// ";" is text, names and values are decoded, "+" is a space, and of two values
// of one name the first counts.
func (f *Facts) ReadQuery() error {
	f.soundQuery()
	f.query.err = f.query.flaw
	return f.query.err
}

// soundQuery reports whether the query can be read, and asks for nothing of it.
func (f *Facts) soundQuery() bool {
	if !f.query.checked {
		f.query = queryState{checked: true, flaw: checkQuery(f.RawQuery)}
	}
	return f.query.flaw == nil
}

// checkQuery reports what is wrong with a query as a whole.
func checkQuery(raw string) error {
	for rest := raw; ; {
		i := strings.IndexByte(rest, '%')
		if i < 0 {
			break
		}
		if _, ok := percentByte(rest[i:]); !ok {
			return errQueryCode
		}
		rest = rest[i+3:]
	}
	pairs := 0
	for pair := range strings.SplitSeq(raw, "&") {
		if pair != "" {
			pairs++
		}
	}
	if pairs > maxPairs {
		return errQueryPairs
	}
	return nil
}

// appendQuery appends the first value of that name and reports whether there is
// one. A query that cannot be read has none.
func (f *Facts) appendQuery(out []byte, name string) ([]byte, bool) {
	if f.ReadQuery() != nil {
		return out, false
	}
	for rest, more := f.RawQuery, true; more; {
		var pair string
		pair, rest, more = strings.Cut(rest, "&")
		sent, value, _ := strings.Cut(pair, "=")
		if pair != "" && decodesTo(sent, name) {
			return appendDecoded(out, value), true
		}
	}
	return out, false
}

// decodesTo reports whether a part of a query is the code of text. Its percent
// codes are sound.
func decodesTo(sent, text string) bool {
	for len(sent) > 0 {
		c, n := queryByte(sent)
		if text == "" || text[0] != c {
			return false
		}
		sent, text = sent[n:], text[1:]
	}
	return text == ""
}

// appendDecoded appends a part of a query, decoded.
func appendDecoded(out []byte, sent string) []byte {
	for len(sent) > 0 {
		c, n := queryByte(sent)
		out, sent = append(out, c), sent[n:]
	}
	return out
}

// queryByte returns the byte that s, which is not empty, begins with once it is
// decoded, and how many bytes that takes.
func queryByte(s string) (c byte, n int) {
	switch s[0] {
	case '+':
		return ' ', 1
	case '%':
		c, _ = percentByte(s)
		return c, 3
	}
	return s[0], 1
}
