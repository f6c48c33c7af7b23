package main

import "testing"

func TestWhoSetsTheCollectorGetsNoBallast(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	if n := len(ballast(runBallast)); n != runBallast {
		t.Errorf("a ballast of %d bytes", n)
	}
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "100")
			if n := len(ballast(runBallast)); n != 0 {
				t.Errorf("a ballast of %d bytes although %s is set", n, name)
			}
		})
	}
}
