package rules

import (
	"slices"
	"strconv"
	"strings"

	"gateway/limit"
)

// Recipe says how the key of a rule is made from a request: the attributes that
// are combined, and what stands in for one that is missing. It is immutable and
// safe for concurrent use.
type Recipe struct {
	parts    []Attribute
	missing  Missing
	ipv6Bits int
	local    bool          // what cannot be read counts as missing
	shared   *[32]byte     // the secret of its digests in a store; nil in memory
	loose    bool          // a path is that of LoosePath
	known    [][]*valueSet // by part: a value in none of these counts as missing; none is no bound
	fixed    limit.Digest  // of a key that all requests have; zero of another
}

// NewRecipe returns the recipe that combines parts, of which there is at least
// one. ipv6Bits is how many bits of an IPv6 address make one client.
func NewRecipe(parts []Attribute, missing Missing, ipv6Bits int) *Recipe {
	return &Recipe{parts: slices.Clone(parts), missing: missing, ipv6Bits: ipv6Bits}
}

// captor names segments of the path of a request that it took.
type captor interface {
	capture(f *Facts, name string) string
}

// Outcome says how the key of a request came about.
type Outcome uint8

const (
	KeyFound      Outcome = iota // every part is in the request
	KeyFallback                  // a part is missing; the key is of what stands in for it
	KeySkip                      // a part is missing, and then the rule does not apply
	KeyReject                    // a part is missing, and such requests are answered with 400
	KeyPending                   // a part is in the body, which is not read yet
	KeyUnreadable                // a part cannot be told for sure
	KeyTooLong                   // a part is in a body over body_limit
	KeyNoMemory                  // a part is in a body for which no memory was left
)

// outcomeOf says what becomes of a key of which a part is neither there nor missing.
var outcomeOf = [...]Outcome{unread: KeyPending, unreadable: KeyUnreadable, tooLong: KeyTooLong, noMemory: KeyNoMemory}

// Digest returns the digest of the key of a request that m, which is a *Match or
// a part of one, took; m may be nil where the key holds no path.<name>. Two requests
// have the same digest if every part of their keys has the same bytes (and not
// otherwise, but by a chance of one in 2^64); a key that a fallback made is
// never that of a request that has its key. Only with KeyFound and KeyFallback
// is there a digest. It takes no memory of its own once f has been in use.
func (r *Recipe) Digest(s *limit.Secret, f *Facts, m captor) (limit.Digest, Outcome) {
	if r.fixed != (limit.Digest{}) {
		return r.fixed, KeyFound
	}
	key, outcome := r.appendKey(r.begin(f.buf[:0]), f, m)
	f.buf = key
	if outcome > KeyFallback {
		return limit.Digest{}, outcome
	}
	return r.digest(s, key), outcome
}

// fix takes the digest of a key that is the same whatever the request, for as long as
// the secret is this one.
func (r *Recipe) fix(s *limit.Secret) {
	if r.isGlobal() {
		r.fixed = limit.Digest{}
		r.fixed, _ = r.Digest(s, &Facts{}, nil)
	}
}

// begin begins the bytes of a key: with the secret of the store that counts it.
func (r *Recipe) begin(out []byte) []byte {
	if r.shared != nil {
		out = append(out, r.shared[:]...)
	}
	return out
}

// digest returns the digest of a key: the one that all gateways of a store make of
// it, or that of this process.
func (r *Recipe) digest(s *limit.Secret, key []byte) limit.Digest {
	if r.shared != nil {
		return sharedDigest(key)
	}
	return s.Digest(key)
}

// The first byte of a key says whether it is one of its rule or a fallback.
const (
	tagKey      = 'k'
	tagFallback = 'f'
)

// appendKey appends the bytes of which the digest is taken.
func (r *Recipe) appendKey(out []byte, f *Facts, m captor) ([]byte, Outcome) {
	start := len(out)
	out = append(out, tagKey)
	doubt := absent
	for i, a := range r.parts {
		var is presence
		switch out, is = r.appendPart(out, a, f, m); is {
		case absent:
			return r.appendFallback(out[:start], f, m)
		case present:
			if !r.isKnown(i, f) {
				return r.appendFallback(out[:start], f, m)
			}
		default:
			if doubt == absent || doubt == unread { // what else is in the body does not matter then
				doubt = is
			}
		}
	}
	if doubt != absent {
		return out[:start], outcomeOf[doubt]
	}
	return out, KeyFound
}

// isKnown reports whether the value of part i is one that the rule knows.
func (r *Recipe) isKnown(i int, f *Facts) bool {
	if r.known == nil || len(r.known[i]) == 0 {
		return true
	}
	for _, set := range r.known[i] {
		if set.holds(f, r.parts[i]) {
			return true
		}
	}
	return false
}

