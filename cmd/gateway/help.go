package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gateway/rules"
)

// rulesHelp says how the rules work, for `gateway help rules` and the manual page.
func rulesHelp() string {
	names := strings.TrimRight(wrapped(strings.Join(rules.Attributes(), ", ")+".", "", 100), "\n")
	return fmt.Sprintf(rulesText, names)
}

const rulesText = `Every rule that matches a request applies, and their order has no meaning. A request passes
when each of them has room; if one has not, none is charged, and the answer is 429 with
Retry-After and the names of all rules that lacked room.

  rules:
    - name: per-ip              # everybody: 100 at once, then one every 600 ms
      key: ip
      limit: 100/m
    - name: per-key             # each API key: 10 a second, 20 at once
      key: header.X-API-Key
      limit: 10/s
      burst: 20
      missing: skip             # requests without a key are for the other rules
    - name: login               # five failed logins of a user in 15 minutes
      match: POST /login
      key: body.username
      limit: 5/15m
      algorithm: sliding_window_log
      count: { status: 401 }
    - name: exports             # three in progress at the same time
      match: /exports/:user/**
      key: path.user
      concurrency: 3

A rate is a number, a slash and a time: 100/m, 10/s, 5/15m, 1_000/h, or "100 per minute". The units are
s, m, h and d. burst is the most at one instant, not what may come on top; without it, it is the number in limit.

A match is a pattern, a map (all of it must match) or a list (any of it). A pattern is
[METHOD ][host]/path, in which * is one segment, ** the rest, and :name one segment that a
key can use as path.name: POST /login, /users/:id/**, api.example.com/v1/**.

  match: { path: /reports/**, method: [GET, POST], header.X-Plan: "free*", not: { group: staff } }

A key is one of these attributes, or a list of them for their combination:
%s

To see what a rule means in numbers, and what it makes of a request:

  gateway check
  gateway explain POST /login -d username=ann
`

// newRulesHelp is what `gateway help rules` prints; it is no command. Its text is
// made when it is asked for.
func newRulesHelp() *cobra.Command {
	cmd := &cobra.Command{Use: "rules", Short: "How the rules of the file work"}
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long = rulesManual()
		cmd.Root().HelpFunc()(cmd, args)
	})
	return cmd
}

// rulesManual tells how rules work, and of all their settings.
func rulesManual() string {
	var b strings.Builder
	b.WriteString(rulesHelp() + "\nThe settings of a rule:\n")
	for _, part := range rules.Manual() {
		if !strings.HasPrefix(part.Part, "rules[]") {
			continue
		}
		if part.Part != "rules[]" {
			fmt.Fprintf(&b, "\nof %s:\n", strings.TrimPrefix(part.Part, "rules[]."))
		}
		for _, s := range part.List {
			takes := s.Takes
			if s.Default != "" {
				takes += "; default " + s.Default
			}
			fmt.Fprintf(&b, "\n  %s: %s\n%s", s.Name, takes, wrapped(s.Help, "      ", 100))
		}
	}
	b.WriteString("\ngateway man gateway.yaml tells of all other settings.\n")
	return strings.TrimSpace(b.String())
}

// wrapped breaks text into lines of at most width letters, each with the indent.
func wrapped(text, indent string, width int) string {
	var b strings.Builder
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line)+len(word) > width && line != indent {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return b.String()
}
