package rules

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"slices"
	"strings"
)

// JWT says how tokens are verified (RFC 7519), of which `jwt.<claim>` are claims. It
// is immutable.
type JWT struct {
	// Setting is "secret", "public_key_file" or "jwks_file".
	Setting string
	// Source is the secret, or where the keys are.
	Source Secret

	sum [sha256.Size]byte // of the setting and of what Source holds
}

// keys makes keys of what Source holds.
func (j *JWT) keys() ([]tokenKey, *TextError) {
	text := j.Source.Reveal()
	switch {
	case j.Setting == "public_key_file":
		return readPEM(text)
	case j.Setting == "jwks_file":
		return readJWKS(text)
	case strings.Contains(text, "-----BEGIN"):
		return nil, &TextError{Msg: "it is a PEM, not a secret", Hint: "a public key is for public_key_file"}
	}
	return []tokenKey{{algs: algsHMAC, key: []byte(text)}}, nil
}

// tokenKey verifies tokens of its own kind of signature, and of no other: a public
// key is never the secret of an HMAC.
type tokenKey struct {
	id   string   // kid of a JWK; "" is that the key has none
	algs []string // of tokens it may verify
	key  any      // as the library wants it: []byte, *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// The algorithms of tokens by the kind of key. `none` is not among them.
var (
	algsHMAC = []string{"HS256", "HS384", "HS512"}
	algsRSA  = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
	algsEd   = []string{"EdDSA"}
	algsEC   = map[string][]string{"P-256": {"ES256"}, "P-384": {"ES384"}, "P-521": {"ES512"}}
	algsAll  = slices.Concat(algsHMAC, algsRSA, algsEd, algsEC["P-256"], algsEC["P-384"], algsEC["P-521"])
)

const (
	// minRSA and maxRSA are the bits a key may have: fewer are broken, more take long.
	minRSA, maxRSA = 2048, 8192
	// goodSecret is how many bytes a secret should have (RFC 7518, 3.2).
	goodSecret = 32
	// maxTokenKeys is how many keys a file may hold. A token that does not say which it
	// was signed with is tried with each of its kind.
	maxTokenKeys = 32
)

// newTokenKey returns what a public key verifies.
func newTokenKey(key any) (tokenKey, *TextError) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSA || bits > maxRSA {
			return tokenKey{}, textErrorf("an RSA key of %d bits; it must have %d to %d", bits, minRSA, maxRSA)
		}
		return tokenKey{algs: algsRSA, key: key}, nil
	case *ecdsa.PublicKey:
		if algs := algsEC[key.Curve.Params().Name]; algs != nil {
			return tokenKey{algs: algs, key: key}, nil
		}
		return tokenKey{}, textErrorf("a key on the curve %s; P-256, P-384 and P-521 are known", key.Curve.Params().Name)
	case ed25519.PublicKey:
		return tokenKey{algs: algsEd, key: key}, nil
	}
	return tokenKey{}, textErrorf("a kind of key that signs no tokens; use RSA, EC or Ed25519")
}
