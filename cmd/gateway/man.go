package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gateway/rules"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man [gateway|gateway.yaml]",
		Short: "Print a manual page: of the commands, or of the file",
		Long: "man prints the manual page gateway(1), which is about the commands, or gateway.yaml(5), which is about the file.\n" +
			"The packages have them installed. To read one:\n\n  gateway man gateway.yaml | man -l -",
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"gateway", "gateway.yaml"},
		RunE: func(cmd *cobra.Command, args []string) error {
			m := manPage{w: cmd.OutOrStdout()}
			if len(args) == 1 && args[0] == "gateway.yaml" {
				m.file()
			} else {
				m.commands(cmd.Root())
			}
			return m.err
		},
	}
}

// manPage writes a manual page in mdoc.
type manPage struct {
	w   io.Writer
	err error
}

func (m *manPage) line(format string, args ...any) {
	if m.err == nil {
		_, m.err = fmt.Fprintf(m.w, format+"\n", args...)
	}
}

func (m *manPage) head(name, section, what string) {
	day := time.Now().UTC()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
					day = t
				}
			}
		}
	}
	m.line(".Dd %s\n.Dt %s %s\n.Os\n.Sh NAME\n.Nm %s\n.Nd %s", day.Format("January 2, 2006"), strings.ToUpper(name), section, name, what)
}

// section begins a section with paragraphs of text.
func (m *manPage) section(name, text string) {
	m.line(".Sh %s", name)
	m.paragraphs(text, true)
}

// text adds paragraphs to a section; lines that are indented are shown as they are.
func (m *manPage) text(text string) { m.paragraphs(text, false) }

func (m *manPage) paragraphs(text string, begun bool) {
	shown := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		indented := strings.HasPrefix(line, "  ")
		switch {
		case line == "" && !shown:
			begun = false
			continue
		case line == "":
			m.line("")
			continue
		case indented && !shown:
			m.line(".Bd -literal -offset indent")
		case !indented && shown:
			m.line(".Ed\n.Pp")
		case !indented && !begun:
			m.line(".Pp")
		}
		shown, begun = indented, true
		if shown {
			m.line("%s", roff(line[2:]))
		} else {
			m.sentence(line)
		}
	}
	if shown {
		m.line(".Ed")
	}
}

var sentenceEnd = regexp.MustCompile(`([.!?]\)?) `)

// sentence writes running text, each sentence on its own line, as is the custom.
func (m *manPage) sentence(text string) {
	m.line("%s", sentenceEnd.ReplaceAllString(roff(text), "$1\n"))
}

// roff writes text so that none of it is taken for a request, and so that what is
// to be typed can be copied.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// word writes a text as one argument of a macro.
func roffWord(text string) string { return `"` + roff(text) + `"` }

// commands writes gateway(1), which is made of the commands themselves.
func (m *manPage) commands(root *cobra.Command) {
	m.head("gateway", "1", "hold the clients of an API to limits")
	m.line(".Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Fl \\-help\n.Op Ar options")
	m.section("DESCRIPTION", root.Long)
	m.line(".Pp\nThe commands are:\n.Bl -tag -width Ds")
	for _, cmd := range root.Commands() {
		m.command(cmd)
	}
	m.line(".El\n.Sh ENVIRONMENT\n.Bl -tag -width Ds")
	for _, v := range [][2]string{
		{"GATEWAY_CONFIG", "The configuration file, where -c does not name one."},
		{"NO_COLOR", "Without colours in the log."},
		{"STATE_DIRECTORY, XDG_DATA_HOME", "Where certificates are kept that an ACME CA issued, unless tls.storage says it."},
		{"CREDENTIALS_DIRECTORY", "Where systemd puts credentials."},
	} {
		m.line(".It Ev %s", roffWord(v[0]))
		m.sentence(v[1])
	}
	m.line(".El\n.Sh FILES\n.Bl -tag -width Ds")
	for _, v := range [][2]string{
		{"gateway.yaml", "The configuration, in the folder where the gateway is started."},
		{"/etc/gateway/gateway.yaml", "The configuration, where there is no other."},
	} {
		m.line(".It Pa %s", roffWord(v[0]))
		m.sentence(v[1])
	}
	m.line(".El\n.Sh EXIT STATUS")
	m.sentence("0: done. 1: failed (a bad file, an address that cannot be bound, a reload that was refused). 2: wrong usage.")
	m.line(".Sh SIGNALS\n.Bl -tag -width Ds")
	for _, v := range [][2]string{
		{"SIGHUP", "The file is read again, as with reload."},
		{"SIGTERM, SIGINT", "Nothing new is accepted, and what is in progress ends, within shutdown_timeout. A second one stops at once."},
	} {
		m.line(".It Dv %s", roffWord(v[0]))
		m.sentence(v[1])
	}
	m.line(".El\n.Sh SEE ALSO\n.Xr gateway.yaml 5")
}

