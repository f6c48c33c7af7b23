package rules

import (
	"bytes"
	"unicode/utf8"
)

// Body is what a key may look at of the body of a request.
type Body struct {
	// State says what is known of it. The zero State is BodyUnread.
	State BodyState
	// Bytes is all of it, with BodyWhole. Nobody may change it while it is here.
	Bytes []byte
}

// BodyState says what is known of a body.
type BodyState uint8

const (
	// BodyUnread is a body that nobody has read yet: a key that needs it is pending.
	BodyUnread BodyState = iota
	// BodyWhole is a body that was read to its end. A request without a body has one
	// without bytes.
	BodyWhole
	// BodyTooLong is a body over body_limit.
	BodyTooLong
	// BodyNoMemory is a body for which no memory was left.
	BodyNoMemory
	// BodyHopeless is a body that was not read, or not to its end: see Facts.Hopeless.
	BodyHopeless
)

// presence says whether the value of an attribute is in a request.
type presence uint8

const (
	absent     presence = iota
	present             // and here it is
	unread              // nobody knows before the body is read
	unreadable          // it cannot be told for sure
	tooLong             // it is in a body that is too long
	noMemory            // it is in a body for which there was no memory
)

// appendBody appends the field of that name, trimmed and folded.
//
// What is read here and what the upstream reads must not differ, or a client
// could have itself counted under one name and logged in under another. So
// whatever servers are known to read in different ways is unreadable: a name
// that is given twice, or once in a way that only some take for that name; text
// that is no proper JSON, form or multipart, in any way; another encoding.
func (f *Facts) appendBody(out []byte, field string) ([]byte, presence) {
	switch f.body.State {
	case BodyUnread:
		return out, unread
	case BodyTooLong:
		return out, tooLong
	case BodyNoMemory:
		return out, noMemory
	case BodyHopeless:
		return out, unreadable
	}
	if len(f.body.Bytes) == 0 {
		return out, absent
	}
	if f.Hopeless(nil) {
		return out, unreadable
	}
	v := f.field(field)
	return append(out, f.values[v.from:v.to]...), v.is
}

// Hopeless reports whether no field can be told in a body that begins so, whatever
// follows, so that there is no use in reading on: it may be a stream that waits for
// its answer. Of a body that has not begun the header alone may say so.
func (f *Facts) Hopeless(begin []byte) bool {
	if len(f.Header["Content-Encoding"]) > 0 {
		return true
	}
	t, ok := parseContentType(f.Header["Content-Type"])
	if !ok || t.kind == typeGRPC {
		return true
	}
	begin = bytes.TrimLeft(begin, notYetJSON)
	return t.kind == typeOther && len(begin) > 0 && !looksLikeJSON(begin)
}

// field looks for a field of the body, unless that has been done.
func (f *Facts) field(name string) fieldValue {
	for _, v := range f.fields {
		if v.name == name {
			return v
		}
	}
	v := fieldValue{name: name, from: len(f.values)}
	r := bodyReader{field: name, text: f.text, out: f.values}
	v.is = r.read(f.body.Bytes, f.Header["Content-Type"])
	f.text, f.values = r.text, r.out
	if v.is != present {
		f.values = f.values[:v.from]
	}
	v.to = len(f.values)
	f.fields = append(f.fields, v)
	return v
}

// bodyReader looks for one field in one body.
type bodyReader struct {
	field string // folded; parts with dots between them
	out   []byte // the value, trimmed and folded, behind what was there
	text  []byte // scratch
}

// read looks for the field in a body of a type. Whatever the type says, a body
// that begins like JSON is JSON, since many servers never look at the type.
func (r *bodyReader) read(body []byte, contentType []string) presence {
	t, ok := parseContentType(contentType)
	switch {
	case !ok:
		return unreadable
	case t.kind == typeJSON:
		return r.json(body)
	case looksLikeJSON(body):
		// A server that goes by the type may take the same bytes for a form.
		if r.mentioned(body) {
			return unreadable
		}
		return r.json(body)
	case t.kind == typeForm:
		return r.form(body)
	case t.kind == typeMultipart:
		return r.multipart(body, t.boundary)
	}
	return unreadable
}

// put appends a value, and says whether there is one: it is text, to every
// server, and not all space.
func (r *bodyReader) put(value []byte) presence {
	if !utf8.Valid(value) || bytes.IndexByte(value, 0) >= 0 { // at which servers in C stop
		return unreadable
	}
	start := len(r.out)
	if r.out = appendFolded(r.out, value); len(r.out) == start {
		return absent
	}
	return present
}

// notYetJSON is what may stand before JSON, and what never may but is overlooked
// by some servers.
const notYetJSON = "\ufeff \t\r\n\v\f\x00"

// looksLikeJSON reports whether a body begins like a JSON object or array, also
// in a way that no proper JSON does.
func looksLikeJSON(body []byte) bool {
	body = bytes.TrimLeft(body, notYetJSON)
	return len(body) > 0 && (body[0] == '{' || body[0] == '[')
}
