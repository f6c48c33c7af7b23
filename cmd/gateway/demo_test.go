package main

import (
	"os"
	"strings"
	"testing"
)

func TestTheDemoHasTheRulesOfTheExample(t *testing.T) {
	example, err := os.ReadFile("../../gateway.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, ours, ok := strings.Cut(demoRules, "\nrules:\n")
	if !ok || !strings.Contains(string(example), "\nrules:\n"+ours) {
		t.Error("cmd/gateway/demo.yaml is no longer the rules section of gateway.example.yaml")
	}
}
