package conformance

import (
	"bytes"
	"fmt"
	"go/version"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"testing"
)

// oldest is the first Go whose net/http has no known hole that a client of the
// gateway could use.
const oldest = "go1.26.6"

func TestGoHasNoHoleThatIsKnown(t *testing.T) { notTooOld(t) }

func notTooOld(t *testing.T) {
	t.Helper()
	pinned := regexp.MustCompile(`(?m)^go (\S+)`).FindStringSubmatch(read(t, "../../go.mod"))
	if pinned == nil {
		t.Fatal("go.mod names no Go")
	}
	if version.Compare("go"+pinned[1], oldest) < 0 || version.Compare(runtime.Version(), oldest) < 0 {
		t.Errorf("go.mod asks for go%s and this is %s, want %s or later", pinned[1], runtime.Version(), oldest)
	}
}

// Row S47. What .ci/test does by itself, so that it leaves this one out.
func TestStaticAnalysisFindsNothing(t *testing.T) {
	notTooOld(t)
	staticcheck := regexp.MustCompile(`(?m)^staticcheck=(\S+)`).FindStringSubmatch(read(t, "../../.ci/test"))
	if staticcheck == nil {
		t.Fatal(".ci/test names no staticcheck")
	}
	packages := 0
	for _, dir := range []string{"../..", ".."} {
		packages += bytes.Count(tool(t, dir, "list", "-tags=long", "./..."), []byte("\n"))
		tool(t, dir, "vet", "-tags=long", "./...")
		tool(t, dir, "run", staticcheck[1], "-tags=long", "./...")
	}
	t.Attr("S47", fmt.Sprintf("0 findings of vet and staticcheck in %d packages; %s", packages, runtime.Version()))
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tool runs go in dir; whatever it finds is an exit code other than 0.
func tool(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("go %v in %s: %v\n%s%s", args, dir, err, out, errs.Bytes())
	}
	return out
}
