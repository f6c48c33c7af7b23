package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// longRun is the variable by which a test knows that it may take minutes.
const longRun = "GATEWAY_LONG"

// run is one go test: tests of one package that are built alike.
type run struct {
	dir        string
	race, long bool
	names      []string
}

// String implements fmt.Stringer.
func (r run) String() string {
	s := r.dir + ": " + strings.Join(r.names, " ")
	if r.race {
		s += " (with the race detector)"
	}
	return s
}

// runs gathers the tests of rows, each once, in the order of the table.
func runs(rows []row, long bool) []run {
	var all []run
	for _, row := range rows {
		for _, s := range row.tests {
			if s.long && !long {
				continue
			}
			i := slices.IndexFunc(all, func(r run) bool { return r.dir == s.dir && r.race == s.race && r.long == s.long })
			if i < 0 {
				i = len(all)
				all = append(all, run{dir: s.dir, race: s.race, long: s.long})
			}
			for _, name := range s.all() {
				if !slices.Contains(all[i].names, name) {
					all[i].names = append(all[i].names, name)
				}
			}
		}
	}
	return all
}

// do runs the tests and adds what became of them to res. A test that fails is no
// error; its output goes to w.
func (r run) do(ctx context.Context, root string, long bool, res results, w io.Writer) error {
	timeout := "30m"
	if long {
		timeout = "3h"
	}
	args := []string{"test", "-json", "-count=1", "-timeout=" + timeout, "-run", "^(" + strings.Join(r.names, "|") + ")$"}
	if r.race {
		args = append(args, "-race")
	}
	if r.long {
		args = append(args, "-tags=long")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	if long {
		cmd.Env = append(os.Environ(), longRun+"=1")
	}
	cmd.Dir = filepath.Join(root, r.dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = w
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := res.read(out, r, w)
	err = cmd.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return err // an exit code shows in the results
	}
	return readErr
}

// event is a line of go test -json.
type event struct {
	Action, Test, Output, Key, Value string
}

// read adds the events of a run to res, and writes what the tests that fail printed.
func (res results) read(out io.Reader, r run, w io.Writer) error {
	text := map[string]*strings.Builder{}
	for dec := json.NewDecoder(out); ; {
		var e event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading what go test says of %s: %w", r.dir, err)
		}
		name, _, sub := strings.Cut(e.Test, "/")
		k := key{r.dir, name, r.race, r.long}
		switch e.Action {
		case "output", "build-output":
			if text[name] == nil {
				text[name] = &strings.Builder{}
			}
			text[name].WriteString(e.Output)
		case "attr":
			res.at(k).figures = append(res.at(k).figures, figure{e.Key, e.Value})
		case "pass", "skip":
			if !sub && name != "" {
				res.at(k).passed = e.Action == "pass"
				delete(text, name)
			}
		case "fail":
			if name == "" { // the package: also what did not come to its end
				for _, name := range slices.Sorted(maps.Keys(text)) {
					fmt.Fprint(w, text[name])
				}
			} else if !sub && text[name] != nil {
				fmt.Fprint(w, text[name])
				delete(text, name)
			}
		}
	}
}

// results holds what became of each test that was run.
type results map[key]*result

// key is a test, built in one way.
type key struct {
	dir, name  string
	race, long bool
}

type result struct {
	passed  bool
	figures []figure
}

// figure is what a test saw, with the row it belongs to.
type figure struct{ row, text string }

func (res results) at(k key) *result {
	if res[k] == nil {
		res[k] = &result{}
	}
	return res[k]
}

// verdict is what is said of a row.
type verdict string

const (
	passed  verdict = "pass"
	failed  verdict = "FAIL"
	skipped verdict = "only with -long"
	missing verdict = "not built yet"
)

// of returns what became of a row: it passes when each of its tests did and said
// what it saw.
func (res results) of(r row, long bool) (verdict, string) {
	if len(r.tests) == 0 {
		return missing, ""
	}
	ran, good := false, true
	var figures []string
	for _, s := range r.tests {
		if s.long && !long {
			continue
		}
		for _, name := range s.all() {
			ran = true
			got := res[key{s.dir, name, s.race, s.long}]
			said := false
			if got != nil {
				for _, f := range got.figures {
					if f.row == r.id {
						said = true
						figures = append(figures, f.text)
					}
				}
			}
			switch {
			case got == nil || !got.passed:
				good = false
				figures = append(figures, name+" failed")
			case !said:
				good = false
				figures = append(figures, name+" says no figure")
			}
		}
	}
	switch {
	case !ran:
		return skipped, ""
	case good:
		return passed, strings.Join(figures, "; ")
	}
	return failed, strings.Join(figures, "; ")
}
