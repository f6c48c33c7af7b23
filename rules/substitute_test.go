package rules

import (
	"os"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// variables returns what a file may take from outside: these variables.
func variables(env map[string]string) Outside {
	return Outside{Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
}

func TestVariablesStandForTheirValues(t *testing.T) {
	o := variables(map[string]string{"A": "one", "B_2": "two", "EMPTY": "", "_x": "three", "D": "$A ${A} $$", "Q": `a"b'c: [d] # e`, "N": "1\n2"})
	for written, want := range map[string]string{
		"${A}":                "one",
		"x${A}y${B_2}z":       "xoneytwoz",
		"${_x}":               "three",
		"${EMPTY}":            "",
		"${A}${A}":            "oneone",
		"${A:-other}":         "one",
		"${EMPTY:-other}":     "other",
		"${NONE:-other}":      "other",
		"${NONE:-}":           "",
		"${NONE:-a b $5 {x}":  "a b $5 {x",
		"${NONE:-http://a:1}": "http://a:1",
		"${NONE:-:-x}":        ":-x",
		"${A:?no}":            "one",
		"${D}":                "$A ${A} $$", // what a variable holds is not looked at again
		"${Q}":                `a"b'c: [d] # e`,
		"${N}":                "1\n2",
		"$$":                  "$",
		"$$$$":                "$$",
		"$${A}":               "${A}",
		"$$${A}":              "$one",
		"$A":                  "$A",
		"$":                   "$",
		"a$":                  "a$",
		"$5 or $6":            "$5 or $6",
		"$}":                  "$}",
		"a$$b$c":              "a$b$c",
	} {
		for _, style := range []string{"'" + strings.ReplaceAll(written, "'", "''") + "'", "|-\n    " + written, written} {
			f, err := o.Parse("gateway.yaml", []byte("upstream: http://a\nrules: []\nreject:\n  body: "+style+"\n"))
			if err != nil {
				t.Errorf("%s: %v", style, err)
			} else if f.Reject.Body != want {
				t.Errorf("%s: %q, want %q", style, f.Reject.Body, want)
			}
		}
	}
}

// What a variable holds counts as if it stood there, of whatever type.
func TestSubstitutedValuesHaveTheTypeTheyLookLike(t *testing.T) {
	o := variables(map[string]string{
		"N": "200_000", "YES": "true", "RATE": "5/15m", "TIME": "90s", "SIZE": "32MiB", "WORD": "json", "URL": "http://b:1", "PATH": "/x/**",
		"ATTR": "header.X-Key", "CIDR": "10.0.0.0/8",
	})
	f, err := o.Parse("gateway.yaml", []byte(`
upstreams: { a: { servers: ["${URL}"], timeout: "${TIME}" } }
routes: [{ match: "${PATH}" }, {}]
trusted_proxies: ["${CIDR}"]
max_keys: ${N}
max_memory: ${SIZE}
log: { format: "${WORD}" }
rules:
  - { name: a, match: "POST ${PATH}", key: "${ATTR}", limit: "${RATE}", dry_run: "${YES}", max_keys: '${N}' }
`))
	if err != nil {
		t.Fatal(err)
	}
	r := f.Rules[0]
	if f.MaxKeys != 200_000 || r.MaxKeys != 200_000 || f.MaxMemory != 32<<20 || f.Log.Format != "json" || !r.DryRun ||
		r.Limit != "5/15m" || r.Key[0].String() != "header.X-Key" || f.Upstreams[0].Timeout.Seconds() != 90 ||
		f.Upstreams[0].Servers[0].URL.Host != "b:1" || !f.Routes[0].Match.Any[0].Pattern.matchesPath("/x/y") || f.TrustedProxies.Empty() {
		t.Errorf("got %+v", f)
	}
	// Names that people and metrics see are as written: a match may hold a secret.
	if f.Routes[0].Name != "${PATH}" || r.MatchText != "POST ${PATH}" {
		t.Errorf("names %q, %q", f.Routes[0].Name, r.MatchText)
	}
}

func TestNothingIsSubstitutedInNames(t *testing.T) {
	o := variables(map[string]string{"A": "b"})
	for _, text := range []string{
		"upstreams: { '${A}': http://a }\nrules: []\n",
		"upstream: http://a\nrules: []\nreject: { headers: { 'X-${A}': x } }\n",
		"upstream: http://a\n${A}: x\nrules: []\n",
	} {
		if _, err := o.Parse("f.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), `${A}`) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A value cannot inject YAML: whatever a variable holds, it is one text.
func TestAValueStaysOneText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"\n", "\r\n", "  ", ": ", "- ", "#", "'", `"`, "{", "}", "[", "]", "&a", "*a", "!!str", "|", ">", "%", "@", "`", ",", "?", "$", "${A}",
			"a", "rules", "~", "null", "<<", "\\", "\\n", "é", "0", "true", "---\n", "...\n",
		})).Draw(t, "value"), "")
		o := variables(map[string]string{"A": value})
		for _, style := range []string{"${A}", `"${A}"`, "'${A}'", "|-\n    ${A}"} {
			f, err := o.Parse("f.yaml", []byte("upstream: http://a\nreject:\n  status: 429\n  body: "+style+"\nrules: []\n"))
			if err != nil {
				t.Fatalf("%s with %q: %v", style, value, err)
			}
			if f.Reject.Body != value || f.Reject.Status != 429 || len(f.Rules) != 0 {
				t.Fatalf("%s with %q: body %q, status %d", style, value, f.Reject.Body, f.Reject.Status)
			}
		}
	})
}

