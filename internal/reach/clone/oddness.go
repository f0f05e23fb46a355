package clone

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/git"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

// Bounds of what a difference lists and names.
const (
	maxListedFiles  = 2000
	maxNamedOddness = 5
	maxMarkedFiles  = 500 // files whose beginning is searched for the mark of a generator
)

// An oddness is a file of which a difference does not show everything.
type oddness struct {
	path string
	kind string // such as binary
	id   string // of its content in git
	size int64
}

// difference returns the difference between two commits of a copy as a reviewer reads it: a list of the
// files that its text does not show as they are, and the text.
func (r *Repositories) difference(ctx context.Context, c *Copy, repository, from, to string, most int) (out hub.ReviewPatch, err error) {
	text, isCut, err := c.Patch(ctx, from, to, most)
	if err != nil {
		return out, gitError(err)
	}
	files, named, err := r.oddnesses(ctx, c, repository, from, to)
	if err != nil {
		return out, err
	}
	out.Named = append(named, oddText(text)...)
	text = listOf(files, out.Named) + text
	out.Cut = isCut || len(text) > most
	text = text[:min(len(text), most)]
	out.Text = strings.ToValidUTF8(strings.TrimSuffix(text, "\n"), "\uFFFD")
	return out, nil
}

// listOf returns the lines that precede a difference. git passes over them when it applies one.
func listOf(files []oddness, named []string) string {
	var b strings.Builder
	for _, n := range named {
		fmt.Fprintf(&b, "# look: %s\n", n)
	}
	for i, f := range files {
		if i == maxListedFiles {
			fmt.Fprintf(&b, "# %d more files\n", len(files)-i)
			break
		}
		fmt.Fprintf(&b, "# %s: %s, %d bytes, blob %s\n", f.kind, plaintext.Line(f.path), f.size, f.id)
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

// oddnesses returns the binary, vendored and generated files of a difference, with their sizes and
// digests, and names the links to commits that are not known here.
func (r *Repositories) oddnesses(ctx context.Context, c *Copy, repository, from, to string) (files []oddness, named []string, err error) {
	deltas, err := c.Deltas(ctx, from, to)
	if err != nil {
		return nil, nil, gitError(err)
	}
	binary, err := c.Binaries(ctx, from, to)
	if err != nil {
		return nil, nil, gitError(err)
	}
	generated, err := markedFiles(ctx, c, to, deltas)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range deltas {
		mode, id, _ := strings.Cut(d.After, " ")
		f := oddness{path: d.Path, id: id}
		switch {
		case mode == "":
			continue
		case mode == modeSubmodule:
			if !knowsCommit(ctx, c, repository, d.Path, id) {
				named = append(named, fmt.Sprintf("%s links to the commit %.12s, which no repository here has", plaintext.Line(d.Path), id))
			}
			continue
		case binary[d.Path]:
			f.kind = "binary"
		case isVendored(d.Path):
			f.kind = "vendored"
		case generated[d.Path] || isGenerated(d.Path):
			f.kind = "generated"
		default:
			continue
		}
		files = append(files, f)
	}
	return files, short(named), sizes(ctx, c, files)
}

// vendored are folders whose content others wrote.
var vendored = []string{"vendor", "node_modules", "third_party", "thirdparty", "bower_components", "Pods"}

func isVendored(name string) bool {
	folders := strings.Split(path.Dir(name), "/")
	return slices.ContainsFunc(folders, func(f string) bool { return slices.Contains(vendored, f) })
}

// generatedNames are the ends of the names of files that programs write.
var generatedNames = []string{
	".lock", "go.sum", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", ".min.js", ".min.css", ".map", ".pb.go", "_pb2.py", "_gen.go", ".generated.ts", ".g.dart",
}

func isGenerated(name string) bool {
	return slices.ContainsFunc(generatedNames, func(end string) bool { return strings.HasSuffix(name, end) })
}

// markedFiles returns the changed files that say that a program wrote them.
func markedFiles(ctx context.Context, c *Copy, commit string, deltas []Delta) (map[string]bool, error) {
	out := map[string]bool{}
	args := []string{"--literal-pathspecs", "grep", "-l", "-z", "-I", "-E", "^(// |# |/\\* )?(Code generated .* DO NOT EDIT|@generated)", commit, "--"}
	for _, d := range deltas[:min(len(deltas), maxMarkedFiles)] {
		if d.After != "" && !strings.HasPrefix(d.After, modeSubmodule) {
			args = append(args, d.Path)
		}
	}
	if strings.HasSuffix(args[len(args)-1], "--") {
		return out, nil
	}
	cmd := git.Alone(ctx, "git", c.Folder(), args...)
	list, err := cmd.Output()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 1 { // none
		return out, nil
	}
	for record := range strings.SplitSeq(string(list), "\x00") {
		out[strings.TrimPrefix(record, commit+":")] = true
	}
	return out, err
}

// sizes sets the sizes of the contents of files.
func sizes(ctx context.Context, c *Copy, files []oddness) error {
	if len(files) == 0 {
		return nil
	}
	var ask bytes.Buffer
	for _, f := range files {
		ask.WriteString(f.id + "\n")
	}
	cmd := git.Alone(ctx, "git", c.Folder(), "cat-file", "--batch-check=%(objectsize)")
	cmd.Stdin = &ask
	list, err := cmd.Output()
	for i, line := range strings.Split(strings.TrimSpace(string(list)), "\n") {
		if i < len(files) {
			files[i].size, _ = strconv.ParseInt(line, 10, 64) // 0 for one that is missing
		}
	}
	return err
}

// knowsCommit reports whether the repository of a submodule has a commit: that of its working tree, or
// the one that git keeps for it.
func knowsCommit(ctx context.Context, c *Copy, repository, name, id string) bool {
	local := filepath.FromSlash(name)
	folders, _ := filepath.Glob(filepath.Join(c.Repository(), "worktrees", "*", "modules")) // of other working trees
	for i := range folders {
		folders[i] = filepath.Join(folders[i], local)
	}
	folders = append(folders, filepath.Join(c.Repository(), "modules", local), filepath.Join(repository, local))
	for _, folder := range folders {
		if git.In(ctx, "git", folder, "cat-file", "-e", id+"^{commit}").Run() == nil {
			return true
		}
	}
	return git.Alone(ctx, "git", c.Folder(), "cat-file", "-e", id+"^{commit}").Run() == nil
}

// A hunkHead has the numbers of lines of a hunk: of the old text, where it begins in the new one, and of
// the new text.
var hunkHead = pattern.New(`^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// oddText names the added lines of a unified diff with characters that hide or turn text, and those that
// let a working tree have another encoding.
func oddText(patch string) (named []string) {
	file := ""
	var at, oldLeft, newLeft int
	for line := range strings.Lines(patch) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case (oldLeft > 0 || newLeft > 0) && strings.HasPrefix(line, "+"):
			if odd := oddLine(file, line[1:]); odd != "" {
				named = append(named, fmt.Sprintf("%s:%d %s", file, at, odd))
			}
			newLeft--
			at++
		case (oldLeft > 0 || newLeft > 0) && strings.HasPrefix(line, "-"):
			oldLeft--
		case (oldLeft > 0 || newLeft > 0) && strings.HasPrefix(line, `\`): // no line end at the end of the file
		case oldLeft > 0 || newLeft > 0:
			oldLeft--
			newLeft--
			at++
		case strings.HasPrefix(line, "+++ "):
			file = plaintext.Line(strings.TrimPrefix(strings.TrimPrefix(line, "+++ "), "b/"))
		default:
			if head := hunkHead().FindStringSubmatch(line); head != nil {
				oldLeft = lineCount(head[1])
				at = lineCount(head[2])
				newLeft = lineCount(head[3])
			}
		}
	}
	return short(named)
}

// lineCount returns a number of a hunk; 1 where git leaves it out.
func lineCount(text string) int {
	if text == "" {
		return 1
	}
	n, _ := strconv.Atoi(text)
	return n
}

// oddLine returns what a reader of a line does not see; "" if nothing.
func oddLine(file, line string) string {
	if path.Base(file) == ".gitattributes" && strings.Contains(line, "working-tree-encoding") {
		return "lets working trees have another encoding: " + plaintext.Line(line)
	}
	line = strings.ToValidUTF8(line, "\uFFFD")
	if plaintext.Text(line) == line {
		return ""
	}
	for _, r := range line {
		if plaintext.Hidden(r) {
			return fmt.Sprintf("has a character that hides or turns text: U+%04X", r)
		}
	}
	return ""
}

// short cuts a list of sentences, and says how many more there are.
func short(all []string) []string {
	if len(all) <= maxNamedOddness {
		return all
	}
	return append(all[:maxNamedOddness:maxNamedOddness], fmt.Sprintf("%d more like this", len(all)-maxNamedOddness))
}
