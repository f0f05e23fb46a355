package evidence

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/effects"
	"github.com/parley-agents/parley/internal/ground/git"
)

// maxArguments is the number of bytes of names that are passed to git as arguments.
const maxArguments = 64 << 10

// isQuiet reports whether a file was left alone for long enough that its times prove later that
// it did not change.
func isQuiet(s stamp) bool {
	before := time.Now().Add(-quietTime)
	return s.changed.Before(before) && s.modified.Before(before)
}

// A gitFile is a file in the repository: its object in the checked-out commit and in the index,
// each empty if it is not there.
type gitFile struct{ head, index string }

func (g gitFile) isKnown() bool { return g.head != "" || g.index != "" }

// gitFiles returns files of a tree as the repository has them.
func (t *Trees) gitFiles(ctx context.Context, tree hub.WorkingTree, names []string) (map[string]gitFile, error) {
	var asked []string
	var input strings.Builder
	for _, name := range names {
		if !strings.Contains(name, "\n") { // a name that git cannot be asked about counts as unknown
			asked = append(asked, name)
			fmt.Fprintf(&input, "HEAD:%s\n:0:%s\n", name, name)
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	cmd, err := t.git(ctx, tree, "cat-file", "--batch-check=%(objecttype) %(objectname)")
	if err != nil {
		return nil, err
	}
	cmd.Stdin = strings.NewReader(input.String())
	text, err := t.output(ctx, cmd)
	if err != nil {
		return nil, err
	}

	// There are two lines for each name, in order. A name that is not there repeats the question.
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 2*len(asked) {
		return nil, hub.Errorf(hub.CodeDegraded, "evidence.Files", "git answers %d questions of %d", len(lines), 2*len(asked))
	}
	out := map[string]gitFile{}
	for i, name := range asked {
		out[name] = gitFile{head: blobOf(lines[2*i]), index: blobOf(lines[2*i+1])}
	}
	return out, nil
}

// blobOf returns the object in a line of git, "" if it is no file.
func blobOf(line string) string {
	kind, id, _ := strings.Cut(line, " ")
	if kind != "blob" || !objectID(id) {
		return ""
	}
	return id
}

// git returns a command of git in a tree that converts and compares no content.
func (t *Trees) git(ctx context.Context, tree hub.WorkingTree, args ...string) (*exec.Cmd, error) {
	if t.in.git == "" {
		return nil, hub.Errorf(hub.CodeNotEnabled, "evidence.Trees", "git is not installed where the hub runs")
	}
	cmd := git.In(ctx, t.in.git, tree.Path, args...)
	leash(cmd)
	return cmd, nil
}

// output runs a command and returns its output.
func (t *Trees) output(ctx context.Context, cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", t.in.late(ctx, ctx.Err())
	case errors.As(err, &exit):
		return "", &exitError{exit.ExitCode()}
	case err != nil:
		return "", fmt.Errorf("evidence: run git: %w", err)
	}
	return string(out), nil
}

// Count returns how many files of a tree a pathspec matches, at most limit. Files that git
// ignores do not count.
func (t *Trees) Count(ctx context.Context, tree hub.WorkingTree, pattern string, limit int) (int, error) {
	if tree.Repository == "" {
		return countPlain(ctx, tree.Path, pattern, limit)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd, err := t.git(ctx, tree, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", pattern)
	if err != nil {
		return 0, err
	}
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, fmt.Errorf("evidence: run git: %w", err)
	}

	count := 0
	lines := bufio.NewReader(pipe)
	for count < limit {
		if _, err := lines.ReadString(0); err != nil {
			break // the end; whether it is a good one, Wait tells
		}
		count++
	}
	if count == limit {
		cancel() // git must not wait for a reader
		_ = cmd.Wait()
		return count, nil
	}
	if err := cmd.Wait(); err != nil {
		return 0, hub.Errorf(hub.CodeInvalid, "evidence.Count", "git cannot list the files of %s", show(pattern))
	}
	return count, nil
}

// countPlain counts the files of a folder without a repository that a pathspec matches.
func countPlain(ctx context.Context, top, pattern string, limit int) (count int, err error) {
	spec := effects.Compile(effects.Pathspec(pattern))
	seen := 0
	err = filepath.WalkDir(top, func(name string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if seen++; seen > maxEntries {
			return hub.Errorf(hub.CodeTooLarge, "evidence.Count", "the folder %s has more than %d files", show(top), maxEntries)
		}
		if err != nil || e.IsDir() {
			return nil // a folder that cannot be read has no files
		}
		if rel, ok := under(top, name); ok && spec.Matches("/"+filepath.ToSlash(rel)) {
			count++
		}
		if count == limit {
			return fs.SkipAll
		}
		return nil
	})
	return count, err
}

// Differs returns which of some files differ between the checked-out commit and another.
func (t *Trees) Differs(ctx context.Context, tree hub.WorkingTree, ref string, names []string) ([]string, error) {
	if ref == "-" {
		ref = "@{-1}"
	}
	if ref == "" || ref[0] == '-' || tree.Repository == "" {
		return nil, hub.Errorf(hub.CodeInvalid, "evidence.Differs", "%s is not a commit", show(ref))
	}
	args := []string{"--literal-pathspecs", "diff-tree", "-r", "-z", "--name-only", "--no-renames", "HEAD", ref, "--"}
	if bytesOf(names) <= maxArguments {
		args = append(args, names...)
	}
	all, err := t.list(ctx, tree, args...)
	return slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(names, name) }), err
}

