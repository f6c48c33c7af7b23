package proxy

import (
	"math"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// appendJSON appends s as a JSON string of at most so many bytes between its
// quotes; what does not fit is cut off. What is not UTF-8 becomes U+FFFD, and
// what is not printable an escape.
func appendJSON(b []byte, s string, most int) []byte {
	b = append(b, '"')
	end := len(b) + most
	plain := 0
	for plain < min(len(s), most) && !needsEscape(s[plain]) {
		plain++
	}
	b = append(b, s[:plain]...) // mostly all of it
	for i := plain; i < len(s); {
		start, size := len(b), 1
		if c := s[i]; needsEscape(c) {
			b, size = appendEscaped(b, s[i:])
		} else {
			b = append(b, c)
		}
		if len(b) > end {
			b = b[:start]
			break
		}
		i += size
	}
	return append(b, '"')
}

// needsEscape reports whether c may not stand in a JSON string as it is, or is part of
// a longer character, which has to be looked at.
func needsEscape(c byte) bool {
	return c >= utf8.RuneSelf || c < ' ' || c == '"' || c == '\\' || c == 0x7f
}

// appendEscaped appends the first character of s, and returns how many bytes of
// s it takes.
func appendEscaped(b []byte, s string) ([]byte, int) {
	if s[0] == '"' || s[0] == '\\' {
		return append(b, '\\', s[0]), 1
	}
	r, size := utf8.DecodeRuneInString(s)
	if size > 1 && unicode.IsPrint(r) {
		return append(b, s[:size]...), size
	}
	units := [2]rune{r}
	n := 1
	if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
		units, n = [2]rune{hi, lo}, 2
	}
	const hex = "0123456789abcdef"
	for _, u := range units[:n] {
		b = append(b, '\\', 'u', hex[u>>12&15], hex[u>>8&15], hex[u>>4&15], hex[u&15])
	}
	return b, size
}

// appendInsideJSON appends s as it stands between the quotes of a JSON string.
func appendInsideJSON(b []byte, s string) []byte {
	at := len(b)
	b = appendJSON(b, s, math.MaxInt/2)
	copy(b[at:], b[at+1:len(b)-1])
	return b[:len(b)-2]
}
