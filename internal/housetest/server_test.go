package housetest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxServer bounds the lines of code of package server, without comments, blank lines and tests: it puts parts
// together, and has limits and listeners.
const maxServer = 2500

// TestServerDecidesNothing holds that package server puts parts together: it is small, names no state of a
// noun, and calls no table of states.
func TestServerDecidesNothing(t *testing.T) {
	states := stateWords(t)
	if len(states) < 50 {
		t.Fatalf("only %d states were found in package hub", len(states))
	}
	set := token.NewFileSet()
	lines := 0
	for _, file := range productFiles(t, "server") {
		lines += codeLines(t, file)
		tree, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, _ := s.X.(*ast.Ident)
			isState := of != nil && of.Name == "hub" && slices.Contains(states, s.Sel.Name)
			if isState || s.Sel.Name == "Advance" {
				t.Errorf("%s: %s decides by a state; a service or the room that has the thing does that", set.Position(s.Pos()), s.Sel.Name)
			}
			return true
		})
	}
	if lines > maxServer {
		t.Errorf("package server has %d lines of code, at most %d: what decides or converts belongs to the room that has the thing", lines, maxServer)
	}
}

// productFiles returns the files of a package without its tests.
func productFiles(t *testing.T, folder string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
			out = append(out, filepath.Join(folder, e.Name()))
		}
	}
	return out
}

var notCode = regexp.MustCompile(`^\s*(//|$)`)

// codeLines counts the lines of a file that have code.
func codeLines(t *testing.T, file string) (n int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !notCode.MatchString(line) {
			n++
		}
	}
	return n
}

// stateWords returns the constants of package hub whose type is a state, and the lists of them.
func stateWords(t *testing.T) (out []string) {
	t.Helper()
	names, err := filepath.Glob("hub/*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("the files of hub: %v, %v", names, err)
	}
	isState := func(e ast.Expr) bool {
		if list, ok := e.(*ast.CompositeLit); ok {
			e = list.Type
		}
		if list, ok := e.(*ast.ArrayType); ok {
			e = list.Elt
		}
		name, ok := e.(*ast.Ident)
		return ok && strings.HasSuffix(name.Name, "State")
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if ok && (isState(v.Type) || slices.ContainsFunc(v.Values, isState)) {
				for _, name := range v.Names {
					out = append(out, name.Name)
				}
			}
			return true
		})
	}
	return out
}
