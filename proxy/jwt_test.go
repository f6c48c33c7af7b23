package proxy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// tokenOf signs claims with HS256 and the secret of these tests.
func tokenOf(claims string) string {
	code := base64.RawURLEncoding.EncodeToString
	text := code([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + code([]byte(claims))
	mac := hmac.New(sha256.New, []byte(tokenSecret))
	mac.Write([]byte(text))
	return text + "." + code(mac.Sum(nil))
}

const (
	tokenSecret = "0123456789abcdef0123456789abcdef"
	tokenHead   = "upstream: UPSTREAM\njwt: { secret: " + tokenSecret + " }\nrules:\n"
)

func TestOneUserOfATokenHasOneCounterWhateverTheAddressOrToken(t *testing.T) {
	s := newSite(t, tokenHead+"  - { name: user, key: jwt.sub, missing: reject, limit: 2/h }\n", nil)
	for i, row := range []struct {
		token  string
		status int
	}{
		{tokenOf(`{"sub":"ann"}`), 200}, {tokenOf(`{"sub":"ann","jti":"2"}`), 200}, {tokenOf(`{"sub":"ann","jti":"3"}`), 429},
		{tokenOf(`{"sub":"bob"}`), 200}, {tokenOf(`{"name":"bob"}`), 400}, {tokenOf(`{"sub":"bob","exp":1000}`), 400},
		{tokenOf(`{"sub":"bob"}`) + "x", 400}, {"x", 400},
	} {
		r := s.get("/", "Authorization: Bearer "+row.token)
		if r.StatusCode != row.status {
			t.Errorf("request %d: %d, want %d", i, r.StatusCode, row.status)
		}
		if strings.Contains(r.body, "ann") || strings.Contains(r.body, "eyJ") {
			t.Errorf("request %d: the answer shows who it is: %s", i, r.body)
		}
	}
	for _, r := range s.requests() {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer eyJ") {
			t.Errorf("the upstream got Authorization %q", r.Header.Get("Authorization"))
		}
	}
	if r := s.get("/", "Connection: close, Authorization", "Authorization: Bearer "+tokenOf(`{"sub":"bob"}`)); r.StatusCode != 200 || s.requests()[3].Header.Get("Authorization") == "" {
		t.Errorf("%d: a client can take the token away that a rule has read", r.StatusCode)
	}
}

// Who is refused whatever the token says is refused before the token is looked at:
// else a broken one would be answered 400.
func TestRulesThatNeedNoTokenAreAskedBeforeItIsVerified(t *testing.T) {
	for _, body := range []string{"", "Content-Length: 4\n"} {
		s := newSite(t, tokenHead+"  - { name: ip, limit: 2/h }\n  - { name: user, key: jwt.sub, missing: reject, limit: 9/h }\n  - { name: both, key: [jwt.sub, header.X], missing: skip, limit: 9/h }\n", nil)
		ask := func(token string) int {
			text := "POST / HTTP/1.1\nHost: a\nConnection: close\nAuthorization: Bearer " + token + "\n" + body + "\n"
			if body != "" {
				text += "body"
			}
			return s.raw(text).StatusCode
		}
		for i, row := range []struct {
			token  string
			status int
		}{{tokenOf(`{"sub":"ann"}`), 200}, {"broken", 400}, {"broken", 400}, {tokenOf(`{"sub":"ann"}`), 200}, {"broken", 429}, {tokenOf(`{"sub":"eve"}`), 429}} {
			if got := ask(row.token); got != row.status {
				t.Errorf("with %q, request %d: %d, want %d", body, i, got, row.status)
			}
		}
		rules := s.gateway.Current().rules
		if allowed, units := rules.Rule("user").Base.Live.Allowed.Load(), rules.Rule("ip").Live.Units.Load(); allowed != 2 || units != 2 {
			t.Errorf("with %q: %d allowed by user, %d units of ip; want 2, 2", body, allowed, units)
		}
	}
}

// A token that was good is not good for ever, also when it is remembered.
func TestARememberedTokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{Clock: NewClock()}, build(t, "jwt: { secret: "+tokenSecret+" }\nroutes: [{ respond: { status: 204 } }]\n"+
			"rules: [{ name: user, key: jwt.sub, missing: reject, limit: 99/h }]\n", nil))
		defer g.Close()
		// A bubble begins at midnight UTC on 1 January 2000.
		token := tokenOf(`{"sub":"ann","exp":946684900,"nbf":946684830}`)
		for _, row := range []struct {
			second time.Duration
			status int
		}{{0, 204}, {100, 204}, {159, 204}, {160, 400}, {1000, 400}} {
			time.Sleep(time.Until(time.Unix(946684800, 0).Add(row.second * time.Second)))
			if got := bearing(g, token); got != row.status {
				t.Errorf("at %d s: %d, want %d", row.second, got, row.status)
			}
		}
	})
}

// bearing sends a request with a token through the gateway, without a socket.
func bearing(g *Gateway, token string) int {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w.Code
}

// Who is refused before the token is looked at is refused: it counts for a penalty.
func TestARefusalBeforeATokenIsVerifiedCounts(t *testing.T) {
	s := newSite(t, tokenHead+"  - { name: ip, limit: 1/d, penalty: { after: 2/d, block: 50d } }\n  - { name: user, key: jwt.sub, missing: reject, limit: 9/h }\n", nil)
	for i, blocked := range []bool{false, false, false, true, true} {
		r := s.get("/", "Authorization: Bearer "+tokenOf(fmt.Sprintf(`{"sub":"ann","jti":"%d"}`, i))) // one that was verified is known
		if r.StatusCode != 200 != (i > 0) || strings.Contains(r.body, "abnormal-usage-detected") != blocked {
			t.Errorf("request %d: %d %s, want it blocked: %v", i, r.StatusCode, r.body, blocked)
		}
		if after := r.Header.Get("Retry-After"); i > 0 && len(after) < len("86000") { // a day, or 50
			t.Errorf("request %d: Retry-After %s", i, after)
		}
	}
}
