package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
)

// valueSet is a set of values of one attribute. Whatever its size, a value is
// looked for in a few steps, but for those with a "*", of which there are few. It
// is immutable once it is made.
type valueSet struct {
	prefixes Prefixes                       // of addresses
	exact    map[string]struct{}            // texts as they are
	hashed   map[[sha256.Size]byte]struct{} // texts of which only the hash is known
	globs    []Glob                         // texts with a "*"
	listed   int                            // how many values were given
	sum      [sha256.Size]byte              // of the text they were given in
}

// maxGlobs is how many values of a set may hold a "*": these are looked at one by
// one.
const maxGlobs = 1000

// hashPrefix begins a value of which the file holds only the SHA-256.
const hashPrefix = "sha256:"

// valueSetBuilder collects the values of an attribute.
type valueSetBuilder struct {
	attribute Attribute
	set       valueSet
	addresses []netip.Prefix
}

func newValueSetBuilder(a Attribute) *valueSetBuilder {
	return &valueSetBuilder{attribute: a}
}

// add adds a value as it is written. What the error says does not repeat it: it
// may be a secret.
func (b *valueSetBuilder) add(text string) *TextError {
	b.set.listed++
	if b.attribute.IsIP() {
		return b.addAddress(text)
	}
	if digits, ok := strings.CutPrefix(text, hashPrefix); ok {
		sum, err := hex.DecodeString(digits)
		if err != nil || len(sum) != sha256.Size {
			return &TextError{
				Off: len(hashPrefix), Len: len(digits), Msg: "a SHA-256 is 64 hexadecimal digits",
				Hint: "printf %s \"$key\" | sha256sum prints them",
			}
		}
		if b.set.hashed == nil {
			b.set.hashed = map[[sha256.Size]byte]struct{}{}
		}
		b.set.hashed[[sha256.Size]byte(sum)] = struct{}{}
		return nil
	}
	if b.attribute.named() {
		text = string(appendFolded(nil, []byte(text))) // as the value of a request is
	}
	if _, _, slash := strings.Cut(text, "/"); slash {
		if _, err := ParsePrefix(text); err == nil {
			return &TextError{Len: len(text), Msg: "a CIDR, where text is meant", Hint: "put it under ip:"}
		}
	}
	parse := ParseGlob
	if b.attribute.kind == kindHost {
		parse = ParseHostGlob
	}
	glob, err := parse(text)
	switch {
	case err != nil:
		return err
	case len(glob.parts) == 1:
		if b.set.exact == nil {
			b.set.exact = map[string]struct{}{}
		}
		b.set.exact[glob.text] = struct{}{}
	case len(b.set.globs) == maxGlobs:
		return &TextError{Len: len(text), Msg: `more than 1000 values with a "*"`}
	default:
		b.set.globs = append(b.set.globs, glob)
	}
	return nil
}

func (b *valueSetBuilder) addAddress(text string) *TextError {
	if strings.HasPrefix(text, hashPrefix) {
		return &TextError{Len: len(text), Msg: "addresses are not hashed", Hint: "write an address or a CIDR"}
	}
	some, err := ParsePrefix(text)
	b.addresses = append(b.addresses, some...)
	return err
}

// done returns the set of all that was added.
func (b *valueSetBuilder) done() *valueSet {
	set := b.set
	set.prefixes = NewPrefixes(b.addresses)
	return &set
}

// holds reports whether the client of f has, in attribute a, one of the values.
func (s *valueSet) holds(f *Facts, a Attribute) bool {
	if a.IsIP() {
		return s.prefixes.Contains(f.Client)
	}
	value, ok := f.appendText(f.value[:0], a)
	f.value = value
	switch {
	case !ok:
		return false
	case len(s.exact) > 0 && has(s.exact, value):
		return true
	case len(s.hashed) > 0:
		if _, ok := s.hashed[f.sum(a, value)]; ok {
			return true
		}
	}
	return len(s.globs) > 0 && matchesAny(s.globs, string(value))
}

func has(set map[string]struct{}, value []byte) bool {
	_, ok := set[string(value)]
	return ok
}
