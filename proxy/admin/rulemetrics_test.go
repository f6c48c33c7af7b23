package admin

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gateway/proxy"
	"gateway/rules"
)

// scrape returns the lines of /metrics that begin so, of a gateway with these
// rules after before has changed its counters.
func scrape(t *testing.T, text, begin string, before func(*rules.Set)) []string {
	t.Helper()
	f, err := rules.Parse("gateway.yaml", []byte("upstream: http://127.0.0.1:1\nrules:\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := proxy.Build(f, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := proxy.New(proxy.Config{Clock: proxy.NewClock()}, snap)
	t.Cleanup(g.Close)
	before(snap.Rules())
	h := NewHandler(Config{Gateway: g, Ready: func() bool { return true }, Reloads: func() Reloads { return Reloads{} }})
	r, w := httptest.NewRequest("GET", "/metrics", nil), httptest.NewRecorder()
	r.Host = "127.0.0.1:9900"
	h.ServeHTTP(w, r)
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, begin) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestARuleHasALineForEachThingItMayDecide(t *testing.T) {
	got := scrape(t, `
  - { name: z, limit: 1/m }
  - { name: dry, limit: 1/m, dry_run: true }
  - { name: closed, limit: 1/m, fail: closed, match: /x }
  - { name: skips, limit: 1/m, key: header.X, missing: skip }
  - { name: once-dry, limit: 1/m }
  - { name: opens, limit: 1/m, key: body.user, fail: open }
  - { name: full, limit: 1/m, fail: open }
  - { name: queue, limit: 10/s, algorithm: leaky_bucket, max_wait: 1s, penalty: { after: 1/m, block: 1m } }
  - { name: tried, limit: 1/m, candidate: { limit: 2/m } }
`, "gateway_rule_decisions_total", func(s *rules.Set) {
		s.Rule("z").Base.Live.Rejected.Add(3)
		s.Rule("once-dry").Base.Live.DryRunRejected.Add(2)
		s.Rule("skips").Live.Skipped.Add(1)
		s.Rule("opens").Live.FailedOpen.Add(4)
		s.Rule("queue").Base.Live.Waited.Add(5)
		s.Rule("queue").Base.Live.Blocked.Add(1)
		s.Rule("tried").Base.Candidate.Live.Rejected.Add(5)
	})
	line := func(result, rule, n string) string {
		return `gateway_rule_decisions_total{result="` + result + `",rule="` + rule + `",tier=""} ` + n
	}
	want := []string{
		line("allowed", "closed", "0"), line("allowed", "dry", "0"), line("allowed", "full", "0"), line("allowed", "once-dry", "0"),
		line("allowed", "opens", "0"), line("allowed", "queue", "0"), line("allowed", "skips", "0"), line("allowed", "tried", "0"), line("allowed", "z", "0"),
		line("blocked", "queue", "1"),
		line("candidate_rejected", "tried", "5"),
		line("dry_run_rejected", "dry", "0"), line("dry_run_rejected", "once-dry", "2"),
		line("failed_closed", "closed", "0"),
		line("failed_open", "opens", "4"),
		line("rejected", "closed", "0"), line("rejected", "full", "0"), line("rejected", "once-dry", "0"), line("rejected", "opens", "0"), line("rejected", "queue", "0"), line("rejected", "skips", "0"), line("rejected", "tried", "0"), line("rejected", "z", "3"),
		line("skipped", "skips", "1"),
		line("waited", "queue", "5"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
