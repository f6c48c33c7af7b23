package rules

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
)

// readPEM returns the public keys in a PEM file, of which there may be several, so
// that an old one goes on while a new one comes.
func readPEM(text string) ([]tokenKey, *TextError) {
	var keys []tokenKey
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if bytes.Contains(rest, []byte("-----BEGIN")) {
				return nil, textErrorf("a part of it that begins with -----BEGIN cannot be read")
			}
			break
		}
		var key any
		var err error
		switch {
		case strings.Contains(block.Type, "PRIVATE KEY"):
			return nil, &TextError{Msg: "a private key", Hint: "give the gateway the public one alone: openssl pkey -pubout"}
		case block.Type == "PUBLIC KEY":
			key, err = x509.ParsePKIXPublicKey(block.Bytes)
		case block.Type == "RSA PUBLIC KEY":
			key, err = x509.ParsePKCS1PublicKey(block.Bytes)
		case block.Type == "CERTIFICATE":
			var cert *x509.Certificate
			if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
				key = cert.PublicKey
			}
		default:
			return nil, textErrorf("it holds a %s; write a PUBLIC KEY or a CERTIFICATE", quote(block.Type))
		}
		if err != nil {
			return nil, textErrorf("key %d cannot be read", len(keys)+1)
		}
		one, bad := newTokenKey(key)
		if bad != nil {
			return nil, bad
		}
		if keys = append(keys, one); len(keys) > maxTokenKeys {
			return nil, textErrorf("more than %d keys", maxTokenKeys)
		}
	}
	if len(keys) == 0 {
		return nil, &TextError{Msg: "no key in PEM", Hint: "it begins with -----BEGIN PUBLIC KEY-----; keys in JSON are for jwks_file"}
	}
	return keys, nil
}

// jwk is a key as a set of keys has it (RFC 7517).
type jwk struct {
	Kty string   `json:"kty"`
	Kid string   `json:"kid"`
	Alg string   `json:"alg"`
	Use string   `json:"use"`
	Ops []string `json:"key_ops"`
	Crv string   `json:"crv"`
	N   string   `json:"n"`
	E   string   `json:"e"`
	X   string   `json:"x"`
	Y   string   `json:"y"`
	K   string   `json:"k"`
}

// readJWKS returns the keys of a JSON Web Key Set that verify tokens. Others, for
// encryption or of kinds that are not known, are passed over, as RFC 7517 has it.
func readJWKS(text string) ([]tokenKey, *TextError) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal([]byte(text), &set); err != nil || set.Keys == nil {
		hint := `it is an object with a list of "keys"`
		if strings.Contains(text, "-----BEGIN") {
			hint = "a PEM file is for public_key_file"
		}
		return nil, &TextError{Msg: "no JSON Web Key Set", Hint: hint}
	}
	if len(set.Keys) > maxTokenKeys {
		return nil, textErrorf("%d keys; the most is %d", len(set.Keys), maxTokenKeys)
	}
	var keys []tokenKey
	for i, raw := range set.Keys {
		var k jwk
		if err := json.Unmarshal(raw, &k); err != nil {
			return nil, textErrorf("key %d is no JSON Web Key", i+1)
		}
		if k.Use == "enc" || len(k.Ops) > 0 && !slices.Contains(k.Ops, "verify") {
			continue
		}
		key, ok, err := k.read()
		switch {
		case err != nil:
			err.Msg = textErrorf("key %d: %s", i+1, err.Msg).Msg
			return nil, err
		case !ok || k.Alg != "" && !slices.Contains(key.algs, k.Alg):
			continue
		}
		if k.Alg != "" {
			key.algs = []string{k.Alg}
		}
		key.id = k.Kid
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, &TextError{Msg: "no key in it verifies tokens", Hint: "it must hold an RSA, EC, OKP (Ed25519) or oct key that is not for encryption"}
	}
	return keys, nil
}

// read returns the key; it is no good when its kind is not known.
func (k *jwk) read() (key tokenKey, ok bool, err *TextError) {
	switch {
	case k.Kty == "RSA":
		n, e := jwkBytes(k.N), jwkBytes(k.E)
		exponent := new(big.Int).SetBytes(e)
		if n == nil || e == nil || !exponent.IsInt64() || exponent.Int64() < 3 || exponent.Int64() >= 1<<31 || exponent.Bit(0) == 0 {
			return key, false, textErrorf("its n and e are no RSA key")
		}
		key, err = newTokenKey(&rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(exponent.Int64())})
	case k.Kty == "EC" && algsEC[k.Crv] != nil:
		curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[k.Crv]
		x, y, size := jwkBytes(k.X), jwkBytes(k.Y), (curve.Params().BitSize+7)/8
		if len(x) != size || len(y) != size {
			return key, false, textErrorf("its x and y are no point of %s", k.Crv)
		}
		public, bad := ecdsa.ParseUncompressedPublicKey(curve, slices.Concat([]byte{4}, x, y))
		if bad != nil {
			return key, false, textErrorf("its x and y are no point of %s", k.Crv)
		}
		key, err = newTokenKey(public)
	case k.Kty == "OKP" && k.Crv == "Ed25519":
		x := jwkBytes(k.X)
		if len(x) != ed25519.PublicKeySize {
			return key, false, textErrorf("its x is no Ed25519 key")
		}
		key, err = newTokenKey(ed25519.PublicKey(x))
	case k.Kty == "oct":
		secret := jwkBytes(k.K)
		if len(secret) < goodSecret {
			return key, false, textErrorf("its k has %d bytes; it must have %d or more", len(secret), goodSecret)
		}
		key = tokenKey{algs: algsHMAC, key: secret}
	default:
		return key, false, nil
	}
	return key, err == nil, err
}

// jwkBytes decodes a value of a key; nil is none.
func jwkBytes(text string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) == 0 {
		return nil
	}
	return b
}
