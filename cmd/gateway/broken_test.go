package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// broken returns what the file may look like at its worst; good is a file that
// is fine. A value that begins with "!" is what to put in the file's place.
func broken(good string) map[string]string {
	swap := func(old, new string) string {
		if !strings.Contains(good, old) {
			panic("no " + old + " in the good file")
		}
		return strings.Replace(good, old, new, 1)
	}
	const limit = "limit: 1000000/365d"
	return map[string]string{
		"empty":                         "",
		"a blank line":                  "\n",
		"a comment":                     "# rules\n",
		"three dashes":                  "---\n",
		"null":                          "null\n",
		"a list":                        "- a\n- b\n",
		"text":                          "rules\n",
		"two documents":                 good + "---\n" + good,
		"a tab":                         swap("rules:\n", "rules:\n\t- x\n"),
		"an open bracket":               swap("rules:", "rules: ["),
		"an open quote":                 swap("name: first", `name: "first`),
		"bad indentation":               swap("upstream:", "   upstream:"),
		"a duplicate setting":           good + "upstream: http://127.0.0.1:9\n",
		"a duplicate rule":              swap("name: last", "name: first"),
		"an unknown setting":            good + "ruels: []\n",
		"an unknown setting of a rule":  swap("key: ip", "key: ip, limt: 3/m"),
		"a fraction":                    swap(limit, "limit: 1.5/m"),
		"an octal number":               swap(limit, "limit: 010/m"),
		"a negative limit":              swap(limit, "limit: -1/m"),
		"a limit of zero":               swap(limit, "limit: 0/m"),
		"an exponent":                   swap(limit, "limit: 1e3/m"),
		"a limit that overflows":        swap(limit, "limit: 99999999999999999999/s"),
		"a bare number":                 swap(limit, "limit: 100"),
		"an unknown unit":               swap(limit, "limit: 100/fortnight"),
		"a period that is too long":     swap(limit, "limit: 1/3000000h"),
		"NaN":                           swap(limit, "limit: .nan"),
		"a rule that is null":           swap("rules:\n", "rules:\n  - ~\n"),
		"a rule without a name":         swap("name: first, ", ""),
		"no rules":                      good[:strings.Index(good, "rules:")],
		"no upstream":                   regexp.MustCompile(`upstream: .*\n`).ReplaceAllString(good, ""),
		"an upstream that is no URL":    regexp.MustCompile(`upstream: .*\n`).ReplaceAllString(good, "upstream: localhost 3000\n"),
		"an upstream of another scheme": regexp.MustCompile(`upstream: .*\n`).ReplaceAllString(good, "upstream: ftp://127.0.0.1\n"),
		"an unknown algorithm":          swap("key: ip", "key: ip, algorithm: guess"),
		"an unknown key":                swap("key: ip", "key: adress"),
		"a header written with a colon": swap("key: ip", "key: 'header:X'"),
		"an address that is none":       swap("127.0.0.1:0", "127.0.0.1:99999"),
		"an alias of nothing":           swap("key: ip", "key: *nobody"),
		"an alias of itself":            "a: &a [*a]\n" + good,
		"a bomb of aliases":             "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n" + good,
		"deep nesting":                  "a: " + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "\n",
		"a tag of another language":     swap("key: ip", "key: !!python/object:os.system ip"),
		"UTF-16":                        "\xff\xfe" + strings.Join(strings.Split(good, ""), "\x00") + "\x00\n",
		"bytes that are no text":        swap("name: first", "name: \xff\xfe"),
		"a NUL":                         swap("name: first", "name: fi\x00rst"),
		"a web page":                    "<html><body>404 Not Found</body></html>\n",
		"5 MB":                          good + strings.Repeat("# filling the disk\n", 5<<20/19),
		"half a rule":                   good[:strings.Index(good, "limit")+5],
		"gone":                          "!gone",
		"a folder":                      "!folder",
		"a link to nothing":             "!link",
		"a pipe":                        "!pipe",
	}
}

// putBroken puts text, or what it stands for, in the place of the file.
func putBroken(t testing.TB, path, text string) {
	t.Helper()
	if !strings.HasPrefix(text, "!") {
		write(t, path+".new", text)
		do(t, os.RemoveAll(path))
		do(t, os.Rename(path+".new", path))
		return
	}
	do(t, os.RemoveAll(path))
	switch text {
	case "!folder":
		do(t, os.Mkdir(path, 0o755))
	case "!link":
		do(t, os.Symlink(path+".nowhere", path))
	case "!pipe":
		do(t, syscall.Mkfifo(path, 0o644))
	}
}

