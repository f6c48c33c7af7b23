package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The units are what systemd takes, with the built binary in the place of the
// installed one.
func TestUnitsAreValid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"gateway.service", "gateway.socket"} {
		text, err := os.ReadFile(filepath.Join("../../systemd", name))
		do(t, err)
		write(t, filepath.Join(dir, name), strings.ReplaceAll(string(text), "=gateway ", "="+binary+" "))
	}
	out, err := exec.Command("systemd-analyze", "verify", filepath.Join(dir, "gateway.socket"), filepath.Join(dir, "gateway.service")).CombinedOutput()
	if err != nil || strings.Contains(string(out), "gateway.") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// What the service could do to the machine, as systemd rates it: 0 is nothing, 10
// is everything.
func TestServiceIsConfined(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "../../systemd/gateway.service").CombinedOutput()
	do(t, err)
	found := regexp.MustCompile(`exposure level for gateway.service: ([0-9.]+)`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("no level in:\n%s", out)
	}
	if level, err := strconv.ParseFloat(string(found[1]), 64); err != nil || level > 1.5 {
		t.Errorf("exposure level %s, want at most 1.5", found[1])
	}
}
