package rules

import (
	"slices"
	"strconv"
	"strings"
)

// commonMethods are those a wrong letter is looked for in.
var commonMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}

// ParseMethod reads a value of `method` in a match map, or the method of a
// pattern. Any name may be a method, so it only refuses what cannot be one and
// what is one letter away from a common one.
func ParseMethod(text string) (string, *TextError) {
	e := &TextError{Len: len(text)}
	upper := strings.ToUpper(text)
	switch token, _ := cutToken(text); {
	case text == "":
		e.Msg = "an empty method"
	case text == "*" || upper == "ANY" || upper == "ALL":
		e.Msg, e.Hint = "no method is named "+strconv.Quote(text), "leave the method out to match any"
	case strings.ContainsAny(text, ",|"):
		e.Msg, e.Hint = "more than one method", "write them as a list under method: { method: [GET, POST], path: /login }"
	case token != text:
		e.Off, e.Len, e.Msg = len(token), len(text)-len(token), "no method is written so"
	case text != upper:
		e.Msg, e.Hint = "methods are compared with their case", "write "+upper
	case text == "CONNECT":
		e.Msg = "CONNECT is answered with 405 before anything is matched"
	default:
		if slices.Contains(commonMethods, text) {
			return text, nil
		}
		i := slices.IndexFunc(commonMethods, func(m string) bool { return distance(text, m) == 1 })
		if i < 0 {
			return text, nil
		}
		e.Msg, e.Hint = "unknown method "+strconv.Quote(text), "did you mean "+strconv.Quote(commonMethods[i])+"?"
	}
	return "", e
}
