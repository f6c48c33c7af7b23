package limit

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain sets the number of histories a property is tried with, unless
// -rapid.checks says how many, and fails when a goroutine is left behind. Most are
// histories of one goroutine: the race detector gets few of them.
func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	checks := "250"
	if underRace {
		checks = "40"
	}
	for name, value := range map[string]string{"rapid.checks": checks, "rapid.nofailfile": "true"} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		os.Stderr.WriteString("goroutines left behind: " + err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}
