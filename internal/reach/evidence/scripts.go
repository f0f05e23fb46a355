package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/shell"
)

// Limits of the search for the files that a command runs.
const (
	maxScripts = 1000      // files
	maxScript  = 256 << 10 // bytes of one that is read
	maxTexts   = 1 << 20   // bytes that are read and searched, again and again included
	maxNesting = 16        // scripts that run each other

	maxScriptDepth = 64 // folders in folders
)

// A script is a file that a command of the user runs or obeys.
type script struct {
	name string // relative to the top of the tree

	// part returns the part of the content that counts; nil for all of it.
	part func(content []byte) string

	// instead are files that the command uses if there is no such file: one that is
	// new takes their place.
	instead []string

	// importer is the script that imports the file, "" for one that the command runs: a new
	// file takes the place of what the same name imported before.
	importer string
}

// A scriptSearch finds the scripts of a command: the program that the command names by
// its path, the file that it gives to an interpreter, the files that a known tool reads
// its commands from, and the scripts that those run in turn. It reads the command lines
// as they are written: a name that a variable holds is not found, nor is one in a
// program that is no shell script, but for the files beside it that a script imports.
type scriptSearch struct {
	tree  func(name string) []byte // the content of a file of the tree; nil if it has none
	link  func(name string) string // the target of a link of the tree; "" if it is none
	top   string                   // absolute path of the tree
	found map[string]script        // by name and part
	seen  map[string]bool          // texts that were read
	room  int                      // bytes that may still be read and searched
	depth int                      // scripts that run each other right now
}

// newScriptSearch returns a search without results.
func newScriptSearch(top string, read func(name string) []byte, link func(name string) string) *scriptSearch {
	return &scriptSearch{tree: read, link: link, top: top, found: map[string]script{}, seen: map[string]bool{}, room: maxTexts}
}

// all returns the scripts, sorted by name.
func (s *scriptSearch) all() []script {
	var all []script
	for _, key := range slices.Sorted(maps.Keys(s.found)) {
		all = append(all, s.found[key])
	}
	return all
}

// text searches a shell text whose commands begin in a folder.
func (s *scriptSearch) text(dir, text string) {
	key := dir + "\x00" + text
	if s.seen[key] || s.room < len(key) || s.depth == maxNesting {
		return
	}
	s.seen[key] = true
	s.room -= len(key)
	s.depth++
	defer func() { s.depth-- }()
	for _, words := range shell.Commands(text) {
		dir = s.command(dir, words)
	}
}

// read returns the content of a file of the tree, nil if it has none or the room is used
// up.
func (s *scriptSearch) read(name string) []byte {
	if s.room <= 0 {
		return nil
	}
	content := s.tree(name)
	s.room -= len(content) + 1
	return content
}

// add adds a script.
func (s *scriptSearch) add(x script, part string) {
	_, isKnown := s.found[x.name+"\x00"+part]
	if isKnown && x.importer != "" {
		return // the command runs it, too
	}
	if !leadsOut(x.name) && len(s.found) < maxScripts {
		s.found[x.name+"\x00"+part] = x
	}
}

// prefixes are words that stand before the program of a command.
var prefixes = []string{
	"!", "{", "}", "if", "then", "elif", "else", "while", "until", "do", "time", "exec", "command", "builtin", "nohup", "env", "nice", "sudo", "xargs", "timeout",
	"npx", "pnpx", "bunx", "uv", "poetry", "pipenv", "bundle", "run",
	"shell", // the function of make
}

// interpreters run the file that is their first argument.
var interpreters = []string{
	"sh", "bash", "dash", "zsh", "ksh", "ash", ".", "source", "python", "python2", "python3", "pypy", "pypy3", "node", "nodejs", "deno", "tsx", "ts-node", "ruby", "perl", "php", "lua", "Rscript", "tclsh", "pwsh", "bats",
}

