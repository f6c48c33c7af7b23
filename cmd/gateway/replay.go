package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gateway/reload"
	"gateway/rules"
	"gateway/rules/replay"
)

// replayBallast: a replay makes hardly any garbage, but for tables that grow; to
// collect that each time they have doubled would stop the work for nothing.
const replayBallast = 64 << 20

// replaying is a replay as the command line asks for it.
type replaying struct {
	config, against, format, host, html, suggest string
	asJSON                                       bool
	top                                          int
	wanted                                       replay.Wanted
}

func newReplay() *cobra.Command {
	p := &replaying{}
	cmd := &cobra.Command{
		Use:   "replay LOG...",
		Short: "Say what the rules of a file would have done to the requests of access logs",
		Long: "replay decides the requests of access logs anew, by the rules of a file, with the code that decides in\n" +
			"service and the clock of the logs; and says whom each rule would have refused, when, and how much of what\n" +
			"they asked for. It sends nothing and changes nothing.\n\n" +
			"Logs are found out to be nginx's or Apache's combined or common, this gateway's, Caddy's or Traefik's JSON,\n" +
			"Traefik's CLF, Envoy's default, HAProxy's HTTP log or an AWS load balancer's; gzip and zstd too. Several are\n" +
			"merged by time. - is stdin.",
		Example: "  gateway replay /var/log/nginx/access.log* -c gateway.yaml\n" +
			"  gateway replay access.log --against old.yaml --html report.html\n" +
			"  gateway replay access.log --suggest clients=0.1%\n" +
			"  zcat access.log.gz | gateway replay - --format '$remote_addr [$time_local] \"$request\" $status $http_x_api_key'",
		Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault // logs, which are files
		},
		RunE: func(cmd *cobra.Command, logs []string) error {
			logs = p.shareAmong(logs)
			if err := p.check(logs); err != nil {
				return &usageError{"gateway replay", err}
			}
			return p.run(cmd, logs)
		},
	}
	configFlag(cmd, &p.config)
	f := cmd.Flags()
	f.StringVar(&p.against, "against", "", "another configuration `file`, to compare with")
	f.StringVar(&p.format, "format", "", "the `pattern` of the lines, in the words of nginx ($remote_addr) or Apache (%h)")
	f.StringVar(&p.host, "host", "", "the `host` that was asked for, where a log does not say it")
	f.StringVar(&p.suggest, "suggest", "", "find the smallest limit that refuses at most so many `clients=0.1%` or requests=1%")
	f.Lookup("suggest").NoOptDefVal = "clients=0.1%"
	f.StringVar(&p.html, "html", "", "write a page with plots to this `file` too")
	f.BoolVar(&p.asJSON, "json", false, "print JSON")
	f.IntVar(&p.top, "top", 5, "how many keys to name of each rule, 0 to 1000")
	return cmd
}

// shareAmong takes what --suggest says from among the names of logs, where it is when a
// space stands between them: a flag that can do without a value has one only after "=".
func (p *replaying) shareAmong(logs []string) []string {
	for i, name := range logs {
		if of, share, _ := strings.Cut(name, "="); p.suggest != "" && (of == "clients" || of == "requests") && strings.HasSuffix(share, "%") {
			p.suggest = name
			return slices.Delete(slices.Clone(logs), i, i+1)
		}
	}
	return logs
}

// check reads what the flags say.
func (p *replaying) check(logs []string) error {
	if len(logs) == 0 {
		return errors.New("no log")
	}
	stdin := 0
	for _, name := range append([]string{p.config, p.against}, logs...) {
		if name == "-" {
			stdin++
		}
	}
	if stdin > 1 {
		return errors.New("only one of the files can be -, the standard input")
	}
	if p.top < 0 || p.top > 1000 {
		return fmt.Errorf("--top %d: must be 0 to 1000", p.top)
	}
	if p.host != "" {
		host, err := rules.NormalHost(p.host)
		if err != nil {
			return fmt.Errorf("--host %s: %w", p.host, err)
		}
		p.host = host
	}
	p.wanted = replay.Wanted{Of: "clients", Share: 0.001}
	if p.suggest == "" {
		return nil
	}
	of, text, found := strings.Cut(p.suggest, "=")
	if !found {
		of, text = "clients", of
	}
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !percent || err != nil || !(share >= 0 && share <= 100) || of != "clients" && of != "requests" {
		return fmt.Errorf("--suggest=%s: write clients=0.1%% or requests=1%%", p.suggest)
	}
	p.wanted = replay.Wanted{Of: of, Share: share / 100}
	return nil
}

