package rules

import (
	"flag"
	"os"
	"testing"
)

// TestMain gives the race detector few of the inputs that a property is tried with,
// unless -rapid.checks says how many: it has nothing to see in one goroutine.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if underRace && !given {
		if err := flag.Set("rapid.checks", "20"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
