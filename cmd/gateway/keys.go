package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gateway/proxy/admin"
	"gateway/rules"
)

// keysCommand is what the commands below `gateway keys` share.
type keysCommand struct {
	config, addr  string
	asJSON, noKey bool
	span          string
}

func newKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Look up, free or block a client of the running gateway",
		Long: "keys looks up, frees or blocks a client under one rule of the running gateway. KEY is what the rule counts by:\n" +
			"an address, the value of a header; for a combined key one value for each part, in its order; or an id, as\n" +
			"`gateway status` shows it. With --without it is the address of a client that has not got the rule's key.\n" +
			"A reset and a block are for this process and are not in the file; both are logged.",
		Args: wrongUsage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, sub := range []*cobra.Command{newKeysList(), newKeyAction("show", "Say what a client has left, and whether it is blocked"),
		newKeyAction("reset", "Forget what a client has used, and end its block"),
		newKeyAction("block", "Refuse all requests of a client under a rule, for an hour or as long as --for says"),
	} {
		sub.Args = wrongUsage(sub.Args)
		cmd.AddCommand(sub)
	}
	return cmd
}

func (k *keysCommand) flags(cmd *cobra.Command) {
	configFlag(cmd, &k.config)
	cmd.Flags().StringVar(&k.addr, "admin", "", "the `address` of the admin listener (default: what the file says)")
	cmd.Flags().BoolVar(&k.asJSON, "json", false, "print JSON")
}

// ask sends a request and returns what it was answered with status 200.
func (k *keysCommand) ask(cmd *cobra.Command, method, path string, form url.Values) (string, error) {
	status, text, err := askForm(cmd.Context(), method, path, k.addr, k.config, 10*time.Second, form)
	if err == nil && status != http.StatusOK {
		err = errors.New(strings.TrimSpace(text))
	}
	return text, err
}

func newKeysList() *cobra.Command {
	var k keysCommand
	cmd := &cobra.Command{
		Use:   "list RULE",
		Short: "List whom a rule refuses most, and who is blocked under it",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: ruleNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := k.ask(cmd, http.MethodGet, "/keys/"+url.PathEscape(args[0]), nil)
			if err != nil || k.asJSON {
				fmt.Fprint(cmd.OutOrStdout(), ifGood(text, err))
				return err
			}
			var list admin.RuleKeys
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				return err
			}
			printKeys(cmd.OutOrStdout(), &list, time.Now())
			return nil
		},
	}
	k.flags(cmd)
	return cmd
}

// ifGood returns text unless there is an error.
func ifGood(text string, err error) string {
	if err != nil {
		return ""
	}
	return text
}

func newKeyAction(action, short string) *cobra.Command {
	var k keysCommand
	cmd := &cobra.Command{
		Use:   action + " RULE KEY...",
		Short: short,
		Args:  cobra.MinimumNArgs(1), // a rule that counts all together has no key to name

		ValidArgsFunction: ruleNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			form := url.Values{"key": args[1:]}
			if k.noKey {
				form.Set("without", "1")
			}
			if k.span != "" {
				if _, err := rules.ParseDuration(k.span); err != nil {
					return &usageError{cmd.CommandPath(), fmt.Errorf("--for %s: %w", k.span, err)}
				}
				form.Set("for", k.span)
			}
			text, err := k.ask(cmd, http.MethodPost, "/keys/"+url.PathEscape(args[0])+"/"+action, form)
			if err != nil || k.asJSON {
				fmt.Fprint(cmd.OutOrStdout(), ifGood(text, err))
				return err
			}
			var u admin.KeyUsage
			if err := json.Unmarshal([]byte(text), &u); err != nil {
				return err
			}
			printUsage(cmd.OutOrStdout(), &u)
			return nil
		},
	}
	k.flags(cmd)
	cmd.Flags().BoolVar(&k.noKey, "without", false, "KEY is the address of a client without the rule's key")
	if action == "block" {
		cmd.Flags().StringVar(&k.span, "for", "", "for how long, `duration` of 1s to 366d (default 1h)")
	}
	return cmd
}

func printKeys(w io.Writer, list *admin.RuleKeys, now time.Time) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "BLOCKED\tUNTIL\n")
	for _, b := range list.Blocked {
		fmt.Fprintf(t, "%s\t%s\n", b.Key, b.Until.Local().Format(time.DateTime))
	}
	fmt.Fprint(t, "\nREFUSED MOST\tTIMES\tLAST\tALLOWED\tLAST CLIENT\n")
	for _, k := range list.TopRefused {
		fmt.Fprintf(t, "%s\t%d\t%s ago\t%s\t%s\n", k.Key, k.Refused, ago(now, k.Last), allowedIn(&k), k.Client)
	}
	t.Flush()
}

func printUsage(w io.Writer, u *admin.KeyUsage) {
	fmt.Fprintf(w, "%s under rule %q", u.Key, u.Rule)
	if u.BlockedUntil != nil {
		fmt.Fprintf(w, " is blocked until %s", u.BlockedUntil.Local().Format(time.DateTime))
	}
	fmt.Fprintln(w)
	for _, p := range u.Plans {
		tier := ""
		if p.Tier != "" {
			tier = "as tier " + p.Tier + ": "
		}
		next := admin.KeyStatus{AllowedIn: p.AllowedIn}
		fmt.Fprintf(w, "  %s%d of %d left (%s), a request passes %s\n", tier, p.Left, p.Size, p.Limit, allowedIn(&next))
	}
	if u.InProgress {
		fmt.Fprintln(w, "  requests in progress stay counted until they end")
	}
}
