package landing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/landing"
)

// A repository is a real git repository without a working tree, in which the merges are made, too.
// It implements landing.Git.
type repository struct {
	t   testing.TB
	dir string

	mu    sync.Mutex
	heads []string                                 // that the queue gave to branches
	block func(from, to string) landing.Forwarding // decides about a forward before it; may be nil
	after func()                                   // is called after a branch was moved; may be nil
	fails error                                    // branches cannot be moved
}

func newRepository(t testing.TB) *repository {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &repository{t: t, dir: dir}
	r.git("", "init", "--quiet", "--bare", "--initial-branch=main", ".")
	return r
}

// run runs git in the repository.
func (r *repository) run(input string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Parley", "GIT_AUTHOR_EMAIL=p@localhost", "GIT_COMMITTER_NAME=Parley", "GIT_COMMITTER_EMAIL=p@localhost")
	cmd.Stdin = strings.NewReader(input)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %s: %w: %s", args[0], err, errOut.String())
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

func (r *repository) git(input string, args ...string) string {
	r.t.Helper()
	out, err := r.run(input, args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// A commitOf describes a commit of a branch: the files that it writes, and deletes with "".
type commitOf struct {
	branch, from, author string
	merge                string // a second parent; the files are the only change to the first
	trailer              string
	files                map[string]string
}

// write makes commits.
func (r *repository) write(commits ...commitOf) {
	r.t.Helper()
	var b strings.Builder
	for i, c := range commits {
		if c.author == "" {
			c.author = "someone"
		}
		message := "work"
		if c.trailer != "" {
			message += "\n\n" + c.trailer
		}
		fmt.Fprintf(&b, "commit refs/heads/%s\nmark :%d\ncommitter %s <%[3]s@localhost> %d +0000\ndata %d\n%s\n", c.branch, i+1, c.author, 1700000000+i, len(message), message)
		if c.from != "" {
			fmt.Fprintf(&b, "from %s\n", r.git("", "rev-parse", c.from))
		}
		if c.merge != "" {
			fmt.Fprintf(&b, "merge %s\n", r.git("", "rev-parse", c.merge))
		}
		for path, text := range c.files {
			if text == "" {
				fmt.Fprintf(&b, "D %s\n", path)
				continue
			}
			fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", path, len(text), text)
		}
	}
	r.git(b.String(), "fast-import", "--quiet", "--force")
}

func (r *repository) Repository(context.Context, string) (string, error) { return r.dir, nil }

func (r *repository) Resolve(_ context.Context, _, revision string) (landing.Commit, error) {
	id, err := r.run("", "rev-parse", "--verify", "--quiet", revision+"^{commit}")
	if err != nil {
		return landing.Commit{}, hub.Errorf(hub.CodeNotFound, "test", "no commit %s", revision)
	}
	tree, err := r.run("", "rev-parse", id+"^{tree}")
	return landing.Commit{ID: id, Tree: tree}, err
}

func (r *repository) Branch(ctx context.Context, repo, branch string) (landing.Commit, error) {
	return r.Resolve(ctx, repo, "refs/heads/"+branch)
}

func (r *repository) Contains(_ context.Context, _, head, commit string) (bool, error) {
	_, err := r.run("", "merge-base", "--is-ancestor", commit, head)
	return err == nil, nil
}

// mergeTrees merges and returns the tree, or the conflicting paths.
func (r *repository) mergeTrees(args ...string) (tree string, paths []string, err error) {
	out, err := r.run("", append([]string{"merge-tree", "--write-tree", "--name-only", "--no-messages"}, args...)...)
	var exit *exec.ExitError
	lines := strings.Split(out, "\n")
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return "", lines[1:], nil
	}
	return lines[0], nil, err
}

func (r *repository) Merge(ctx context.Context, _ string, onto, change landing.Commit, message string) (landing.Merge, error) {
	if isIn, _ := r.Contains(ctx, "", onto.ID, change.ID); isIn {
		return landing.Merge{Commit: onto}, nil
	}
	tree, paths, err := r.mergeTrees(onto.ID, change.ID)
	return r.finish(tree, paths, err, onto.ID, change.ID, message)
}

func (r *repository) finish(tree string, paths []string, err error, ours, theirs, message string) (landing.Merge, error) {
	if err != nil {
		return landing.Merge{}, err
	}
	var out landing.Merge
	for _, p := range paths {
		show := func(rev string) string { text, _ := r.run("", "show", rev+":"+p); return text }
		base, _ := r.run("", "merge-base", ours, theirs)
		out.Conflicts = append(out.Conflicts, landing.Conflict{Path: p, Base: show(base), Ours: show(ours), Theirs: show(theirs)})
	}
	if len(paths) > 0 {
		return out, nil
	}
	args := []string{"commit-tree", tree, "-p", ours, "-F", "-"}
	if theirs != "" {
		args = []string{"commit-tree", tree, "-p", ours, "-p", theirs, "-F", "-"}
	}
	id, err := r.run(message, args...)
	out.Commit = landing.Commit{ID: id, Tree: tree}
	return out, err
}

func (r *repository) Revert(_ context.Context, _ string, onto landing.Commit, merged, message string) (landing.Merge, error) {
	// The undone state must lie before the other two in the history.
	base := r.git("", "commit-tree", merged+"^{tree}", "-m", "base")
	ours := r.git("", "commit-tree", onto.Tree, "-p", base, "-m", "ours")
	before := r.git("", "commit-tree", merged+"^1^{tree}", "-p", base, "-m", "before")
	tree, paths, err := r.mergeTrees(ours, before)
	if err == nil && tree == onto.Tree {
		return landing.Merge{Commit: onto}, nil
	}
	return r.finish(tree, paths, err, onto.ID, "", message)
}

func (r *repository) Forward(_ context.Context, _, branch, from, to string) (landing.Forwarding, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails != nil {
		return landing.Forwarding{}, r.fails
	}
	if r.block != nil {
		if got := r.block(from, to); got.Waits != "" || got.Stale {
			return got, nil
		}
	}
	if _, err := r.run("", "update-ref", "refs/heads/"+branch, to, from); err != nil {
		return landing.Forwarding{Stale: true}, nil
	}
	r.heads = append(r.heads, to)
	if r.after != nil {
		r.after()
	}
	return landing.Forwarding{Moved: true}, nil
}

func (r *repository) Change(ctx context.Context, repo, target, commit string, most int) (out landing.Change, err error) {
	if out.Base, err = r.run("", "merge-base", target, commit); err != nil {
		return out, err
	}
	if out.Patch, err = r.Patch(ctx, repo, out.Base, commit, most); err != nil {
		return out, err
	}
	authors, err := r.run("", "log", "--format=%an%n%(trailers:only,unfold,valueonly)", out.Base+".."+commit)
	for line := range strings.Lines(authors) {
		name, _, _ := strings.Cut(line, "<")
		if name = strings.TrimSpace(name); name != "" {
			out.Authors = append(out.Authors, name)
		}
	}
	return out, err
}

func (r *repository) Files(_ context.Context, _, from, to string) (out []landing.File, err error) {
	list, err := r.run("", "diff-tree", "-r", "--raw", "--no-renames", "--no-abbrev", from, to)
	for line := range strings.Lines(list) {
		facts, path, _ := strings.Cut(strings.TrimSpace(line), "\t")
		f := strings.Fields(facts)
		file := landing.File{Path: path, Before: f[2], After: f[3]}
		for _, id := range []*string{&file.Before, &file.After} {
			if strings.Trim(*id, "0") == "" {
				*id = ""
			}
		}
		out = append(out, file)
	}
	return out, err
}

func (r *repository) Missing(ctx context.Context, _, target, change string, commits []string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, id := range commits {
		if isIn, _ := r.Contains(ctx, "", target, id); !isIn {
			out[id], _ = r.Contains(ctx, "", change, id)
		}
	}
	return out, nil
}

func (r *repository) Fork(_ context.Context, _, target, commit string) (string, error) {
	list, err := r.run("", "rev-list", "--boundary", target+".."+commit)
	args := []string{"merge-base", "--octopus"}
	for line := range strings.Lines(list) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "-"); ok {
			args = append(args, id)
		}
	}
	if err != nil || len(args) == 2 {
		return "", err
	}
	return r.run("", args...)
}

