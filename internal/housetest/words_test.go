package housetest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// emptyWords carry no meaning in this repository: participles that hide their
// noun, metaphors, and verbs that could mean ten things. No type and no exported
// name contains one of them. docs/glossary.md has the words to use.
var emptyWords = []string{
	"asked", "awaited", "errand", "fate", "gone", "leg", "look", "lot", "neighbour", "news", "oddity", "outlined", "pact", "pacts",
	"parcel", "planned", "play", "relating", "ruled", "scene", "settle", "settled", "shelf", "sight", "sighting", "spectator", "spelled", "spoken",
	"story", "stranger", "summit", "teller", "told", "tripped", "worked", "written",
}

// maxGlossary is the most words of the glossary: people read it as a page. A word of one
// package is explained there.
const maxGlossary = 170

// The glossary has one row, and so one meaning, for each word, and stays a page.
func TestGlossaryRows(t *testing.T) {
	text, err := os.ReadFile("docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	section, first := "", map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(name)
		}
		row, ok := strings.CutPrefix(line, "| ")
		cell, _, isRow := strings.Cut(row, " |")
		if !ok || !isRow || cell == "word" {
			continue
		}
		for _, word := range strings.Split(cell, ", ") {
			if other, taken := first[word]; taken {
				t.Errorf("docs/glossary.md: %q has a row in %s and one in %s", word, other, section)
			}
			first[word] = section
		}
	}
	if len(first) < 100 || len(first) > maxGlossary {
		t.Errorf("docs/glossary.md has %d words, want 100 to %d", len(first), maxGlossary)
	}
}

func TestNamesHaveMeaning(t *testing.T) {
	for _, name := range declaredNames(t) {
		_, ident, _ := strings.Cut(name, ".")
		for _, word := range wordsOf(ident) {
			if slices.Contains(emptyWords, word) {
				t.Errorf("%s: %q carries no meaning here; docs/glossary.md has the words to use", name, word)
			}
		}
	}
}

// declaredNames returns the types of all packages and their exported names, each
// as package.name, without tests and generated code.
func declaredNames(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_gen.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(name)) + "."
		add := func(id *ast.Ident, always bool) {
			if always || id.IsExported() {
				names = append(names, pkg+id.Name)
			}
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				add(fn.Name, false)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				return false
			case *ast.TypeSpec:
				add(n.Name, true)
			case *ast.ValueSpec:
				for _, id := range n.Names {
					add(id, false)
				}
			case *ast.InterfaceType:
				for _, m := range n.Methods.List {
					for _, id := range m.Names {
						add(id, false)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// wordsOf splits an identifier: copiesAsked is copies and asked.
func wordsOf(ident string) []string {
	var words []string
	start := 0
	runes := []rune(ident)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || unicode.IsUpper(runes[i]) && !unicode.IsUpper(runes[i-1]) {
			words = append(words, strings.ToLower(string(runes[start:i])))
			start = i
		}
	}
	return words
}
