package housetest_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var updateWords = flag.Bool("update-words", false, "write testdata/stored-words.txt anew")

// TestStoredWords holds the words that are stored or sent against a list. A word
// in it lies in databases and in programs of others: it may be added, and neither
// changed nor removed.
func TestStoredWords(t *testing.T) {
	const golden = "internal/housetest/testdata/stored-words.txt"
	var words []string
	files := token.NewFileSet()
	for _, dir := range []string{"hub", "hub/actions", "hub/coord", "protocol/sandbox", "protocol/acp", "protocol/jsonrpc"} {
		sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range sources {
			if strings.HasSuffix(source, "_test.go") || strings.HasSuffix(source, "_gen.go") {
				continue
			}
			file, err := parser.ParseFile(files, source, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			words = append(words, constants(file)...)
		}
	}
	slices.Sort(words)
	got := strings.Join(words, "\n") + "\n"
	if *updateWords {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(raw)), "\n")
	for _, w := range want {
		if !slices.Contains(words, w) {
			t.Errorf("%s is in %s and not in the code: stored words stay as they are", w, golden)
		}
	}
	for _, w := range words {
		if !slices.Contains(want, w) {
			t.Errorf("%s is not in %s: add it with go test ./internal/housetest -run TestStoredWords -update-words", w, golden)
		}
	}
}

// constants returns the exported constants of a file that have a type of their own
// and a text, each as package.Type "text".
func constants(file *ast.File) (words []string) {
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, s := range decl.Specs {
			spec := s.(*ast.ValueSpec)
			kind, ok := spec.Type.(*ast.Ident)
			if !ok || !kind.IsExported() {
				continue
			}
			for i, value := range spec.Values {
				lit, ok := value.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING || !spec.Names[i].IsExported() {
					continue
				}
				if text, err := strconv.Unquote(lit.Value); err == nil {
					words = append(words, fmt.Sprintf("%s.%s %q", file.Name, kind.Name, text))
				}
			}
		}
	}
	return words
}
