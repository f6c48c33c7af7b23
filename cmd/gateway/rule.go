package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gateway/proxy/admin"
)

func newRule() *cobra.Command {
	var config, addr, dryRun string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rule NAME --dry-run on|off",
		Short: "Have a rule of the running gateway refuse nobody, or refuse again",
		Long: "rule makes a rule of the running gateway a dry run, which decides, counts and is logged but refuses nobody, or has\n" +
			"it refuse again. Counters are kept. It holds until the next reload, after which the file says it again.",
		Example:           "  gateway rule login --dry-run on\n  gateway reload                     # as the file says",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: ruleNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dryRun != "on" && dryRun != "off" {
				return &usageError{"gateway rule", errors.New("say --dry-run on or --dry-run off")}
			}
			status, text, err := askForm(cmd.Context(), http.MethodPost, "/rules/"+url.PathEscape(args[0]), addr, config, 10*time.Second, url.Values{"dry_run": {dryRun}})
			if err == nil && status != http.StatusOK {
				err = errors.New(strings.TrimSpace(text))
			}
			if err != nil {
				return err
			}
			if asJSON {
				fmt.Fprint(cmd.OutOrStdout(), text)
				return nil
			}
			var now admin.SwitchedRule
			if err := json.Unmarshal([]byte(text), &now); err != nil {
				return err
			}
			is, until := "refuses", ", as the file says"
			if now.DryRun {
				is = "is a dry run: it refuses nobody"
			}
			if now.Switched {
				until = ", until the next reload"
			}
			fmt.Fprintf(cmd.OutOrStdout(), "rule %q %s%s\n", now.Rule, is, until)
			return nil
		},
	}
	configFlag(cmd, &config)
	f := cmd.Flags()
	f.StringVar(&dryRun, "dry-run", "", "`on|off`: whether the rule is a dry run")
	f.StringVar(&addr, "admin", "", "the `address` of the admin listener (default: what the file says)")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// switchRule makes a rule in force a dry run, or enforced again, until the file is
// applied anew.
func (s *server) switchRule(name string, on bool) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	snap := s.gateway.Current()
	if s.dryRun {
		return errors.New("the gateway was started with --dry-run: no rule refuses anything until it is started without")
	}
	s.gateway.Swap(snap.WithRules(snap.Rules().WithDryRun(name, on)))
	return nil
}

// settings returns the settings in force, with what a comment can say of those that
// the file does not have.
func (s *server) settings(asJSON bool) ([]byte, error) {
	set := s.gateway.Current().Rules()
	text, err := set.File.Settings(s.outside, asJSON)
	if err != nil || asJSON {
		return text, err
	}
	var notes strings.Builder
	if s.dryRun {
		notes.WriteString("# started with --dry-run: no rule refuses anything, whatever dry_run says below\n")
	} else {
		for _, r := range set.Rules {
			if r.Switched {
				fmt.Fprintf(&notes, "# rule %s has dry_run: %v until the next reload\n", r.Name, r.DryRun)
			}
		}
	}
	return append([]byte(notes.String()), text...), nil
}
