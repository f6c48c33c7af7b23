package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// issuer signs tokens with EdDSA.
type issuer struct {
	kid string
	key ed25519.PrivateKey
}

func newIssuer(t testing.TB, kid string) issuer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	do(t, err)
	return issuer{kid, key}
}

func (i issuer) token(claims string) string {
	code := base64.RawURLEncoding.EncodeToString
	text := code([]byte(`{"alg":"EdDSA","kid":"`+i.kid+`"}`)) + "." + code([]byte(claims))
	return text + "." + code(ed25519.Sign(i.key, []byte(text)))
}

func (i issuer) jwk() string {
	x := base64.RawURLEncoding.EncodeToString(i.key.Public().(ed25519.PublicKey))
	return `{"kty":"OKP","crv":"Ed25519","kid":"` + i.kid + `","x":"` + x + `"}`
}

// Keys are rotated by saving their file; one that cannot be used changes nothing; and
// no token is shown anywhere.
func TestKeysOfTokensAreRotatedLive(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	keys, path := filepath.Join(dir, "keys.json"), filepath.Join(dir, "gateway.yaml")
	old, next := newIssuer(t, "old"), newIssuer(t, "next")
	write(t, keys, `{"keys":[`+old.jwk()+`]}`) // as it often is, without a newline at its end
	write(t, path, ports+"upstream: "+up.URL+"\njwt: { jwks_file: keys.json }\nrules:\n"+
		"  - { name: user, key: jwt.sub, missing: reject, limit: 1000/365d, burst: 1000 }\n  - { name: few, key: jwt.sub, limit: 5/365d, match: /few }\n")
	g := serveFileAt(t, path)
	claims := `{"sub":"canary-subject"}`
	status := func(i issuer) int {
		a, err := g.try("GET", "/", "Authorization: Bearer "+i.token(claims))
		do(t, err)
		return a.status
	}
	if a, b := status(old), status(next); a != 200 || b != 400 {
		t.Errorf("with the old keys: %d, %d; want 200, 400", a, b)
	}
	write(t, keys, `{"keys":[`+old.jwk()+`,`+next.jwk()+`]}`)
	eventually(t, "the next key is in force", func() bool { return status(next) == 200 })
	if got := status(old); got != 200 {
		t.Errorf("the old key beside it: %d, want 200", got)
	}
	eventually(t, "the log says so", func() bool { return len(g.logged("configuration reloaded")) > 0 })
	if lines := g.logged("configuration reloaded"); len(lines) != 1 || lines[0]["changed"] != "keys of jwt" {
		t.Errorf("the log says %v", lines)
	}
	for range 7 {
		g.try("GET", "/few", "Authorization: Bearer "+next.token(claims))
	}

	write(t, keys, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"`+base64.RawURLEncoding.EncodeToString([]byte("short"))+`"}]}`)
	eventually(t, "broken keys are refused", func() bool { return len(g.logged("configuration refused; the running settings are unchanged")) > 0 })
	if text := g.errs.String(); !strings.Contains(text, `gateway.yaml:`) || !strings.Contains(text, `key 1: its x is no Ed25519 key`) {
		t.Errorf("the log says\n%s", text)
	}
	if a, b := status(old), status(next); a != 200 || b != 200 {
		t.Errorf("with broken keys: %d, %d; want those before to go on", a, b)
	}
	write(t, keys, `{"keys":[`+next.jwk()+`]}`)
	eventually(t, "the old key is gone", func() bool { return status(old) == 400 })
	if got := status(next); got != 200 {
		t.Errorf("the next key: %d, want 200", got)
	}

	// 7 with a limit of 5: whose they are is told by an id.
	canary := next.token(claims)
	pages := map[string]string{"explain": ""}
	for _, page := range []string{"/", "/status", "/metrics", "/config", "/keys/few/"} {
		pages[page] = g.control("GET", page).body
	}
	out, err := exec.Command(binary, "explain", "-c", path, "GET", "/few", "-H", "Authorization: Bearer "+canary).CombinedOutput()
	do(t, err)
	if !strings.Contains(string(out), "jwt.sub = canary-subject") {
		t.Errorf("explain says\n%s", out)
	}
	broken, err := exec.Command(binary, "explain", "-c", path, "GET", "/few", "-H", "Authorization: Bearer "+canary+"x").CombinedOutput()
	if !strings.Contains(string(broken), "jwt.sub is not in the request (the token is signed with none of the keys)") {
		t.Errorf("explain of a broken token says\n%s\n%v", broken, err)
	}
	pages["explain"] = string(out) + string(broken)
	g.stop()
	pages["stdout"], pages["stderr"] = g.out.String(), g.errs.String()
	head, _, _ := strings.Cut(canary, ".")
	for where, text := range pages {
		for _, secret := range []string{canary, head, canary[strings.LastIndex(canary, ".")+1:]} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows a token:\n%s", where, text)
			}
		}
		if where != "explain" && strings.Contains(text, "canary-subject") {
			t.Errorf("%s shows a claim", where)
		}
	}
	if !strings.Contains(pages["/status"], `"id:`) {
		t.Errorf("the status does not tell of whom is refused: %s", pages["/status"])
	}
}
