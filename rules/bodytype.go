package rules

import (
	"slices"
	"strings"
)

// bodyType is what Content-Type says, as far as keys need it.
type bodyType struct {
	kind     typeKind
	boundary string // of multipart
}

type typeKind uint8

const (
	typeOther typeKind = iota // any other, and none
	typeJSON
	typeForm
	typeMultipart
	typeGRPC // never anything else
)

// parseContentType reads the lines of Content-Type. It reports false for what
// servers may read in different ways: two lines, a charset that is not ASCII
// below 0x80, a boundary that cannot be told for sure.
func parseContentType(lines []string) (t bodyType, ok bool) {
	if len(lines) == 0 {
		return t, true
	}
	media, rest, _ := strings.Cut(lines[0], ";")
	t.kind = kindOf(strings.ToLower(strings.Trim(media, " \t")))
	charset, boundary, ok := "", "", true
	seen := 0
	for rest = strings.Trim(rest, " \t"); rest != "" && ok; {
		var name, value string
		if name, value, rest, ok = cutParameter(rest); !ok {
			break
		}
		switch name = strings.ToLower(name); {
		case name == "boundary":
			boundary = value
			seen++
		case strings.HasPrefix(name, "boundary*"):
			seen += 2
		case name == "charset":
			ok = charset == "" && plainCharset(value)
			charset = value
		case strings.HasPrefix(name, "charset*"):
			ok = false
		}
	}
	if t.kind == typeMultipart {
		t.boundary = boundary
		ok = ok && seen == 1 && soundBoundary(boundary)
	}
	return t, ok && len(lines) == 1
}

// kindOf returns the kind of a media type in lower case.
func kindOf(media string) typeKind {
	switch {
	case media == "application/json", media == "text/json", strings.HasSuffix(media, "+json"):
		return typeJSON
	case media == "application/x-www-form-urlencoded":
		return typeForm
	case media == "multipart/form-data":
		return typeMultipart
	case strings.HasPrefix(media, "application/grpc"):
		return typeGRPC
	}
	return typeOther
}

// cutParameter cuts the first parameter, name=value or name="value", from what
// follows a media type or a Content-Disposition, and the ";" behind it.
func cutParameter(s string) (name, value, rest string, ok bool) {
	name, rest = cutToken(s)
	if name == "" || rest == "" || rest[0] != '=' {
		return "", "", s, false
	}
	if rest = rest[1:]; rest != "" && rest[0] == '"' {
		end := strings.IndexByte(rest[1:], '"')
		if end < 0 {
			return "", "", s, false
		}
		value, rest = rest[1:1+end], rest[2+end:]
		if strings.HasSuffix(value, `\`) { // the quote is a part of the value to some, but not to browsers
			return "", "", s, false
		}
	} else if value, rest = cutToken(rest); value == "" {
		return "", "", s, false
	}
	if rest = strings.TrimLeft(rest, " \t"); rest == "" {
		return name, value, "", true
	}
	if rest[0] != ';' {
		return "", "", s, false
	}
	return name, value, strings.TrimLeft(rest[1:], " \t"), true
}

// plainCharsets are those in which names and values of ASCII are what they seem.
var plainCharsets = []string{"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1", "iso-8859-15", "windows-1252"}

func plainCharset(name string) bool {
	return slices.ContainsFunc(plainCharsets, func(c string) bool { return strings.EqualFold(c, name) })
}

// soundBoundary reports whether a boundary is one of RFC 2046.
func soundBoundary(b string) bool {
	if b == "" || len(b) > 70 || b[len(b)-1] == ' ' {
		return false
	}
	for i := range len(b) {
		if c := b[i]; !isAlnum(c) && strings.IndexByte("'()+_,-./:=? ", c) < 0 {
			return false
		}
	}
	return true
}
