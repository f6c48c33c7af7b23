package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"gateway/proxy/admin"
)

// status reads /status.
func (g *instance) status() admin.Status {
	g.t.Helper()
	a := g.control("GET", "/status")
	var s admin.Status
	if err := json.Unmarshal([]byte(a.body), &s); err != nil || a.status != 200 || a.header.Get("Content-Type") != "application/json" {
		g.t.Fatalf("/status: %d %q, %v", a.status, a.body, err)
	}
	return s
}

// command runs the binary on the running gateway.
func (g *instance) command(args ...string) (string, error) {
	out, err := exec.Command(binary, append(args, "--admin", g.admin)...).CombinedOutput()
	return string(out), err
}

func TestStatusSaysWhatTheMetricsSay(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(500)
		}
	})
	const tail = `
groups: { vip: { header.X-Key: [gold] } }
rules:
  - { name: per-ip, limit: 5/365d, tiers: { vip: { limit: 50/365d } } }
  - { name: dry, match: /x, key: header.X-Key, limit: 2/365d, dry_run: true }
  - { name: slots, key: global, concurrency: 20 }
  - { name: odd, match: /y, key: header.X-Odd, limit: 1/s, missing: skip }
`
	g := serve(t, ports+"upstream: "+up.URL+tail)
	get := func(n int, path string, header ...string) {
		for range n {
			g.get(path, header...)
		}
	}
	get(3, "/x")
	get(2, "/bad")
	get(4, "/x")                // refused
	get(6, "/x", "X-Key: gold") // of the tier
	get(1, "/y", "X-Key: gold") // odd skips
	s, m := g.status(), g.metrics()
	for _, r := range s.Rules {
		series := func(metric string) float64 { return m[fmt.Sprintf(`gateway_rule_%s{rule=%q}`, metric, r.Name)] }
		for what, c := range map[string]struct {
			got  int64
			want float64
		}{
			"units": {r.Units, series("units_total")}, "near": {r.NearLimit, series("near_limit_total")},
			"keys": {r.Keys, series("keys")}, "evictions": {r.Evictions, series("evictions_total")},
			"skipped": {r.Skipped, m[fmt.Sprintf(`gateway_rule_decisions_total{result="skipped",rule=%q,tier=""}`, r.Name)]},
		} {
			if float64(c.got) != c.want {
				t.Errorf("%s of %s: %d, the metrics say %v", what, r.Name, c.got, c.want)
			}
		}
		for _, p := range r.Plans {
			for result, got := range map[string]int64{"allowed": p.Allowed, "rejected": p.Refused, "dry_run_rejected": p.WouldRefuse, "failed_closed": p.FailedClosed} {
				if want := m[fmt.Sprintf(`gateway_rule_decisions_total{result=%q,rule=%q,tier=%q}`, result, r.Name, p.Tier)]; float64(got) != want {
					t.Errorf("%s of %s, tier %q: %d, the metrics say %v", result, r.Name, p.Tier, got, want)
				}
			}
		}
	}
	// And by hand: 5 pass and 4 are refused, 7 more belong to the tier.
	ip, dry := s.Rules[0], s.Rules[1]
	if p := ip.Plans; p[0].Allowed != 5 || p[0].Refused != 4 || p[1].Tier != "vip" || p[1].Allowed != 7 || p[1].Limit != "50/365d" {
		t.Errorf("per-ip: %+v", p)
	}
	// Of the 3 from the address 2 pass the dry run, of the 6 of gold 2.
	if p := dry.Plans[0]; !dry.DryRun || p.Allowed != 4 || p.WouldRefuse != 5 || p.Refused != 0 || dry.Keys != 2 || dry.Match != "/x" || dry.Key != "header.X-Key" {
		t.Errorf("dry: %+v", dry)
	}
	if s.Answers["2xx"] != 10 || s.Answers["4xx"] != 4 || s.Answers["5xx"] != 2 || s.InFlight != 0 || !s.Ready || !s.Config.OK || s.Config.Error != "" {
		t.Errorf("status %+v", s)
	}
	if !(ip.RefusedRate > 0) || ip.RefusedRate > 4 {
		t.Errorf("%v refused a second, want some of the 4", ip.RefusedRate)
	}
	server := s.Upstreams[0].Servers[0]
	if s.Upstreams[0].Name != "default" || server.URL != up.URL || !server.Up || server.LastCheck != nil || server.Answers["2xx"] != 10 || server.Answers["5xx"] != 2 {
		t.Errorf("upstreams %+v", s.Upstreams)
	}
	out, err := g.command("status")
	for _, want := range []string{", ready, 0 in flight", "tier vip", "dry (dry run)", "0 (would: 5)", up.URL} {
		if !strings.Contains(out, want) {
			t.Errorf("status does not say %q:\n%s", want, out)
		}
	}
	do(t, err)
	out, err = g.command("status", "--json")
	var again admin.Status
	if err != nil || json.Unmarshal([]byte(out), &again) != nil || again.Rules[0].Plans[0] != ip.Plans[0] {
		t.Errorf("status --json: %v\n%s", err, out)
	}
	// A broken edit is seen at once, and that the old rules hold.
	g.save(ports + "upstream: " + up.URL + strings.Replace(tail, "2/365d", "2/fortnight", 1))
	eventually(t, "the status shows the error", func() bool { return !g.status().Config.OK })
	if s := g.status(); !strings.Contains(s.Config.Error, `gateway.yaml:7:55: limit "2/fortnight"`) || s.Config.Hash != again.Config.Hash {
		t.Errorf("the error is %q", s.Config.Error)
	}
	if out, err = g.command("status"); err != nil || !strings.Contains(out, "NOT IN FORCE") || !strings.Contains(out, "fortnight") {
		t.Errorf("status: %v\n%s", err, out)
	}
}

