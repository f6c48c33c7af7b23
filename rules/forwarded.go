package rules

import (
	"net/netip"
	"strings"
)

// parseForwarded reads one element of a Forwarded header (RFC 7239) and returns
// the address in its for= pair. An element that breaks the grammar anywhere,
// has no for= or two, or hides the address ("unknown", "_name") cannot be read:
// half an element is never believed.
func parseForwarded(element string) (addr netip.Addr, ok bool) {
	for rest, more := element, true; more; {
		var name, value string
		var good bool
		name, value, rest, more, good = cutPair(rest)
		if !good {
			return netip.Addr{}, false
		}
		if strings.EqualFold(name, "for") {
			if ok {
				return netip.Addr{}, false
			}
			if addr, ok = parseNode(value); !ok {
				return netip.Addr{}, false
			}
		}
	}
	return addr, ok
}

// cutPair cuts the first name=value off the pairs of an element; more says that
// a semicolon follows it. A pair may be empty, as the grammar has it.
func cutPair(s string) (name, value, rest string, more, ok bool) {
	s = trimSpace(s)
	if rest, ok := strings.CutPrefix(s, ";"); ok {
		return "", "", rest, true, true
	}
	if s == "" {
		return "", "", "", false, true
	}
	name, s = cutToken(s)
	s, ok = strings.CutPrefix(s, "=")
	if name == "" || !ok {
		return "", "", "", false, false
	}
	if strings.HasPrefix(s, `"`) {
		value, s, ok = cutQuoted(s)
	} else {
		value, s = cutToken(s)
		ok = value != ""
	}
	s = trimSpace(s)
	rest, more = strings.CutPrefix(s, ";")
	return name, value, rest, more, ok && (more || s == "")
}

// cutToken cuts a token (RFC 9110) off the front of s.
func cutToken(s string) (token, rest string) {
	i := 0
	for i < len(s) && isTokenByte(s[i]) {
		i++
	}
	return s[:i], s[i:]
}

// isTokenByte reports whether c may be part of a token (RFC 9110).
func isTokenByte(c byte) bool {
	return isAlnum(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// cutQuoted cuts the quoted string that s begins with. None that says anything
// to us needs a backslash, so one with a backslash keeps it.
func cutQuoted(s string) (text, rest string, ok bool) {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[1:i], s[i+1:], true
		}
	}
	return "", "", false
}

// parseNode reads the address of a node: IPv4, or IPv6 in brackets, and perhaps
// a port, which may be a hidden one ("_name").
func parseNode(s string) (netip.Addr, bool) {
	if addr, port, ok := strings.Cut(s, ":_"); ok && port != "" && strings.Trim(port, hiddenBytes) == "" {
		s = addr
	}
	if strings.Count(s, ":") > 1 && s[0] != '[' {
		return netip.Addr{}, false
	}
	return parseHop(s)
}

// hiddenBytes are what the name of a hidden port is made of.
const hiddenBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
