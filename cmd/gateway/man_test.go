package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"gateway/rules"
)

func TestManualPagesAreWellFormed(t *testing.T) {
	for _, page := range []string{"gateway", "gateway.yaml"} {
		text, err := exec.Command(binary, "man", page).Output()
		if err != nil {
			t.Fatal(err)
		}
		lint := exec.Command("mandoc", "-Tlint", "-W", "warning")
		lint.Stdin = strings.NewReader(string(text))
		if out, err := lint.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("mandoc of %s: %v\n%s", page, err, out)
		}
	}
}

// overstruck is how a terminal is told of bold and underlined letters.
var overstruck = regexp.MustCompile(".\x08")

func TestManualPagesTellOfEveryCommandAndSetting(t *testing.T) {
	shown := func(page string) string {
		text, err := exec.Command(binary, "man", page).Output()
		if err != nil {
			t.Fatal(err)
		}
		show := exec.Command("mandoc", "-Tascii", "-Owidth=1000")
		show.Stdin = strings.NewReader(string(text))
		out, err := show.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(overstruck.ReplaceAllString(string(out), "")), " ")
	}
	commands := shown("gateway")
	for _, cmd := range newRoot().Commands() {
		if cmd.IsAvailableCommand() && !strings.Contains(commands, cmd.Short+".") {
			t.Errorf("%s is not in gateway(1)", cmd.Name())
		}
	}
	file := shown("gateway.yaml")
	for _, part := range rules.Manual() {
		for _, s := range part.List {
			if words := strings.Join(strings.Fields(s.Help), " "); !strings.Contains(file, words) {
				t.Errorf("%s of %s is not in gateway.yaml(5)", s.Name, part.Part)
			}
		}
	}
}
