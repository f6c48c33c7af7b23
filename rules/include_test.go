package rules

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// folderOf is an Outside with files that can be included.
func folderOf(files map[string]string) Outside {
	o := outsideOf(nil, nil)
	o.Include = func(pattern string) []Included {
		var list []Included
		for path, text := range files {
			if ok, _ := filepath.Match(pattern, path); ok {
				f := Included{Path: path, Data: []byte(text)}
				if why, broken := strings.CutPrefix(text, "!"); broken {
					f = Included{Path: path, Err: why}
				}
				list = append(list, f)
			}
		}
		slices.SortFunc(list, func(a, b Included) int { return strings.Compare(a.Path, b.Path) })
		return list
	}
	return o
}

const includingMain = `upstreams: { api: http://a }
include: [conf.d/*.yaml, extra.yaml]
groups: { office: { ip: 192.0.2.0/24 } }
routes:
  - { match: /first/**, upstream: api }
rules:
  - { name: per-ip, limit: 100/m }
`

func TestIncludedFilesAddToTheFile(t *testing.T) {
	o := folderOf(map[string]string{
		"conf.d/20-b.yaml": "rules:\n  - { name: b, limit: 2/m }\nroutes:\n  - { match: /b/**, upstream: two }\n",
		"conf.d/10-a.yaml": "# the team's\nupstreams:\n  two: http://b\nrules:\n  - name: a\n    limit: 1/m\n    match: { group: [office, team] }\n",
		"conf.d/30-c.yaml": "# nothing yet\n",
		"extra.yaml":       "groups: { team: { header.X-Team: [a] } }\nroutes: [{ upstream: api }]\nrules: []\n",
		"conf.d/ignored":   "nonsense",
	})
	f, err := o.Parse("gateway.yaml", []byte(includingMain))
	if err != nil {
		t.Fatalf("refused:\n%v", err)
	}
	var got []string
	for _, u := range f.Upstreams {
		got = append(got, "upstream "+u.Name+" "+u.Pos.String())
	}
	for _, r := range f.Routes {
		got = append(got, "route "+r.Name+" "+r.Pos.String())
	}
	for _, g := range f.Groups {
		got = append(got, "group "+g.Name+" "+g.Pos.String())
	}
	for _, r := range f.Rules {
		got = append(got, "rule "+r.Name+" "+r.Pos.String()+" "+r.LimitPos.String())
	}
	want := []string{
		"upstream api gateway.yaml:1:14", "upstream two conf.d/10-a.yaml:3:3",
		"route /first/** gateway.yaml:5:5", "route /b/** conf.d/20-b.yaml:4:5", "route /** extra.yaml:2:10",
		"group office gateway.yaml:3:11", "group team extra.yaml:1:11",
		"rule per-ip gateway.yaml:7:5 gateway.yaml:7:28", "rule a conf.d/10-a.yaml:5:5 conf.d/10-a.yaml:6:12", "rule b conf.d/20-b.yaml:2:5 conf.d/20-b.yaml:2:23",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"conf.d/10-a.yaml", "conf.d/20-b.yaml", "conf.d/30-c.yaml", "extra.yaml"}, f.Included()); diff != "" {
		t.Errorf("included (-want +got)\n%s", diff)
	}
	if _, err := f.Compile(nil); err != nil {
		t.Fatal(err)
	}
	if text := completed(t, folderOf(nil), f); !strings.Contains(text, "name: b") || strings.Contains(text, "include") {
		t.Errorf("all settings:\n%s", text)
	}
	if len(f.Warnings) != 0 {
		t.Errorf("warnings:\n%v", f.Warnings)
	}
}

