// Command gateway stands in front of an API and holds its clients to the limits
// of one YAML file, which is applied as it is saved.
package main

import (
	_ "time/tzdata" // time zones for calendars, where the machine has none

	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes: 0 done, 1 failed (bad file, cannot bind, reload refused), 2 wrong usage.
const (
	exitFailed = 1
	exitUsage  = 2
)

// run is the program. stdout is for results, stderr for everything else.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errSaid):
		return exitFailed
	}
	if u, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(errs, "gateway: %v\nhint: %s --help\n", u.err, u.command)
		return exitUsage
	}
	fmt.Fprintf(errs, "gateway: %v\n", err)
	if h, ok := errors.AsType[*hintError](err); ok {
		fmt.Fprintf(errs, "hint: %s\n", h.hint)
	}
	return exitFailed
}

// errSaid is the error of a command that has already said what went wrong.
var errSaid = errors.New("said")

// usageError says that the command line was wrong.
type usageError struct {
	command string // as it is typed: "gateway run"
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }

// hintError is an error with what to do about it.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }

// Unwrap returns the error without the hint.
func (e *hintError) Unwrap() error { return e.err }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "gateway",
		Short:         "A rate-limiting gateway in front of your API",
		Long:          "gateway stands in front of an API and holds its clients to the limits of one YAML file.\nThe file is applied as it is saved; a broken one changes nothing.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          wrongUsage(cobra.NoArgs),
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{cmd.CommandPath(), err} })
	root.CompletionOptions.DisableDefaultCmd = true
	for _, cmd := range []*cobra.Command{
		newRun(), newDemo(), newCheck(), newExplain(), newReplay(), newConfig(), newReload(), newStatus(), newKeys(), newRule(), newHealthcheck(), newSchema(), newImport(),
		newHashKey(), newCompletion(), newMan(), newVersion(), newRulesHelp(),
	} {
		if cmd.Args == nil {
			cmd.Args = cobra.NoArgs
		}
		cmd.Args = wrongUsage(cmd.Args)
		root.AddCommand(cmd)
	}
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Run, cmd.RunE = nil, helpOn
		}
	}
	complete(root)
	return root
}

// helpOn is `gateway help`. cobra's own prints the help of everything for what there is not.
func helpOn(cmd *cobra.Command, args []string) error {
	about, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return &usageError{cmd.Root().CommandPath(), fmt.Errorf("no help on %q: there is no such command", strings.Join(args, " "))}
	}
	about.InitDefaultHelpFlag()
	return about.Help()
}

// wrongUsage marks the errors of args as those of the command line.
func wrongUsage(args cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, a []string) error {
		if err := args(cmd, a); err != nil {
			return &usageError{cmd.CommandPath(), err}
		}
		return nil
	}
}
