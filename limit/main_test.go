package limit

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain raises the number of histories a property is tried with, unless
// -rapid.checks says how many, and fails when a goroutine is left behind.
func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": "250", "rapid.nofailfile": "true"} {
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