// extensions are those of scripts, for programs whose name a variable holds.
var extensions = []string{".sh", ".bash", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua"}

// command searches a simple command in a folder, and returns the folder of the next one.
func (s *scriptSearch) command(dir string, words []string) string {
	words = program(words)
	if len(words) == 0 {
		return dir
	}

	name := words[0]
	args := words[1:]
	if name == "$(MAKE)" || name == "${MAKE}" {
		name = "make"
	}
	if strings.Contains(name, "/") && !strings.HasPrefix(name, "$") {
		s.file(dir, name)
	}

	switch path.Base(name) {
	case "cd", "pushd":
		if len(args) > 0 {
			return s.resolve(dir, args[len(args)-1])
		}
	case "make", "gmake":
		s.make(dir, args)
	case "npm", "pnpm", "yarn", "bun":
		s.packageScripts(dir, args)
	case "include", "-include", "import": // of a makefile or a justfile
		for _, arg := range args {
			s.file(dir, arg)
		}
	default:
		s.run(dir, name, args)
	}
	return dir
}

// run searches a command that runs an interpreter, a program whose name a variable holds,
// or a tool.
func (s *scriptSearch) run(dir, name string, args []string) {
	base := path.Base(name)
	switch {
	case slices.Contains(interpreters, base):
		s.interpreter(dir, args)
	case strings.HasPrefix(name, "$"):
		i := slices.IndexFunc(args, func(arg string) bool { return slices.Contains(extensions, path.Ext(arg)) })
		if i >= 0 {
			s.file(dir, args[i])
		}
	default:
		s.tool(dir, base)
	}
}

// program returns a command from its program on: without assignments, prefixes and their
// options, and without the signs that a makefile puts before a command.
func program(words []string) []string {
	prefixed := false
	for i, word := range words {
		word = strings.TrimLeft(word, "@+")
		option := prefixed && strings.HasPrefix(word, "-")
		number := prefixed && word != "" && word[0] >= '0' && word[0] <= '9' // the time of timeout
		if !prefixed && word != "-include" {
			word = strings.TrimLeft(word, "-")
		}
		name, _, assigns := strings.Cut(word, "=")
		switch {
		case word == "" || option || number || (assigns && !strings.ContainsAny(name, "/ ")):
		case slices.Contains(prefixes, word):
			prefixed = true
		default:
			return append([]string{word}, words[i+1:]...)
		}
	}
	return nil
}

// resolve returns the name in the tree of a path that a command in a folder writes.
func (s *scriptSearch) resolve(dir, written string) string {
	if filepath.IsAbs(written) {
		if rel, ok := under(s.top, filepath.Clean(written)); ok {
			return filepath.ToSlash(rel)
		}
		return ".."
	}
	name := path.Join(dir, filepath.ToSlash(written))
	if strings.Count(name, "/") > maxScriptDepth {
		return ".."
	}
	return name
}

// file adds a script that a command runs, and searches it if it is a text of commands.
func (s *scriptSearch) file(dir, written string) {
	name := s.resolve(dir, written)
	s.add(script{name: name}, "")
	if target := s.link(name); target != "" && !s.seen[name] {
		s.seen[name] = true
		s.file(path.Dir(name), target)
		return
	}
	content := s.read(name)
	if isShell(name, content) {
		s.text(dir, string(content))
		return
	}
	s.imports(name, content)
}

// isShell reports whether a file is a text of commands: a shell script or a makefile.
func isShell(name string, content []byte) bool {
	first, _, _ := bytes.Cut(content, []byte("\n"))
	switch ext := path.Ext(name); {
	case bytes.IndexByte(content, 0) >= 0:
		return false // a program
	case bytes.HasPrefix(first, []byte("#!")):
		return bytes.Contains(first, []byte("sh"))
	default:
		return slices.Contains([]string{"", ".sh", ".bash", ".mk", ".bats"}, ext)
	}
}

// interpreter adds the file that an interpreter is given: the first argument that is a
// file of the tree. The text of -c is searched, the module of -m is a program or a file.
func (s *scriptSearch) interpreter(dir string, args []string) {
	for i, arg := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch {
		case strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.HasSuffix(arg, "c"): // also -ec
			s.text(dir, next)
			return
		case arg == "-m" && next != "":
			module := strings.ReplaceAll(next, ".", "/")
			s.file(dir, module+".py")
			s.file(dir, module+"/__main__.py")
			s.tool(dir, next)
			return
		case strings.HasPrefix(arg, "-"):
		case path.Ext(arg) != "" || s.read(s.resolve(dir, arg)) != nil:
			s.file(dir, arg)
			return
		}
	}
}

