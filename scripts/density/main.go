// Command density checks how the product's code is set: long functions have paragraphs, most
// of them have a comment inside, a condition shows with parentheses how it is read and has a
// name if it has four parts, and a line assigns two values at most. It prints what it found
// and ends with exit code 1 if a bound is broken. Tests, their packages, test data and
// generated files are left out.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	long         = 30 // lines of a function that must have paragraphs
	maxSolid     = 25 // percent of them without a blank line
	maxUnspoken  = 50 // percent of them without a comment inside
	maxParts     = 4  // of a condition that needs a name
	generatedEnd = "_gen.go"
)

// A tally counts long functions and places with unclear conditions.
type tally struct {
	long, solid, unspoken int
	mixed                 []token.Position // && as an operand of || without parentheses
	crowded               []token.Position // assignments of three values and more
	unnamed               []token.Position // conditions of four parts and more
}

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	var t tally
	if err := filepath.WalkDir(root, t.visit); err != nil {
		fmt.Fprintln(os.Stderr, "density:", err)
		os.Exit(1)
	}

	fmt.Printf("density: %d functions of %d lines and more, %d without a blank line, %d without a comment inside\n", t.long, long, t.solid, t.unspoken)
	for _, p := range t.mixed {
		fmt.Printf("%s: && inside of || without parentheses\n", p)
	}
	for _, p := range t.crowded {
		fmt.Printf("%s: an assignment of three values: write one on a line\n", p)
	}
	for _, p := range t.unnamed {
		fmt.Printf("%s: a condition of %d parts and more: give it a name\n", p, maxParts)
	}
	if 100*t.solid > maxSolid*t.long || 100*t.unspoken > maxUnspoken*t.long || len(t.mixed)+len(t.crowded)+len(t.unnamed) > 0 {
		fmt.Printf("density: at most %d%% without a blank line and %d%% without a comment\n", maxSolid, maxUnspoken)
		os.Exit(1)
	}
}

// visit counts the functions of one file.
func (t *tally) visit(path string, d fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case d.IsDir() && isLeftOut(path, d.Name()):
		return filepath.SkipDir
	case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, generatedEnd):
		return nil
	}

	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, 0)
	if err != nil {
		return err
	}
	lines := strings.Split(string(source), "\n")
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		first, last := set.Position(f.Pos()).Line, set.Position(f.End()).Line
		if last-first+1 >= long {
			t.count(lines[first : last-1])
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		t.look(set, n)
		return true
	})
	return nil
}

// isLeftOut reports whether a folder has no code of the product.
func isLeftOut(path, name string) bool {
	isHidden := strings.HasPrefix(name, ".") && len(name) > 1
	return isHidden || name == "testdata" || strings.HasSuffix(filepath.ToSlash(path), "internal/testing")
}

// count counts a long function by the lines between its first and its last.
func (t *tally) count(body []string) {
	blank, comment := false, false
	for _, line := range body {
		line = strings.TrimSpace(line)
		blank = blank || line == ""
		comment = comment || strings.HasPrefix(line, "//")
	}

	t.long++
	if !blank {
		t.solid++
	}
	if !comment {
		t.unspoken++
	}
}

// look notes an && that is an operand of ||, an assignment of several values, and a condition
// of many parts.
func (t *tally) look(set *token.FileSet, n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		t.measure(set, n.Cond)
	case *ast.ForStmt:
		t.measure(set, n.Cond)
	case *ast.AssignStmt:
		if len(n.Rhs) > 2 {
			t.crowded = append(t.crowded, set.Position(n.Pos()))
		}
	case *ast.BinaryExpr:
		if n.Op != token.LOR {
			return
		}
		for _, operand := range []ast.Expr{n.X, n.Y} {
			if and, ok := operand.(*ast.BinaryExpr); ok && and.Op == token.LAND {
				t.mixed = append(t.mixed, set.Position(and.Pos()))
			}
		}
	}
}

// measure notes a condition of many parts.
func (t *tally) measure(set *token.FileSet, condition ast.Expr) {
	if condition != nil && parts(condition) >= maxParts {
		t.unnamed = append(t.unnamed, set.Position(condition.Pos()))
	}
}

// parts counts the operands of && and || in a condition.
func parts(e ast.Expr) int {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return parts(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return parts(e.X)
		}
	case *ast.BinaryExpr:
		if e.Op == token.LAND || e.Op == token.LOR {
			return parts(e.X) + parts(e.Y)
		}
	}
	return 1
}
