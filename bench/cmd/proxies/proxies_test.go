package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMain lets the test binary be the servers that are measured.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-serve") {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestEveryProxyDoesTheWorkAndHasItsRow(t *testing.T) {
	b := &bench{rounds: 1, requests: 300, conns: 4}
	var out strings.Builder
	if err := b.run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, p := range b.proxies() {
		if strings.Count(out.String(), "| "+p.name+" | ") != 1 {
			t.Errorf("no row of %s in\n%s", p.name, &out)
		}
	}
}

func TestRatiosAreTakenRoundByRound(t *testing.T) {
	if got := ratio([]float64{2, 30, 4}, []float64{1, 10, 1}); got != 3 {
		t.Errorf("got %v, want 3, the median of 2, 3 and 4", got)
	}
	if got := ratio(nil, []float64{1}); got != 0 {
		t.Errorf("got %v of nothing", got)
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("got %v, want 2.5", got)
	}
}