func (r *repository) Joins(_ context.Context, _, target, commit string) (out []landing.Join, err error) {
	list, err := r.run("", "rev-list", "--merges", "--parents", target+".."+commit)
	for line := range strings.Lines(list) {
		ids := strings.Fields(line)
		out = append(out, landing.Join{ID: ids[0], Parents: ids[1:]})
	}
	return out, err
}

func (r *repository) Combine(_ context.Context, _, base, ours, theirs string) (string, []string, error) {
	if base != "" { // git finds the base by the history
		root := r.git("", "commit-tree", base+"^{tree}", "-m", "base")
		ours = r.git("", "commit-tree", ours+"^{tree}", "-p", root, "-m", "ours")
		theirs = r.git("", "commit-tree", theirs+"^{tree}", "-p", root, "-m", "theirs")
	}
	out, err := r.run("", "merge-tree", "--write-tree", "--name-only", "--no-messages", ours, theirs)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil
	}
	lines := strings.Split(out, "\n")
	return lines[0], lines[1:], err
}

func (r *repository) Compose(_ context.Context, _, tree, message string, parents ...string) (landing.Commit, error) {
	args := []string{"commit-tree", tree, "-F", "-"}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	id, err := r.run(message, args...)
	return landing.Commit{ID: id, Tree: tree}, err
}

