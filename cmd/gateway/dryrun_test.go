package main

import (
	"io"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

const onePerHour = "rules:\n  - { name: once, key: global, limit: 1/h }\n  - { name: twice, key: global, limit: 2/h, dry_run: true }\n"

// With --dry-run nothing is refused, what would have been is counted, and everybody
// who looks is told.
func TestAGatewayInADryRunRefusesNothing(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	path := t.TempDir() + "/gateway.yaml"
	write(t, path, ports+"upstream: "+up.URL+"\n"+onePerHour)
	g := launch(t, []string{"run", "--dry-run", "-c", path})
	g.path = path
	t.Cleanup(g.stop)
	g.awaitServing()
	for i := range 5 {
		if a := g.get("/"); a.status != 200 || a.header.Get("RateLimit") != "" || a.header.Get("Retry-After") != "" {
			t.Errorf("request %d: %d, %v; want 200 and no limit headers", i+1, a.status, a.header)
		}
	}
	m := g.metrics()
	if once, twice := m[`gateway_rule_decisions_total{result="dry_run_rejected",rule="once",tier=""}`], m[`gateway_rule_decisions_total{result="dry_run_rejected",rule="twice",tier=""}`]; once != 4 || twice != 3 {
		t.Errorf("would have refused %v and %v, want 4 and 3", once, twice)
	}
	said := g.logged("dry run: no rule refuses anything, since the gateway was started with --dry-run")
	if len(said) != 1 || said[0]["level"] != "WARN" {
		t.Errorf("said at the start: %v", said)
	}
	s := g.status()
	if !s.DryRun || !s.Rules[0].DryRun || !s.Rules[1].DryRun || s.Rules[0].Switched {
		t.Errorf("the status says dry_run %v, rules %+v", s.DryRun, s.Rules)
	}
	if text, err := g.command("status"); err != nil || !strings.Contains(text, "DRY RUN: NO RULE REFUSES ANYTHING") {
		t.Errorf("gateway status says %v\n%s", err, text)
	}
	if a := g.control("GET", "/"); !strings.Contains(a.body, "no rule refuses anything") {
		t.Error("the status page does not say it")
	}
	if a := g.control("GET", "/config"); !strings.HasPrefix(a.body, "# started with --dry-run") {
		t.Errorf("the settings in force begin with %.60q", a.body)
	}
	if text, err := g.command("rule", "once", "--dry-run", "off"); err == nil || !strings.Contains(text, "started with --dry-run") {
		t.Errorf("a rule switched off: %v, %q", err, text)
	}
	// A reload changes rules, and not that.
	if a := g.control("POST", "/reload"); !strings.HasPrefix(a.body, "unchanged") {
		t.Errorf("a reload of the same file says %q", a.body)
	}
	g.reload(ports + "upstream: " + up.URL + "\nrules: [{ name: never, key: global, limit: 1/d }]\n")
	for range 3 {
		if a := g.get("/"); a.status != 200 {
			t.Errorf("status %d after a reload, want 200", a.status)
		}
	}
}

// A rule is switched while it runs, keeps its counters, and is as the file says
// after the next reload, also of a file that is the same.
func TestARuleIsSwitchedUntilTheNextReload(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+"upstream: "+up.URL+"\n"+onePerHour)
	want := func(when string, statuses ...int) {
		t.Helper()
		for _, status := range statuses {
			if a := g.get("/"); a.status != status {
				t.Errorf("%s: status %d, want %d", when, a.status, status)
			}
		}
	}
	say := func(want string, args ...string) {
		t.Helper()
		if text, err := g.command(args...); err != nil || !strings.Contains(text, want) {
			t.Errorf("gateway %v: %v, %q; want %q", args, err, text, want)
		}
	}
	want("as the file says", 200, 429)
	say("rule \"once\" is a dry run: it refuses nobody, until the next reload\n", "rule", "once", "--dry-run", "on")
	want("switched on", 200, 200)
	say("once (dry run until the next reload)", "status")
	if r := g.status().Rules[0]; !r.DryRun || !r.Switched {
		t.Errorf("the status has %+v", r)
	}
	if a := g.control("GET", "/"); !strings.Contains(a.body, "switched on until the next reload") {
		t.Error("the status page does not say it")
	}
	if a := g.control("GET", "/config"); !strings.HasPrefix(a.body, "# rule once has dry_run: true until the next reload\n") {
		t.Errorf("the settings in force begin with %.60q", a.body)
	}
	say("rule \"once\" refuses, as the file says\n", "rule", "once", "--dry-run", "off")
	want("switched back", 429)
	say("rule \"twice\" refuses, until the next reload\n", "rule", "twice", "--dry-run", "off")
	say("twice (enforced until the next reload)", "status")
	say("is a dry run", "rule", "once", "--dry-run", "on")
	want("the other one refuses now", 429)

	// The file is the same; what runs is not, so this is no "unchanged".
	say(`changed "once" (dry_run true → false; counters kept), "twice" (dry_run false → true; counters kept)`, "reload")
	want("after the reload", 429)
	if r := g.status().Rules; r[0].DryRun || r[0].Switched || !r[1].DryRun || r[1].Switched {
		t.Errorf("after a reload the status has %+v", r)
	}
	say("unchanged", "reload")
	if n := len(g.logged("rule switched")); n != 4 {
		t.Errorf("%d switches are logged, want 4", n)
	}

	// What is wrong is said.
	if text, err := g.command("rule", "nobody", "--dry-run", "on"); err == nil || !strings.Contains(text, `there is no rule "nobody"; there are: once, twice`) {
		t.Errorf("a rule that is not there: %v, %q", err, text)
	}
	for _, args := range [][]string{{"rule", "once"}, {"rule", "once", "--dry-run", "yes"}, {"rule"}} {
		if err := exec.Command(binary, args...).Run(); err == nil || err.(*exec.ExitError).ExitCode() != 2 {
			t.Errorf("gateway %v: %v, want exit code 2", args, err)
		}
	}
	const form = "Content-Type: application/x-www-form-urlencoded"
	for _, c := range []struct {
		method, path string
		header       []string
		status       int
	}{
		{"GET", "/rules/once", nil, 405},
		{"POST", "/rules/once", []string{form}, 400}, // of no form
		{"POST", "/rules/once?dry_run=on", []string{form}, 400},
		{"POST", "/rules/nobody", []string{form}, 404},
		{"POST", "/rules/once", []string{form, "Origin: http://evil.example"}, 403},
		{"POST", "/rules/once", []string{form, "Host: evil.example"}, 403},
		{"POST", "/rules/once", []string{form, "Sec-Fetch-Site: cross-site"}, 403},
	} {
		if a := g.control(c.method, c.path, c.header...); a.status != c.status {
			t.Errorf("%s %s with %q: %d, want %d", c.method, c.path, c.header, a.status, c.status)
		}
	}
	if g.status().Rules[0].DryRun {
		t.Error("one of these has switched the rule")
	}
}

