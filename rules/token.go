package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"gateway/limit"
)

const (
	// maxToken is the most bytes of a token; a longer one is no token.
	maxToken = 8 << 10
	// tokenLeeway is how far the clock of whoever issues tokens may be off.
	tokenLeeway = time.Minute
	// seenTokens is how many tokens that were verified are remembered.
	seenTokens = 4096
)

// verifier verifies the tokens of requests, and remembers those that were good: to
// verify one takes some ten times as long as all else that a request needs. It keeps
// of a token no more than its SHA-256 and the claims that some rule asks for, of the
// last few thousand tokens. It is safe for concurrent use.
type verifier struct {
	keys   []tokenKey
	claims []string          // that are asked for; sorted
	sum    [sha256.Size]byte // of what the keys were made of
	parser *jwt.Parser
	seen   [seenTokens]atomic.Pointer[token]
}

// token is one whose signature is good.
type token struct {
	sum       [sha256.Size]byte
	from, end limit.Instant // nbf, exp; farAway without
	values    []string      // of the claims asked for, "" where it has none
}

// newVerifier returns the verifier of s: that of prev if its keys and claims are the
// same, and nil where the file has no jwt.
func (s *Set) newVerifier(prev *Set) *verifier {
	j := s.File.JWT
	if j == nil {
		return nil
	}
	claims := s.namesRead(kindJWT, true)
	if prev != nil && prev.verifier != nil && prev.verifier.sum == j.sum && slices.Equal(prev.verifier.claims, claims) {
		return prev.verifier
	}
	keys, _ := j.keys() // Parse has seen that it can be done
	return &verifier{
		keys: keys, claims: claims, sum: j.sum, parser: newParser(),
	}
}

// newParser returns what reads a token and checks its signature; when it is good is
// another matter, since that changes while it is remembered.
func newParser() *jwt.Parser {
	return jwt.NewParser(jwt.WithValidMethods(algsAll), jwt.WithJSONNumber(), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation())
}

// recall returns the token of that text if it was verified before; sum is its SHA-256.
func (v *verifier) recall(sum *[sha256.Size]byte) *token {
	if t := v.slot(sum).Load(); t != nil && t.sum == *sum {
		return t
	}
	return nil
}

// slot is where a token is remembered, in the place of whatever was there.
func (v *verifier) slot(sum *[sha256.Size]byte) *atomic.Pointer[token] {
	return &v.seen[binary.BigEndian.Uint64(sum[:])%seenTokens]
}

// verify returns the token of that text, or nil and what is wrong with it.
func (v *verifier) verify(text string, sum *[sha256.Size]byte) (*token, string) {
	claims := jwt.MapClaims{}
	parsed, err := v.parser.ParseWithClaims(text, claims, v.keysFor)
	switch {
	case parsed == nil || parsed.Method == nil:
		return nil, "cannot be read"
	case err != nil:
		return nil, "is signed with none of the keys"
	}
	t := &token{sum: *sum, values: make([]string, len(v.claims))}
	var from, end bool
	t.from, from = instantClaim(claims["nbf"], -farAway)
	t.end, end = instantClaim(claims["exp"], farAway)
	if !from || !end {
		return nil, "has an nbf or exp that is no time"
	}
	for i, name := range v.claims {
		t.values[i] = claimText(claims[name])
	}
	v.slot(sum).Store(t)
	return t, ""
}

// keysFor returns the keys that a token may be signed with: those for its algorithm,
// and of these, where it names one, that alone. A key without a name may be any.
func (v *verifier) keysFor(t *jwt.Token) (any, error) {
	if t.Header["crit"] != nil {
		return nil, jwt.ErrTokenUnverifiable // RFC 7515, 4.1.11: what is not understood
	}
	alg, _ := t.Header["alg"].(string)
	id, named := t.Header["kid"].(string)
	var set jwt.VerificationKeySet
	for _, k := range v.keys {
		if slices.Contains(k.algs, alg) && (!named || k.id == "" || k.id == id) {
			set.Keys = append(set.Keys, k.key)
		}
	}
	return set, nil
}