// Whom a rule refuses most is shown by address, or by an id that says nothing of
// the key.
func TestStatusShowsWhoIsRefusedMost(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+"upstream: "+up.URL+`
trusted_proxies: [127.0.0.1]
rules:
  - { name: per-ip, match: /ip, limit: 1/365d }
  - { name: per-key, match: /key, key: header.X-API-Key, limit: 1/365d }
  - { name: dry, match: /dry, limit: 1/365d, dry_run: true }
`)
	send := func(n int, path string, header ...string) {
		for range n {
			g.get(path, header...)
		}
	}
	send(3, "/ip", "X-Forwarded-For: 203.0.113.7")
	send(5, "/ip", "X-Forwarded-For: 2001:db8::5")
	send(2, "/key", "X-API-Key: canary-8472")
	send(4, "/key", "X-Forwarded-For: 203.0.113.9")
	send(3, "/dry", "X-Forwarded-For: 203.0.113.7")
	body := g.control("GET", "/status").body
	if strings.Contains(body, "canary") {
		t.Errorf("a key is in the status:\n%s", body)
	}
	s := g.status()
	top := func(rule, place int) string {
		k := s.Rules[rule].TopRefused[place]
		return fmt.Sprintf("%s %d %s", k.Key, k.Refused, k.Client)
	}
	for _, c := range []struct{ got, want string }{
		{top(0, 0), "2001:db8::/64 4 2001:db8::5"},
		{top(0, 1), "203.0.113.7 2 203.0.113.7"},
		{top(1, 0), "203.0.113.9 without header.X-Api-Key 3 203.0.113.9"},
		{top(2, 0), "203.0.113.7 2 203.0.113.7"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	if k := s.Rules[1].TopRefused[1]; !strings.HasPrefix(k.Key, "id:") || len(k.Key) != 35 || k.Refused != 1 {
		t.Errorf("the key is shown as %+v", k)
	}
	if in := s.Rules[0].TopRefused[0].AllowedIn; in == nil || *in < 364*86400 || *in > 365*86400 {
		t.Errorf("allowed in %v s, want a year", in)
	}
	if out, err := g.command("status"); err != nil || !strings.Contains(out, "2001:db8::/64") || !strings.Contains(out, "REFUSED MOST") {
		t.Errorf("status: %v\n%s", err, out)
	}
}
