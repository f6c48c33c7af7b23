package rules

import "net/netip"

// appendAddr appends the part of an address that makes one client: the whole of
// an IPv4 address, the first ipv6Bits of an IPv6 one. bits asks for another
// part (ip/24, ip/48): up to 32 are about IPv4 and leave IPv6 as it is, since
// the first 24 bits of an IPv6 address are whole countries; bits above 32 are
// about IPv6 and leave IPv4 as it is.
func appendAddr(out []byte, a netip.Addr, bits, ipv6Bits int) ([]byte, bool) {
	if a.Is4() && (bits <= 0 || bits >= 32) { // as most are
		b := a.As4()
		return append(out, 32, b[0], b[1], b[2], b[3]), true
	}
	a = a.Unmap().WithZone("")
	if !a.IsValid() {
		return out, false
	}
	keep := 32
	switch {
	case a.Is4() && bits > 0:
		keep = min(bits, 32)
	case a.Is6() && bits > 32:
		keep = bits
	case a.Is6():
		keep = ipv6Bits
	}
	p, err := a.Prefix(keep)
	if err != nil {
		return out, false
	}
	out = append(out, byte(keep))
	if a.Is4() {
		b := p.Addr().As4()
		return append(out, b[:]...), true
	}
	b := p.Addr().As16()
	return append(out, b[:]...), true
}

// appendText appends the value of an attribute that is a text of the request
// alone: of none that is an address, or a part of what a pattern took.
func (f *Facts) appendText(out []byte, a Attribute) ([]byte, bool) {
	start := len(out)
	switch a.kind {
	case kindHost:
		out = append(out, f.Host...)
	case kindMethod:
		out = append(out, f.Method...)
	case kindPath:
		out = append(out, f.Path...)
	case kindRoute:
		out = append(out, f.Route...)
	case kindBody:
		out, is := f.appendBody(out, a.name)
		return out, is == present
	default:
		return f.appendChosen(out, a)
	}
	return out, !isBlank(out[start:])
}

// appendChosen appends the value of an attribute that the client chooses, and
// reports whether the request has it.
func (f *Facts) appendChosen(out []byte, a Attribute) ([]byte, bool) {
	start := len(out)
	switch a.kind {
	case kindHeader:
		// Each line counts: a key of the first or the last alone is walked
		// around by sending two.
		blank := true
		for i, line := range f.Header[a.name] {
			if i > 0 {
				out = append(out, ", "...)
			}
			blank = blank && isBlank(line)
			out = append(out, line...)
		}
		return out, !blank
	case kindQuery:
		var ok bool
		if out, ok = f.appendQuery(out, a.name); !ok {
			return out, false
		}
	case kindCookie:
		value, _ := f.cookie(a.name)
		out = append(out, value...)
	case kindBasic:
		out, is := f.appendBasic(out)
		return out, is == present
	case kindJWT:
		later := f.TokenLater
		f.TokenLater = false
		out, is := f.appendClaim(out, a.name)
		f.TokenLater = later
		return out, is == present
	}
	return out, !isBlank(out[start:])
}

// isBlank reports whether a value is empty or nothing but spaces, and thus
// missing.
func isBlank[T string | []byte](s T) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c != ' ' && (c < '\t' || '\r' < c) {
			return false
		}
	}
	return true
}