// makefiles are the files that make reads, the first of them alone.
var makefiles = []string{"GNUmakefile", "makefile", "Makefile"}

// make adds the makefile of a command of make.
func (s *scriptSearch) make(dir string, args []string) {
	var files []string
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		if short := args[i]; len(short) > 2 && (strings.HasPrefix(short, "-C") || strings.HasPrefix(short, "-f")) {
			name = short[:2]
			value = short[2:]
			joined = true
		}
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		switch name {
		case "-C", "--directory":
			dir = s.resolve(dir, value)
		case "-f", "--file", "--makefile":
			files = append(files, value)
		default:
			continue
		}
		if !joined {
			i++
		}
	}

	// Named makefiles replace the usual ones.
	if len(files) > 0 {
		for _, name := range files {
			s.lines(dir, script{name: s.resolve(dir, name)})
		}
		return
	}

	// Otherwise make takes the first of its usual files that exists.
	for i, name := range makefiles {
		x := script{name: path.Join(dir, name)}
		for _, other := range makefiles[i+1:] {
			x.instead = append(x.instead, path.Join(dir, other))
		}
		s.lines(dir, x)
	}
}

// lines adds a file of which each line is a command of its own in a folder.
func (s *scriptSearch) lines(dir string, x script) {
	s.add(x, "")
	content := strings.ReplaceAll(string(s.read(x.name)), "\\\n", " ")
	for line := range strings.Lines(content) {
		_, recipe, rule := strings.Cut(line, ":")
		if rule && !strings.HasPrefix(line, "\t") && !strings.Contains(line, "=") {
			_, line, _ = strings.Cut(recipe, ";") // target: sources; command
		}
		s.text(dir, line)
	}
}

// runnerKeys are members of package.json with the settings of a test runner.
var runnerKeys = []string{"jest", "mocha", "ava", "tap", "vitest", "jasmine", "karma"}

// packageScripts adds the scripts of package.json that a command of npm or another manager
// of packages runs, and the settings of test runners in it.
func (s *scriptSearch) packageScripts(dir string, args []string) {
	var words []string
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		if slices.Contains([]string{"--prefix", "-C", "--dir", "--cwd"}, name) {
			if !joined && i+1 < len(args) {
				i++
				value = args[i]
			}
			dir = s.resolve(dir, value)
		} else if !strings.HasPrefix(args[i], "-") {
			words = append(words, args[i])
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "run" || w == "run-script" })
	if len(words) == 0 {
		return
	}
	switch task := words[0]; task {
	case "exec", "x", "dlx":
		s.command(dir, words[1:])
	case "t", "tst":
		s.packageScript(dir, "test")
	default:
		s.packageScript(dir, task)
		s.tool(dir, task) // yarn and bun run programs, too
	}
}

