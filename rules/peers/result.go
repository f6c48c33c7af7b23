package peers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gateway/rules"
)

// Source is a file of another program.
type Source struct {
	// Name is what it is called, Data what it holds.
	Name string
	Data []byte
	// Read returns the files that a pattern names in what includes others; nil is that
	// nothing can be read.
	Read func(pattern string) ([]Source, error)
}

// Note says what of a file was not imported, or means something else here.
type Note struct {
	File string
	Line int // 0 is the file as a whole
	Text string
}

// String returns "file:line: text".
func (n Note) String() string { return rules.Pos{File: n.File, Line: n.Line}.String() + ": " + n.Text }

// Result is what was imported.
type Result struct {
	// Text is a configuration file of ours, in YAML, that Parse takes.
	Text []byte
	// Rules is how many rules are in it.
	Rules int
	// Notes say what is not, in the order of the source.
	Notes []Note
}

// maxSource bounds a file and all that it includes, together.
const maxSource = 4 << 20

// maxRules bounds what comes of a file.
const maxRules = 2000

// maxConditions bounds the match of a rule.
const maxConditions = 500

// importer collects rules and notes.
type importer struct {
	program string // "nginx"
	source  Source
	rules   []*imported
	notes   []Note
	trusted []string // proxies that say who the client is

	conditions int // of all rules
}

// imported is a rule to be.
type imported struct {
	name     string
	file     string
	line     int
	from     string   // how the source says it
	comments []string // what means something else
	match    match
	key      []string // attributes; none is one counter for all
	missing  string
	// A rule has a limit, with a burst unless it is 0, or a concurrency.
	limit       string
	burst       int64
	concurrency int64
	algorithm   string
	maxWait     string
	dryRun      bool
	status      int
	jitter      string
}

func (m *importer) note(file string, line int, format string, args ...any) {
	n := Note{File: file, Line: line, Text: oneLine(fmt.Sprintf(format, args...))}
	if !slices.Contains(m.notes, n) && len(m.notes) < maxRules {
		m.notes = append(m.notes, n)
	}
}

// comment adds a comment to a rule, once.
func (r *imported) comment(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.comments, text) {
		r.comments = append(r.comments, text)
	}
}

// oneLine makes of text from a file one that can stand in a comment.
func oneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if r := []rune(text); len(r) > 300 {
		return string(r[:299]) + "…"
	}
	return text
}

// name returns a name for a rule that no other has.
func (m *importer) name(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			b.WriteRune(r)
		} else if b.Len() > 0 {
			b.WriteByte('-')
		}
	}
	base := strings.Trim(b.String(), "-_")
	base = strings.TrimRight(base[:min(len(base), 50)], "-_")
	if base == "" {
		base = "limit"
	}
	name := base
	for i := 2; slices.ContainsFunc(m.rules, func(r *imported) bool { return r.name == name }); i++ {
		name = base + "-" + strconv.Itoa(i)
	}
	return name
}

// add adds a rule, under a name made of text.
func (m *importer) add(text string, r *imported) {
	if len(m.rules) == maxRules {
		m.note(r.file, r.line, "more than %d rules: the rest is left out", maxRules)
		return
	}
	if n := r.match.size(); n > maxConditions || m.conditions+n > maxRules*10 {
		m.note(r.file, r.line, "%s: too many conditions for a rule", r.from)
		return
	}
	m.conditions += r.match.size()
	r.name, r.match = m.name(text), r.match.simple()
	m.rules = append(m.rules, r)
}

// result writes the rules. One that our own language refuses after all is left out,
// and noted with the reason.
func (m *importer) result() (*Result, error) {
	for {
		text := m.text()
		_, err := rules.Parse("import", text)
		if err == nil {
			slices.SortStableFunc(m.notes, func(a, b Note) int { return strings.Compare(a.File, b.File)*1_000_000_000 + a.Line - b.Line })
			return &Result{Text: text, Rules: len(m.rules), Notes: m.notes}, nil
		}
		list, _ := err.(rules.ErrorList)
		before := len(m.rules)
		m.rules = slices.DeleteFunc(m.rules, func(r *imported) bool {
			i := slices.IndexFunc(list, func(e *rules.Error) bool { return e.Rule == r.name })
			if i >= 0 {
				m.note(r.file, r.line, "%s: %s", r.from, list[i].Msg)
			}
			return i >= 0
		})
		if len(m.rules) == before {
			return nil, fmt.Errorf("%s: what is imported would have errors: %w", m.source.Name, err)
		}
	}
}

// text writes the file.
func (m *importer) text() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# The limits of %s, imported by gateway import %s.\n", oneLine(m.source.Name), m.program)
	b.WriteString("# Every rule that matches a request applies; if one has no room, none is charged.\n\n")
	b.WriteString("upstream: http://localhost:3000   # put the address of your API here\n")
	if len(m.trusted) > 0 {
		all := make([]string, len(m.trusted))
		for i, peer := range m.trusted {
			all[i] = quoted(peer)
		}
		fmt.Fprintf(&b, "trusted_proxies: [%s]\n", strings.Join(all, ", "))
	}
	if len(m.rules) == 0 {
		b.WriteString("\nrules: []\n")
		return []byte(b.String())
	}
	b.WriteString("\nrules:\n")
	for i, r := range m.rules {
		if i > 0 {
			b.WriteByte('\n')
		}
		r.write(&b)
	}
	return []byte(b.String())
}

func (r *imported) write(b *strings.Builder) {
	fmt.Fprintf(b, "  # %s: %s\n", oneLine(rules.Pos{File: r.file, Line: r.line}.String()), oneLine(r.from))
	for _, c := range r.comments {
		fmt.Fprintf(b, "  # %s\n", oneLine(c))
	}
	fmt.Fprintf(b, "  - name: %s\n", quoted(r.name))
	set := func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, "    %s: %s\n", name, value)
		}
	}
	set("match", r.match.text())
	key := []string{"global"}
	if len(r.key) > 0 {
		key = r.key
	}
	set("key", listed(key))
	set("missing", r.missing)
	set("limit", r.limit)
	if r.burst > 0 {
		set("burst", strconv.FormatInt(r.burst, 10))
	}
	if r.concurrency > 0 {
		set("concurrency", strconv.FormatInt(r.concurrency, 10))
	}
	set("algorithm", r.algorithm)
	set("max_wait", r.maxWait)
	if r.dryRun {
		set("dry_run", "true")
	}
	switch {
	case r.status != 0 && r.jitter != "":
		set("reject", fmt.Sprintf("{ status: %d, jitter: %s }", r.status, r.jitter))
	case r.status != 0:
		set("reject", fmt.Sprintf("{ status: %d }", r.status))
	case r.jitter != "":
		set("reject", "{ jitter: "+r.jitter+" }")
	}
}

// accepts reports whether this version has what a rule says: import uses it if so.
func accepts(rule string) bool {
	_, err := rules.Parse("probe", []byte("upstream: http://a\nrules: [{ name: a, "+rule+" }]\n"))
	return err == nil
}
