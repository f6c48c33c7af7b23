package rules

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// foldRune returns what stands for r and all that differs from it by case alone
// (Unicode's simple folding): "a" for "A", "k" for the Kelvin sign, "ß" for "ẞ".
func foldRune(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	least := r
	for s := unicode.SimpleFold(r); s != r; s = unicode.SimpleFold(s) {
		least = min(least, s)
	}
	return unicode.ToLower(least)
}

// equalFold reports whether name is field but for case. field is folded.
func equalFold(name []byte, field string) bool {
	for len(name) > 0 && field != "" {
		r, n := utf8.DecodeRune(name)
		want, m := utf8.DecodeRuneInString(field)
		if foldRune(r) != want {
			return false
		}
		name, field = name[n:], field[m:]
	}
	return len(name) == 0 && field == ""
}

// appendFolded appends text without the space around it, and with its case
// folded. What is no UTF-8 is appended as it is.
func appendFolded(out, text []byte) []byte {
	text = bytes.TrimFunc(text, isPadding)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			out = append(out, text[0])
		} else {
			out = utf8.AppendRune(out, foldRune(r))
		}
		text = text[n:]
	}
	return out
}

// isPadding reports whether r at the end of a value is seldom seen and often
// dropped: spaces, controls, and what has no width.
func isPadding(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r != utf8.RuneError && unicode.Is(unicode.Cf, r)
}