// packageScript adds a script of package.json with those that run before and after it.
func (s *scriptSearch) packageScript(dir, task string) {
	tasks := []string{"pre" + task, task, "post" + task}
	part := func(content []byte) string {
		members := map[string]json.RawMessage{}
		json.Unmarshal(content, &members) // of a broken file nothing counts: the command fails
		own := scriptsOf(content)
		var b strings.Builder
		for _, t := range tasks {
			fmt.Fprintf(&b, "%q\n", own[t])
		}
		for _, key := range runnerKeys {
			fmt.Fprintf(&b, "%s\n", members[key])
		}
		return b.String()
	}
	for dir != "." && !leadsOut(dir) && s.read(path.Join(dir, "package.json")) == nil {
		dir = path.Dir(dir) // npm looks above, too
	}
	name := path.Join(dir, "package.json")
	s.add(script{name: name, part: part}, task)
	own := scriptsOf(s.read(name))
	for _, t := range tasks {
		s.text(dir, own[t])
	}
}

// scriptsOf returns the scripts of a package.json.
func scriptsOf(content []byte) map[string]string {
	var p struct{ Scripts map[string]string }
	json.Unmarshal(content, &p) // one that is broken has none
	return p.Scripts
}

// toolFiles are the files from which known tools read commands and settings that decide
// whether they pass.
var toolFiles = map[string][]script{
	"just":    {{name: "justfile"}, {name: "Justfile"}, {name: ".justfile"}},
	"task":    {{name: "Taskfile.yml"}, {name: "Taskfile.yaml"}},
	"rake":    {{name: "Rakefile"}},
	"tox":     {{name: "tox.ini"}, {name: "pyproject.toml", part: sections("tool.tox")}, {name: "setup.cfg", part: sections("tox")}},
	"nox":     {{name: "noxfile.py"}},
	"cargo":   {{name: ".cargo/config.toml"}, {name: ".cargo/config"}},
	"ant":     {{name: "build.xml"}},
	"pytest":  pytestFiles,
	"py.test": pytestFiles,
}

var pytestFiles = []script{
	{name: "pytest.ini"}, {name: "tox.ini", part: sections("pytest")}, {name: "pyproject.toml", part: sections("tool.pytest")}, {name: "setup.cfg", part: sections("tool:pytest")},
}

// tool adds the files of a known tool, in the folder and in those above.
func (s *scriptSearch) tool(dir, name string) {
	for _, x := range toolFiles[name] {
		for at := dir; !leadsOut(at); at = path.Dir(at) {
			file := script{name: path.Join(at, x.name), part: x.part}
			if name == "just" {
				s.lines(dir, file)
			} else {
				s.add(file, name)
			}
			if at == "." {
				break
			}
		}
	}
}

// sections returns a function that keeps the sections of an INI or TOML file whose names
// begin with a word.
func sections(word string) func([]byte) string {
	return func(content []byte) string {
		var b strings.Builder
		keep := false
		for line := range strings.Lines(string(content)) {
			if title, ok := strings.CutPrefix(strings.TrimSpace(line), "["); ok {
				keep = strings.HasPrefix(strings.TrimLeft(title, "[ "), word)
			}
			if keep {
				b.WriteString(line)
			}
		}
		return b.String()
	}
}

// scripts returns the scripts of a command line of the user. Their contents are those of
// the last walk.
func (b *Base) scripts(line string) []script {
	s := newScriptSearch(b.top, func(name string) []byte {
		if _, ok := b.last.files[name]; !ok {
			return nil
		}
		content, err := readSmall(b.root, name, maxScript)
		if err != nil {
			return nil // one that cannot be read names no others
		}
		return content
	}, func(name string) string {
		if b.last.files[name].mode != modeLink {
			return ""
		}
		to, _ := b.root.Readlink(name) // "" for one that was removed meanwhile
		return to
	})
	s.text(b.folder, line)
	return s.all()
}

// before returns the content that a file had when the base was taken.
func (b *Base) before(ctx context.Context, name string) ([]byte, bool) {
	was, ok := b.first.files[name]
	if !ok || !was.stored {
		return nil, false
	}
	out, err := b.scratch.run(ctx, maxKept, "", "cat-file", "blob", was.id)
	return []byte(out), err == nil
}
