package proxy

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// transport is what carries HTTP/1.1 to upstreams that do not choose it.
var transport = flag.String("transport", "direct", "direct or net_http")

// Whatever a test does to a gateway, none of its goroutines is left at the end.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", "8") // those that are parallel wait most of the time
	}
	goleak.VerifyTestMain(m)
}