func TestBrokenFilesChangeNothing(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	good := versioned(up.URL, 0)
	g := serve(t, good)
	drain(g)
	o := observe(g) // its answers must stay those of version 0
	refusals := g.refusals
	position := regexp.MustCompile(regexp.QuoteMeta(g.path) + `:\d+(:\d+)?: .`)
	reading := regexp.MustCompile(`^reading the configuration: .*` + regexp.QuoteMeta(g.path))
	const ok = "gateway_config_last_reload_successful"

	n := 0
	// In order: two files in a row that are not there would be one fault.
	files := broken(good)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		n++
		putBroken(t, g.path, text)
		start := time.Now()
		eventually(t, "refused: "+name, func() bool { return len(refusals()) >= n })
		took := time.Since(start)
		list := refusals()
		if len(list) != n {
			t.Fatalf("%s: %d refusals in the log, want one for each of %d files", name, len(list), n)
		}
		form := position
		switch {
		case strings.HasPrefix(text, "!"):
			form = reading
		case name == "5 MB": // the fault is in no line
			form = regexp.MustCompile(regexp.QuoteMeta(g.path) + `: .* 2 MiB`)
		}
		for _, e := range errorsOf(t, list[n-1]) {
			if !form.MatchString(e) {
				t.Errorf("%s: the error names no place: %s", name, e)
			}
		}
		if took > 10*time.Second { // at most 1.5 s to settle, 1 s to parse, and a busy machine
			t.Errorf("%s: refused after %v", name, took)
		}
		if v, err := versionOf(g.get("/")); v != 0 || err != nil {
			t.Fatalf("%s: version %d answers (%v), want 0", name, v, err)
		}
		if got := g.metrics()[ok]; got != 0 {
			t.Errorf("%s: %s %v, want 0", name, ok, got)
		}
		if n%10 == 0 { // the file as it was is good again, and changes nothing
			putBroken(t, g.path, good)
			eventually(t, "the good file counts as good", func() bool { return g.metrics()[ok] == 1 })
		}
	}
	if n < 40 {
		t.Errorf("%d broken files, want at least 40", n)
	}
	if o.version.Load() != 0 {
		t.Errorf("version %d was seen under load", o.version.Load())
	}
	putBroken(t, g.path, versioned(up.URL, 7))
	start := time.Now()
	eventually(t, "the good file after them is active", func() bool { return o.version.Load() == 7 })
	t.Logf("%d broken files; the good one after them is active after %v; %d requests", n, time.Since(start), o.sent.Load())
	eventually(t, "the metric says so", func() bool { return g.metrics()[ok] == 1 })
	o.finish(t)
	score(t, "S30", "%d files refused, 0 of %d requests failed", n, o.sent.Load())
}

// refusals returns the log lines of reloads that failed, in their order.
func (g *instance) refusals() []map[string]any {
	return g.logged("configuration refused; the running settings are unchanged",
		"configuration unreadable; the running settings are unchanged")
}

// errorsOf returns the errors in the log line of a reload that failed.
func errorsOf(t testing.TB, line map[string]any) []string {
	t.Helper()
	var list []string
	all, _ := line["errors"].([]any)
	for _, e := range all {
		list = append(list, fmt.Sprint(e))
	}
	if len(list) == 0 {
		t.Errorf("a refusal without errors: %v", line)
	}
	return list
}

func TestBrokenFileAtStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := dir + "/gateway.yaml"
	write(t, path, "upstream: http://127.0.0.1:9\nrules:\n  - name: a\n    limit: 100/fortnight\n")
	want := path + `:4:12: limit "100/fortnight": unknown unit "fortnight"`
	for _, command := range []string{"run", "check"} {
		g := launch(t, []string{command, "-c", path})
		if code := g.exit(); code != 1 {
			t.Errorf("%s: exit code %d, want 1", command, code)
		}
		if !strings.Contains(g.errs.String(), want) {
			t.Errorf("%s: stderr %q, want %q in it", command, g.errs, want)
		}
	}
}
