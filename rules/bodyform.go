package rules

import "bytes"

// maxFields is the most fields of a form that is read; many servers drop the rest.
const maxFields = 1000

// form looks for the field in a body that is application/x-www-form-urlencoded.
// Pairs are separated by "&" only; ";" is text, but a pair in which it would make
// a difference for the field to take it for a separator, as older servers do, is
// unreadable.
func (r *bodyReader) form(body []byte) presence {
	if bytes.ContainsFunc(body, isFormControl) {
		return unreadable
	}
	given, found, fields := false, absent, 0
	for rest, more := body, true; more; {
		var pair []byte
		pair, rest, more = bytes.Cut(rest, []byte("&"))
		if len(pair) == 0 {
			continue
		}
		if fields++; fields > maxFields || bytes.IndexByte(pair, ';') >= 0 && r.mentioned(pair) {
			return unreadable
		}
		name, value, _ := bytes.Cut(pair, []byte("="))
		var nameOK, valueOK bool
		r.text, nameOK = appendForm(r.text[:0], name)
		is, charset := compareName(r.text, r.field), equalFold(r.text, charsetField)
		r.text, valueOK = appendForm(r.text[:0], value)
		switch {
		case !nameOK, !valueOK, is == alikeName, is == thatName && given, charset && !plainCharset(string(r.text)):
			return unreadable
		case is == thatName:
			given = true
			if found = r.put(r.text); found == unreadable {
				return found
			}
		}
	}
	return found
}

// charsetField is the field in which a form says how it is encoded.
const charsetField = "_charset_"

// isFormControl reports whether r has no place in a form, encoded or not.
func isFormControl(r rune) bool {
	return r < ' ' && r != '\t' && r != '\r' && r != '\n' || r == 0x7f
}

// mentioned reports whether a server that takes body for a form, of whatever
// separators and however broken, may find the field in it.
func (r *bodyReader) mentioned(body []byte) bool {
	for more := true; more; {
		pair := body
		i := bytes.IndexAny(body, "&;")
		if more = i >= 0; more {
			pair, body = body[:i], body[i+1:]
		}
		name, _, _ := bytes.Cut(pair, []byte("="))
		r.text, _ = appendForm(r.text[:0], name)
		if compareName(r.text, r.field) != otherName {
			return true
		}
	}
	return false
}

// appendForm appends a part of a form, decoded. It reports false for a broken
// percent code, which it takes for text.
func appendForm(out, sent []byte) (text []byte, ok bool) {
	ok = true
	for len(sent) > 0 {
		c, n := sent[0], 1
		switch c {
		case '+':
			c = ' '
		case '%':
			if code, sound := percentByte(sent); sound {
				c, n = code, 3
			} else {
				ok = false
			}
		}
		out, sent = append(out, c), sent[n:]
	}
	return out, ok
}
