package main

import (
	"strings"
	"testing"
	"time"
)

// What is measured must be a limiter: it admits its limit and no more.
func TestLibrariesLimit(t *testing.T) {
	three := numbers{3, time.Hour}
	for _, lib := range libraries {
		if lib.bare {
			continue
		}
		limiters := map[string]limiter{"clock read": lib.make(three, 0)}
		if lib.passed != nil {
			limiters["clock passed in"] = lib.passed(three)
		}
		for name, l := range limiters {
			c := l.worker()
			for _, key := range []string{"a", "b"} {
				passed := 0
				for range 5 {
					if c(key) {
						passed++
					}
				}
				if passed != 3 {
					t.Errorf("%s, %s: %d of 5 requests of %q passed, want 3", lib.name, name, passed, key)
				}
			}
			if l.close != nil {
				l.close()
			}
		}
	}
}

func TestOurAlgorithmsLimit(t *testing.T) {
	for _, a := range algorithms {
		c, passed := ours(a.new, numbers{3, time.Hour}, false).worker(), 0
		for range 5 {
			if c("a") {
				passed++
			}
		}
		if passed != 3 {
			t.Errorf("%s: %d of 5 requests passed, want 3", a.name, passed)
		}
	}
}

// A refusal by the second rule leaves the first as it was, for all that claim it.
func TestTwoRulesTakeAllOrNothing(t *testing.T) {
	for _, lib := range libraries {
		if lib.two == nil {
			continue
		}
		c := lib.two(numbers{3, time.Hour}, numbers{1, time.Hour})()
		var got strings.Builder
		for _, b := range []string{"x", "x", "x", "x", "y", "z", "w"} {
			if c("a", b) {
				got.WriteByte('+')
			} else {
				got.WriteByte('-')
			}
		}
		if want := "+---++-"; got.String() != want {
			t.Errorf("%s: got %s, want %s", lib.name, &got, want)
		}
	}
}

// Every workload runs and every cell of the table is filled in or struck out.
func TestTable(t *testing.T) {
	r := results{}
	for _, lib := range libraries {
		for _, g := range groups {
			f, err := runGroup(g.name, lib.name, scale{each: time.Millisecond, keys: 2000})
			if err != nil {
				t.Fatal(err)
			}
			r.add(lib.name, 2000, f)
		}
	}
	var b strings.Builder
	if err := write(&b, libraries, r, "Machine.", true); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "|") && strings.Count(line, "|") != len(libraries)+2 {
			t.Errorf("not a row of %d columns: %s", len(libraries)+1, line)
		}
	}
	for _, want := range []string{"| hot key, 1 thread, ns | ", "Machine.", "sliding_window_log"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}
