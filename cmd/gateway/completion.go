package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gateway/proxy/admin"
)

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print what has a shell complete commands, flags, files and rule names",
		Long: "completion prints a script for a shell, which the packages have installed. To try it:\n\n" +
			"  source <(gateway completion bash)\n  source <(gateway completion zsh)\n  gateway completion fish | source\n\n" +
			"bash needs its package bash-completion. Names of rules are those of the gateway that runs, or of the file.",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root, out := cmd.Root(), cmd.OutOrStdout(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			default:
				return root.GenFishCompletion(out, true)
			}
		},
	}
}

// nothing completes nothing, not even the names of files.
var nothing = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)

// complete says how the flags and arguments of a command are completed: those that
// say nothing of it are not files.
func complete(cmd *cobra.Command) {
	if cmd.ValidArgs == nil && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = nothing
	}
	flags := map[string]cobra.CompletionFunc{
		"config": cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt),
		"color":  cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp),
	}
	if f := cmd.Flags().Lookup("dry-run"); f != nil && f.Value.Type() == "string" { // of rule; that of run has no value
		flags["dry-run"] = cobra.FixedCompletions([]string{"on", "off"}, cobra.ShellCompDirectiveNoFileComp)
	}
	flags["against"] = flags["config"]
	flags["html"] = cobra.FixedCompletions([]string{"html"}, cobra.ShellCompDirectiveFilterFileExt)
	flags["suggest"] = cobra.FixedCompletions([]string{"clients=0.1%", "requests=1%"}, cobra.ShellCompDirectiveNoFileComp)
	for _, name := range []string{"config", "color", "upstream", "limit", "listen", "admin", "header", "data", "ip", "host", "repeat", "for", "dry-run", "against", "html", "suggest", "format", "top"} {
		if f := flags[name]; cmd.Flags().Lookup(name) != nil {
			if f == nil {
				f = nothing
			}
			if err := cmd.RegisterFlagCompletionFunc(name, f); err != nil {
				panic("gateway: completing --" + name + ": " + err.Error())
			}
		}
	}
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}

// ruleNames completes the first argument, the name of a rule: of those of the
// gateway that runs, else of those in the file.
func ruleNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	config, _ := cmd.Flags().GetString("config")
	addr, _ := cmd.Flags().GetString("admin")
	var names []string
	if code, text, err := ask(cmd.Context(), http.MethodGet, "/status", addr, config, time.Second); err == nil && code == http.StatusOK {
		var s admin.Status
		if json.Unmarshal([]byte(text), &s) == nil {
			for _, r := range s.Rules {
				names = append(names, r.Name)
			}
		}
	} else if path, err := findConfig(config); err == nil && path != "-" {
		if data, err := readConfig(path, nil); err == nil {
			if snap, _, err := loadFile(path, data); err == nil {
				for _, r := range snap.Rules().Rules {
					names = append(names, r.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}