// command writes a command, those below it, and their flags.
func (m *manPage) command(cmd *cobra.Command) {
	if cmd.Hidden || !cmd.IsAvailableCommand() {
		return
	}
	m.line(".It Ic %s", roffWord(strings.TrimPrefix(cmd.UseLine(), "gateway ")))
	m.sentence(cmd.Short + ".")
	if cmd.Long != "" {
		m.text(cmd.Long)
	}
	flags := 0
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if flags++; flags == 1 {
			m.line(".Bl -tag -width Ds")
		}
		value, usage := pflag.UnquoteUsage(f)
		item := ".It "
		if f.Shorthand != "" {
			item += "Fl " + f.Shorthand + " , "
		}
		if item += `Fl \-` + roff(f.Name); value != "" {
			item += " Ar " + roffWord(value)
		}
		m.line("%s", item)
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && !strings.Contains(usage, "default") {
			usage += " (default " + f.DefValue + ")"
		}
		m.sentence(strings.ToUpper(usage[:1]) + usage[1:] + ".")
	})
	if flags > 0 {
		m.line(".El")
	}
	if cmd.Example != "" {
		m.text(cmd.Example)
	}
	for _, sub := range cmd.Commands() {
		m.command(sub)
	}
}

// file writes gateway.yaml(5), which is made of the table of settings.
func (m *manPage) file() {
	m.head("gateway.yaml", "5", "configuration of the gateway")
	m.section("DESCRIPTION", "The file is YAML. It is applied as it is saved; one with an error changes nothing. The shortest useful one is:\n\n"+
		"  upstream: http://localhost:3000\n  rules:\n    - name: per-ip\n      key: ip\n      limit: 100/m\n\n"+
		"In values ${NAME} stands for a variable of the environment, ${NAME:-default} for the default where it is not set, ${NAME:?message} is an error then, and $$ is a $.")
	for _, part := range rules.Manual() {
		m.line(".Ss %s", roffWord(cmp.Or(part.Part, "The top level")))
		m.line(".Bl -tag -width Ds")
		for _, s := range part.List {
			takes := s.Takes
			if s.Default != "" {
				takes += "; default " + s.Default
			}
			m.line(".It Ic %s", roffWord(s.Name))
			m.sentence(s.Help)
			m.line(".br")
			m.sentence("(" + takes + ")")
		}
		m.line(".El")
	}
	m.section("RULES", rulesHelp())
	m.line(".Sh FILES\n.Bl -tag -width Ds\n.It Pa %s", roffWord("/usr/share/doc/gateway/gateway.example.yaml"))
	m.sentence("An example with every setting.")
	m.line(".It Pa %s", roffWord("/usr/share/gateway/gateway.schema.json"))
	m.sentence("The JSON schema of the file, for editors.")
	m.line(".El\n.Sh SEE ALSO\n.Xr gateway 1")
}