func (p *replaying) run(cmd *cobra.Command, logs []string) error {
	set, err := replaySet(cmd, p.config)
	if err != nil {
		return err
	}
	headers, answers := replay.Wants(set)
	now := replay.NewRun(set, p.host)
	var then *replay.Run
	var against *replay.Against
	if p.against != "" {
		other, err := replaySet(cmd, p.against)
		if err != nil {
			return err
		}
		h, a := replay.Wants(other)
		headers, answers = append(headers, h...), append(answers, a...)
		then, against = replay.NewRun(other, p.host), replay.NewAgainst(configName(p.against))
	}
	if p.suggest != "" || p.html != "" {
		now.Try()
	}
	kept := ballast(replayBallast)
	defer runtime.KeepAlive(kept)
	reader, err := replay.Open(logs, replay.Options{Pattern: p.format, Stdin: cmd.InOrStdin(), Headers: headers, Answers: answers})
	if err != nil {
		return err
	}
	bar := startProgress(cmd.ErrOrStderr(), reader)
	err = decideAll(cmd, reader, now, then, against)
	bar.stop()
	reader.Close()
	if err != nil {
		return err
	}
	rep := now.Report(reader, p.wanted, p.top)
	if against != nil {
		against.Finish(then.Report(reader, p.wanted, p.top), p.top)
		rep.Against = against
	}
	return p.print(cmd, rep)
}

// decideAll decides all requests of the logs.
func decideAll(cmd *cobra.Command, reader *replay.Reader, now, then *replay.Run, against *replay.Against) error {
	var ours, theirs []replay.Outcome
	for {
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		batch, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		ours = now.Do(batch, ours[:0])
		if then != nil {
			theirs = then.Do(batch, theirs[:0])
			for i, rec := range batch {
				against.Add(rec, ours[i], theirs[i])
			}
		}
		reader.Free(batch)
	}
}

// print prints the report. Its error says when the figures are not those of all
// that the logs hold.
func (p *replaying) print(cmd *cobra.Command, rep *replay.Report) error {
	out, errs := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if p.html != "" {
		page, err := replayPage(rep)
		if err == nil {
			err = os.WriteFile(p.html, page, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if p.asJSON {
		if err := printJSON(out, rep); err != nil {
			return err
		}
	} else {
		var b strings.Builder
		printReplay(&b, rep, p.suggest != "")
		if p.html != "" {
			fmt.Fprintf(&b, "\nThe page with the plots is in %s.\n", p.html)
		}
		if _, err := io.WriteString(out, b.String()); err != nil {
			return err
		}
	}
	switch read := rep.Lines - rep.LinesUnread; {
	case rep.Damaged:
		for _, f := range rep.Files {
			if f.Damage != "" {
				fmt.Fprintf(errs, "gateway: %s\n", f.Damage)
			}
		}
		return errors.New("the report holds only what could be read")
	case rep.Late > read/100:
		return &hintError{
			err:  fmt.Errorf("%d of %d lines are not in the order of time, so they were decided too late", rep.Late, read),
			hint: "sort the log by time first; lines that are a few thousand lines late do no harm",
		}
	case rep.Lines > 0 && read < rep.LinesUnread:
		return &hintError{
			err:  fmt.Errorf("%d of %d lines could not be read, so the report says little", rep.LinesUnread, rep.Lines),
			hint: "see the first of them above; --format describes lines of another format",
		}
	}
	return nil
}

// replaySet compiles a file for a replay: its rules are all that counts, so what
// its upstreams and certificates need of the machine need not be there.
func replaySet(cmd *cobra.Command, config string) (*rules.Set, error) {
	path, err := findConfig(config)
	if err != nil {
		return nil, err
	}
	data, err := readConfig(path, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	file, err := outside().Parse(configName(path), data)
	if err == nil {
		file, err = file.ReadGroups(nil, reload.ReadFile)
	}
	var set *rules.Set
	if err == nil {
		set, err = file.Alone().Compile(nil)
	}
	if list, ok := errors.AsType[rules.ErrorList](err); ok {
		printErrors(cmd.ErrOrStderr(), list, ".")
		return nil, errSaid
	}
	return set, err
}
