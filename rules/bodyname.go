package rules

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// alternative reports whether two names are one to some servers.
type alternative uint8

const (
	otherName alternative = iota
	thatName              // it is the name of the field
	alikeName             // some servers take it for the name of the field
)

// compareName says whether a form field of this name, decoded, is the field. A
// dotted field is also written as field[of][another]. PHP turns "." and " "
// into "_", ends a name at a NUL and drops spaces before it; name[] is a list of
// values that many servers take for a value.
func compareName(name []byte, field string) alternative {
	if equalFold(name, field) || strings.Contains(field, ".") && equalBrackets(name, field) {
		return thatName
	}
	if alike(name, field) {
		return alikeName
	}
	return otherName
}

// equalBrackets reports whether name is a dotted field in the way of PHP and
// Rails: user[email] for user.email.
func equalBrackets(name []byte, field string) bool {
	part, rest, _ := strings.Cut(field, ".")
	name, ok := cutFold(name, part)
	for ok && rest != "" {
		if len(name) == 0 || name[0] != '[' {
			return false
		}
		part, rest, _ = strings.Cut(rest, ".")
		if name, ok = cutFold(name[1:], part); !ok || len(name) == 0 || name[0] != ']' {
			return false
		}
		name = name[1:]
	}
	return ok && len(name) == 0
}

// cutFold cuts prefix from name, whatever its case. prefix is folded.
func cutFold(name []byte, prefix string) (rest []byte, ok bool) {
	for prefix != "" {
		r, n := utf8.DecodeRune(name)
		want, m := utf8.DecodeRuneInString(prefix)
		if n == 0 || foldRune(r) != want {
			return name, false
		}
		name, prefix = name[n:], prefix[m:]
	}
	return name, true
}

// alike reports whether some servers take name for field, which is folded.
func alike(name []byte, field string) bool {
	name = bytes.TrimFunc(name, isPadding)
	for len(name) > 0 {
		r, n := utf8.DecodeRune(name)
		name = name[n:]
		switch {
		case r == 0:
			return field == ""
		case r == ']':
			continue
		case field == "":
			return r == '['
		}
		want, m := utf8.DecodeRuneInString(field)
		if loosely(r) != loosely(want) {
			return false
		}
		field = field[m:]
	}
	return field == ""
}

func loosely(r rune) rune {
	switch r {
	case '.', ' ', '[':
		return '_'
	}
	return foldRune(r)
}
