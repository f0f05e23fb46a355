package housetest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestOperationsAreInTheirTables finds exported variables of the two packages of
// operations that are made by a call, as operations are. One that is not in the table
// Operations of its package would compile, and no caller could reach it.
func TestOperationsAreInTheirTables(t *testing.T) {
	for _, dir := range []string{"internal/operation/api", "internal/operation/coordination"} {
		made, listed := operationVariables(t, filepath.FromSlash(dir))
		if len(listed) < 40 {
			t.Errorf("%s: %d operations were found in the table, want at least 40", dir, len(listed))
		}
		for name, place := range made {
			if listed[name] == 0 {
				t.Errorf("%s: %s is not in the table Operations", place, name)
			}
		}
		for name, times := range listed {
			if made[name] == "" || times != 1 {
				t.Errorf("%s: Operations has %s %d times, and its variable is at %q", dir, name, times, made[name])
			}
		}
	}
}

// operationVariables returns the places of the exported variables in a folder that a call
// makes, and how often the table Operations names each variable.
func operationVariables(t *testing.T, dir string) (made map[string]string, listed map[string]int) {
	t.Helper()
	made = map[string]string{}
	listed = map[string]int{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}

	set := token.NewFileSet()
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range packageVariables(file) {
			for i, value := range v.Values {
				name := v.Names[i]
				switch value := value.(type) {
				case *ast.CallExpr:
					if name.IsExported() {
						made[name.Name] = set.Position(name.Pos()).String()
					}
				case *ast.CompositeLit:
					if name.Name == "Operations" {
						countNames(value, listed)
					}
				}
			}
		}
	}
	return made, listed
}

// packageVariables returns the declarations of variables of a package in a file.
func packageVariables(file *ast.File) []*ast.ValueSpec {
	var found []*ast.ValueSpec
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, s := range group.Specs {
			found = append(found, s.(*ast.ValueSpec))
		}
	}
	return found
}

// countNames counts the names among the elements of a list.
func countNames(list *ast.CompositeLit, into map[string]int) {
	for _, e := range list.Elts {
		if name, ok := e.(*ast.Ident); ok {
			into[name.Name]++
		}
	}
}
