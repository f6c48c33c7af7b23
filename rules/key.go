package rules

import "gateway/limit"

// Recipe says how the key of a rule is made from a request.
type Recipe struct {
	parts    []Attribute
	missing  Missing
	ipv6Bits int
}

// Missing says what happens to a request in which a part of the key is missing. The zero Missing counts it by address.
type Missing struct {
	policy missingPolicy
	attr   Attribute
}

type missingPolicy uint8

const (
	missingIP missingPolicy = iota
	missingSkip
	missingReject
	missingAttribute
)

// ParseMissing reads a missing policy: "ip", "skip", "reject" or an attribute.
func ParseMissing(text string) (Missing, *TextError) { return Missing{}, nil }

// String returns the policy as one would write it in the file.
func (m Missing) String() string { return "" }

// Skips reports whether a request without the key passes the rule by.
func (m Missing) Skips() bool { return m.policy == missingSkip }

// Attribute returns the attribute that stands in for a missing key, and whether the policy names one.
func (m Missing) Attribute() (Attribute, bool) { return m.attr, m.policy == missingAttribute }

// NewRecipe returns the recipe that combines parts, of which there is at least one. ipv6Bits is the part of an IPv6
// address that makes one client.
func NewRecipe(parts []Attribute, missing Missing, ipv6Bits int) *Recipe {
	return &Recipe{parts: parts, missing: missing, ipv6Bits: ipv6Bits}
}

// Outcome says how a key came about.
type Outcome uint8

const (
	KeyFound    Outcome = iota // every part is in the request
	KeyFallback                // a part is missing; the key is the one that stands in for it
	KeySkip                    // a part is missing and the rule does not apply
	KeyReject                  // a part is missing and the request is to be answered with 400
)

// Digest returns the digest of the key of a request that m matched.
func (r *Recipe) Digest(s *limit.Secret, f *Facts, m *Match) (limit.Digest, Outcome) {
	return limit.Digest{}, KeyFound
}

// Parts returns the attributes the key combines, in order.
func (r *Recipe) Parts() []Attribute { return r.parts }

// Missing returns the policy for a missing key.
func (r *Recipe) Missing() Missing { return r.missing }

// Identity returns a text that is the same for two recipes exactly if they make the same keys.
func (r *Recipe) Identity() string { return "" }

// String returns the recipe for people: "ip", or "ip + header.X-API-Key".
func (r *Recipe) String() string { return "" }

// ReadsQuery reports whether the key or what stands in for it is a query value.
func (r *Recipe) ReadsQuery() bool { return false }

// ClientChosen reports whether a part is chosen by the client and none is its address.
func (r *Recipe) ClientChosen() bool { return false }

// PathNames returns the path.<name>s that the key and its fallback need.
func (r *Recipe) PathNames() []string { return nil }