// While a rule is switched again and again, and the file saved, every request is
// decided by one version of it: it passes, or is refused by name.
func TestSwitchesAndReloadsUnderTraffic(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	text := ports + "log: { access: off }\nupstream: " + up.URL + "\n" + onePerHour
	g := serve(t, text)
	g.get("/") // the one that passes
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				a, err := g.try("GET", "/")
				if err != nil || a.status != 200 && (a.status != 429 || !strings.Contains(a.body, `"violated-policies":["once"]`)) {
					t.Errorf("%v: %d %s", err, a.status, a.body)
					return
				}
			}
		})
	}
	for i := range 30 {
		if i%10 == 9 {
			g.save(text + strings.Repeat("# edited\n", i))
			g.control("POST", "/reload")
		}
		for _, on := range []string{"on", "off"} {
			res, err := g.client.PostForm("http://"+g.admin+"/rules/once", url.Values{"dry_run": {on}})
			do(t, err)
			io.Copy(io.Discard, res.Body)
			if res.Body.Close(); res.StatusCode != 200 {
				t.Errorf("switching %s: %s", on, res.Status)
			}
		}
	}
	close(stop)
	wg.Wait()
	if a := g.get("/"); a.status != 429 {
		t.Errorf("status %d at the end, want 429", a.status)
	}
}
