package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// On a terminal the key is asked for, and is not shown.
func TestATerminalDoesNotShowTheKeyThatIsHashed(t *testing.T) {
	cmd := exec.Command("script", "-qec", binary+" hash-key", filepath.Join(t.TempDir(), "typescript"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	buf := make([]byte, 1024)
	for typed := false; ; {
		n, err := out.Read(buf)
		shown.Write(buf[:n])
		if !typed && strings.Contains(shown.String(), "not shown") {
			typed = true
			if _, err := in.Write([]byte("k-7d1f\n")); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, shown.String())
	}
	const hash = "sha256:a3166fd02f09b4e50ab8"
	if text := shown.String(); strings.Contains(text, "k-7d1f") || !strings.Contains(text, hash) {
		t.Errorf("the terminal shows %q, want %s… and no key", text, hash)
	}
}
