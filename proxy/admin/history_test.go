package admin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gateway/proxy"
	"gateway/rules"
)

// compiled returns the rules of a file, to follow those of prev if there is one.
func compiled(t *testing.T, text string, prev *proxy.Snapshot) *proxy.Snapshot {
	t.Helper()
	f, err := rules.Parse("gateway.yaml", []byte("upstream: http://127.0.0.1:1\nrules:\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := proxy.Build(f, prev, nil)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func TestRatesAreOfTheLastSeconds(t *testing.T) {
	set := compiled(t, "  - { name: a, limit: 1/m }\n  - { name: b, limit: 1/m, dry_run: true }\n", nil).Rules()
	a, b := set.Rule("a"), set.Rule("b")
	h, now := &History{}, time.Unix(1_700_000_000, 0)
	if _, ok := h.of(a, now); ok {
		t.Error("it knows of rates before the first sample")
	}
	a.Base.Live.Allowed.Add(1000) // before it looked: nobody knows when
	h.sample(now, set)
	pass := func(allowed, refused, would int64) {
		a.Base.Live.Allowed.Add(allowed)
		a.Base.Live.Rejected.Add(refused)
		b.Base.Live.DryRunRejected.Add(would)
		now = now.Add(sampleEach)
		h.sample(now, set)
	}
	want := func(r *rules.Rule, at time.Time, want rates) {
		t.Helper()
		got, _ := h.of(r, at)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	want(a, now.Add(time.Second/10), rates{})
	want(b, now, rates{})
	pass(50, 10, 0)
	want(a, now, rates{Allowed: 10, Refused: 2, Spans: []tally{{50, 10, 0}}})
	want(b, now, rates{})
	pass(0, 0, 30)
	want(a, now, rates{Allowed: 5, Refused: 1, Spans: []tally{{50, 10, 0}, {}}})
	want(b, now, rates{WouldRefuse: 3, Spans: []tally{{}, {0, 0, 30}}})
	pass(20, 0, 0)
	a.Base.Live.Allowed.Add(40) // since the last sample
	// 0 + 20 + 40 in 10 + 5 seconds.
	want(a, now.Add(5*time.Second), rates{Allowed: 4, Spans: []tally{{50, 10, 0}, {}, {20, 0, 0}}})
	a.Base.Live.FailedClosed.Add(9)
	pass(0, 0, 0)
	want(a, now, rates{Allowed: 6, Refused: .9, Spans: []tally{{50, 10, 0}, {}, {20, 0, 0}, {40, 9, 0}}})
	for range 2 * samples {
		pass(1, 0, 0)
	}
	got, _ := h.of(a, now)
	if len(got.Spans) != samples || got.Spans[0] != (tally{1, 0, 0}) || got.Spans[samples-1] != (tally{1, 0, 0}) || got.Allowed != .2 {
		t.Errorf("after ten minutes: %v, want %d spans of 1", got, samples)
	}
}

func TestARuleThatStartsAfreshHasNoPast(t *testing.T) {
	first := compiled(t, "  - { name: a, limit: 1/m }\n  - { name: b, limit: 1/m }\n", nil)
	h, now := &History{}, time.Unix(1_700_000_000, 0)
	h.sample(now, first.Rules())
	first.Rules().Rule("a").Base.Live.Allowed.Add(7)
	h.sample(now.Add(sampleEach), first.Rules())
	next := compiled(t, "  - { name: a, limit: 1/m, key: host }\n", first)
	a := next.Rules().Rule("a")
	if _, ok := h.of(a, now); ok {
		t.Error("the new rule has the old one's rates")
	}
	h.sample(now.Add(2*sampleEach), next.Rules())
	if got, ok := h.of(a, now.Add(2*sampleEach)); !ok || got.Allowed != 0 || got.Spans != nil {
		t.Errorf("%v, %v after the first sample of the new rule", got, ok)
	}
	if len(h.rules) != 1 {
		t.Errorf("it remembers %d rules, want the one there is", len(h.rules))
	}
}
