// Command housemap writes the map in docs/architecture.md from the code: a picture of the rooms
// with the imports between them, and each room's packages with the first sentences of their
// comments.
//
//	go run ./scripts/housemap
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	module = "github.com/parley-agents/parley/"
	page   = "docs/architecture.md"
	begin  = "<!-- map: go run ./scripts/housemap -->\n"
	end    = "<!-- /map -->\n"
)

// A room is a folder of packages, drawn as one box.
type room struct {
	house string
	dir   string
	is    string // what the room is, in one line
}

// rooms lists the rooms of the program from the top to the ground. A package belongs to the room with the
// longest folder above it.
var rooms = []room{
	{"The command", "cmd/parley", "words, flags, output, exit codes"},
	{"The desk", "internal/desk", "agents in terminals on a person's machine"},
	{"The hub", "server", "puts a hub together from a list of parts, and serves it"},
	{"The hub", "internal/surface", "readers of operations: the page, MCP tools, webhooks"},
	{"The hub", "internal/operation", "the tables of operations, dispatcher, HTTP door, typed client"},
	{"The hub", "internal/work", "agents that the hub or a command runs"},
	{"The hub", "internal/reach", "the hub goes out: wakes, repositories, people, other hubs"},
	{"The hub", "internal/service", "decisions; siblings never import each other"},
	{"The hub", "internal/engine", "storage below a hub"},
	{"The hub", "channel", "the interface of a delivery channel"},
	{"The hub", "hub", "nouns, states, errors, Store, Bus"},
	{"The protocol wing", "protocol", "importable packages of the Agent Client Protocol, its tests, and compact reports"},
	{"The protocol wing", "compat", "is a new version of a schema or API compatible"},
	{"Ground", "internal/ground", "what several rooms need and none owns"},
	{"Beside the program", "internal/testing", "for tests only"},
	{"Beside the program", "internal/bench", "benchmarks of the whole program"},
	{"Beside the program", "internal/housetest", "tests of the repository itself"},
	{"Beside the program", "examples", "an agent and a client to read and copy from"},
}

// A house is the module as its source has it: each package's comment and imports.
type house struct {
	synopsis map[string]string
	imports  map[string]map[string]bool // of packages of this module
}

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "housemap:", err)
		os.Exit(1)
	}
}

// run writes the map into the page of a checkout.
func run(root string) error {
	drawn, err := draw(root)
	if err != nil {
		return err
	}
	name := filepath.Join(root, page)
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	from, to := bytes.Index(text, []byte(begin)), bytes.Index(text, []byte(end))
	if from < 0 || to < from {
		return fmt.Errorf("%s has no marks for the map", page)
	}
	out := slices.Concat(text[:from+len(begin)], []byte(drawn), text[to:])
	return os.WriteFile(name, out, 0o644)
}

// draw returns the text between the marks.
func draw(root string) (string, error) {
	h, err := read(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	h.picture(&b)
	h.list(&b)
	return b.String(), nil
}

// read parses the comments and imports of all packages, tests and tools aside.
func read(root string) (house, error) {
	h := house{map[string]string{}, map[string]map[string]bool{}}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, name)
		if err := errors.Join(err, relErr); err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		isHidden := strings.HasPrefix(d.Name(), ".") && rel != "."
		switch {
		case d.IsDir() && (isHidden || d.Name() == "testdata" || rel == "scripts" || rel == "bin"):
			return filepath.SkipDir
		case d.IsDir() || path.Ext(rel) != ".go" || strings.HasSuffix(rel, "_test.go"):
			return nil
		}
		return h.add(name, path.Dir(rel))
	})
	return h, err
}

// add takes up one file of a package.
func (h house) add(name, pkg string) error {
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	if h.imports[pkg] == nil {
		h.imports[pkg] = map[string]bool{}
	}
	if text := f.Doc.Text(); text != "" && (strings.HasPrefix(text, "Package ") || strings.HasPrefix(text, "Command ")) {
		h.synopsis[pkg] = sentence(text)
	}
	for _, i := range f.Imports {
		if to, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); ok {
			h.imports[pkg][to] = true
		}
	}
	return nil
}

// sentence returns the first sentence of a package comment without the words "Package x".
func sentence(text string) string {
	s := strings.TrimSuffix(new(doc.Package).Synopsis(text), ".")
	words := strings.SplitN(s, " ", 3)
	if len(words) < 3 {
		return s
	}
	return words[2]
}

// roomOf returns the folder of a package's room; "" for a package in none.
func roomOf(pkg string) string {
	best := ""
	for _, r := range rooms {
		isIn := pkg == r.dir || strings.HasPrefix(pkg, r.dir+"/")
		if isIn && len(r.dir) > len(best) {
			best = r.dir
		}
	}
	return best
}

// picture draws the rooms of the program and the imports between them. Arrows to hub and to the ground are
// left out: nearly every room has them.
func (h house) picture(b *strings.Builder) {
	arrows := map[[2]string]bool{}
	for pkg, imports := range h.imports {
		for to := range imports {
			from, into := roomOf(pkg), roomOf(to)
			isEverywhere := into == "hub" || into == "internal/ground"
			areBoxes := from != into && isDrawn(from) && isDrawn(into)
			if areBoxes && !isEverywhere {
				arrows[[2]string{from, into}] = true
			}
		}
	}

	b.WriteString("```mermaid\nflowchart TD\n")
	last := ""
	for _, r := range rooms {
		if !isDrawn(r.dir) {
			continue
		}
		if r.house != last {
			if last != "" {
				b.WriteString("  end\n")
			}
			fmt.Fprintf(b, "  subgraph %s[\"%s\"]\n", id(r.house), r.house)
			last = r.house
		}
		fmt.Fprintf(b, "    %s[\"%s\"]\n", id(r.dir), r.dir)
	}
	b.WriteString("  end\n")
	for _, r := range rooms {
		for _, to := range rooms {
			if arrows[[2]string{r.dir, to.dir}] {
				fmt.Fprintf(b, "  %s --> %s\n", id(r.dir), id(to.dir))
			}
		}
	}
	b.WriteString("```\n\nEvery room may import `hub` and `internal/ground`, but for the protocol wing, which imports the ground alone.\n\n")
}

// isDrawn reports whether a room is a box of the picture.
func isDrawn(dir string) bool {
	for _, r := range rooms {
		if r.dir == dir {
			return r.house != "Beside the program"
		}
	}
	return false
}

// id returns a name without signs that the picture's language uses.
func id(name string) string {
	return strings.NewReplacer("/", "_", " ", "_").Replace(name)
}

// list writes the packages of each room.
func (h house) list(b *strings.Builder) {
	for _, r := range rooms {
		fmt.Fprintf(b, "**`%s`**: %s.\n\n", r.dir, r.is)
		rows := 0
		for _, pkg := range slices.Sorted(maps.Keys(h.imports)) {
			isRoomItself := pkg == r.dir && r.dir != "hub"
			if roomOf(pkg) != r.dir || isRoomItself || h.synopsis[pkg] == "" {
				continue
			}
			if rows == 0 {
				b.WriteString("| package | |\n|---|---|\n")
			}
			rows++
			name := strings.TrimPrefix(pkg, r.dir+"/")
			fmt.Fprintf(b, "| `%s` | %s |\n", name, strings.ReplaceAll(h.synopsis[pkg], "|", `\|`))
		}
		if rows > 0 {
			b.WriteString("\n")
		}
	}
}
