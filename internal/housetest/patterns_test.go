package housetest_test

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

// TestPatternsCompile compiles the texts that are given to pattern.New, which the program compiles
// at their first use.
func TestPatternsCompile(t *testing.T) {
	count := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".":
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		consts := textConstants(file)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isPatternNew(call) {
				return true
			}
			if text, ok := constantText(call.Args[0], consts); ok {
				count++
				if _, err := regexp.Compile(text); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 50 {
		t.Errorf("found %d patterns, want all", count)
	}
}

// isPatternNew reports whether a call is pattern.New.
func isPatternNew(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := f.X.(*ast.Ident)
	return ok && pkg.Name == "pattern" && f.Sel.Name == "New" && len(call.Args) == 1
}

// textConstants returns the texts of a file's constants.
func textConstants(file *ast.File) map[string]string {
	out := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if i < len(spec.Values) {
				if text, ok := constantText(spec.Values[i], out); ok {
					out[name.Name] = text
				}
			}
		}
		return true
	})
	return out
}

// constantText returns the text of an expression of literals and known constants. An expression with
// a variable has none: the tests of its package use it.
func constantText(e ast.Expr, consts map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, ok := consts[e.Name]
		return text, ok
	case *ast.BinaryExpr:
		left, ok := constantText(e.X, consts)
		right, alsoOK := constantText(e.Y, consts)
		return left + right, ok && alsoOK && e.Op == token.ADD
	}
	return "", false
}
