package limit

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
)

// Digest stands for a key: 128 bits under a Secret. A Table stores it in place
// of the key, so that a header of 8 KiB costs what an address costs, no secret
// of a client stays in memory, and nobody can choose keys that collide.
type Digest struct{ Hi, Lo uint64 }

// Secret is the key of the keyed hash. The zero Secret works but is known to
// everybody; use NewSecret. A Secret is safe for concurrent use.
type Secret [16]byte

// NewSecret returns a Secret from the system's random source.
func NewSecret() Secret {
	var s Secret
	rand.Read(s[:]) // never fails: crypto/rand.Read crashes the program rather than return an error
	return s
}

// Digest returns the digest of b: SipHash-1-3 with 128 bits of output
// (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012, with the
// double-width output of its reference code). It allocates nothing and does
// not keep b. The result is never the zero Digest.
func (s *Secret) Digest(b []byte) Digest {
	k0, k1 := binary.LittleEndian.Uint64(s[:8]), binary.LittleEndian.Uint64(s[8:])
	v0, v1, v2, v3 := k0^0x736f6d6570736575, k1^0x646f72616e646f6d^0xee, k0^0x6c7967656e657261, k1^0x7465646279746573
	last := uint64(len(b)) << 56 // above the bytes that fill no word
	if n := len(b) % 8; len(b) > 8 && n > 0 {
		last |= binary.LittleEndian.Uint64(b[len(b)-8:]) >> (64 - 8*n)
	} else if n > 0 {
		for i, c := range b {
			last |= uint64(c) << (8 * i)
		}
	}
	for ; len(b) >= 8; b = b[8:] {
		m := binary.LittleEndian.Uint64(b)
		v3 ^= m
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0 ^= m
	}
	v3 ^= last
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= last

	v2 ^= 0xee
	for range 3 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	lo := v0 ^ v1 ^ v2 ^ v3
	v1 ^= 0xdd
	for range 3 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	hi := v0 ^ v1 ^ v2 ^ v3
	if hi == 0 && lo == 0 {
		lo = 1 // the zero Digest marks a free place in a Table
	}
	return Digest{Hi: hi, Lo: lo}
}

func sipRound(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v3
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 += v3
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}
