package clone

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/ground/git"
)

// maxSnapshot bounds the bytes of the files that a snapshot stores; spareDisk are the bytes that it
// leaves free on the disk of the copy.
const (
	maxSnapshot = 1 << 30
	spareDisk   = 4 << 20
)

// A Snapshot is the state of a working tree as a commit of the copy. Ignored files are left
// out.
type Snapshot struct {
	Commit     Commit   `json:"commit"`
	Base       string   `json:"base,omitempty"`       // the commit that was checked out, the parent of Commit; "" if there was none
	Clean      bool     `json:"clean,omitempty"`      // nothing was changed: Commit is the base
	Files      int      `json:"files"`                // changed, new and deleted ones
	Bytes      int64    `json:"bytes"`                // of the changed and new ones
	Submodules []string `json:"submodules,omitempty"` // repositories in the tree, whose own changes are left out
	Unreadable []string `json:"unreadable,omitempty"` // files that could not be read
}

// Snapshot stores the files of the working tree around a folder as a commit of the copy. Tree,
// index, branches and refs of the user are only read. Filters do not convert the files: they
// are stored as they are, but for the conversion of line ends that git does itself. The error
// is [ErrTooLarge] for more than 1 GiB of changed files, and for more than the disk of the copy has
// room for.
func (c *Copy) Snapshot(ctx context.Context, folder, message string) (_ Snapshot, err error) {
	defer typed(&err, "take a snapshot", folder)
	at, f, err := c.openTree(ctx, folder)
	if err != nil {
		return Snapshot{}, err
	}
	defer f.close()
	unlock, err := at.lock(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	defer unlock()
	draft, err := os.MkdirTemp(c.home.folder, draftName)
	if err != nil {
		return Snapshot{}, err
	}
	defer os.RemoveAll(draft)
	p := &photo{copy: at, files: f, index: filepath.Join(draft, "index")}
	f.scratch.Plain = true

	base, err := at.head(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	if err := p.prepare(ctx); err != nil {
		return Snapshot{}, err
	}
	if err := p.choose(ctx); err != nil {
		return Snapshot{}, err
	}
	p.out.Base = base.ID
	return p.store(ctx, base, message)
}

// openTree opens the files of the working tree around a folder of the same repository.
func (c *Copy) openTree(ctx context.Context, folder string) (*Copy, *files, error) {
	s, err := locate(ctx, folder)
	if err != nil {
		return nil, nil, err
	}
	if s.common != c.source.common || s.top == "" {
		return nil, nil, fail(ErrNoRepository, "open the working tree", folder, "it is not a working tree of "+c.source.common)
	}
	f, err := c.home.openFiles(ctx, s, tree{Folder: s.top, GitDir: s.gitDir})
	if err != nil {
		return nil, nil, err
	}
	return &Copy{home: c.home, bare: c.bare, source: s}, f, nil
}

// head brings the commit that is checked out in the folder into the copy. It is zero if there
// is no commit yet. The caller has the lock.
func (c *Copy) head(ctx context.Context) (Commit, error) {
	if err := c.source.checkObjects(); err != nil {
		return Commit{}, err
	}
	id, err := c.source.run(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if errors.Is(err, ErrGit) {
		return Commit{}, nil
	}
	if err != nil {
		return Commit{}, err
	}
	if err := c.bring(ctx, id); err != nil {
		return Commit{}, err
	}
	return c.commit(ctx, id)
}

// A photo is a snapshot that is being made, in an index of its own.
type photo struct {
	copy   *Copy
	files  *files
	index  string
	out    Snapshot
	chosen []string // the paths that differ from the index
}

// git returns a command on the tree and the index of the snapshot. New objects go into the
// copy.
func (p *photo) git(ctx context.Context, args ...string) *exec.Cmd {
	cmd := p.files.git(ctx, p.index, args...)
	cmd.Env = append(cmd.Env, "GIT_OBJECT_DIRECTORY="+filepath.Join(p.copy.bare, "objects"), p.copy.borrow())
	return cmd
}

// prepare copies the user's index, so that files that git knows to be unchanged are not read.
// In the copy git looks at the files that the user told it not to look at, too.
func (p *photo) prepare(ctx context.Context) error {
	found, err := p.copyIndex()
	if err != nil || !found {
		return err
	}

	list, err := output(p.git(ctx, "ls-files", "-z", "-v", "--stage"), "read the index", p.files.tree.Folder)
	if err != nil {
		return err
	}
	var assumed, skipped []string
	for _, line := range strings.Split(list, "\x00") { // tag, mode, object and stage, a tab, name
		tag, rest, _ := strings.Cut(line, " ")
		entry, name, _ := strings.Cut(rest, "\t")
		if strings.HasPrefix(entry, modeSubmodule+" ") {
			p.addSubmodule(name)
		}
		if tag == "h" || tag == "s" {
			assumed = append(assumed, name)
		}
		if tag == "S" || tag == "s" {
			if _, err := p.files.root.Lstat(name); err == nil {
				skipped = append(skipped, name)
			}
		}
	}

	if err := p.update(ctx, assumed, "--no-assume-unchanged"); err != nil {
		return err
	}
	return p.update(ctx, skipped, "--no-skip-worktree")
}

// copyIndex copies the user's index, and reports whether there is one. The copy has the time of the
// user's: git reads the content of files that were written in the moment of their index or after it,
// although their size and time are those in the index.
func (p *photo) copyIndex() (bool, error) {
	name := p.files.tree.index()
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSnapshot { // a link may lead to a device without an end
		return false, fail(ErrUnsafe, "read the index", p.files.tree.Folder, name+" is no file of git")
	}
	raw, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(p.index, raw, 0o600)
	}
	if err == nil {
		err = os.Chtimes(p.index, info.ModTime(), info.ModTime())
	}
	return true, err
}

// addSubmodule notes a submodule that is checked out.
func (p *photo) addSubmodule(name string) {
	if _, err := p.files.root.Lstat(name + "/.git"); err == nil {
		p.out.Submodules = append(p.out.Submodules, name)
	}
}

// update runs git update-index on paths.
func (p *photo) update(ctx context.Context, paths []string, args ...string) error {
	if len(paths) == 0 {
		return nil
	}
	cmd := p.git(ctx, append(append([]string{"update-index"}, args...), "-z", "--stdin")...)
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	_, err := output(cmd, "store files", p.files.tree.Folder)
	return err
}

// choose finds the files that differ from the index, and bounds their size.
func (p *photo) choose(ctx context.Context) error {
	args := []string{"-c", "core.excludesFile=" + userExcludes(ctx), "ls-files", "-z", "--modified", "--others", "--exclude-standard"}
	list, err := output(p.git(ctx, args...), "list files", p.files.tree.Folder)
	if err != nil {
		return err
	}
	names := strings.Split(list, "\x00")
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name != "" {
			p.consider(name)
		}
	}
	slices.Sort(p.out.Submodules) // one that moved is in both lists
	p.out.Submodules = slices.Compact(p.out.Submodules)
	if p.out.Bytes > maxSnapshot {
		return fail(ErrTooLarge, "store files", p.files.tree.Folder, fmt.Sprintf("the changed files have %d bytes, at most %d are stored", p.out.Bytes, int64(maxSnapshot)))
	}

	// Files that do not fit must not fill the disk of the hub: git leaves what it began to write.
	free, known := durable.Free(p.copy.bare)
	if known && free < uint64(p.out.Bytes)+spareDisk {
		return fail(ErrTooLarge, "store files", p.files.tree.Folder, fmt.Sprintf("the changed files have %d bytes, and the disk of the hub has %d left", p.out.Bytes, free))
	}
	return nil
}

// consider chooses a path, or names the reason why it is left out.
func (p *photo) consider(name string) {
	info, err := p.files.root.Lstat(strings.TrimSuffix(name, "/"))
	switch {
	case err != nil && missing(err):
		p.chosen = append(p.chosen, name) // deleted
	case err == nil && info.IsDir():
		p.out.Submodules = append(p.out.Submodules, strings.TrimSuffix(name, "/"))
	case err == nil && isLink(info.Mode()):
		p.chosen = append(p.chosen, name)
	case err == nil && info.Mode().IsRegular() && p.readable(name):
		p.chosen = append(p.chosen, name)
		p.out.Bytes += info.Size()
	default:
		p.out.Unreadable = append(p.out.Unreadable, name)
	}
}

func (p *photo) readable(name string) bool {
	file, err := p.files.root.Open(name)
	if err != nil {
		return false
	}
	return file.Close() == nil
}

// store stores the chosen files and makes the commit.
func (p *photo) store(ctx context.Context, base Commit, message string) (Snapshot, error) {
	if err := p.update(ctx, p.chosen, "--add", "--remove", "--replace"); err != nil {
		return Snapshot{}, err
	}
	tree, err := output(p.git(ctx, "write-tree"), "store files", p.files.tree.Folder)
	if err != nil {
		return Snapshot{}, err
	}
	if tree == base.Tree {
		p.out.Clean = true
		p.out.Commit = base
		return p.out, nil
	}

	var parents []string
	not := ""
	if base.ID != "" {
		parents = []string{base.ID}
		not = "--not\n" + base.ID + "\n"
	}
	changes := p.git(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", cmp.Or(base.Tree, p.copy.source.emptyTree()), tree, "--")
	list, err := output(changes, "compare files", p.files.tree.Folder)
	if err != nil {
		return Snapshot{}, err
	}
	p.out.Files = len(parseRaw(list))

	// Staged content is in the user's repository alone until here.
	id, err := p.copy.commitTree(ctx, tree, message, parents, "")
	if err != nil {
		return Snapshot{}, err
	}
	if err := p.copy.take(ctx, id+"\n"+not); err != nil {
		return Snapshot{}, err
	}
	p.out.Commit = Commit{ID: id, Tree: tree}
	return p.out, nil
}

// userExcludes returns the file with the names that the user wants git to ignore everywhere.
func userExcludes(ctx context.Context) string {
	file, err := output(git.In(ctx, program, os.TempDir(), "config", "--global", "--type=path", "--get", "core.excludesFile"), "config", "")
	if err == nil && file != "" {
		return file
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return os.DevNull
	}
	return filepath.Join(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "git", "ignore")
}

// An Applied is the result of bringing a snapshot into a working tree. Waits and Conflicts
// mean that nothing was changed.
type Applied struct {
	Paths      []string   `json:"paths,omitempty"` // that were changed
	Waits      []Waits    `json:"waits,omitempty"`
	Conflicts  []Conflict `json:"conflicts,omitempty"`  // with what was committed since the snapshot
	Submodules []string   `json:"submodules,omitempty"` // paths whose submodule was left as it is
	Kept       []string   `json:"kept,omitempty"`       // as in Forwarded
}

// Apply brings the changes of a snapshot into the working tree around a folder, as changes
// that are not committed. Index and branch stay as they are. If another commit is checked out
// than the base of the snapshot, the changes are merged with it. Nothing of a person is
// overwritten: changed paths are reasons to wait, as for [Copy.Forward].
func (c *Copy) Apply(ctx context.Context, snapshot, folder string) (out Applied, err error) {
	defer typed(&err, "apply a snapshot", folder)
	at, f, err := c.openTree(ctx, folder)
	if err != nil {
		return Applied{}, err
	}
	f.close() // the step opens it again
	unlock, err := at.lock(ctx)
	if err != nil {
		return Applied{}, err
	}
	defer unlock()
	now, err := at.head(ctx)
	if err != nil {
		return Applied{}, err
	}
	to, conflicts, err := at.rebased(ctx, snapshot, now)
	if err != nil || len(conflicts) > 0 {
		return Applied{Conflicts: conflicts}, err
	}
	changes, err := at.changes(ctx, now.Tree, to)
	if err != nil || len(changes) == 0 {
		return Applied{}, err
	}

	s := at.newStep(strings.ToLower(rand.Text()), "", now.Tree, to, []tree{f.tree}, changes)
	if err := s.open(ctx, at); err != nil {
		return Applied{}, err
	}
	defer s.close()
	out.Submodules = submodules(changes)
	if out.Waits, err = s.apply(ctx); err != nil || len(out.Waits) > 0 {
		out.Kept = s.kept
		return out, err
	}
	for _, ch := range changes {
		out.Paths = append(out.Paths, ch.Path)
	}
	out.Kept, err = s.finish()
	return out, err
}

// rebased returns the tree that a snapshot makes of a commit.
func (c *Copy) rebased(ctx context.Context, snapshot string, now Commit) (string, []Conflict, error) {
	taken, err := c.commit(ctx, snapshot)
	if err != nil {
		return "", nil, err
	}
	base, err := c.run(ctx, "rev-parse", "--verify", "--quiet", snapshot+"^1^{tree}")
	if errors.Is(err, ErrGit) {
		base, err = c.emptyTree(ctx)
	}
	if err != nil || base == now.Tree {
		return taken.Tree, nil, err
	}
	ours := now.Tree
	if ours == "" {
		if ours, err = c.emptyTree(ctx); err != nil {
			return "", nil, err
		}
	}
	merged, tree, err := c.mergeFrom(ctx, base, ours, taken.Tree)
	return tree, merged.Conflicts, err
}

// apply moves the files of a step that has no branch.
func (s *step) apply(ctx context.Context) (waits []Waits, err error) {
	for _, w := range s.works {
		w.files.raw = true
	}
	if waits, err = s.plan(ctx, false); err != nil || len(waits) > 0 {
		return waits, err
	}

	if err := s.write(); err != nil {
		return nil, err
	}
	done := false
	defer func() {
		if !done {
			err = errors.Join(err, s.abandon(ctx))
		}
	}()
	for _, w := range s.works {
		err := w.stage(ctx, false)
		if err == nil {
			err = w.move(context.WithoutCancel(ctx))
		}
		if waits := w.waitsFor(err); len(waits) > 0 {
			return waits, nil
		}
		if err != nil {
			return nil, err
		}
	}
	done = true
	return nil, nil
}
