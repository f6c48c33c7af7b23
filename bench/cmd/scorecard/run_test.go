package main

import (
	"errors"
	"strings"
	"testing"
)

var sample = []row{
	{"S01", "one", "1", []suite{{dir: "a", names: "TestA TestB"}}},
	{"S02", "two", "2", []suite{{dir: "a", names: "TestB"}, {dir: "b", names: "TestC", race: true}}},
	{"S03", "three", "3", []suite{{dir: "c", names: "TestD", long: true}}},
	{"S04", "four", "4", nil},
}

func TestATestOfTwoRowsIsRunOnce(t *testing.T) {
	got := runs(sample, false)
	if len(got) != 2 || strings.Join(got[0].names, " ") != "TestA TestB" || got[1].dir != "b" || !got[1].race {
		t.Errorf("%+v", got)
	}
	if got := runs(sample, true); len(got) != 3 || !got[2].long {
		t.Errorf("with -long: %+v", got)
	}
}

func TestChoosingRows(t *testing.T) {
	got, err := choose(sample, "s03, S01")
	if err != nil || len(got) != 2 || got[0].id != "S03" || got[1].id != "S01" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := choose(sample, "S05"); !errors.Is(err, errUsage) || !strings.Contains(err.Error(), `"S05"`) {
		t.Errorf("%v", err)
	}
}

// What go test -json says of a package decides what is said of its rows.
func TestVerdicts(t *testing.T) {
	const (
		goodA = `{"Action":"attr","Test":"TestA/sub","Key":"S01","Value":"3 of 3"}
{"Action":"fail","Test":"TestX"}
{"Action":"pass","Test":"TestA"}
`
		goodB = `{"Action":"attr","Test":"TestB","Key":"S02","Value":"other row"}
{"Action":"attr","Test":"TestB","Key":"S01","Value":"a|b"}
{"Action":"pass","Test":"TestB"}
`
	)
	for _, c := range []struct {
		name, events, want string
		good               bool
	}{
		{"all pass", goodA + goodB, "| S01 | pass          | one | 3 of 3; a\\|b | 1 |", true},
		{"one fails", goodA + `{"Action":"output","Test":"TestB","Output":"why\n"}` + "\n" + `{"Action":"fail","Test":"TestB"}`,
			"| S01 | FAIL          | one | 3 of 3; TestB failed | 1 |", false},
		{"a subtest passes, the test does not", goodA + `{"Action":"pass","Test":"TestB/sub"}`,
			"| S01 | FAIL          | one | 3 of 3; TestB failed | 1 |", false},
		{"one was not run", goodB, "| S01 | FAIL          | one | TestA failed; a\\|b | 1 |", false},
		{"one is skipped", goodA + `{"Action":"skip","Test":"TestB"}`, "| S01 | FAIL          | one | 3 of 3; TestB failed | 1 |", false},
		{"one says nothing", goodA + `{"Action":"pass","Test":"TestB"}`, "| S01 | FAIL          | one | 3 of 3; TestB says no figure | 1 |", false},
		{"it takes too long", goodA + `{"Action":"output","Test":"TestB","Output":"why"}` + "\n" + `{"Action":"fail","Package":"a"}`,
			"| S01 | FAIL          | one | 3 of 3; TestB failed | 1 |", false},
		{"it does not build", `{"Action":"build-output","ImportPath":"a","Output":"syntax"}` + "\n" + `{"Action":"fail","Package":"a"}`,
			"| S01 | FAIL          | one | TestA failed; TestB failed | 1 |", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, printed, table := results{}, &strings.Builder{}, &strings.Builder{}
			if err := res.read(strings.NewReader(c.events), run{dir: "a"}, printed); err != nil {
				t.Fatal(err)
			}
			if good := report(table, sample[:1], res, false); good != c.good || !strings.Contains(table.String(), c.want+"\n") {
				t.Errorf("%v, want %v with %q:\n%s", good, c.good, c.want, table)
			}
			if c.name == "one fails" && printed.String() != "why\n" || c.name == "it does not build" && printed.String() != "syntax" ||
				c.name == "it takes too long" && printed.String() != "why" {
				t.Errorf("printed %q", printed)
			}
		})
	}
}

func TestRowsThatWereNotRunDoNotFail(t *testing.T) {
	table := &strings.Builder{}
	if !report(table, sample[2:], results{}, false) {
		t.Errorf("fails")
	}
	for _, want := range []string{"| S03 | only with -long |", "| S04 | not built yet |", "0 pass, 0 fail, 1 only with -long, 1 not built yet."} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if report(&strings.Builder{}, sample[2:], results{}, true) {
		t.Error("with -long a test that did not run passes")
	}
}