func (r *repository) SamePatch(_ context.Context, _, target, a, b string) (bool, error) {
	var ids []string
	for _, commit := range []string{a, b} {
		base := r.git("", "merge-base", target, commit)
		id, _, _ := strings.Cut(r.git(r.git("", "diff-tree", "-p", base, commit)+"\n", "patch-id", "--stable"), " ")
		ids = append(ids, id)
	}
	return ids[0] == ids[1], nil
}

func (r *repository) Patch(_ context.Context, _, from, to string, most int) (landing.Patch, error) {
	text, err := r.run("", "diff", from, to)
	if len(text) > most {
		return landing.Patch{Text: text[:most], Cut: true}, err
	}
	return landing.Patch{Text: text}, err
}

func (r *repository) Keep(_ context.Context, _, name, commit string) error {
	_, err := r.run("", "update-ref", "refs/parley/"+name, commit)
	return err
}

func (r *repository) Drop(_ context.Context, _, name string) error {
	_, err := r.run("", "update-ref", "-d", "refs/parley/"+name)
	return err
}

// A checker runs one shell command on a checkout of a commit, and keeps results by tree. It
// implements landing.Checks.
type checker struct {
	r        *repository
	command  string
	kept     map[string]landing.CheckReport // by check and tree
	known    []landing.Check                // default one that is not required, test
	commands map[string]string              // of some checks; the others have command
	when     map[string]string              // the beginning of the paths that a check is about
	runs     int
	before   func() // is called before each run; may be nil
	fails    error  // checks cannot run

	kills int            // the next runs that the hub does not outlive
	cut   map[string]int // interrupted runs by tree
	blind bool           // Judged finds nothing
}

func newChecker(r *repository, command string) *checker {
	return &checker{r: r, command: command, kept: map[string]landing.CheckReport{}, cut: map[string]int{}}
}

func (c *checker) Known(context.Context, string) ([]landing.Check, error) {
	if c.known == nil {
		return []landing.Check{{Name: "test"}}, nil
	}
	return c.known, nil
}

// Concerned knows one kind of pattern: the beginning of a path.
func (c *checker) Concerned(ctx context.Context, repo, from, to string, names []string) (out []string, err error) {
	files, err := c.r.Files(ctx, repo, from, to)
	for _, name := range names {
		touches := func(f landing.File) bool { return strings.HasPrefix(f.Path, c.when[name]) }
		if slices.ContainsFunc(files, touches) {
			out = append(out, name)
		}
	}
	return out, err
}

