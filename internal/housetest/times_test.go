package housetest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestTimesThatWereNeverSetAreLeftOut finds the members of answers and files that are
// times and would be written as 0001-01-01 or null when they were never set.
func TestTimesThatWereNeverSetAreLeftOut(t *testing.T) {
	found := 0
	for _, root := range []string{"hub", "internal", "server", "cmd", "protocol"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				field, ok := n.(*ast.Field)
				if !ok || field.Tag == nil || !isTime(field.Type) {
					return true
				}
				tag, err := strconv.Unquote(field.Tag.Value)
				if err != nil {
					t.Fatal(err)
				}
				member, named := reflect.StructTag(tag).Lookup("json")
				if !named || member == "-" {
					return true
				}
				found++
				if !slices.Contains(strings.Split(member, ","), "omitzero") {
					t.Errorf("%s: the member %q needs the option omitzero", path, member)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 100 {
		t.Errorf("%d members were found: the test does not see them", found)
	}
}

// isTime reports whether a type is hub.Time or time.Time.
func isTime(e ast.Expr) bool {
	switch v := e.(type) {
	case *ast.Ident:
		return v.Name == "Time"
	case *ast.SelectorExpr:
		return v.Sel.Name == "Time"
	}
	return false
}
