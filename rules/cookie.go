package rules

import "strings"

// cookie returns the first value of that name in the Cookie lines, and whether
// there is one. Quotes around the value are dropped: with and without, it is
// the same session to most servers, so it is the same key here.
func (f *Facts) cookie(name string) (value string, ok bool) {
	for _, line := range f.Header["Cookie"] {
		for rest, more := line, true; more; {
			var pair string
			pair, rest, more = strings.Cut(rest, ";")
			key, value, ok := strings.Cut(pair, "=")
			if !ok || trimSpace(key) != name {
				continue
			}
			value = trimSpace(value)
			if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
				value = value[1 : n-1]
			}
			return value, true
		}
	}
	return "", false
}
