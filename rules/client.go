package rules

import (
	"net/http"
	"net/netip"
	"strings"
)

// maxHops is how many addresses of a chain of proxies are looked at.
const maxHops = 64

// ClientAddr returns the address of the client and whether peer, the other end
// of the connection, is trusted. The word of a peer that is not trusted is not
// listened to: it is the client itself. Behind a trusted one the client is the
// right-most address that is not trusted in all X-Forwarded-For lines, joined
// in order; if all are trusted it is the left-most. An entry that cannot be
// read ends the walk at the hop to its right, as does the 64th. Forwarded (RFC
// 7239) is read, in the same way, only if there is no X-Forwarded-For.
//
// Ports, brackets and zones are dropped, and IPv4-mapped addresses are IPv4.
func ClientAddr(peer netip.AddrPort, h http.Header, trusted Prefixes) (client netip.Addr, trustedPeer bool) {
	client = peer.Addr().Unmap().WithZone("")
	if !trusted.Contains(client) {
		return client, false
	}
	lines, read, quotes := h["X-Forwarded-For"], parseHop, false
	if lines == nil {
		lines, read, quotes = h["Forwarded"], parseForwarded, true
	}
	hops := 0
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; {
			var entry string
			rest, entry, more = cutLast(rest, quotes)
			addr, ok := read(trimSpace(entry))
			if !ok || hops == maxHops {
				return client, true
			}
			hops++
			client = addr
			if !trusted.Contains(addr) {
				return client, true
			}
		}
	}
	return client, true
}

// cutLast cuts a list at its last comma, and reports whether there was one.
// With quotes, a comma inside a quoted string is none. It reads from the right,
// where the nearest proxy wrote: an open quote further left, which a client may
// have sent, changes nothing of how that end is read.
func cutLast(list string, quotes bool) (before, last string, found bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case quotes && list[i] == '"' && !escaped(list[:i]):
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return list[:i], list[i+1:], true
		}
	}
	return "", list, false
}

// escaped reports whether what follows s is behind a backslash that counts.
func escaped(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// trimSpace trims what HTTP calls optional white space.
func trimSpace(s string) string { return strings.Trim(s, " \t") }

// parseHop reads an entry of X-Forwarded-For: an address, perhaps with a port,
// IPv6 perhaps in brackets.
func parseHop(s string) (netip.Addr, bool) {
	if inside, ok := strings.CutPrefix(s, "["); ok {
		inside, after, ok := strings.Cut(inside, "]")
		if !ok || after != "" && !isHopPort(after) || !strings.Contains(inside, ":") {
			return netip.Addr{}, false
		}
		return parseAddr(inside)
	}
	if i := strings.IndexByte(s, ':'); i >= 0 && strings.LastIndexByte(s, ':') == i {
		if !isHopPort(s[i:]) {
			return netip.Addr{}, false
		}
		s = s[:i]
	}
	return parseAddr(s)
}

// isHopPort reports whether s is a colon and the number of a port.
func isHopPort(s string) bool { return len(s) > 1 && s[0] == ':' && isPort(s[1:]) }

// parseAddr reads an address and drops its zone.
func parseAddr(s string) (netip.Addr, bool) {
	// Cut by hand: netip remembers every zone it has parsed for a while.
	if addr, zone, ok := strings.Cut(s, "%"); ok {
		if zone == "" || !strings.Contains(addr, ":") {
			return netip.Addr{}, false
		}
		s = addr
	}
	if len(s) > len("0000:0000:0000:0000:0000:ffff:255.255.255.255") {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	return a.Unmap(), err == nil
}