// Judged knows one script, which the checks run, and the tests.
func (c *checker) Judged(ctx context.Context, repo, target, commit string, _ []string) (out []hub.JudgeFinding, err error) {
	if c.blind {
		return nil, nil
	}
	base, err := c.r.run("", "merge-base", target, commit)
	if err != nil {
		return nil, err
	}
	files, err := c.r.Files(ctx, repo, base, commit)
	for _, f := range files {
		switch {
		case f.Path == "test.sh":
			out = append(out, hub.JudgeFinding{File: f.Path, Found: "test.sh was modified, and a check depends on it", Word: true})
		case strings.HasPrefix(f.Path, "tests/"):
			out = append(out, hub.JudgeFinding{File: f.Path, Found: f.Path + " was modified, and is a test"})
		}
	}
	return out, err
}

func (c *checker) Run(_ context.Context, q landing.CheckRun) (landing.CheckReport, error) {
	if c.fails != nil {
		return landing.CheckReport{}, c.fails
	}
	out := landing.CheckReport{Passed: true}
	for _, name := range q.Names {
		got, ok := c.kept[name+q.Commit.Tree]
		isAgain := c.cut[q.Commit.Tree] == 1 && !q.Since.IsZero()
		ok = ok && !isAgain
		if !ok && q.Kept {
			return out, hub.Errorf(hub.CodeNotFound, "test", "nothing is kept")
		}
		if !ok {
			if c.before != nil {
				c.before()
			}
			var err error
			if got, err = c.run(name, q); err != nil {
				return out, err
			}
			c.kept[name+q.Commit.Tree] = got
		}
		out.Results = append(out.Results, got.Results...)
		out.Asked = append(out.Asked, got.Asked...)
		out.Runs += got.Runs
		if out.Passed && !got.Passed {
			out.Passed, out.Failed, out.State, out.Output = false, got.Failed, got.State, got.Output
		}
		if got.Tests != nil {
			out.Tests = got.Tests
		}
	}
	return out, nil
}

// run runs one check, again as often as the policy allows.
func (c *checker) run(name string, q landing.CheckRun) (landing.CheckReport, error) {
	var got landing.CheckReport
	note := ""
	for range 1 + q.Repeat {
		c.runs++
		id := fmt.Sprintf("k%d", c.runs)
		if c.kills > 0 {
			c.kills--
			c.cut[q.Commit.Tree]++
			return landing.CheckReport{Failed: name, State: string(hub.ResultInterrupted), Results: []string{id}}, nil
		}
		command := c.command
		if other, ok := c.commands[name]; ok {
			command = other
		}
		out, passed := c.execute(q.Commit.ID, command)
		state := map[bool]string{true: "passed", false: "failed"}[passed]
		got = landing.CheckReport{Passed: passed, Output: out, Results: []string{id}, Runs: 1}
		got.Asked = []hub.GateEvidence{{What: "check " + name, Evidence: id + " " + state + note, Of: q.Commit.ID, By: hub.Self}}
		if _, count, ok := strings.Cut(out, "tests="); ok {
			n, err := strconv.Atoi(strings.TrimSpace(count))
			if err != nil {
				return got, err
			}
			got.Tests = map[string]hub.TestCount{name: {Total: n}}
		}
		if passed {
			return got, nil
		}
		got.Failed = name
		got.State = "failed"
		note = ", repeated after " + id + " failed"
	}
	return got, nil
}

func (c *checker) Output(context.Context, string, landing.Commit) string { return "" }

// execute runs the command on a clean checkout.
func (c *checker) execute(commit, command string) (output string, passed bool) {
	dir := c.r.t.TempDir()
	index := filepath.Join(dir, "index")
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		c.r.t.Fatal(err)
	}
	for _, args := range [][]string{{"read-tree", commit}, {"checkout-index", "--all", "--prefix=" + tree + "/"}} {
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "GIT_DIR="+c.r.dir, "GIT_INDEX_FILE="+index, "GIT_WORK_TREE="+tree)
		if out, err := cmd.CombinedOutput(); err != nil {
			c.r.t.Fatalf("git %s: %v: %s", args[0], err, out)
		}
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = tree
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}
