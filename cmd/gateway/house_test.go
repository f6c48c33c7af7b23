package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayImport says who imports whom: for each package of ours, which others of
// ours and which modules. Arrows run down only. A new edge is a reviewed change
// of this table.
var mayImport = map[string][]string{
	"gateway/limit":          {},
	"gateway/limit/redis":    {"gateway/limit", "github.com/redis/rueidis"},
	"gateway/rules":          {"gateway/limit", "gopkg.in/yaml.v3", "github.com/golang-jwt/jwt"},
	"gateway/rules/replay":   {"gateway/rules", "gateway/limit", "github.com/klauspost/compress"},
	"gateway/rules/peers":    {"gateway/rules"},
	"gateway/reload":         {"github.com/fsnotify/fsnotify"},
	"gateway/proxy/upstream": {"gateway/rules", "golang.org/x/sync"},
	"gateway/proxy":          {"gateway/proxy/upstream", "gateway/rules", "gateway/limit", "golang.org/x/sys", "github.com/pires/go-proxyproto"},
	"gateway/proxy/certs":    {"gateway/rules", "github.com/caddyserver/certmagic", "go.uber.org/zap"},
	"gateway/proxy/admin":    {"gateway/proxy", "gateway/proxy/upstream", "gateway/rules", "github.com/prometheus/client_golang"},
	"gateway/cmd/gateway": {
		"gateway/limit", "gateway/limit/redis", "gateway/rules", "gateway/rules/peers", "gateway/rules/replay", "gateway/reload", "gateway/proxy", "gateway/proxy/admin", "gateway/proxy/certs",
		"gateway/proxy/upstream",
		"github.com/lmittmann/tint", "github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/coreos/go-systemd", "golang.org/x/term",
	},
	"gateway/limit/redis/redistest": {},                                                           // for tests alone
	"gateway/proxy/certs/acmetest":  {"github.com/letsencrypt/pebble/v2", "github.com/miekg/dns"}, // for tests alone
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		allowed, known := mayImport[p.ImportPath]
		if !known {
			t.Errorf("package %s is not in the table of who imports whom", p.ImportPath)
		}
		seen++
		for _, imp := range p.Imports {
			first, _, _ := strings.Cut(imp, "/")
			if !strings.Contains(first, ".") && first != "gateway" {
				continue // the standard library
			}
			ok := slices.ContainsFunc(allowed, func(a string) bool {
				return imp == a || !strings.HasPrefix(a, "gateway/") && strings.HasPrefix(imp, a+"/")
			})
			if !ok {
				t.Errorf("%s imports %s, which the table does not allow", p.ImportPath, imp)
			}
		}
	}
	if seen != len(mayImport) {
		t.Errorf("%d packages found, %d in the table", seen, len(mayImport))
	}
}

func TestYAMLHasOneImporter(t *testing.T) {
	var files []string
	eachGoFile(t, func(path string, f *ast.File) {
		for _, imp := range f.Imports {
			if imp.Path.Value == `"gopkg.in/yaml.v3"` && !strings.HasSuffix(path, "_test.go") {
				files = append(files, path)
			}
		}
	})
	if len(files) != 1 {
		t.Errorf("yaml.v3 is imported by %v, want one file", files)
	}
}

func TestTheSnapshotIsStoredInOnePlaceAndLoadedOncePerRequest(t *testing.T) {
	stores, loads := 0, 0
	eachGoFile(t, func(path string, _ *ast.File) {
		if strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) != "proxy" {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		stores += strings.Count(string(text), "g.current.Store(")
		loads += strings.Count(string(text), "g.current.Load(")
	})
	// Swap stores; ServeHTTP and Current load.
	if stores != 1 || loads != 2 {
		t.Errorf("g.current: %d stores and %d loads, want 1 and 2", stores, loads)
	}
}

func TestEveryExportedNameHasAComment(t *testing.T) {
	packages := map[string][]*ast.File{}
	fset := token.NewFileSet()
	eachGoFile(t, func(path string, _ *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(path)
		packages[dir] = append(packages[dir], f)
	})
	for dir, files := range packages {
		p, err := doc.NewFromFiles(fset, files, "gateway/"+dir)
		if err != nil {
			t.Fatal(err)
		}
		missing := func(kind, name, text string) {
			if ast.IsExported(name[strings.LastIndexByte(name, '.')+1:]) && strings.TrimSpace(text) == "" {
				t.Errorf("%s: %s %s has no comment", dir, kind, name)
			}
		}
		missing("package", "P", p.Doc)
		for _, f := range p.Funcs {
			missing("func", f.Name, f.Doc)
		}
		for _, typ := range p.Types {
			missing("type", typ.Name, typ.Doc)
			for _, f := range typ.Funcs {
				missing("func", f.Name, f.Doc)
			}
			for _, m := range typ.Methods {
				if ast.IsExported(typ.Name) && m.Name != "Error" {
					missing("method", typ.Name+"."+m.Name, m.Doc)
				}
			}
		}
	}
}

// eachGoFile parses the Go files of the repository.
func eachGoFile(t *testing.T, do func(path string, f *ast.File)) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bench" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err == nil {
			do(path, f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
