package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gateway/proxy"
	"gateway/proxy/certs"
	"gateway/reload"
	"gateway/rules"
)

func newCheck() *cobra.Command {
	var config string
	var strict bool
	cmd := &cobra.Command{
		Use:     "check",
		Aliases: []string{"validate"},
		Short:   "Check a file and say what its rules mean in numbers",
		Long:    "check reads a configuration file as `run` would and prints each rule in plain numbers,\nor every error of the file. It binds and writes nothing.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := findConfig(config)
			if err != nil {
				return err
			}
			data, err := readConfig(path, cmd.InOrStdin())
			if err != nil {
				return err
			}
			return check(cmd.OutOrStdout(), cmd.ErrOrStderr(), configName(path), data, strict)
		},
	}
	configFlag(cmd, &config)
	cmd.Flags().BoolVar(&strict, "strict", false, "take warnings for errors")
	return cmd
}

func check(out, errs io.Writer, name string, data []byte, strict bool) error {
	file, err := rules.Parse(name, data)
	if err == nil {
		file, err = file.ReadGroups(nil, reload.ReadFile)
	}
	var snap *proxy.Snapshot
	var doubts rules.ErrorList
	if err == nil {
		snap, err = proxy.Build(file, nil, nil) // reads the files it names, too
		var bad error
		doubts, bad = certs.Files(file)
		err = together(err, bad)
	}
	if list, ok := errors.AsType[rules.ErrorList](err); ok {
		printErrors(errs, list, ".")
		return errSaid
	} else if err != nil {
		return err
	}
	if warnings := slices.Concat(file.Warnings, doubts); len(warnings) > 0 {
		printErrors(errs, warnings, ".")
		if strict {
			return errSaid
		}
	}
	describe(out, snap.Rules())
	return nil
}

// describe prints what a file means.
func describe(out io.Writer, set *rules.Set) {
	fmt.Fprintf(out, "%s is good: %s, %s, %s.\n", set.File.Name,
		count(len(set.File.Upstreams), "upstream"), count(len(set.Routes), "route"), count(len(set.Rules), "rule"))
	if len(set.Rules) > 0 {
		fmt.Fprintln(out)
		describeRules(out, set)
	}
}

// describeRules prints a line for each rule.
func describeRules(out io.Writer, set *rules.Set) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range set.Rules {
		mark := ""
		if r.DryRun {
			mark = " (dry run: never refuses)"
		}
		who := "for each " + r.KeyText
		if r.KeyText == "global" {
			who = "for all together"
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s%s\n", r.Name, r.MatchText, who, r.Describe(), mark)
		for _, tier := range r.Tiers {
			fmt.Fprintf(w, "  \t\t  of %s\t%s\n", tier.Tier, tier.Describe())
		}
	}
	w.Flush()
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