// know makes the recipe take a key whose value is in none of groups for missing.
// Each part is looked for in those that list values of its attribute.
func (r *Recipe) know(groups []*Group) {
	if len(groups) == 0 {
		return
	}
	r.known = make([][]*valueSet, len(r.parts))
	for i, a := range r.parts {
		for _, g := range groups {
			if set := g.of(a); set != nil {
				r.known[i] = append(r.known[i], set)
			}
		}
	}
}

// appendFallback appends the key that stands in for one that is missing, or not
// known. What
// stands in and is missing itself leaves the address.
func (r *Recipe) appendFallback(out []byte, f *Facts, m captor) ([]byte, Outcome) {
	start := len(out)
	out = append(out, tagFallback)
	switch r.missing.policy {
	case missingSkip:
		return out[:start], KeySkip
	case missingReject:
		return out[:start], KeyReject
	case missingAttribute:
		// The name is part of the key, because an edit of the policy keeps the
		// counters, and "x" of one header is not "x" of another.
		a := r.missing.attr
		out = append(append(out, a.name...), 0)
		var is presence
		switch out, is = r.appendPart(out, a, f, m); is {
		case present:
			return out, KeyFallback
		case absent:
			out = append(out[:start], tagFallback)
		default:
			return out[:start], outcomeOf[is]
		}
	}
	out = append(out, 0)
	out, _ = r.appendPart(out, Attribute{kind: kindIP}, f, m)
	return out, KeyFallback
}

// appendPart appends one part of a key: its kind, the length of its value in
// four bytes, its value. Thus no two lists of values have the same bytes. It
// says whether the value is there; one that is empty or all spaces is not.
func (r *Recipe) appendPart(out []byte, a Attribute, f *Facts, m captor) ([]byte, presence) {
	start := len(out)
	out = append(out, byte(a.kind), 0, 0, 0, 0)
	body := len(out)
	out, is := r.appendValue(out, a, f, m)
	n := len(out) - body
	out[start+1], out[start+2], out[start+3], out[start+4] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	if r.local && is > unread {
		is = absent
	}
	return out, is
}

// appendValue appends the value of an attribute.
func (r *Recipe) appendValue(out []byte, a Attribute, f *Facts, m captor) ([]byte, presence) {
	start := len(out)
	switch a.kind {
	case kindGlobal:
		return out, present
	case kindBody:
		return f.appendBody(out, a.name)
	case kindBasic:
		return f.appendBasic(out)
	case kindJWT:
		return f.appendClaim(out, a.name)
	case kindIP:
		out, ok := appendAddr(out, f.Client, int(a.bits), r.ipv6Bits)
		return out, presentIf(ok)
	case kindPath:
		out = append(out, f.pathFor(r.loose)...)
	case kindPathName:
		if m != nil {
			out = append(out, m.capture(f, a.name)...)
		}
	default:
		out, ok := f.appendText(out, a)
		return out, presentIf(ok)
	}
	return out, presentIf(!isBlank(out[start:]))
}

func presentIf(ok bool) presence {
	if ok {
		return present
	}
	return absent
}

// reads reports whether the key, or what stands in for it, is of an attribute
// that is good.
func (r *Recipe) reads(good func(Attribute) bool) bool {
	return slices.ContainsFunc(r.parts, good) || good(r.missing.attr)
}

// PathNames returns the names of path segments that the key, or what stands in
// for it, needs from the match.
func (r *Recipe) PathNames() []string { return pathNames(r.parts, r.missing) }

func pathNames(parts []Attribute, missing Missing) (names []string) {
	for _, a := range parts {
		if name := a.PathName(); name != "" {
			names = append(names, name)
		}
	}
	if name := missing.attr.PathName(); name != "" {
		names = append(names, name)
	}
	return names
}

// Identity returns a text that two recipes share exactly if they combine the
// same attributes in the same order, so that counters may be kept. What happens
// without a key and how much of an IPv6 address counts are no part of it: keys
// made otherwise are other keys.
func (r *Recipe) Identity() string { return string(appendIdentity(nil, r.parts)) }

// appendIdentity appends what Identity returns of a recipe that combines parts.
func appendIdentity(out []byte, parts []Attribute) []byte {
	for _, a := range parts {
		out = strconv.AppendQuote(out, a.String())
	}
	return out
}

// String returns the recipe for people: "ip", or "ip + header.X-Api-Key".
func (r *Recipe) String() string {
	if len(r.parts) == 1 {
		return r.parts[0].String()
	}
	texts := make([]string, len(r.parts))
	for i, a := range r.parts {
		texts[i] = a.String()
	}
	return strings.Join(texts, " + ")
}
