package rules

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"gateway/limit"
)

// signer signs tokens in tests.
type signer struct {
	alg string
	key any // private, or a secret
}

// signers has one for each algorithm; the keys are made once, for those of RSA take
// their time.
var signers = sync.OnceValue(func() map[string]signer {
	must := func(key any, err error) any {
		if err != nil {
			panic(err)
		}
		return key
	}
	all := map[string]signer{}
	rsaKey, weak := must(rsa.GenerateKey(rand.Reader, 2048)), must(rsa.GenerateKey(rand.Reader, 1024))
	for _, alg := range algsRSA {
		all[alg] = signer{alg, rsaKey}
	}
	all["weak"] = signer{"RS256", weak}
	for _, alg := range algsHMAC {
		all[alg] = signer{alg, []byte("0123456789abcdef0123456789abcdef")}
	}
	for alg, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		all[alg] = signer{alg, must(ecdsa.GenerateKey(curve, rand.Reader))}
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	all["EdDSA"] = signer{"EdDSA", must(ed, err)}
	return all
})

// sign returns a token with these claims, and with these further header fields.
func (s signer) sign(t testing.TB, claims map[string]any, header ...string) string {
	t.Helper()
	tok := jwt.NewWithClaims(jwt.GetSigningMethod(s.alg), jwt.MapClaims(claims))
	for i := 0; i+1 < len(header); i += 2 {
		tok.Header[header[i]] = header[i+1]
	}
	text, err := tok.SignedString(s.key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// public returns the public half.
func (s signer) public() any {
	if k, ok := s.key.(crypto.Signer); ok {
		return k.Public()
	}
	return s.key
}

// pem returns the public half as a PEM file has it.
func (s signer) pem() string {
	der, err := x509.MarshalPKIXPublicKey(s.public())
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// jwk returns the public half, or the secret, as a set of keys has it.
func (s signer) jwk(more ...string) map[string]string {
	code := base64.RawURLEncoding.EncodeToString
	m := map[string]string{}
	switch k := s.public().(type) {
	case *rsa.PublicKey:
		m["kty"], m["n"], m["e"] = "RSA", code(k.N.Bytes()), code(big.NewInt(int64(k.E)).Bytes())
	case *ecdsa.PublicKey:
		point, _ := k.Bytes()
		half := (len(point) - 1) / 2
		m["kty"], m["crv"], m["x"], m["y"] = "EC", k.Curve.Params().Name, code(point[1:1+half]), code(point[1+half:])
	case ed25519.PublicKey:
		m["kty"], m["crv"], m["x"] = "OKP", "Ed25519", code(k)
	case []byte:
		m["kty"], m["k"] = "oct", code(k)
	}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

func jwks(keys ...map[string]string) string {
	data, _ := json.Marshal(map[string]any{"keys": keys})
	return string(data)
}

// tokenTime is when tokens of tests are looked at.
var tokenTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// tokenSet compiles a file with a rule that is keyed on jwt.sub, and with the files.
func tokenSet(t testing.TB, jwt string, files map[string]string, prev *Set) *Set {
	t.Helper()
	f, err := outsideOf(nil, files).Parse("gateway.yaml", []byte("upstream: http://a\njwt: "+jwt+"\nrules:\n"+
		"  - { name: sub, key: jwt.sub, missing: skip, limit: 10/m }\n  - { name: all, limit: 100/m }\n"))
	if err != nil {
		t.Fatalf("%s is refused:\n%v", jwt, err)
	}
	s, err := f.Compile(prev)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// subject returns what s takes for the claim sub of a request with that token, and
// what it says of the token.
func (s *Set) subject(token string) (value, problem string) {
	f := request("192.0.2.1")
	f.Now = limit.InstantOf(tokenTime)
	f.Header["Authorization"] = []string{"Bearer " + token}
	return s.claimOf(f, "jwt.sub")
}

func (s *Set) claimOf(f *Facts, name string) (value, problem string) {
	s.Exempt(f)
	a, err := ParseAttribute(name)
	if err != nil {
		panic(err)
	}
	text, _ := f.appendChosen(nil, a)
	return string(text), f.tokenProblem()
}

func TestEachAlgorithmIsVerifiedByItsOwnKind(t *testing.T) {
	for alg, s := range signers() {
		if alg == "weak" {
			continue
		}
		token := s.sign(t, map[string]any{"sub": "ann"})
		other := map[string]signer{"HS": signers()["ES256"], "RS": signers()["ES256"], "PS": signers()["EdDSA"], "ES": signers()["RS256"], "Ed": signers()["ES384"]}[alg[:2]]
		sets := map[string]*Set{
			"jwks":            tokenSet(t, "{ jwks_file: k }", map[string]string{"k": jwks(other.jwk(), s.jwk())}, nil),
			"jwks with names": tokenSet(t, "{ jwks_file: k }", map[string]string{"k": jwks(other.jwk("kid", "o"), s.jwk("kid", "mine", "alg", alg, "use", "sig"))}, nil),
		}
		if alg[:2] != "HS" {
			sets["pem"] = tokenSet(t, "{ public_key_file: k }", map[string]string{"k": other.pem() + s.pem()}, nil)
		} else {
			sets["secret"] = tokenSet(t, "{ secret: { file: k } }", map[string]string{"k": string(s.key.([]byte)) + "\n"}, nil)
		}
		for name, set := range sets {
			if got, problem := set.subject(token); got != "ann" || problem != "" {
				t.Errorf("%s by %s: sub %q, %s", alg, name, got, problem)
			}
			if got, problem := set.subject(token); got != "ann" || problem != "" {
				t.Errorf("%s by %s, once more: sub %q, %s", alg, name, got, problem)
			}
			head, rest, _ := strings.Cut(token, ".")
			claims, signature, _ := strings.Cut(rest, ".")
			forged := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"root"}`))
			for what, bad := range map[string]string{
				"other claims":     head + "." + forged + "." + signature,
				"no signature":     head + "." + claims + ".",
				"half a signature": head + "." + claims + "." + signature[:len(signature)/2],
				"one part":         head,
				"five parts":       token + ".a.b",
				"padding":          token + "==",
			} {
				if got, problem := set.subject(bad); got != "" || problem == "" {
					t.Errorf("%s by %s with %s: sub %q", alg, name, what, got)
				}
			}
		}
		if got, _ := tokenSet(t, "{ jwks_file: k }", map[string]string{"k": jwks(other.jwk())}, nil).subject(token); got != "" {
			t.Errorf("%s is taken by a key of another kind: %q", alg, got)
		}
	}
}

// The public key that everybody may have is no secret, whatever a token says of itself.
func TestATokenDoesNotChooseHowItIsVerified(t *testing.T) {
	public := signers()["RS256"]
	set := tokenSet(t, "{ public_key_file: k }", map[string]string{"k": public.pem()}, nil)
	for what, secret := range map[string][]byte{
		"the PEM": []byte(public.pem()), "the PEM without its last line end": []byte(strings.TrimSpace(public.pem())), "the modulus": public.public().(*rsa.PublicKey).N.Bytes(),
	} {
		if got, problem := set.subject(signer{"HS256", secret}.sign(t, map[string]any{"sub": "root"})); got != "" || problem == "" {
			t.Errorf("a token signed with %s as a secret is taken", what)
		}
	}
	none := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{"sub": "root"})
	text, err := none.SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	for _, alg := range []string{"none", "None", "NONE", "nOnE", "", "HS1", "RS256 "} {
		_, rest, _ := strings.Cut(text, ".")
		head := base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf(`{"alg":%q,"typ":"JWT"}`, alg)))
		if got, problem := set.subject(head + "." + rest); got != "" || problem == "" {
			t.Errorf("a token with alg %q is taken", alg)
		}
	}
	if got, _ := set.subject(public.sign(t, map[string]any{"sub": "root"}, "crit", "b64")); got != "" {
		t.Error("a token with something critical that nobody understands is taken")
	}
	// A key for one algorithm is for no other of its kind.
	bound := tokenSet(t, "{ jwks_file: k }", map[string]string{"k": jwks(public.jwk("alg", "PS256"))}, nil)
	if got, _ := bound.subject(public.sign(t, map[string]any{"sub": "ann"})); got != "" {
		t.Error("a key for PS256 verifies RS256")
	}
}

func TestATokenIsVerifiedByTheKeyItNames(t *testing.T) {
	old, next := signers()["ES256"], signer{"ES256", nil}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	next.key = key
	set := tokenSet(t, "{ jwks_file: k }", map[string]string{"k": jwks(old.jwk("kid", "2025"), next.jwk("kid", "2026"))}, nil)
	for _, row := range []struct {
		by   signer
		kid  string
		want string
	}{
		{old, "2025", "ann"}, {next, "2026", "ann"}, {old, "2026", ""}, {next, "2025", ""}, {old, "2024", ""}, {old, "", "ann"}, {next, "", "ann"},
	} {
		var header []string
		if row.kid != "" {
			header = []string{"kid", row.kid}
		}
		if got, _ := set.subject(row.by.sign(t, map[string]any{"sub": "ann"}, header...)); got != row.want {
			t.Errorf("kid %q: sub %q, want %q", row.kid, got, row.want)
		}
	}
}

// A minute is allowed for clocks that differ, and not a second more.
func TestATokenIsGoodFromNbfToExp(t *testing.T) {
	s := signers()["HS256"]
	set := tokenSet(t, "{ secret: { file: k } }", map[string]string{"k": string(s.key.([]byte))}, nil)
	now := tokenTime.Unix()
	for _, row := range []struct {
		claims  map[string]any
		problem string
	}{
		{map[string]any{}, ""},
		{map[string]any{"exp": now + 1}, ""},
		{map[string]any{"exp": now - 59}, ""},
		{map[string]any{"exp": now - 60}, "the token has expired"},
		{map[string]any{"exp": float64(now) - 59.5}, ""},
		{map[string]any{"exp": now - 3600}, "the token has expired"},
		{map[string]any{"nbf": now + 60}, ""},
		{map[string]any{"nbf": now + 61}, "the token is not good yet"},
		{map[string]any{"nbf": now - 1, "exp": now + 1}, ""},
		{map[string]any{"exp": "soon"}, "the token has an nbf or exp that is no time"},
		{map[string]any{"exp": fmt.Sprint(now + 100)}, "the token has an nbf or exp that is no time"},
		{map[string]any{"nbf": true}, "the token has an nbf or exp that is no time"},
		{map[string]any{"exp": 1e300}, ""},
		{map[string]any{"exp": -1e300}, "the token has expired"},
		{map[string]any{"nbf": 1e300}, "the token is not good yet"},
		{map[string]any{"exp": 0}, "the token has expired"},
		{map[string]any{"iat": now + 1e6}, ""},
	} {
		row.claims["sub"] = "ann"
		token := s.sign(t, row.claims)
		for range 2 { // verified, then remembered
			if got, problem := set.subject(token); problem != row.problem || (got == "ann") != (row.problem == "") {
				t.Errorf("%v: sub %q, %q; want %q", row.claims, got, problem, row.problem)
			}
		}
	}
}

func TestWhatARequestMayCarryForAToken(t *testing.T) {
	s := signers()["HS256"]
	set := tokenSet(t, "{ secret: { file: k } }", map[string]string{"k": string(s.key.([]byte))}, nil)
	token := s.sign(t, map[string]any{"sub": "ann"})
	long := s.sign(t, map[string]any{"sub": "ann", "pad": strings.Repeat("x", maxToken)})
	for _, row := range []struct {
		lines   []string
		problem string
	}{
		{[]string{"Bearer " + token}, ""},
		{[]string{"bearer  " + token + " "}, ""},
		{[]string{"BEARER " + token}, ""},
		{nil, "no token is in the request"},
		{[]string{""}, "no token is in the request"},
		{[]string{"Bearer"}, "no token is in the request"},
		{[]string{"Basic " + token}, "no token is in the request"},
		{[]string{token}, "no token is in the request"},
		{[]string{"Bearer " + token, "Bearer " + token}, "Authorization is there twice"},
		{[]string{"Bearer x"}, "the token cannot be read"},
		{[]string{"Bearer " + token + " " + token}, "the token is signed with none of the keys"},
		{[]string{"Bearer " + long}, "the token has more than 8 KiB"},
	} {
		f := request("192.0.2.1")
		f.Now = limit.InstantOf(tokenTime)
		f.Header["Authorization"] = row.lines
		got, problem := set.claimOf(f, "jwt.sub")
		if problem != row.problem && !(row.problem == "the token is signed with none of the keys" && problem != "") || (got == "ann") != (row.problem == "") {
			t.Errorf("%.40q: sub %q, %q; want %q", row.lines, got, problem, row.problem)
		}
	}
}

func TestAClaimIsAStringAWholeNumberOrABool(t *testing.T) {
	s := signers()["HS256"]
	claims := map[string]any{
		"string": "a b", "whole": 7, "same": json.Number("7.0"), "large": json.Number("12345678901234567890"), "half": 1.5, "yes": true, "no": false,
		"null": nil, "list": []string{"a"}, "map": map[string]any{"a": 1}, "blank": " ", "https://example.com/plan": "gold", "a.b": "dotted", "Case": "upper",
	}
	want := map[string]string{
		"string": "a b", "whole": "7", "same": "7", "large": "12345678901234567890", "yes": "true", "no": "false",
		"https://example.com/plan": "gold", "a.b": "dotted", "Case": "upper",
	}
	var b strings.Builder
	b.WriteString("upstream: http://a\njwt: { secret: { file: k } }\nrules:\n")
	i := 0
	for name := range claims {
		i++
		fmt.Fprintf(&b, "  - { name: r%d, key: %q, limit: 1/m }\n", i, "jwt."+name)
	}
	b.WriteString("  - { name: absent, key: jwt.absent, limit: 1/m }\n  - { name: lower, key: jwt.case, limit: 1/m }\n")
	f, err := outsideOf(nil, map[string]string{"k": string(s.key.([]byte))}).Parse("gateway.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	set, err := f.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	token := s.sign(t, claims)
	for name := range claims {
		facts := request("192.0.2.1")
		facts.Now = limit.InstantOf(tokenTime)
		facts.Header["Authorization"] = []string{"Bearer " + token}
		if got, _ := set.claimOf(facts, "jwt."+name); got != want[name] {
			t.Errorf("%s: %q, want %q", name, got, want[name])
		}
	}
}

const claimsFile = `
upstream: http://a
jwt: { secret: { file: k } }
groups: { gold: { jwt.plan: [gold, "plat*"] } }
rules:
  - { name: sub, key: jwt.sub, missing: skip, limit: 10/m, tiers: { gold: { limit: 100/m } } }
  - { name: free, match: { jwt.plan: free, path: /x }, limit: 5/m }
  - { name: rest, match: { not: { jwt.plan: "*" } }, key: header.X, missing: jwt.sub, limit: 1/m }
  - { name: staff, match: { group: gold }, limit: 5/m }
  - { name: all, limit: 1000/m }
`

func TestClaimsAreKeysAndInMatchesGroupsAndTiers(t *testing.T) {
	s := signers()["HS256"]
	f, err := outsideOf(nil, map[string]string{"k": string(s.key.([]byte))}).Parse("gateway.yaml", []byte(claimsFile))
	if err != nil {
		t.Fatal(err)
	}
	set, err := f.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := set.HeadersRead(); strings.Join(got, " ") != "Authorization X" {
		t.Errorf("headers that must reach the upstream: %v", got)
	}
	for _, row := range []struct {
		claims map[string]any
		want   string
	}{
		{nil, "rest all"},
		{map[string]any{"sub": "ann"}, "sub rest all"},
		{map[string]any{"sub": "ann", "plan": "free"}, "sub free all"},
		{map[string]any{"sub": "ann", "plan": "gold"}, "sub/gold staff all"},
		{map[string]any{"sub": "ann", "plan": "platinum"}, "sub/gold staff all"},
		{map[string]any{"sub": "ann", "plan": "GOLD"}, "sub all"},
	} {
		facts := request("192.0.2.1")
		facts.Path, facts.Now = "/x", limit.InstantOf(tokenTime)
		if row.claims != nil {
			facts.Header["Authorization"] = []string{"Bearer " + s.sign(t, row.claims)}
		}
		var names []string
		for _, h := range set.Match(facts, nil) {
			name := h.Rule.Name
			if h.Plan.Tier != "" {
				name += "/" + h.Plan.Tier
			}
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != row.want {
			t.Errorf("%v: %s, want %s", row.claims, got, row.want)
		}
	}
	ann, bob := request("192.0.2.1"), request("192.0.2.1")
	for f, sub := range map[*Facts]string{ann: "ann", bob: "bob"} {
		f.Now = limit.InstantOf(tokenTime)
		f.Header["Authorization"] = []string{"Bearer " + s.sign(t, map[string]any{"sub": sub})}
	}
	a, b := set.Match(ann, nil), set.Match(bob, nil)
	if key, err := set.FindKey(set.Rule("sub"), []string{"ann"}, false); err != nil || key != a[0].Key || a[0].Key == b[0].Key {
		t.Errorf("the key of ann is not that of her name, or that of bob: %v", err)
	}
}

// A token that is not known is verified for a key only once all else has had its say;
// one that is known, at once.
func TestAnUnknownTokenCanBeLeftForLater(t *testing.T) {
	s := signers()["ES256"]
	set := tokenSet(t, "{ public_key_file: k }", map[string]string{"k": s.pem()}, nil)
	ask := func(token string) *Facts {
		f := request("192.0.2.1")
		f.Now, f.TokenLater = limit.InstantOf(tokenTime), true
		f.Header["Authorization"] = []string{"Bearer " + token}
		return f
	}
	token := s.sign(t, map[string]any{"sub": "ann"})
	f := ask(token)
	hits := set.Match(f, nil)
	if len(hits) != 2 || !hits[0].Pending || hits[1].Pending {
		t.Fatalf("hits %+v, want the first pending", hits)
	}
	f.TokenLater = false
	if hits = set.Resolve(f, hits); len(hits) != 2 || hits[0].Pending || hits[0].Key == (limit.Digest{}) {
		t.Fatalf("hits %+v once the token may be verified", hits)
	}
	if again := set.Match(ask(token), nil); len(again) != 2 || again[0].Pending || again[0].Key != hits[0].Key {
		t.Errorf("hits %+v of a token that was verified", again)
	}
	f = ask(s.sign(t, map[string]any{"sub": "ann"})[:60])
	hits = set.Match(f, nil)
	f.TokenLater = false
	if hits = set.Resolve(f, hits); len(hits) != 1 || hits[0].Rule.Name != "all" {
		t.Errorf("hits %+v of a broken token, want those without the rule that skips", hits)
	}
}

// What is remembered is bounded, holds no token, and goes with its keys.
func TestVerifiedTokensAreRememberedInBounds(t *testing.T) {
	s := signers()["HS256"]
	files := map[string]string{"k": string(s.key.([]byte))}
	set := tokenSet(t, "{ secret: { file: k } }", files, nil)
	var last string
	for i := range 3 * seenTokens {
		last = s.sign(t, map[string]any{"sub": fmt.Sprint(i)})
		if got, _ := set.subject(last); got != fmt.Sprint(i) {
			t.Fatalf("token %d: sub %q", i, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { set.subject(last) }); n > 10 {
		t.Errorf("a token that is remembered is verified again, to go by %v allocations", n)
	}
	if next := tokenSet(t, "{ secret: { file: k } }", files, set); next.verifier != set.verifier {
		t.Error("a reload with the same keys forgets all tokens")
	}
	rotated := tokenSet(t, "{ secret: { file: k } }", map[string]string{"k": "fedcba9876543210fedcba9876543210"}, set)
	if got, _ := rotated.subject(last); got != "" {
		t.Error("a token of before outlives its key")
	}
}

func TestAMatchOfARememberedTokenAllocatesNothing(t *testing.T) {
	s := signers()["HS256"]
	set := tokenSet(t, "{ secret: { file: k } }", map[string]string{"k": string(s.key.([]byte))}, nil)
	f := request("192.0.2.1")
	header := f.Header
	header["Authorization"] = []string{"Bearer " + s.sign(t, map[string]any{"sub": "ann"})}
	var hits []Hit
	if n := testing.AllocsPerRun(200, func() {
		f.Reset()
		f.Method, f.Path, f.Header, f.Client, f.Now = "GET", "/", header, request("192.0.2.1").Client, limit.InstantOf(tokenTime)
		hits = set.Match(f, hits[:0])
	}); n > 2 || len(hits) != 2 { // the two of request
		t.Errorf("%v allocations for %d hits", n, len(hits))
	}
}

func TestKeySetsHoldWhatTheyMay(t *testing.T) {
	es, rs := signers()["ES256"], signers()["RS256"]
	with := func(name, value string) map[string]string { return es.jwk(name, value) }
	for what, row := range map[string]struct {
		text string
		keys int // 0 is an error
	}{
		"one":                       {jwks(es.jwk()), 1},
		"an unknown kind beside it": {jwks(map[string]string{"kty": "XYZ"}, es.jwk()), 1},
		"another curve beside it":   {jwks(map[string]string{"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}, es.jwk()), 1},
		"one for encryption":        {jwks(rs.jwk("use", "enc"), es.jwk()), 1},
		"one for RSA-OAEP":          {jwks(rs.jwk("alg", "RSA-OAEP"), es.jwk()), 1},
		"an alg of another kind":    {jwks(with("alg", "RS256")), 0},
		"none":                      {jwks(), 0},
		"an unknown kind alone":     {jwks(map[string]string{"kty": "XYZ"}), 0},
		"no set":                    {`{"kty":"RSA"}`, 0},
		"no JSON":                   {"keys", 0},
		"a list":                    {"[]", 0},
		"a point off the curve":     {jwks(with("x", base64.RawURLEncoding.EncodeToString(make([]byte, 32)))), 0},
		"a short point":             {jwks(with("x", "AA")), 0},
		"a broken code":             {jwks(with("x", "*")), 0},
		"a weak key":                {jwks(signers()["weak"].jwk()), 0},
		"an exponent of one":        {jwks(rs.jwk("e", "AQ")), 0},
		"an even exponent":          {jwks(rs.jwk("e", "Ag")), 0},
		"a short secret":            {jwks(map[string]string{"kty": "oct", "k": "AAAA"}), 0},
		"too many":                  {jwks(make([]map[string]string, maxTokenKeys+1)...), 0},
	} {
		keys, err := readJWKS(row.text)
		if len(keys) != row.keys || (err == nil) != (row.keys > 0) {
			t.Errorf("%s: %d keys, %v", what, len(keys), err)
		}
		if err != nil && strings.Contains(err.Error(), es.jwk()["x"]) {
			t.Errorf("%s: the error shows a key: %v", what, err)
		}
	}
}

func FuzzJWKS(f *testing.F) {
	for _, alg := range []string{"RS256", "ES256", "ES512", "EdDSA", "HS256"} {
		f.Add(jwks(signers()[alg].jwk("kid", "a")))
	}
	f.Add(`{"keys":[{"kty":"EC","crv":"P-256"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := readJWKS(text)
		if (len(keys) > 0) == (err != nil) {
			t.Fatalf("%d keys, %v", len(keys), err)
		}
		for _, k := range keys {
			if len(k.algs) == 0 || k.key == nil {
				t.Fatalf("key %+v", k)
			}
		}
	})
}

func FuzzToken(f *testing.F) {
	s := signers()["HS256"]
	set := tokenSet(f, "{ secret: { file: k } }", map[string]string{"k": string(s.key.([]byte))}, nil)
	f.Add(s.sign(f, map[string]any{"sub": "ann", "exp": tokenTime.Unix()}))
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, text string) {
		value, problem := set.subject(text)
		again, same := set.subject(text)
		if value != again || problem != same || value != "" && problem != "" {
			t.Fatalf("%q: %q %q, then %q %q", text, value, problem, again, same)
		}
	})
}
