package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Row S43: a secret that comes in wherever one can come in is in nothing that comes
// out: no log, page, metric, answer of the gateway's own, file of levels, message of a command.
func TestASecretComesOutNowhere(t *testing.T) {
	t.Parallel()
	// A canary for each place, so that a failure says which leaks.
	canary := func(place string) string { return "c4n4ry-" + place + "-0123456789abcdef" }
	places := []string{
		"header", "apikey", "cookie", "bearer", "basic", "query", "token", "keyfile", "env", "admin", "setcookie", "userinfo",
		"yaml", "upstreamerror", "groupfile", "body", "referer", "upstreampass", "path",
	}
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "session="+canary("setcookie"))
		if r.URL.Path == "/broken" { // an answer that is none
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				io.WriteString(c, "HTTP/1.1 "+canary("upstreamerror")+"\r\n\r\n")
				c.Close()
			}
		}
	})
	dir := t.TempDir()
	do(t, os.WriteFile(dir+"/token", []byte(canary("keyfile")), 0o600))
	do(t, os.WriteFile(dir+"/keys", []byte(canary("groupfile")+"\n"), 0o600))
	text := ports[:strings.Index(ports, "admin")] + "admin: { listen: 127.0.0.1:0, token: { file: token } }\n" + `
state: levels
upstreams:
  api: ` + up.URL + `
  dead: "http://` + up.URL[len("http://"):] + `"
groups: { vip: { header.X-API-Key: { file: keys } } }
log: { level: debug, redact: [path.token] }
routes:
  - match: /set/**
    upstream: api
    headers: { request: { set: { Authorization: "Bearer ` + canary("admin") + `" } } }
  - { match: /**, upstream: api }
rules:
  - { name: header, key: header.X-Plan, limit: 3/365d, missing: skip }
  - { name: apikey, key: header.X-API-Key, limit: 3/365d, missing: skip, tiers: { vip: { limit: 2/365d } } }
  - { name: cookie, key: cookie.session, limit: 3/365d, missing: skip }
  - { name: basic, key: basic.username, limit: 3/365d, missing: skip }
  - { name: query, key: query.tenant, limit: 3/365d, missing: skip }
  - { name: body, match: POST /login, key: body.user, limit: 3/365d }
  - { name: path, match: /reset/:token, key: path.token, limit: 3/365d }
`
	write(t, dir+"/gateway.yaml", text)
	g := serveFileAt(t, dir+"/gateway.yaml", func(c *exec.Cmd) { c.Env = append(c.Env, "SECRET="+canary("env")) })
	var seen strings.Builder // all that comes out
	answer := func(method, target string, header ...string) {
		for range 5 { // passes, then is refused
			a, err := g.try(method, target, header...)
			do(t, err)
			a.header.Del("Set-Cookie") // the upstream's own answer to the client
			fmt.Fprintln(&seen, a.header, a.body)
		}
	}
	answer("GET", "/", "X-Plan: "+canary("header"))
	answer("GET", "/", "X-API-Key: "+canary("apikey"))
	answer("GET", "/", "X-API-Key: "+canary("groupfile"))
	answer("GET", "/", "Cookie: session="+canary("cookie"))
	answer("GET", "/", "Authorization: Bearer "+canary("bearer"), "Proxy-Authorization: Basic "+canary("bearer"))
	answer("GET", "/", "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(canary("basic")+":"+canary("basic"))))
	answer("GET", "/?tenant="+canary("query"))
	answer("GET", "/?api_key="+canary("token")+"&access_token="+canary("token")+"&password="+canary("token"), "Referer: http://a/?token="+canary("referer"))
	answer("GET", "/broken")
	answer("GET", "/set/x")
	answer("GET", "/reset/"+canary("path"))
	for range 5 {
		res, err := g.client.Post("http://"+g.addr+"/login", "application/json", strings.NewReader(`{"user": "`+canary("body")+`", "password": "`+canary("body")+`"}`))
		do(t, err)
		body, err := io.ReadAll(res.Body)
		do(t, err)
		res.Body.Close()
		seen.Write(body)
	}
	c := dialRaw(t, g.addr)
	io.WriteString(c, "GET http://user:"+canary("userinfo")+"@a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
	text2, err := io.ReadAll(c)
	do(t, err)
	seen.WriteString(strings.ReplaceAll(string(text2), canary("setcookie"), ""))

	// What the operator sees, with edits that are wrong in many ways.
	auth := "Authorization: Bearer " + canary("keyfile")
	look := func() {
		for _, path := range []string{"/", "/status", "/metrics", "/config", "/config?format=json", "/keys/apikey", "/keys/header"} {
			a := g.control("GET", path, auth)
			if a.status != 200 {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
			seen.WriteString(a.body)
		}
		seen.WriteString(g.control("POST", "/reload", auth).body)
		seen.WriteString(g.control("GET", "/status", "Authorization: Bearer wrong").body)
	}
	look()
	for _, wrong := range []string{
		strings.Replace(text, "token: { file: token }", "token: { file: nowhere }", 1),
		strings.Replace(text, up.URL+"\n", `"http://user:`+canary("upstreampass")+`@ host/"`+"\n", 1),
		text + "jwt: { secret: " + canary("yaml") + ", sekret: " + canary("yaml") + " }\n",
		text + "admin: { token: " + canary("yaml") + " }\n",
		strings.Replace(text, "limit: 3/365d", "limit: ${SECRET}", 1),
		strings.Replace(text, "Bearer "+canary("admin"), "Bearer "+canary("admin")+"\\n", 1),
	} {
		g.save(wrong)
		look()
		out, _ := exec.Command(binary, "check", "-c", g.path).CombinedOutput()
		seen.Write(out)
		out, _ = exec.Command(binary, "check", "--json", "-c", g.path).CombinedOutput()
		seen.Write(out)
	}
	g.save(text)
	for _, args := range [][]string{
		{"config", "-c", g.path}, {"config", "--json", "-c", g.path}, {"check", "-c", g.path}, {"check", "--json", "-c", g.path},
		{"explain", "GET", "/?tenant=a", "-c", g.path},
	} {
		out, err := exec.Command(binary, args...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		seen.Write(out)
	}
	g.stop()
	levels, err := os.ReadFile(dir + "/levels")
	do(t, err)
	seen.Write(levels)
	seen.WriteString(g.errs.String())
	seen.WriteString(g.out.String())
	for line := range strings.Lines(g.out.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
	all, leaks := seen.String(), 0
	for _, place := range places {
		if i := strings.Index(all, canary(place)); i >= 0 {
			leaks++
			t.Errorf("the secret of %s is out: …%s…", place, all[max(0, i-300):min(len(all), i+100)])
		}
		if i := strings.Index(all, base64.StdEncoding.EncodeToString([]byte(canary(place)))); i >= 0 {
			t.Errorf("the secret of %s is out, encoded", place)
		}
	}
	score(t, "S43", "%d leaks of secrets in %d places", leaks, len(places))
}
