package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const root = "../../.."

var rowID = regexp.MustCompile(`^S\d\d$`)

// A row names only tests that exist and say a figure for it, and a test that says
// one is named by its row: none is left out of the scorecard, or in it by name alone.
func TestRowsAndTestsNameEachOther(t *testing.T) {
	say, exist := figuresInTests(t)
	named := map[[2]string]map[string]bool{}
	for i, r := range rows {
		if want := i + 1; r.id != "S"+strconv.Itoa(100 + want)[1:] {
			t.Errorf("row %d is %q", want, r.id)
		}
		if r.title == "" || r.target == "" {
			t.Errorf("%s: no title or no target", r.id)
		}
		for _, s := range r.tests {
			if len(s.all()) == 0 {
				t.Errorf("%s: no test of %s", r.id, s.dir)
			}
			for _, name := range s.all() {
				test := [2]string{s.dir, name}
				if !exist[test] {
					t.Errorf("%s: there is no %s in %s", r.id, name, s.dir)
				} else if !say[test][r.id] {
					t.Errorf("%s: %s in %s never says t.Attr(%q, …)", r.id, name, s.dir, r.id)
				}
				if named[test] == nil {
					named[test] = map[string]bool{}
				}
				named[test][r.id] = true
			}
		}
	}
	for test, ids := range say {
		for id := range ids {
			if !named[test][id] {
				t.Errorf("%s in %s says a figure of %s, whose row does not name it", test[1], test[0], id)
			}
		}
	}
}

// figuresInTests returns the rows that each test of the repository says figures
// of, and all tests there are.
func figuresInTests(t *testing.T) (say map[[2]string]map[string]bool, exist map[[2]string]bool) {
	t.Helper()
	say, exist = map[[2]string]map[string]bool{}, map[[2]string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			test := [2]string{filepath.ToSlash(dir), fn.Name.Name}
			isTest := fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test")
			exist[test] = exist[test] || isTest
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				id, ok := attribute(n)
				if !ok || fn.Name.Name == "score" {
					return true
				}
				if id != "" && !rowID.MatchString(id) {
					return true // an attribute for something else
				}
				if !isTest || id == "" {
					t.Errorf("%v: a figure of %q outside of a test, or of no row", fset.Position(n.Pos()), id)
					return true
				}
				if say[test] == nil {
					say[test] = map[string]bool{}
				}
				say[test][id] = true
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return say, exist
}

// attribute returns the row that a call of t.Attr, or of a helper named score that
// calls it, says a figure of: "" if it is not written out.
func attribute(n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", false
	}
	var row ast.Expr
	switch fun := call.Fun.(type) {
	case *ast.SelectorExpr: // t.Attr(row, figure)
		if fun.Sel.Name != "Attr" || len(call.Args) != 2 {
			return "", false
		}
		row = call.Args[0]
	case *ast.Ident: // score(t, row, format, …)
		if fun.Name != "score" || len(call.Args) < 3 {
			return "", false
		}
		row = call.Args[1]
	default:
		return "", false
	}
	lit, ok := row.(*ast.BasicLit)
	if !ok {
		return "", true
	}
	id, err := strconv.Unquote(lit.Value)
	return id, err == nil
}
