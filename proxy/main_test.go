package proxy

import (
	"testing"

	"go.uber.org/goleak"
)

// Whatever a test does to a gateway, none of its goroutines is left at the end.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
