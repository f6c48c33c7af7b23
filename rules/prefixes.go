package rules

import (
	"net/netip"
	"slices"
	"strings"
)

// Prefixes is a set of addresses, kept as the ranges it is made of: sorted,
// apart from each other, so that looking an address up takes the same few steps
// in a list of ten and of a million. The zero Prefixes is empty. It is
// immutable and safe for concurrent use.
type Prefixes struct {
	spans []span
}

// span is the addresses from one to another, both included, of one family.
type span struct{ from, to netip.Addr }

// private is what the word "private" stands for: loopback, RFC 1918, RFC 4193
// and link-local addresses.
var private = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("fc00::/7"),
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"),
}

// ParsePrefix reads an address, a CIDR or the word "private", which is several.
// Bits beyond the prefix are dropped, IPv4-mapped addresses are IPv4.
func ParsePrefix(text string) ([]netip.Prefix, *TextError) {
	if text == "private" {
		return slices.Clone(private), nil
	}
	if addr, bits, ok := strings.Cut(text, "/"); ok {
		p, err := netip.ParsePrefix(text)
		if err == nil {
			return []netip.Prefix{unmapPrefix(p)}, nil
		}
		if a, err := netip.ParseAddr(addr); err == nil && a.Zone() == "" {
			most := "from 0 to 32"
			if a.Is6() {
				most = "from 0 to 128"
			}
			return nil, &TextError{Off: len(addr) + 1, Len: len(bits), Msg: "the bits of a CIDR are a number " + most}
		}
		return nil, badAddress(addr)
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return nil, badAddress(text)
	}
	a = a.Unmap()
	return []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}, nil
}

// badAddress says why a text is no address, for the usual reasons.
func badAddress(text string) *TextError {
	e := &TextError{Len: len(text), Msg: "not an address, a CIDR or \"private\""}
	host, port, colon := strings.Cut(text, ":")
	switch {
	case text == "":
		e.Msg = "empty; an address, a CIDR or \"private\" is wanted"
	case strings.EqualFold(text, "private"):
		e.Hint = `write "private"`
	case text == "localhost" || text == "loopback":
		e.Hint = `write 127.0.0.1 and ::1, or "private"`
	case strings.Contains(text, "%"):
		e.Msg, e.Hint = "a zone is no part of an address here", "leave out what begins with %"
	case strings.ContainsAny(text, "[]"):
		e.Hint = "leave out the brackets and the port"
	case strings.Contains(text, "*"):
		e.Hint = "write a CIDR, such as 192.0.2.0/24"
	case strings.Contains(text, "-"):
		e.Hint = "write a range as CIDRs, such as 192.0.2.0/24"
	case colon && isPort(port) && port != "" && strings.Count(host, ".") == 3:
		e.Hint = "leave out the port"
	}
	return e
}

// unmapPrefix returns p in the form in which addresses are compared: masked,
// and a prefix of IPv4-mapped addresses as one of IPv4.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

// NewPrefixes returns the set of all addresses in list. Prefixes that are not
// valid add nothing.
func NewPrefixes(list []netip.Prefix) Prefixes {
	spans := make([]span, 0, len(list))
	for _, p := range list {
		if p.IsValid() {
			p = unmapPrefix(p)
			spans = append(spans, span{p.Addr(), lastAddr(p)})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	merged := spans[:0]
	for _, s := range spans {
		if n := len(merged); n > 0 && touches(merged[n-1], s) {
			if merged[n-1].to.Less(s.to) {
				merged[n-1].to = s.to
			}
			continue
		}
		merged = append(merged, s)
	}
	return Prefixes{spans: slices.Clip(merged)}
}

// touches reports whether b begins in a or right after it. a does not begin
// after b.
func touches(a, b span) bool {
	if a.to.BitLen() != b.from.BitLen() {
		return false
	}
	// Next of the very last address is the zero Addr, which is before any
	// other.
	next := a.to.Next()
	return !next.IsValid() || !next.Less(b.from)
}

// lastAddr returns the last address of a masked prefix.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := range b {
		keep := min(max(p.Bits()-8*i, 0), 8)
		b[i] |= 0xff >> keep
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// Contains reports whether a is in the set, whatever its zone; an IPv4-mapped
// address is the IPv4 one.
func (p Prefixes) Contains(a netip.Addr) bool {
	if len(p.spans) == 0 || !a.IsValid() {
		return false
	}
	_, ok := p.find(a.Unmap().WithZone(""))
	return ok
}

// find returns the place of the range that holds a.
func (p Prefixes) find(a netip.Addr) (int, bool) {
	i, exact := slices.BinarySearchFunc(p.spans, a, func(s span, a netip.Addr) int { return s.from.Compare(a) })
	if !exact {
		i--
	}
	return i, i >= 0 && a.BitLen() == p.spans[i].to.BitLen() && !p.spans[i].to.Less(a)
}

// Empty reports whether no address is in the set.
func (p Prefixes) Empty() bool { return len(p.spans) == 0 }

// Covers reports whether all IPv4 and whether all IPv6 addresses are in the
// set.
func (p Prefixes) Covers() (v4, v6 bool) {
	for _, s := range p.spans {
		if s.from.IsUnspecified() && !s.to.Next().IsValid() {
			v4 = v4 || s.from.Is4()
			v6 = v6 || s.from.Is6()
		}
	}
	return v4, v6
}

// ContainsAll reports whether every address of q is in p too.
func (p Prefixes) ContainsAll(q Prefixes) bool {
	for _, s := range q.spans {
		i, ok := p.find(s.from)
		if !ok || p.spans[i].to.Less(s.to) {
			return false
		}
	}
	return true
}

// Equal reports whether p and q hold the same addresses.
func (p Prefixes) Equal(q Prefixes) bool { return slices.Equal(p.spans, q.spans) }