// What is wrong is said where it stands: in which file, on which line of it.
func TestFaultsOfIncludedFilesAreAtTheirPlace(t *testing.T) {
	for _, row := range []struct {
		what  string
		files map[string]string
		want  string
	}{
		{"a bad value", map[string]string{"conf.d/a.yaml": "\nrules:\n  - name: a\n    limit: 100\n"},
			"conf.d/a.yaml:4:12: limit \"100\": 100 in how long?\n   4 |     limit: 100\n     |            ^^^"},
		{"an unknown setting of a rule", map[string]string{"conf.d/a.yaml": "rules:\n  - { name: a, limt: 1/m, limit: 1/m }\n"},
			"conf.d/a.yaml:2:16: unknown setting \"limt\" in rule \"a\"\n   2 |   - { name: a, limt: 1/m, limit: 1/m }\n     |                ^^^^  did you mean \"limit\"?"},
		{"no YAML", map[string]string{"conf.d/a.yaml": "rules:\n\t- name: a\n"}, "conf.d/a.yaml:2:1: a tab"},
		{"no UTF-8", map[string]string{"conf.d/a.yaml": "rules: [] # \xff\n"}, "conf.d/a.yaml:1:13: byte 0xff is not UTF-8"},
		{"a rule of the file itself", map[string]string{"conf.d/a.yaml": "rules:\n  - { name: per-ip, limit: 1/m }\n"},
			"conf.d/a.yaml:2:13: rule name \"per-ip\" is used twice; the first is at gateway.yaml:7:13"},
		{"one rule in two files", map[string]string{"conf.d/a.yaml": "rules: [{ name: x, limit: 1/m }]\n", "conf.d/b.yaml": "\n\nrules: [{ name: x, limit: 1/m }]\n"},
			"conf.d/b.yaml:3:17: rule name \"x\" is used twice; the first is at conf.d/a.yaml:1:17"},
		{"an upstream twice", map[string]string{"conf.d/a.yaml": "upstreams:\n  api: http://b\n"}, "conf.d/a.yaml:2:3: upstream \"api\" is there twice; the first is at gateway.yaml:1:14"},
		{"a group twice", map[string]string{"conf.d/a.yaml": "groups: { office: { ip: 10.0.0.1 } }\n"}, "conf.d/a.yaml:1:11: group \"office\" is there twice; the first is at gateway.yaml:3:11"},
		{"an include in it", map[string]string{"conf.d/a.yaml": "include: [more/*.yaml]\n"}, "conf.d/a.yaml:1:1: include inside an included file"},
		{"a setting of the file itself", map[string]string{"conf.d/a.yaml": "listen: :80\n"}, "conf.d/a.yaml:1:1: listen in an included file, which may have upstreams, groups, routes or rules"},
		{"a shorthand", map[string]string{"conf.d/a.yaml": "upstream: http://a\n"}, "conf.d/a.yaml:1:1: upstream in an included file"},
		{"an unknown setting", map[string]string{"conf.d/a.yaml": "rulez: []\n"}, "conf.d/a.yaml:1:1: unknown setting \"rulez\" in an included file"},
		{"a list", map[string]string{"conf.d/a.yaml": "- name: a\n"}, "conf.d/a.yaml:1:1: an included file must be settings: upstreams, groups, routes or rules, not a list"},
		{"a text", map[string]string{"conf.d/a.yaml": "rules\n"}, "conf.d/a.yaml:1:1: an included file must be settings"},
		{"a map of rules", map[string]string{"conf.d/a.yaml": "rules: { a: { limit: 1/m } }\n"}, "conf.d/a.yaml:1:8: rules must be a list, not a map"},
		{"a list of groups", map[string]string{"conf.d/a.yaml": "groups: []\n"}, "conf.d/a.yaml:1:9: groups must be a map of names, not a list"},
		{"nothing for rules", map[string]string{"conf.d/a.yaml": "rules:\n"}, "conf.d/a.yaml:1:1: \"rules\" has no value"},
		{"an empty file", map[string]string{"conf.d/a.yaml": " \n"}, "conf.d/a.yaml:1: the file is empty"},
		{"one that cannot be read", map[string]string{"conf.d/a.yaml": "!permission denied"}, "gateway.yaml:2:11: include \"conf.d/a.yaml\": permission denied"},
		{"a route to nowhere", map[string]string{"conf.d/a.yaml": "routes: [{ upstream: app }]\n"}, "conf.d/a.yaml:1:22: unknown upstream \"app\" in route 2"},
		{"too much", map[string]string{"conf.d/a.yaml": "# " + strings.Repeat("x", 3<<19) + "\n", "conf.d/b.yaml": "# " + strings.Repeat("x", 3<<19) + "\n"},
			"gateway.yaml:2:11: with \"conf.d/b.yaml\" all files together are larger than 2 MiB, which is the most"},
		{"one that is too large", map[string]string{"conf.d/a.yaml": strings.Repeat("x", 3<<20)}, "all files together are larger than 2 MiB"},
		{"too many values", map[string]string{"conf.d/a.yaml": "rules: [&a [" + strings.Repeat("1,", 90_000) + "1], *a]\n", "conf.d/b.yaml": "rules: [[" + strings.Repeat("1,", 90_000) + "1]]\n"},
			"gateway.yaml:2:11: with \"conf.d/b.yaml\" all files together hold more than 200000 values"},
	} {
		row.files["extra.yaml"] = "# nothing\n"
		f, err := folderOf(row.files).Parse("gateway.yaml", []byte(includingMain))
		if err == nil {
			t.Errorf("%s: accepted as %v", row.what, f.Included())
			continue
		}
		if !strings.Contains(err.Error(), row.want) || len(err.(ErrorList)) > 2 {
			t.Errorf("%s:\n%v\nwant %s", row.what, err, row.want)
		}
	}
}

