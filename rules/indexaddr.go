package rules

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sort"
)

// addrIndex finds ways by the client's address. Prefixes contain each other or
// are apart, so those that hold an address are one of them and all above it.
type addrIndex struct {
	prefixes []addrPrefix // sorted: what contains another comes before it
}

type addrPrefix struct {
	hi, lo uint64 // its first address, IPv4 mapped to IPv6
	bits   uint8  // of that
	up     int32  // the place of the smallest one that contains it, or -1
	next   *place
}

// find appends what is found under the client's address.
func (x *addrIndex) find(f *Facts, found []uint32) []uint32 {
	if !f.Client.IsValid() {
		return found
	}
	at := addrKey(f.Client, 128)
	i := int32(sort.Search(len(x.prefixes), func(i int) bool { return at.before(&x.prefixes[i]) })) - 1
	for i >= 0 {
		p := &x.prefixes[i]
		if p.holds(&at) {
			found = p.next.find(f, found)
		}
		i = p.up
	}
	return found
}

// addrKey returns the prefix of that many bits of an address mapped to IPv6; its
// bits beyond are 0.
func addrKey(a netip.Addr, bits int) addrPrefix {
	b := a.As16()
	return addrPrefix{hi: binary.BigEndian.Uint64(b[:8]), lo: binary.BigEndian.Uint64(b[8:]), bits: uint8(bits)}
}

// before reports whether p begins before q, or there and is larger.
func (p *addrPrefix) before(q *addrPrefix) bool {
	switch {
	case p.hi != q.hi:
		return p.hi < q.hi
	case p.lo != q.lo:
		return p.lo < q.lo
	}
	return p.bits < q.bits
}

// holds reports whether p contains q.
func (p *addrPrefix) holds(q *addrPrefix) bool {
	if p.bits > q.bits {
		return false
	}
	if p.bits <= 64 {
		return (p.hi^q.hi)>>(64-p.bits) == 0
	}
	return p.hi == q.hi && (p.lo^q.lo)>>(128-p.bits) == 0
}

// add puts way n under a prefix.
func (x *addrIndex) add(p netip.Prefix, n uint32) {
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	key := addrKey(p.Addr(), bits)
	key.next = &place{here: []uint32{n}}
	x.prefixes = append(x.prefixes, key)
}

// sort sorts what was added, and puts together what is of the same prefix.
func (x *addrIndex) sort() {
	slices.SortStableFunc(x.prefixes, func(a, b addrPrefix) int {
		switch {
		case a.before(&b):
			return -1
		case b.before(&a):
			return 1
		}
		return 0
	})
	all := x.prefixes
	x.prefixes = all[:0]
	up := int32(-1)
	for _, p := range all {
		for up >= 0 && !x.prefixes[up].holds(&p) {
			up = x.prefixes[up].up
		}
		if up >= 0 && x.prefixes[up].bits == p.bits {
			same := x.prefixes[up].next
			same.here = append(same.here, p.next.here...)
			continue
		}
		p.up = up
		up = int32(len(x.prefixes))
		x.prefixes = append(x.prefixes, p)
	}
	x.prefixes = slices.Clip(x.prefixes)
}

// all appends all ways.
func (x *addrIndex) all(found []uint32) []uint32 {
	if x == nil {
		return found
	}
	for i := range x.prefixes {
		found = x.prefixes[i].next.all(found)
	}
	return found
}

// prefixes returns the prefixes that together are the addresses of s.
func (s span) prefixes() []netip.Prefix {
	var all []netip.Prefix
	for from := s.from; from.IsValid() && !s.to.Less(from); {
		p := netip.PrefixFrom(from, from.BitLen())
		for bits := p.Bits() - 1; bits >= 0; bits-- {
			larger := netip.PrefixFrom(from, bits)
			if larger.Masked().Addr() != from || s.to.Less(lastAddr(larger)) {
				break
			}
			p = larger
		}
		all = append(all, p)
		from = lastAddr(p).Next()
	}
	return all
}
