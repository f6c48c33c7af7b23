package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gateway/proxy/admin"
)

// watchEach is the time between two looks of status --watch.
const watchEach = 2 * time.Second

func newStatus() *cobra.Command {
	var config, addr string
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say how the running gateway does: rules, upstreams, the last reload",
		Long: "status says how the running gateway does: whether the file as last saved is in force, what each rule\n" +
			"allows and refuses, and which servers are up. With --watch it looks again every 2 s until it is interrupted.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			for {
				status, text, err := ask(cmd.Context(), http.MethodGet, "/status", addr, config, 10*time.Second)
				if err != nil {
					return err
				}
				if status != http.StatusOK {
					return errors.New(strings.TrimSpace(text))
				}
				if err := showStatus(out, text, asJSON, watch && isTerminal(out)); err != nil || !watch {
					return err
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(watchEach):
				}
			}
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what /status says: one line of JSON, with --watch one for each look")
	cmd.Flags().BoolVar(&watch, "watch", false, "look again every 2 s")
	configFlag(cmd, &config)
	cmd.Flags().StringVar(&addr, "admin", "", "the `address` of the admin listener (default: what the file says)")
	return cmd
}

// showStatus prints a status in one write, in place of what a terminal shows when
// clear is set. Its error is that of out, which ends a watch.
func showStatus(out io.Writer, text string, asJSON, clear bool) error {
	if asJSON {
		_, err := io.WriteString(out, text)
		return err
	}
	var s admin.Status
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("what answers is not the admin listener of a gateway: %w", err)
	}
	var b strings.Builder
	if clear {
		b.WriteString("\x1b[H\x1b[2J")
	}
	printStatus(&b, &s)
	_, err := io.WriteString(out, b.String())
	return err
}

// printStatus prints a status for a person.
func printStatus(w io.Writer, s *admin.Status) {
	ready := "ready"
	if !s.Ready {
		ready = "not ready"
	}
	fmt.Fprintf(w, "gateway %s, %s, %d in flight, %d connections, answers: %s\n", s.Version, ready, s.InFlight, s.Connections, classes(s.Answers))
	fmt.Fprintf(w, "configuration %.12s, loaded %s ago\n", s.Config.Hash, ago(s.At, s.Config.Loaded))
	if !s.Config.OK {
		fmt.Fprintf(w, "THE FILE AS LAST SEEN IS NOT IN FORCE:\n%s\n", strings.TrimRight(s.Config.Error, "\n"))
	}
	if s.DryRun {
		fmt.Fprintln(w, "DRY RUN: NO RULE REFUSES ANYTHING, since the gateway was started with --dry-run")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nRULE\tMATCH\tKEY\tLIMIT\tALLOWED\tREFUSED\tNEAR LIMIT\tKEYS\tEVICTED\n")
	for i := range s.Rules {
		printRule(t, &s.Rules[i])
	}
	heading := "\nREFUSED MOST\tKEY\tTIMES\tLAST\tALLOWED\tLAST CLIENT\n"
	for i := range s.Rules {
		for _, k := range s.Rules[i].TopRefused {
			fmt.Fprintf(t, "%s%s\t%s\t%d\t%s ago\t%s\t%s\n", heading, s.Rules[i].Name, k.Key, k.Refused, ago(s.At, k.Last), allowedIn(&k), k.Client)
			heading = ""
		}
	}
	fmt.Fprint(t, "\nUPSTREAM\tSERVER\tSTATE\tIN FLIGHT\tANSWERS\tERRORS\tLAST CHECK\n")
	for _, u := range s.Upstreams {
		name := u.Name
		if u.Panic {
			name += " (fewer than half are up: all are used)"
		}
		for _, server := range u.Servers {
			state := "up"
			if !server.Up {
				state = "DOWN"
			}
			check := "never"
			if c := server.LastCheck; c != nil && c.Error == "" {
				check = "good, " + ago(s.At, c.At) + " ago"
			} else if c != nil {
				check = c.Error + ", " + ago(s.At, c.At) + " ago"
			}
			fmt.Fprintf(t, "%s\t%s\t%s %s\t%d\t%s\t%d\t%s\n",
				name, server.URL, state, ago(s.At, server.Since), server.InFlight, classes(server.Answers), server.Errors, check)
			name = ""
		}
	}
	if len(s.Certificates) > 0 {
		fmt.Fprint(t, "\nCERTIFICATE\tEXPIRES\n")
	}
	for _, c := range s.Certificates {
		expires := "NONE YET"
		switch {
		case c.Expires == nil:
		case c.Expires.Before(s.At):
			expires = "EXPIRED " + ago(s.At, *c.Expires) + " ago"
		default:
			expires = fmt.Sprintf("in %d days, %s", int(c.Expires.Sub(s.At).Hours()/24), c.Expires.UTC().Format(time.DateOnly))
		}
		fmt.Fprintf(t, "%s\t%s\n", c.Domain, expires)
	}
	t.Flush()
}

// allowedIn says when a key that was refused is let through again.
func allowedIn(k *admin.KeyStatus) string {
	switch {
	case k.AllowedIn == nil:
		return "never"
	case *k.AllowedIn == 0:
		return "now"
	}
	return "in " + (time.Duration(*k.AllowedIn*10) * time.Second / 10).String()
}

// printRule prints a line for each plan of a rule. What a dry run would refuse
// stands in brackets.
func printRule(w io.Writer, r *admin.RuleStatus) {
	rate := fmt.Sprintf("%s/s", figure(r.RefusedRate))
	if r.DryRun {
		rate = fmt.Sprintf("would: %s/s", figure(r.WouldRefuseRate))
	}
	for i, p := range r.Plans {
		refused := fmt.Sprint(p.Refused + p.FailedClosed + p.Blocked)
		if p.WouldRefuse > 0 || r.DryRun {
			refused += fmt.Sprintf(" (would: %d)", p.WouldRefuse)
		}
		if i > 0 {
			fmt.Fprintf(w, "\t\ttier %s\t%s\t%d\t%s\t\t\t\n", p.Tier, p.Limit, p.Allowed, refused)
			continue
		}
		name := r.Name
		switch {
		case r.DryRun && r.Switched:
			name += " (dry run until the next reload)"
		case r.DryRun:
			name += " (dry run)"
		case r.Switched:
			name += " (enforced until the next reload)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d, %s/s\t%s, %s\t%d\t%d\t%d\n",
			name, r.Match, r.Key, p.Limit, p.Allowed, figure(r.AllowedRate), refused, rate, r.NearLimit, r.Keys, r.Evictions)
	}
	if c := r.Candidate; c != nil {
		fmt.Fprintf(w, "\t\tcandidate\t%s\twould: %d\twould: %d\t\t\t\n", c.Limit, c.WouldAllow, c.WouldRefuse)
	}
}

func figure(rate float64) string {
	if rate >= 10 {
		return fmt.Sprintf("%.0f", rate)
	}
	return fmt.Sprintf("%.2g", rate)
}

// classes lists counts by class of status.
func classes(counts map[string]uint64) string {
	var parts []string
	for _, class := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[class], class))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// ago says how long before now something was, in whole seconds.
func ago(now, then time.Time) string {
	return max(0, now.Sub(then)).Round(time.Second).String()
}
