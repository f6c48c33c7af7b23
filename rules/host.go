package rules

import (
	"errors"
	"net/netip"
	"strings"
)

// The reasons for which a host is refused, whatever the rules.
var (
	errHostEmpty    = errors.New("the request names no host")
	errHostPort     = errors.New("the port of the host is no number from 0 to 65535")
	errHostBrackets = errors.New("the brackets of the host hold no IPv6 address")
	errHostByte     = errors.New(`the host holds something else than letters, digits, "-", "_" and "."`)
	errHostLabel    = errors.New("the host has an empty label")
	errHostLong     = errors.New("the host is longer than 253 bytes")
)

// maxHost is the length of the longest name the DNS can hold.
const maxHost = 253

// NormalHost returns the host a client asked for in lower case, without port
// and final dot. An IPv6 address keeps its brackets and is written the shortest
// way. The error is to be answered with 400 and says why: no host at all, two
// of them, or what is no host. A host that is normal already takes no memory.
func NormalHost(host string) (string, error) {
	if strings.HasPrefix(host, "[") {
		return normalLiteral(host)
	}
	name, port, _ := strings.Cut(host, ":")
	if !isPort(port) {
		return "", errHostPort
	}
	return normalName(name)
}

// normalName normalises a name without a port.
func normalName(name string) (string, error) {
	name = strings.TrimSuffix(name, ".")
	if name == "" {
		return "", errHostEmpty
	}
	if len(name) > maxHost {
		return "", errHostLong
	}
	label := 0
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '.':
			if label == 0 {
				return "", errHostLabel
			}
			label = 0
		case isAlnum(c), c == '-', c == '_':
			label++
		default:
			return "", errHostByte
		}
	}
	if label == 0 {
		return "", errHostLabel
	}
	return strings.ToLower(name), nil
}

// normalLiteral normalises a host that is an IPv6 address in brackets.
func normalLiteral(host string) (string, error) {
	inside, after, ok := strings.Cut(host[1:], "]")
	if !ok || !strings.Contains(inside, ":") || strings.Contains(inside, "%") {
		return "", errHostBrackets
	}
	a, err := netip.ParseAddr(inside)
	if err != nil {
		return "", errHostBrackets
	}
	if after != "" {
		if after[0] != ':' {
			return "", errHostBrackets
		}
		if !isPort(after[1:]) {
			return "", errHostPort
		}
	}
	if s := a.String(); s != inside {
		return "[" + s + "]", nil
	}
	return host[:len(inside)+2], nil
}

// isPort reports whether s is empty or the number of a port.
func isPort(s string) bool {
	if len(s) > 5 {
		return false
	}
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n <= 65535
}
