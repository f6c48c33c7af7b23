package limit

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// sipHash is SipHash-c-d with 128 bits of output, written from the paper and
// the layout of its reference code; slow and plain.
func sipHash(c, d int, k [16]byte, in []byte) (out [16]byte) {
	k0, k1 := binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:])
	v := [4]uint64{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	v[1] ^= 0xee
	rounds := func(n int) {
		for range n {
			v[0] += v[1]
			v[2] += v[3]
			v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
			v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
			v[0] = bits.RotateLeft64(v[0], 32)
			v[2] += v[1]
			v[0] += v[3]
			v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
			v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
			v[2] = bits.RotateLeft64(v[2], 32)
		}
	}
	padded := append(bytes.Clone(in), make([]byte, 8-len(in)%8)...)
	padded[len(padded)-1] = byte(len(in))
	for ; len(padded) > 0; padded = padded[8:] {
		m := binary.LittleEndian.Uint64(padded)
		v[3] ^= m
		rounds(c)
		v[0] ^= m
	}
	v[2] ^= 0xee
	rounds(d)
	binary.LittleEndian.PutUint64(out[:8], v[0]^v[1]^v[2]^v[3])
	v[1] ^= 0xdd
	rounds(d)
	binary.LittleEndian.PutUint64(out[8:], v[0]^v[1]^v[2]^v[3])
	return out
}

// The published vectors are of SipHash-2-4; with the rounds as a parameter they
// prove the implementation that Digest, of SipHash-1-3, is compared with.
func TestReferenceSipHashGivesThePublishedVectors(t *testing.T) {
	var k [16]byte
	for i := range k {
		k[i] = byte(i)
	}
	for in, want := range map[string]string{
		"":     "a3817f04ba25a8e66df67214c7550293",
		"\x00": "da87c1d86b99af44347659119b22fc45",
	} {
		got := sipHash(2, 4, k, []byte(in))
		if hex.EncodeToString(got[:]) != want {
			t.Errorf("SipHash-2-4-128 of %q is %x, want %s", in, got, want)
		}
	}
}

func TestDigestIsSipHash13(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := Secret(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(r, "secret"))
		in := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(r, "in")
		if rapid.IntRange(0, 9).Draw(r, "long") == 0 {
			in = bytes.Repeat(append(in, 1), 30)
		}
		want := sipHash(1, 3, s, in)
		got := s.Digest(in)
		if got.Lo != binary.LittleEndian.Uint64(want[:8]) || got.Hi != binary.LittleEndian.Uint64(want[8:]) {
			r.Fatalf("Digest(%x) under %x is %+v, want %x", in, s, got, want)
		}
	})
}

func TestSecretsAreRandomAndSeparateDigests(t *testing.T) {
	a, b := NewSecret(), NewSecret()
	if a == b || a == (Secret{}) {
		t.Errorf("two new secrets are %x and %x", a, b)
	}
	if a.Digest([]byte("k")) == b.Digest([]byte("k")) {
		t.Error("two secrets give one digest")
	}
	seen := map[Digest]bool{}
	for i := range 100_000 {
		k := key(i)
		if k == (Digest{}) || seen[k] {
			t.Fatalf("the digest of %d is zero or another's", i)
		}
		seen[k] = true
	}
}
