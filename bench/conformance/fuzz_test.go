//go:build long

package conformance

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// Every fuzz target of the gateway, for a minute each.
func TestFuzzTargetsFindNothing(t *testing.T) {
	cmd := exec.Command("bash", "../../.ci/fuzz", "60s")
	out, err := cmd.CombinedOutput()
	targets := strings.Count("\n"+string(out), "\n== ")
	if err != nil || targets == 0 {
		t.Fatalf("%d targets: %v\n%s", targets, err, out[max(0, len(out)-5000):])
	}
	t.Attr("S46", fmt.Sprintf("0 crashers of %d targets, 60 s each", targets))
}