// All faults of all files are said at once, in the order of the files.
func TestFaultsOfAllFilesAreSaidAtOnce(t *testing.T) {
	main := strings.Replace(includingMain, "100/m", "100", 1)
	_, err := folderOf(map[string]string{
		"conf.d/b.yaml": "rules: [{ name: b, limit: 2 }]\n", "conf.d/a.yaml": "\n\n\n\n\n\n\n\n\n\nrules: [{ name: a, limit: 1 }, { name: aa, limit: x }]\n", "extra.yaml": "rulez: 1\n",
	}).Parse("gateway.yaml", []byte(main))
	var got []string
	for _, e := range err.(ErrorList) {
		got = append(got, e.Pos.String())
	}
	want := []string{"gateway.yaml:7:28", "conf.d/a.yaml:11:27", "conf.d/a.yaml:11:51", "conf.d/b.yaml:1:27", "extra.yaml:1:1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s\n%v", diff, err)
	}
}

func TestWarningsOfIncludedFilesAreAtTheirPlace(t *testing.T) {
	f, err := folderOf(map[string]string{
		"extra.yaml": "rules:\n  - { name: day, match: /x, key: header.X, limit: 100/d }\n",
	}).Parse("gateway.yaml", []byte(strings.Replace(includingMain, "/first/**", "/**", 1)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range f.Warnings {
		got = append(got, w.Error())
	}
	want := []string{`gateway.yaml:2:11: warning: include "conf.d/*.yaml": there is no such file`, `gateway.yaml:3:11: warning: group "office" is not used`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	f, err = folderOf(map[string]string{"extra.yaml": "\nrules:\n  - { name: day, match: /x, key: ip, algorithm: sliding_window, limit: 10/m }\n"}).Parse("gateway.yaml", []byte(includingMain))
	if err != nil {
		t.Fatal(err)
	}
	if text := f.Warnings.Error(); !strings.Contains(text, "extra.yaml:3:72: warning: sliding_window with a limit of 10") || !strings.Contains(text, "   3 |   - { name: day, ") {
		t.Errorf("warnings:\n%s", text)
	}
}

func TestAnIncludeIsPatternsOfFiles(t *testing.T) {
	files := map[string]string{
		"gateway.yaml": includingMain, "conf.d/a.yaml": "rules: [{ name: a, limit: 1/m }]\n", "/etc/gw/b.yaml": "rules: [{ name: b, limit: 1/m }]\n",
		"conf.d/x/c.yaml": "rules: [{ name: c, limit: 1/m }]\n",
	}
	for include, want := range map[string]string{
		"conf.d/a.yaml":                        "a",
		"[conf.d/a.yaml, conf.d/*.yaml]":       "a", // once, however often it is named
		"./conf.d/../conf.d/[a-b].yaml":        "a",
		"[/etc/gw/*.yaml, conf.d/*/*.yaml]":    "b c",
		"[conf.d/*/*.yaml, /etc/gw/b.yaml]":    "c b",
		"[none.d/*.yaml]":                      "",
		"[]":                                   "",
		"conf.d/":                              `!include "conf.d/": a folder, not files`,
		"'conf.d/**/*.yaml'":                   `!include "conf.d/**/*.yaml": ** is no pattern of files`,
		"'conf.d/[a.yaml'":                     `!include "conf.d/[a.yaml": a bracket is not closed`,
		"none.yaml":                            `!include "none.yaml": there is no such file`,
		"'*.yaml'":                             `!include "gateway.yaml": that is this file itself`,
		"gateway.yaml":                         `!include "gateway.yaml": that is this file itself`,
		`""`:                                   `!include is empty`,
		"{ file: a }":                          `!include must be a pattern like conf.d/*.yaml, not a map`,
		"~":                                    `!"include" has no value`,
		"[" + strings.Repeat("a*,", 101) + "]": `!include: more than 100 patterns`,
	} {
		f, err := folderOf(files).Parse("gateway.yaml", []byte("upstream: http://a\ninclude: "+include+"\nrules: []\n"))
		if wrong, bad := strings.CutPrefix(want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), wrong) || len(err.(ErrorList)) != 1 {
				t.Errorf("include: %s: %v, want %s", include, err, wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("include: %s:\n%v", include, err)
			continue
		}
		var names []string
		for _, r := range f.Rules {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("include: %s: rules %q, want %q", include, got, want)
		}
	}
	if got := (Outside{}).Includes("/etc/gateway.yaml", []byte("include: [conf.d/*.yaml, /x/y, 'a[', z]\nrulez: nonsense\n")); !slices.Equal(got, []string{"/etc/conf.d/*.yaml", "/x/y", "/etc/z"}) {
		t.Errorf("patterns %q", got)
	}
}

// Rules need not be in the file itself when it includes others.
func TestAFileThatIncludesNeedsNoRules(t *testing.T) {
	f, err := folderOf(map[string]string{"a.yaml": "rules: [{ name: a, limit: 1/m }]\n"}).Parse("gateway.yaml", []byte("upstream: http://a\ninclude: [a.yaml]\n"))
	if err != nil || len(f.Rules) != 1 {
		t.Fatalf("%v", err)
	}
	f, err = folderOf(nil).Parse("gateway.yaml", []byte("upstream: http://a\ninclude: [a*.yaml]\n"))
	if err != nil || len(f.Rules) != 0 || len(f.Warnings) != 2 {
		t.Fatalf("%v, %v", err, f.Warnings)
	}
}

// Each change of any file is another hash, and one of what it says.
func TestAnIncludedFileIsAPartOfTheHash(t *testing.T) {
	hashes := map[string]string{}
	var prev *Set
	for _, files := range []map[string]string{
		{"a.yaml": "rules: [{ name: a, limit: 1/m }]\n"}, {"a.yaml": "rules: [{ name: a, limit: 2/m }]\n"},
		{"aa.yaml": "rules: [{ name: a, limit: 2/m }]\n"}, {"aa.yaml": "rules: [{ name: a, limit: 2/m }]\n", "ab.yaml": "# nothing\n"}, {},
	} {
		f, err := folderOf(files).Parse("gateway.yaml", []byte("upstream: http://a\ninclude: [a*.yaml]\n"))
		if err != nil {
			t.Fatal(err)
		}
		if was, twice := hashes[f.Hash]; twice {
			t.Errorf("%v has the hash of %v", files, was)
		}
		hashes[f.Hash] = fmt.Sprint(files)
		s, err := f.Compile(prev)
		if err != nil {
			t.Fatal(err)
		}
		if prev != nil && len(prev.Rules) == 1 && len(s.Rules) == 1 && s.Rules[0].Live != prev.Rules[0].Live {
			t.Error("a rule that moves to another file starts afresh")
		}
		prev = s
	}
}

func FuzzIncludedFilesAreReadOrRefused(f *testing.F) {
	for _, text := range []string{"rules: [{ name: a, limit: 1/m }]\n", "upstreams: &a { api: http://b }\n", "- *a\n", "", "include: x\n", "routes:\n", "\xff", "groups: { a: { ip: 10.0.0.1 } }\nrules: &x []\n"} {
		f.Add(includingMain, text, "rules: [{ name: b, limit: 1/m }]\n")
	}
	f.Fuzz(func(t *testing.T, main, a, b string) {
		if len(main)+len(a)+len(b) > 8<<10 {
			return
		}
		o := folderOf(map[string]string{"conf.d/a.yaml": a, "conf.d/b.yaml": b, "extra.yaml": "# nothing\n"})
		file, err := o.Parse("gateway.yaml", []byte(main))
		if err != nil {
			for _, e := range err.(ErrorList) {
				if !slices.Contains([]string{"gateway.yaml", "conf.d/a.yaml", "conf.d/b.yaml", "extra.yaml"}, e.Pos.File) || e.Pos.Line > strings.Count(main+a+b, "\n")+strings.Count(main+a+b, "\r")+20 {
					t.Fatalf("an error at %v", e.Pos)
				}
			}
			return
		}
		file, err = file.ReadGroups(nil, func(string) ([]byte, error) { return []byte("192.0.2.1\n"), nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Compile(nil); err != nil {
			t.Fatal(err)
		}
		completed(t, o, file)
	})
}