func TestVariablesAddAtMostAsMuchAsAFileMayHold(t *testing.T) {
	o := variables(map[string]string{"A": strings.Repeat("a", 100<<10)})
	var b strings.Builder
	b.WriteString("upstream: http://a\nrules: []\nreject:\n  headers:\n")
	for i := range 25 {
		b.WriteString("    X-" + string(rune('a'+i)) + ": ${A}\n")
	}
	_, err := o.Parse("f.yaml", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), "with variable A the file is larger than 2 MiB") {
		t.Errorf("%.500v", err)
	}
}

// strays are values that a variable may hold by mistake: something of each shape
// that some setting takes, made of words that no message has.
var strays = []string{
	"zq7xwkv9p", "zq7x wkv9p", "zq7x: wkv9p", "ZQ7X-wkv9p", "9071526384", "-9071526384", "90.71526384", "0x9071526384", "9071526384r/zq7xs",
	"zq7x/wkv9p", "/zq7x/**/wkv9p", "/zq7x/:wkv9p/:wkv9p", "POST zq7xwkv9p", "POST /zq7x", "zq7xwkv9p.example/wkv9p", "[zq7x::wkv9p]:9071",
	"zq7x:wkv9p@kv9p:9071", "http://zq7x:wkv9p@kv9p", "http://zq7xwkv9p:90715263", "http://kv9p/?zq7xw", "https://zq7x wkv9p", "zq7x://wkv9p",
	"http://zq7x%wkv9p", "http://zq7x/../wkv9p", "unix:zq7xwkv9p", "unix:/zq7xwkv9p:/../kv9p", "header.zq7x wkv9p", "header.zq7x_wkv9p", "headr.zq7xwkv9p",
	"body.zq7xwkv9p", "header:zq7xwkv9p", "$zq7xwkv9p", "9071526384s", "9071526384KiB", "9071526384Zq", "9071526384%", "907.1526384m/s", "9071",
	"90xx", "9071.5263.8471.9071", "9071::/90715263", "10.0.0.0/9071526", "{path.zq7xwkv9p}", "/{path.zq7xwkv9p}", "/zq7x?wkv9p", "/zq7x#wkv9p", "/zq7x{wkv9p",
	"{zq7xwkv9p}", "zq7x\nwkv9p", "-----BEGIN zq7xwkv9p-----\nzq7xwkv9p\n", "zq7xwkv9p" + strings.Repeat("wkv9p", 30), strings.Repeat("zq7xwkv9p", 600),
	"9071526384 per zq7x", "9071526384/", "9071526384/9071526384", "0", "x", "", "true", "off", "private", "zq7xwkv9p.", "*zq7xwkv9p*", "**", "zq7x,wkv9p",
}

// An error about a substituted value names the variable, says where, and does not
// repeat the value: it may be a secret that got into the wrong place.
func TestNoErrorShowsWhatAVariableHolds(t *testing.T) {
	data, err := os.ReadFile("testdata/good/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, text := readSource(Outside{}, "f.yaml", data)
	places := scalars(decode(s, text))
	refused := 0
	check := func(lines []string, stray, where string, at Pos) {
		_, err := variables(map[string]string{"STRAY": stray}).Parse("f.yaml", []byte(strings.Join(lines, "\n")))
		list, _ := err.(ErrorList)
		for _, e := range list {
			refused++
			if shown := leaked(e.Text(), stray); shown != "" {
				t.Errorf("%q %s shows %q:\n%s", stray, where, shown, e.Text())
			}
			if e.Pos == at && !strings.Contains(e.Error(), "STRAY") {
				t.Errorf("%q %s: no word of the variable:\n%s", stray, where, e.Text())
			}
		}
	}
	// Each by itself in some places, since one error can hide another, and in all.
	all := append([]string(nil), s.lines...)
	for i := len(places) - 1; i >= 0; i-- { // from the end, so that columns stay
		at := places[i]
		from, width := s.offset(at.line(), at.col()), s.width(at)
		replace := func(line string) string { return line[:from] + `"${STRAY}"` + string([]rune(line[from:])[width:]) }
		all[at.line()-1] = replace(all[at.line()-1])
		lines := append([]string(nil), s.lines...)
		lines[at.line()-1] = replace(lines[at.line()-1])
		for j := range 2 {
			check(lines, strays[(5*i+17*j)%len(strays)], "in place of "+quote(at.text), s.posOf(at))
		}
	}
	for _, stray := range strays {
		check(all, stray, "everywhere", Pos{})
	}
	if len(places) < 150 || refused < 3000 {
		t.Errorf("only %d values and %d errors were looked at", len(places), refused)
	}
}

// leaked returns four or more letters and digits in a row of what must not be
// shown that are in text, or "".
func leaked(text, hidden string) string {
	text = strings.ToLower(text)
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	for _, run := range strings.FieldsFunc(strings.ToLower(hidden), func(r rune) bool { return !word(r) }) {
		for i := 0; i+4 <= len(run); i++ {
			if part := run[i : i+4]; strings.ContainsAny(part, "79") && strings.Contains(text, part) {
				return part
			}
		}
	}
	return ""
}

// scalars returns the values below n that are one text on one line.
func scalars(n *node) []*node {
	if n.shape == scalar && !strings.Contains(n.text, "\n") {
		return []*node{n}
	}
	var all []*node
	for _, item := range n.items {
		all = append(all, scalars(item)...)
	}
	return all
}