func bytesOf(names []string) (n int) {
	for _, name := range names {
		n += len(name) + 1
	}
	return n
}

// Staged returns the files whose state in the index differs from the checked-out commit.
func (t *Trees) Staged(ctx context.Context, tree hub.WorkingTree) ([]string, error) {
	if tree.Repository == "" {
		return nil, nil
	}
	names, err := t.list(ctx, tree, "diff-index", "--cached", "-z", "--name-only", "--no-renames", "HEAD", "--")
	var exit *exitError
	if errors.As(err, &exit) { // there is no commit yet
		return t.list(ctx, tree, "ls-files", "-z", "--cached")
	}
	return names, err
}

// list runs git and returns the texts of its output that end with a zero byte.
func (t *Trees) list(ctx context.Context, tree hub.WorkingTree, args ...string) ([]string, error) {
	cmd, err := t.git(ctx, tree, args...)
	if err != nil {
		return nil, err
	}
	out, err := t.output(ctx, cmd)
	if out == "" || err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), nil
}

// Difference returns the change of a file since the checked-out commit, as a unified diff. It
// reports CodeTooLarge for a file over the limit of a difference.
func (t *Trees) Difference(ctx context.Context, tree hub.WorkingTree, name string) (hub.TreeDifference, error) {
	if tree.Repository == "" {
		return hub.TreeDifference{}, hub.Errorf(hub.CodeNotEnabled, "evidence.Difference", "%s is in no repository", show(name))
	}
	known, err := t.gitFiles(ctx, tree, []string{name})
	if err != nil {
		return hub.TreeDifference{}, err
	}
	id := known[name].head
	o := &objectWriter{format: max(len(id), sha1Digits), room: diffRoom}
	if o.scratch, err = t.in.emptyScratch(o.format, map[string][]byte{}); err != nil {
		return hub.TreeDifference{}, err
	}
	defer o.scratch.close()

	before, err := t.committed(ctx, tree, o, name, id)
	if err != nil {
		return hub.TreeDifference{}, err
	}
	after, err := uncommitted(tree, o, name)
	if err != nil {
		return hub.TreeDifference{}, err
	}
	old, now, err := o.trees(before, after)
	if err != nil {
		return hub.TreeDifference{}, err
	}
	text, err := o.patch(ctx, old, now)
	if err != nil {
		return hub.TreeDifference{}, err
	}
	added, removed, _, err := o.lines(ctx, old, now)
	return hub.TreeDifference{Text: text, Lines: added + removed}, err
}

// committed stores the content of a file in the checked-out commit.
func (t *Trees) committed(ctx context.Context, tree hub.WorkingTree, o *objectWriter, name, id string) (map[string]blob, error) {
	if id == "" {
		return nil, nil
	}
	cmd, err := t.git(ctx, tree, "cat-file", "blob", id)
	if err != nil {
		return nil, err
	}
	content, err := t.output(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return stored(o, name, []byte(content))
}

// uncommitted stores the content of a file in the working tree.
func uncommitted(tree hub.WorkingTree, o *objectWriter, name string) (map[string]blob, error) {
	top, err := os.OpenRoot(tree.Path)
	if err != nil {
		return nil, explain(tree.Path, err)
	}
	defer top.Close()
	content, err := readSmall(top, filepath.FromSlash(name), maxKept)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(name, err)
	}
	return stored(o, name, content)
}

// stored writes a content into the scratch and returns the tree with that one file.
func stored(o *objectWriter, name string, content []byte) (map[string]blob, error) {
	id := hashOf(o.format, "blob", content)
	if !o.add(id, content) {
		return nil, hub.Errorf(hub.CodeTooLarge, "evidence.Difference", "%s is larger than %d bytes", show(name), diffRoom)
	}
	return map[string]blob{name: {modeRegular, id}}, nil
}
