package peers

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gateway/rules"
)

var update = flag.Bool("update", false, "rewrite what is expected in testdata")

var importers = map[string]func(Source) (*Result, error){"nginx": Nginx, "traefik": Traefik, "caddy": Caddy}

// files reads what others include, in testdata.
func files(pattern string) ([]Source, error) {
	paths, err := filepath.Glob(pattern)
	var all []Source
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, Source{Name: path, Data: data})
	}
	return all, err
}

func importFile(t testing.TB, program, name string) *Result {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	// Under its own name, as if it was in this folder: what is expected names it.
	r, err := importers[program](Source{Name: name, Data: data, Read: func(pattern string) ([]Source, error) { return files(filepath.Join("testdata", pattern)) }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What is imported, and what is said of the rest, is as it was read and judged once.
func TestFilesAreImportedAsExpected(t *testing.T) {
	for program, name := range map[string]string{"nginx": "api.nginx.conf", "traefik": "api.traefik.yml", "caddy": "api.Caddyfile"} {
		r := importFile(t, program, name)
		var b bytes.Buffer
		b.Write(r.Text)
		for _, n := range r.Notes {
			fmt.Fprintf(&b, "#! %v\n", n)
		}
		path := filepath.Join("testdata", name+".yaml")
		if *update {
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBrokenFilesAreRefusedAtTheirLine(t *testing.T) {
	for _, c := range []struct{ program, text, want string }{
		{"nginx", "http {\n  server {\n", `file:3: the block of "server" is not closed`},
		{"nginx", "http {\n}\n}\n", "file:3: a } without a {"},
		{"nginx", "events {}\nlimit_req zone=a\n", `file:3: the file ends inside of "limit_req zone=a": a ; is missing`},
		{"nginx", "a 'b;\n\n", "file:1: a quote that is not closed"},
		{"nginx", "\n;\n", "file:2: a ; without anything before it"},
		{"caddy", "a.com {\n\trate_limit {\n", "file:3: the block of line 2 is not closed"},
		{"caddy", "a.com {\n}\n}\n", "file:3: a } without a {"},
		{"caddy", "a.com {\n\trespond \"a\n", "file:2: a quote that is not closed"},
		{"caddy", "a.com {\n\trespond <<X\n\ta\n}", "file:2: <<X is not ended"},
		{"caddy", `{"apps": {}}`, "file: this is JSON; a Caddyfile is read"},
		{"traefik", "http:\n\trouters: {}\n", "file:2:1: a tab in the indentation"},
		{"nginx", strings.Repeat("a {", 40), "file:1: blocks are nested over 32 deep"},
		{"caddy", strings.Repeat("a {\n", 40), "file:33: blocks are nested over 32 deep"},
	} {
		r, err := importers[c.program](Source{Name: "file", Data: []byte(c.text)})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %s", c.program, c.text, err, c.want)
		}
		if r != nil {
			t.Errorf("%s %q: there is a result beside the error", c.program, c.text)
		}
	}
}

// Files that include each other, or themselves, come to an end.
func TestIncludesAreBounded(t *testing.T) {
	itself := func(text string) func(string) ([]Source, error) {
		return func(string) ([]Source, error) {
			return []Source{{Name: "file", Data: []byte(text)}, {Name: "file", Data: []byte(text)}}, nil
		}
	}
	for program, text := range map[string]string{"nginx": "include file;\ninclude file;\n", "caddy": "import file\nimport file\n"} {
		r, err := importers[program](Source{Name: "file", Data: []byte(text), Read: itself(text)})
		if err == nil && len(r.Notes) == 0 {
			t.Errorf("%s: an include of itself is fine: %s", program, r.Text)
		}
	}
	loop := "(a) {\n\timport b\n\timport b\n}\n(b) {\n\timport a\n\timport a\n}\nx.com {\n\timport a\n}\n"
	if _, err := Caddy(Source{Name: "file", Data: []byte(loop)}); err == nil {
		t.Error("snippets that import each other are fine")
	}
	maps := "map $a $b { default $b; }\nlimit_req_zone $b zone=z:1m rate=1r/s;\nlimit_req zone=z;\n"
	if r, err := Nginx(Source{Name: "file", Data: []byte(maps)}); err != nil || r.Rules != 0 || len(r.Notes) != 1 {
		t.Errorf("a map of itself: %v, %v", r, err)
	}
}

// Whatever a file holds, what comes of it is taken by our own language, and no line of
// a comment becomes anything else.
func FuzzImport(f *testing.F) {
	for program, name := range map[string]string{"nginx": "api.nginx.conf", "traefik": "api.traefik.yml", "caddy": "api.Caddyfile"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(program, string(data))
	}
	f.Add("nginx", "limit_req_zone $http_a zone=a:1m rate=1r/s;\nlocation /a\\\"b { limit_req zone=a burst=3; }\n")
	f.Add("nginx", "geo $g { default 0; 10.0.0.0/8 1; }\nmap $g $k { 1 $host; default ''; }\nlimit_conn_zone $k zone=c:1m;\nserver { server_name .x.de; location ~ a+ {} location ^~ /p/ { limit_conn c 3; } }\n")
	f.Add("caddy", ":80 {\n\trate_limit @a {\n\t\tzone x {\n\t\t\tkey {header.A}{query.b}\n\t\t\tevents 3\n\t\t\twindow 1d\n\t\t}\n\t}\n\t@a not path /x* /y\n}\n")
	f.Add("traefik", "http: { middlewares: { a: { rateLimit: { average: 7, period: 7s } } }, routers: { r: { rule: \"!(Path(`/a`) || Host(`b`))\", middlewares: [a] } } }\n")
	f.Fuzz(func(t *testing.T, program, text string) {
		read := importers[program]
		if read == nil {
			return
		}
		r, err := read(Source{Name: "a file\n- name: x", Data: []byte(text)})
		if err != nil {
			return
		}
		if _, err := rules.Parse("gateway.yaml", r.Text); err != nil {
			t.Fatalf("what is imported is refused: %v\n%s", err, r.Text)
		}
	})
}
