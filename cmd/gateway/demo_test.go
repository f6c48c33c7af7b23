package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestTheDemoHasTheRulesOfTheExample(t *testing.T) {
	example, err := os.ReadFile("../../gateway.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, ours, ok := strings.Cut(demoRules, "\nrules:\n")
	if !ok || !strings.Contains(string(example), "\nrules:\n"+ours) {
		t.Error("cmd/gateway/demo.yaml is no longer the rules section of gateway.example.yaml")
	}
}

func TestDemoSaysItsURLFirstAndAnswersThere(t *testing.T) {
	t.Parallel()
	g := launch(t, []string{"demo"})
	t.Cleanup(g.stop)
	first := ""
	eventually(t, "the demo says its URL", func() bool {
		select {
		case <-g.exited:
			t.Fatalf("the demo ended:\n%s", g.errs)
		default:
		}
		first, _, _ = strings.Cut(g.out.String(), "\n")
		return strings.Contains(g.out.String(), "Ctrl-C ends it")
	})
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+$`).MatchString(first) {
		t.Fatalf("the first line is %q, want the URL alone", first)
	}
	g.addr = strings.TrimPrefix(first, "http://")
	a := g.get("/")
	if a.status != 200 || !strings.Contains(a.body, "sample API") || a.of("per-ip").q != 100 {
		t.Errorf("GET /: %d %q %v, want 200 from the sample API under per-ip", a.status, a.body, a.policies())
	}
	n, refusal := 1, a
	for ; n < 250 && refusal.status == 200; n++ {
		refusal = g.get("/")
	}
	if n <= 100 || refusal.status != 429 {
		t.Errorf("%d after %d requests, want 429 after 100", refusal.status, n)
	}
	admin := regexp.MustCompile(`curl -s (http://\S+)/metrics`).FindStringSubmatch(g.out.String())
	if admin == nil {
		t.Fatal("no command to see the metrics")
	}
	m, err := request(g.client, "GET", admin[1]+"/metrics")
	if err != nil || !strings.Contains(m.body, `gateway_rule_decisions_total{result="rejected",rule="per-ip"`) {
		t.Errorf("metrics: %d %v", m.status, err)
	}
	if text := g.errs.String(); text != "" {
		t.Errorf("stderr has %q, want nothing", text)
	}
	// An unknown file to reload is said so.
	if r, err := request(g.client, "POST", admin[1]+"/reload"); err != nil || r.status != 422 {
		t.Errorf("POST /reload: %d %v, want 422: there is no file", r.status, err)
	}
}
