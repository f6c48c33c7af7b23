package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"gateway/proxy/admin"
)

// An operator looks up, frees and blocks a client while the gateway runs.
func TestKeysAreShownFreedAndBlocked(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	const tail = `
trusted_proxies: [127.0.0.1]
groups: { vip: { header.X-API-Key: [gold] } }
rules:
  - { name: per-ip, key: ip, limit: 3/365d }
  - { name: per-key, match: /key, key: header.X-API-Key, limit: 2/365d, tiers: { vip: { limit: 9/365d } } }
  - { name: dry, match: /dry, limit: 1/365d, dry_run: true }
  - { name: strict, match: /strict, key: ip, limit: 1/365d, penalty: { after: 1/365d, block: 1h } }
`
	g := serve(t, ports+"upstream: "+up.URL+tail)
	const ann, bob = "X-Forwarded-For: 203.0.113.7", "X-Forwarded-For: 203.0.113.8"
	want := func(status int, path string, header ...string) answer {
		t.Helper()
		a := g.get(path, header...)
		if a.status != status {
			t.Errorf("%s with %q: %d, want %d: %s", path, header, a.status, status, a.body)
		}
		return a
	}
	run := func(contains string, args ...string) string {
		t.Helper()
		out, err := g.command(append([]string{"keys"}, args...)...)
		if err != nil || !strings.Contains(out, contains) {
			t.Errorf("keys %q: %v, want %q in\n%s", args, err, contains, out)
		}
		return out
	}
	for range 3 {
		want(200, "/", ann)
	}
	want(429, "/", ann)
	run("0 of 3 left", "show", "per-ip", "203.0.113.7")
	run("3 of 3 left (3/365d), a request passes now", "show", "per-ip", "203.0.113.8")
	run("203.0.113.7", "list", "per-ip")

	// Reset: all three again, for this client alone.
	run("3 of 3 left", "reset", "per-ip", "203.0.113.7")
	for range 3 {
		want(200, "/", ann)
	}
	want(429, "/", ann)

	// Block: bob, who has all left; others go on, and it costs him nothing.
	run("is blocked until", "block", "per-ip", "203.0.113.8", "--for", "2h")
	a := want(429, "/", bob)
	var p struct {
		Type     string   `json:"type"`
		Violated []string `json:"violated-policies"`
		After    int      `json:"retry_after"`
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || !strings.HasSuffix(p.Type, "#abnormal-usage-detected") ||
		len(p.Violated) != 1 || p.Violated[0] != "per-ip" || p.After < 7190 || p.After > 7200 {
		t.Errorf("the answer to a blocked request: %s", a.body)
	}
	if d := a.retryAfter(t); d < 7190*time.Second || d > 2*time.Hour {
		t.Errorf("Retry-After %v, want 2 h", d)
	}
	want(200, "/", "X-Forwarded-For: 203.0.113.9")
	want(429, "/dry", bob) // per-ip matches all
	if s := g.status(); s.Rules[0].Plans[0].Blocked != 2 || g.metrics()[`gateway_rule_decisions_total{result="blocked",rule="per-ip",tier=""}`] != 2 {
		t.Errorf("blocked requests are counted as %+v", s.Rules[0].Plans)
	}
	// An edit of the numbers keeps it; a reset ends it.
	g.save(ports + "upstream: " + up.URL + strings.Replace(tail, "3/365d", "4/365d", 1))
	if a := g.control("POST", "/reload"); a.status != 200 {
		t.Fatalf("reload: %s", a.body)
	}
	want(429, "/", bob)
	if out := run("4 of 4 left", "reset", "per-ip", "203.0.113.8"); strings.Contains(out, "blocked until") {
		t.Errorf("reset: %s", out)
	}
	want(200, "/", bob)

	// A key that is a secret is named by its text, or by the id that stands for it.
	for range 2 {
		want(200, "/key", "X-API-Key: canary-8472", "X-Forwarded-For: 203.0.113.20")
	}
	want(429, "/key", "X-API-Key: canary-8472", "X-Forwarded-For: 203.0.113.20")
	id := g.status().Rules[1].TopRefused[0].Key
	run("0 of 2 left", "show", "per-key", id)
	run("as tier vip: 9 of 9 left", "show", "per-key", "canary-8472")
	run(id+" under rule", "block", "per-key", "canary-8472")
	want(429, "/key", "X-API-Key: canary-8472", "X-Forwarded-For: 203.0.113.21")
	run(id, "list", "per-key")
	run("2 of 2 left", "reset", "per-key", id)
	want(200, "/key", "X-API-Key: canary-8472", "X-Forwarded-For: 203.0.113.21")
	// Who has no key is counted by his address.
	want(200, "/key", "X-Forwarded-For: 203.0.113.22")
	run("1 of 2 left", "show", "per-key", "203.0.113.22", "--without")

	// A penalty ends when it ends, whether there is room by then or not.
	for i := range 3 {
		want([]int{200, 429, 429}[i], "/strict", "X-Forwarded-For: 203.0.113.30")
	}
	var u admin.KeyUsage
	out := run("{", "show", "strict", "203.0.113.30", "--json")
	if err := json.Unmarshal([]byte(out), &u); err != nil || u.BlockedUntil == nil || time.Until(*u.BlockedUntil) > time.Hour ||
		time.Until(*u.BlockedUntil) < 50*time.Minute || *u.Plans[0].AllowedIn < 300*24*3600 {
		t.Errorf("blocked for an hour, and without room for a year: %v in %s", err, out)
	}

	// What was done is in the log, without a secret.
	lines := g.logged("key reset", "key blocked")
	if len(lines) != 5 || lines[1]["msg"] != "key blocked" || lines[1]["rule"] != "per-ip" || lines[1]["key"] != "203.0.113.8" || lines[1]["until"] == nil {
		t.Errorf("the log has %v", lines)
	}
	if strings.Contains(g.errs.String()+g.control("GET", "/keys/per-key").body, "canary") {
		t.Error("a key is in the log or in a list")
	}

	for _, c := range []struct {
		want string
		args []string
	}{
		{`no rule "per-ipp"; there are: per-ip, per-key, dry`, []string{"reset", "per-ipp", "x"}},
		{`"x" is no IP address`, []string{"show", "per-ip", "x"}},
		{"give a value for ip", []string{"show", "per-ip"}},
		{"refuses nobody", []string{"block", "dry", "203.0.113.8"}},
		{"--for soon: not a duration; write it like 500ms", []string{"block", "per-ip", "203.0.113.8", "--for", "soon"}},
		{"1s to 366d", []string{"block", "per-ip", "203.0.113.8", "--for", "10ms"}},
	} {
		if out, err := g.command(append([]string{"keys"}, c.args...)...); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("keys %q: %v, want %q in %s", c.args, err, c.want, out)
		}
	}
	// A web page cannot do it, nor can a GET.
	body := url.Values{"key": {"203.0.113.7"}}.Encode()
	for _, origin := range []string{"http://evil.example", "null"} {
		req, _ := http.NewRequest("POST", "http://"+g.admin+"/keys/per-ip/block", strings.NewReader(body))
		req.Header.Set("Origin", origin)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := g.client.Do(req)
		do(t, err)
		res.Body.Close()
		if res.StatusCode != 403 {
			t.Errorf("a form from %s: %d, want 403", origin, res.StatusCode)
		}
	}
	if a := g.control("GET", "/keys/per-ip/block?key=203.0.113.7"); a.status != 405 {
		t.Errorf("GET blocks: %d", a.status)
	}
	var list admin.RuleKeys
	if err := json.Unmarshal([]byte(g.control("GET", "/keys/per-ip").body), &list); err != nil || len(list.Blocked) != 0 {
		t.Errorf("blocked in the end: %+v, %v", list, err)
	}
}

// A reset does not let a client exceed what it may have in progress.
func TestAResetKeepsRequestsInProgress(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	arrived := make(chan struct{}, 1)
	up := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-release
		}
	})
	g := serve(t, ports+"upstream: "+up.URL+"\nrules:\n  - { name: slots, key: global, concurrency: 1 }\n")
	ended := make(chan error, 1)
	go func() {
		_, err := g.try("GET", "/slow")
		ended <- err
	}()
	<-arrived
	if out, err := g.command("keys", "reset", "slots"); err != nil || !strings.Contains(out, "stay counted") || !strings.Contains(out, "0 of 1 left") {
		t.Errorf("reset: %v\n%s", err, out)
	}
	if a := g.get("/"); a.status != 429 {
		t.Errorf("a second request beside the first: %d, want 429", a.status)
	}
	close(release)
	do(t, <-ended)
	eventually(t, "there is room again", func() bool { return g.get("/").status == 200 })
}
