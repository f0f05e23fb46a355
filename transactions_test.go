package parley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTransactions finds calls that take a context inside a transaction. A reader and
// a transaction of the store need none: the call is one to the store, a service or
// another machine. A second transaction inside the first can wait for ever, because
// the engine has few connections and the first one holds one of them.
func TestTransactions(t *testing.T) {
	inside := []string{"hub.Reader", "hub.Tx", "Reader", "Tx"}
	set := token.NewFileSet()
	functions := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch slash := filepath.ToSlash(path); {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || slash == "internal/engine"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			var kind *ast.FuncType
			switch f := n.(type) {
			case *ast.FuncDecl:
				kind = f.Type
			case *ast.FuncLit:
				kind = f.Type
			default:
				return true
			}
			if !slices.ContainsFunc(kind.Params.List, func(p *ast.Field) bool { return slices.Contains(inside, types.ExprString(p.Type)) }) {
				return true
			}
			functions++
			ast.Inspect(n, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 0 && types.ExprString(call.Args[0]) == "ctx" {
					t.Errorf("%s: %s is called inside a transaction; call it before, or give it the reader", set.Position(call.Pos()), types.ExprString(call.Fun))
				}
				return true
			})
			return false
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if functions < 100 {
		t.Errorf("only %d functions with a reader or a transaction were found", functions)
	}
}
