package main

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// completers are scripts that ask a shell, with its own machinery, what it completes
// each of their arguments to. What belongs to one ends with a line "==".
var completers = map[string][]string{
	"bash": {"bash", "--norc", "--noprofile", "-c", `source /usr/share/bash-completion/bash_completion || exit 9
source <(gateway completion bash) || exit 9
complete=$(complete -p gateway | sed 's/.*-F \([^ ]*\) .*/\1/')
for line; do
	COMP_LINE=$line COMP_POINT=${#line} COMP_TYPE=9 COMP_KEY=9 COMPREPLY=()
	read -ra COMP_WORDS <<<"$line"
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	$complete gateway
	printf '%s\n' "${COMPREPLY[@]}" ==
done`, "bash"},
	"fish": {"fish", "--no-config", "-c", `gateway completion fish | source
for line in $argv
	complete -C $line
	echo ==
end`},
	// zsh completes for a terminal only: it is given one, and says what it has made of
	// the line.
	"zsh": {"zsh", "-f", "-c", `zmodload zsh/zpty
zpty z "zsh -f -i"
zpty -w z 'autoload -U compinit; compinit -D -u; source <(gateway completion zsh); PS1=; dump() { print -r -- "<<$BUFFER>>" }; zle -N dump; bindkey ^X dump; setopt nobeep; unsetopt automenu; print RE""ADY'
zpty -r z out '*READY*'
for line; do
	zpty -n -w z $'\x15'"$line"$'\t\x18'
	zpty -r z out '*<<*>>*'
	out=${${${out##*<<}%%>>*}% }
	print -r -- "${out##* }"
	print "=="
done`, "zsh"},
}

// completions returns what a shell completes lines to.
func completions(t *testing.T, shellName, dir string, lines ...string) [][]string {
	t.Helper()
	args := slices.Concat(completers[shellName], lines)
	var all [][]string
	for text := range strings.SplitSeq(strings.TrimSuffix(shell(t, dir, args[0], args[1:]...), "==\n"), "==\n") {
		all = append(all, words(text))
	}
	if len(all) != len(lines) {
		t.Fatalf("%s completed %d of %d lines: %q", shellName, len(all), len(lines), all)
	}
	return all
}

// words returns the first word of each line: what comes after it is a description.
func words(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 {
			all = append(all, fields[0])
		}
	}
	return all
}

func shell(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TERM=xterm", "LANG=C.UTF-8"}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", name, err, out, errs.String())
	}
	return string(out)
}

func TestShellsComplete(t *testing.T) {
	dir := t.TempDir()
	file := "upstream: http://127.0.0.1:1\nadmin: 127.0.0.1:1\nrules:\n  - { name: per-ip, limit: 1/s }\n  - { name: zebra, limit: 2/s }\n"
	for name, text := range map[string]string{"gateway.yaml": file, "other.yaml": file, "other.txt": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lines := map[string]string{
		"gateway hash":               "hash-key",
		"gateway keys blo":           "block",
		"gateway run --dem":          "",
		"gateway run --upst":         "--upstream",
		"gateway check -c oth":       "other.yaml", // not the .txt
		"gateway run --color ne":     "never",
		"gateway keys show zeb":      "zebra", // of ./gateway.yaml: nothing runs
		"gateway completion zs":      "zsh",
		"gateway man gateway.":       "gateway.yaml",
		"gateway explain POS":        "POST",
		"gateway version gateway.ya": "", // no file, since it takes none
	}
	asked := slices.Sorted(maps.Keys(lines))
	for shell := range completers {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			for i, got := range completions(t, shell, dir, asked...) {
				line := asked[i]
				got = slices.DeleteFunc(got, func(s string) bool {
					return strings.HasSuffix(line, " "+s) || // as it was
						shell == "fish" && s == "other.txt" // it cannot tell files by their ends
				})
				if want := strings.Fields(lines[line]); !slices.Equal(got, want) {
					t.Errorf("%s completes %q to %q, want %q", shell, line, got, want)
				}
			}
		})
	}
}

// The names of rules are those of the gateway that runs, where one does.
func TestRuleNamesOfTheRunningGatewayAreCompleted(t *testing.T) {
	g := serve(t, "upstream: http://127.0.0.1:1\nrules:\n  - { name: alpaca, limit: 1/s }\n")
	if got := completions(t, "bash", t.TempDir(), "gateway keys reset --admin "+g.admin+" alp"); !slices.Equal(got[0], []string{"alpaca"}) {
		t.Errorf("completed to %q", got[0])
	}
}
