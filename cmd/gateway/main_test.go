package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// binary is the gateway as it is shipped, built once for all tests here; with
// the race detector when the tests have it.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	if !isSet("test.parallel") {
		flag.Set("test.parallel", "4") // most of them wait most of the time
	}
	os.Exit(buildAndRun(m))
}

func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gateway-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "gateway")
	args := []string{"build", "-buildvcs=false", "-o", binary}
	if raceEnabled() {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, ".")...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the gateway:", err)
		return 1
	}
	return m.Run()
}

// raceEnabled says that this test binary was built with -race.
func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}
