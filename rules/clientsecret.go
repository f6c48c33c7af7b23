package rules

import (
	"strings"
	"unicode/utf8"
)

// clientKey finds what is mostly a secret of clients in a match or a group, up to its
// value: header.X-API-Key, cookie.session.
const clientKey = `(?i)\b(?:header\.(?:[a-z0-9-]*(?:token|secret|passw|api-?key|credential|auth\b)[a-z0-9-]*|(?:proxy-)?authorization|cookie)|` +
	`cookie\.[^\s:"']+|query\.(?:key|[^\s:"']*(?:token|secret|passw|api-?key)[^\s:"']*))["']?[ \t]*:[ \t]*`

var (
	clientValue  = lazily(clientKey)
	clientValues = lazily(clientKey + `(?:#.*)?$`)
	namedThere   = lazily(`\$\{[A-Za-z_][A-Za-z0-9_]*`)
)

// secretWords are what names of secrets, or of where they are, have one of.
var secretWords = []string{"token", "secret", "passw", "cookie", "auth", "api", "credential", "query.", "redis", "valkey"}

// mayHoldSecret reports whether a line has one of secretWords. To look for these first
// takes a tenth of the time of the expressions, which matters in a line of a megabyte.
func mayHoldSecret(text string) bool {
	text = strings.ToLower(text)
	for _, word := range secretWords {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// maskValues returns a line of the file with stars in the place of clients' secrets,
// so many that all else stays where it is, and the tokens of these secrets.
func (s *source) maskValues(line int, text string) (shown string, hidden map[string]bool) {
	var b strings.Builder
	from := 0
	star := func(at, end int) {
		b.WriteString(text[from:at])
		b.WriteString(stars(text[at:end]))
		from = end
		if hidden == nil {
			hidden = map[string]bool{}
		}
		for _, token := range tokens(text[at:end]) {
			hidden[token] = len(token) > 3 && token != strings.TrimSuffix(hashPrefix, ":")
		}
	}
	mask := func(at, end int) {
		for _, name := range namedThere().FindAllStringIndex(text[at:end], -1) { // which is no secret
			star(max(at, from), at+name[0])
			b.WriteString(text[from : at+name[1]])
			from = at + name[1]
		}
		star(max(at, from), end)
	}
	if item := strings.TrimLeft(text, " "); strings.HasPrefix(item, "- ") && s.belowClientKey(line) {
		mask(len(text)-len(item)+len("- "), len(text))
		return b.String(), hidden
	}
	if !mayHoldSecret(text) {
		return text, nil
	}
	for _, at := range clientValue().FindAllStringIndex(text, -1) {
		if end := at[1] + valueEnd(text[at[1]:]); at[1] >= from && text[at[1]:end] != "" && text[at[1]] != '{' {
			mask(at[1], end)
		}
	}
	if hidden == nil {
		return text, nil
	}
	return b.String() + text[from:], hidden
}

// belowClientKey reports whether a line is an item of a list of clients' secrets.
func (s *source) belowClientKey(line int) bool {
	const most = 10_000 // lines to look back
	for n := line - 1; n > max(0, line-most); n-- {
		above := strings.TrimLeft(s.line(n), " ")
		if mayHoldSecret(above) && clientValues().MatchString(above) {
			return true
		}
		if above != "" && above[0] != '#' && !strings.HasPrefix(above, "- ") {
			return false
		}
	}
	return false
}

// valueEnd returns the length of the value that text begins with: a list in brackets,
// or up to what ends a value in braces, or a comment.
func valueEnd(text string) int {
	inList := strings.HasPrefix(text, "[")
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			raw, ok := quoted(text[i:])
			if !ok {
				return len(text)
			}
			i += len(raw) - 1
		case c == '#' && i > 0 && (text[i-1] == ' ' || text[i-1] == '\t'):
			return i
		case c == ']' && inList:
			return i + 1
		case (c == ',' || c == '}') && !inList:
			return i
		}
	}
	return len(text)
}

// stars replaces each letter of text by one that has as many bytes and says nothing.
func stars(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case strings.ContainsRune(" []{},\"'#", r):
			return r
		case utf8.RuneLen(r) == 1:
			return '*'
		case utf8.RuneLen(r) == 2:
			return '·'
		case utf8.RuneLen(r) == 3:
			return '•'
		}
		return '🞄'
	}, text)
}
