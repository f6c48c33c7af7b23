// Scorecard runs the tests behind the gateway's reliability scorecard and prints
// a row for each promise: whether it holds, and the figure that was measured.
//
// A row is one or more Go tests of the repository; the table in rows.go names
// them. Each of them says what it saw at its end, when all of it held:
//
//	t.Attr("S01", fmt.Sprintf("%d extra permits of %d tries", extra, tries))
//
// With -long they may take minutes: GATEWAY_LONG is set for those that then do
// more of the same, and those with the build tag "long" run at all.
//
// The exit code is 1 when a row fails, and 2 when the scorecard was used wrongly.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

var (
	errFailed = errors.New("a row fails")
	errUsage  = errors.New("wrong usage")
)

func main() {
	only := flag.String("only", "", "comma-separated rows to run, as S09,S10 (default all)")
	long := flag.Bool("long", false, "run the tests that take minutes, too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := scorecard(ctx, *only, *long, flag.Args())
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "scorecard:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "scorecard:", err)
		os.Exit(1)
	}
}

func scorecard(ctx context.Context, only string, long bool, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%w: unexpected argument %q", errUsage, args[0])
	}
	chosen, err := choose(rows, only)
	if err != nil {
		return err
	}
	root, err := repository()
	if err != nil {
		return err
	}
	res := results{}
	for _, r := range runs(chosen, long) {
		fmt.Fprintf(os.Stderr, "== %s\n", r)
		start := time.Now()
		if err := r.do(ctx, root, long, res, os.Stderr); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "   %v\n", time.Since(start).Round(100*time.Millisecond))
	}
	if !report(os.Stdout, chosen, res, long) {
		return errFailed
	}
	return nil
}

// choose returns the rows that a comma-separated list names, or all for "".
func choose(rows []row, only string) ([]row, error) {
	if only == "" {
		return rows, nil
	}
	var chosen []row
	for id := range strings.SplitSeq(only, ",") {
		id = strings.ToUpper(strings.TrimSpace(id))
		i := slices.IndexFunc(rows, func(r row) bool { return r.id == id })
		if i < 0 {
			return nil, fmt.Errorf("%w: no row %q; they are %s to %s", errUsage, id, rows[0].id, rows[len(rows)-1].id)
		}
		chosen = append(chosen, rows[i])
	}
	return chosen, nil
}

// repository finds the root of the repository, which holds this module in bench/.
func repository() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("looking for go.mod: %w", err)
	}
	dir := filepath.Dir(strings.TrimSpace(string(out)))
	if filepath.Base(dir) != "bench" {
		return "", fmt.Errorf("%w: run it in the bench folder of the repository", errUsage)
	}
	return filepath.Dir(dir), nil
}

// report prints a Markdown table and says whether every row that was run passed.
func report(w io.Writer, rows []row, res results, long bool) bool {
	good := true
	count := map[verdict]int{}
	fmt.Fprintln(w, "| row | result | what | figure | pass figure |\n|---|---|---|---|---|")
	for _, r := range rows {
		v, figure := res.of(r, long)
		count[v]++
		good = good && v != failed
		fmt.Fprintf(w, "| %s | %-13s | %s | %s | %s |\n", r.id, v, r.title, cell(figure), r.target)
	}
	fmt.Fprintf(w, "\n%d pass, %d fail, %d only with -long, %d not built yet.\n",
		count[passed], count[failed], count[skipped], count[missing])
	return good
}

// cell makes text fit into one cell of a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}
