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
	var strict, asJSON bool
	cmd := &cobra.Command{
		Use:     "check",
		Aliases: []string{"validate"},
		Short:   "Check a file and say what its rules mean in numbers",
		Long:    "check reads a configuration file as `run` would and prints each rule in plain numbers,\nor every error of the file. It binds and writes nothing.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := findConfig(config)
			var data []byte
			if err == nil {
				data, err = readConfig(path, cmd.InOrStdin())
			}
			if asJSON {
				return checkJSON(cmd.OutOrStdout(), configName(path), data, err, strict)
			}
			if err != nil {
				return err
			}
			return check(cmd.OutOrStdout(), cmd.ErrOrStderr(), configName(path), data, strict)
		},
	}
	configFlag(cmd, &config)
	cmd.Flags().BoolVar(&strict, "strict", false, "take warnings for errors")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: errors and warnings with their places, and what each rule means")
	return cmd
}

func check(out, errs io.Writer, name string, data []byte, strict bool) error {
	snap, warnings, err := checkFile(name, data)
	if list, ok := errors.AsType[rules.ErrorList](err); ok {
		printErrors(errs, list, ".")
		return errSaid
	} else if err != nil {
		return err
	}
	if len(warnings) > 0 {
		printErrors(errs, warnings, ".")
		if strict {
			return errSaid
		}
	}
	describe(out, snap.Rules())
	return nil
}

// loadFile reads a file, and the files that it names, without any effect.
func loadFile(name string, data []byte) (*proxy.Snapshot, rules.ErrorList, error) {
	file, err := outside().Parse(name, data)
	if err == nil {
		file, err = file.ReadGroups(nil, reload.ReadFile)
	}
	if err != nil {
		return nil, nil, err
	}
	snap, err := proxy.Build(file, nil, nil)
	doubts, bad := certs.Files(file)
	if err = together(err, bad); err != nil {
		return nil, nil, err
	}
	return snap, slices.Concat(file.Warnings, doubts), nil
}

// checkFile is loadFile with a look at what the file names on other machines.
func checkFile(name string, data []byte) (*proxy.Snapshot, rules.ErrorList, error) {
	snap, warnings, err := loadFile(name, data)
	if err != nil {
		return nil, nil, err
	}
	away, err := checkStore(snap.Rules().File.Store)
	return snap, slices.Concat(warnings, away), err
}

// loadAlone is loadFile for those who ask what the rules say: with all counters in
// this process, and their whole limits.
func loadAlone(name string, data []byte) (*proxy.Snapshot, error) {
	snap, _, err := loadFile(name, data)
	if err != nil || snap.Rules().File.Store == nil {
		return snap, err
	}
	return proxy.Build(snap.Rules().File.Alone(), nil, nil)
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
		if trial := r.Base.Candidate; trial != nil {
			fmt.Fprintf(w, "  \t\t  candidate\t%s (counted, never enforced)\n", trial.Describe())
		}
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
