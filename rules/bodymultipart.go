package rules

import (
	"bytes"
	"strings"
)

// multipart looks for the field in a body that is multipart/form-data, in the one
// form that browsers and libraries send: nothing before the first boundary and
// behind the last, CRLF everywhere, one Content-Disposition a part. Everything
// else is read in different ways by different servers.
func (r *bodyReader) multipart(body []byte, boundary string) presence {
	delimiter := "\r\n--" + boundary
	rest, ok := bytes.CutPrefix(bytes.TrimPrefix(body, []byte("\r\n")), []byte(delimiter[2:]))
	if !ok {
		return unreadable
	}
	given, found := false, absent
	for parts := 0; ; parts++ { // rest stands behind a boundary
		if end, last := bytes.CutPrefix(rest, []byte("--")); last {
			if len(end) > 0 && string(end) != "\r\n" {
				return unreadable
			}
			return found
		}
		if rest, ok = bytes.CutPrefix(rest, []byte("\r\n")); !ok || parts == maxFields {
			return unreadable
		}
		var p formPart
		if p, rest, ok = cutPart(rest, delimiter); !ok {
			return unreadable
		}
		name := []byte(p.name)
		is := compareName(name, r.field)
		if is == otherName && strings.ContainsAny(p.name, "%+") && r.mentioned(name) { // some servers decode it
			is = alikeName
		}
		switch {
		case is == alikeName, is == thatName && (given || p.file || p.encoded),
			equalFold(name, charsetField) && !plainCharset(string(bytes.TrimSpace(p.value))):
			return unreadable
		case is == thatName:
			given = true
			if found = r.put(p.value); found == unreadable {
				return found
			}
		}
	}
}

// formPart is a part of a multipart body.
type formPart struct {
	name    string
	value   []byte
	file    bool
	encoded bool // some servers decode the value
}

// cutPart cuts a part from rest, which begins with its header. What is left
// stands behind the boundary that ends it.
func cutPart(rest []byte, delimiter string) (p formPart, after []byte, ok bool) {
	disposed := false
	for {
		line, more, whole := bytes.Cut(rest, []byte("\r\n"))
		if !whole || bytes.ContainsFunc(line, isFormControl) || bytes.ContainsAny(line, "\r\n") {
			return p, nil, false
		}
		rest = more
		if len(line) == 0 {
			break
		}
		name, value, colon := strings.Cut(string(line), ":")
		if token, other := cutToken(name); !colon || token == "" || other != "" {
			return p, nil, false // also a line that goes on from the one before
		}
		value = trimSpace(value)
		switch strings.ToLower(name) {
		case "content-disposition":
			if disposed || !p.dispose(value) {
				return p, nil, false
			}
			disposed = true
		case "content-transfer-encoding":
			switch strings.ToLower(value) {
			case "7bit", "8bit", "binary":
			default:
				p.encoded = true
			}
		case "content-type":
			if _, sound := parseContentType([]string{value}); !sound {
				p.encoded = true
			}
		}
	}
	if !disposed {
		return p, nil, false
	}
	// To end without a line of its own is an empty value to some servers only.
	if bytes.HasPrefix(rest, []byte(delimiter[2:])) {
		return p, nil, false
	}
	end := bytes.Index(rest, []byte(delimiter[1:])) - 1
	if end < 0 || rest[end] != '\r' { // a bare LF ends a value to some
		return p, nil, false
	}
	p.value = rest[:end]
	return p, rest[end+len(delimiter):], true
}

// dispose reads a Content-Disposition.
func (p *formPart) dispose(value string) bool {
	kind, rest := cutToken(value)
	if !strings.EqualFold(kind, "form-data") {
		return false
	}
	rest = strings.TrimLeft(rest, " \t")
	if rest == "" || rest[0] != ';' {
		return false
	}
	named := false
	for rest = strings.TrimLeft(rest[1:], " \t"); rest != ""; {
		var name, text string
		var ok bool
		if name, text, rest, ok = cutParameter(rest); !ok {
			return false
		}
		switch strings.ToLower(name) {
		case "name":
			if named || strings.ContainsRune(text, '\\') || strings.Contains(text, "=?") { // an escape, an encoded word (RFC 2047) to some
				return false
			}
			p.name, named = text, true
		case "filename", "filename*":
			p.file = true
		default:
			return false // name* (RFC 2231) above all
		}
	}
	return named
}