// instantClaim returns the instant that a claim says in seconds since the Unix epoch;
// otherwise where there is no such claim. It is not ok when it is no number.
func instantClaim(value any, otherwise limit.Instant) (at limit.Instant, ok bool) {
	if value == nil {
		return otherwise, true
	}
	number, _ := value.(json.Number)
	seconds, err := number.Float64()
	if err != nil {
		return 0, false
	}
	const most = float64(farAway / 1e9)
	return limit.Instant(max(-most, min(seconds, most)) * 1e9), true
}

// farAway is an instant in the year 2255, near the last one there is.
const farAway limit.Instant = 9e18

// claimText returns the text of a claim: a string, a whole number, true or false;
// "" for anything else.
func claimText(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case bool:
		if value {
			return "true"
		}
		return "false"
	case json.Number:
		if text, ok := appendNumber(nil, []byte(value)); ok {
			return string(text)
		}
	}
	return ""
}

// tokenState is what is known of the token of a request.
type tokenState struct {
	looked  bool   // what follows is known
	good    *token // or nil
	problem string // what is wrong with it otherwise
}

// tokenProblem says why the request has no claims: it carries no token, or none that is
// good, now. It is "" when it has.
func (f *Facts) tokenProblem() string {
	f.lookAtToken(true)
	return f.token.problem
}

// lookAtToken verifies the token of the request, once. Unless verify, it only does so
// if that takes no time, and reports whether it did.
func (f *Facts) lookAtToken(verify bool) bool {
	if f.token.looked {
		return true
	}
	text, problem := bearer(f.Header["Authorization"])
	switch {
	case problem != "":
	case f.verifier == nil:
		problem = "cannot be verified: there is no jwt"
	case f.Now == 0:
		problem = "cannot be verified: the time is not known"
	case len(text) > maxToken:
		problem = "has more than 8 KiB"
	}
	if problem != "" {
		f.token = tokenState{looked: true, problem: "the token " + problem}
		if text == "" {
			f.token.problem = problem
		}
		return true
	}
	f.text = append(f.text[:0], text...)
	sum := sha256.Sum256(f.text)
	t := f.verifier.recall(&sum)
	if t == nil {
		if !verify {
			return false
		}
		if t, problem = f.verifier.verify(text, &sum); t == nil {
			f.token = tokenState{looked: true, problem: "the token " + problem}
			return true
		}
	}
	f.token.looked = true
	switch {
	case f.Now >= t.end.Add(tokenLeeway):
		f.token.problem = "the token has expired"
	case f.Now < t.from.Add(-tokenLeeway):
		f.token.problem = "the token is not good yet"
	default:
		f.token.good = t
	}
	return true
}

// bearer returns the token of a request (RFC 6750), or what is wrong.
func bearer(lines []string) (text, problem string) {
	if len(lines) > 1 {
		return "", "Authorization is there twice"
	}
	if len(lines) == 1 {
		scheme, rest := cutToken(trimSpace(lines[0]))
		if text = trimSpace(rest); strings.EqualFold(scheme, "bearer") && text != "" {
			return text, ""
		}
	}
	return "", "no token is in the request"
}

// appendClaim appends the value of a claim of the request's token. Where the token is
// to be verified later, and cannot be told without, it is unread.
func (f *Facts) appendClaim(out []byte, name string) ([]byte, presence) {
	if !f.lookAtToken(!f.TokenLater) {
		return out, unread
	}
	if f.token.good == nil {
		return out, absent
	}
	i, ok := slices.BinarySearch(f.verifier.claims, name)
	if !ok || isBlank(f.token.good.values[i]) {
		return out, absent
	}
	return append(out, f.token.good.values[i]...), present
}

// tokenAside says, of a claim that the request has not got, why.
func (f *Facts) tokenAside(a Attribute) string {
	if a.kind != kindJWT {
		return ""
	}
	if why := f.tokenProblem(); why != "" {
		return " (" + why + ")"
	}
	return ""
}
