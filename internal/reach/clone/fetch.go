package clone

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-agents/parley/internal/ground/durable"
)

// Refs of a copy. The first hold the commits that callers keep, the second the newest
// fetched ones: their history is not fetched again.
const (
	keptRefs    = "refs/parley/"
	fetchedRefs = "refs/fetched/"
)

// maxInfo bounds the bytes of a small file of a repository.
const maxInfo = 1 << 20

// Fetch resolves a revision in the user's repository and brings the commit with its history
// into the copy. The error is [ErrNoCommit] if the revision names no commit, and
// [ErrIncomplete] if the repository has not all of its objects, such as a partial clone.
func (c *Copy) Fetch(ctx context.Context, revision string) (_ Commit, err error) {
	const op = "fetch"
	defer typed(&err, op, c.source.folder)
	if !isRevision(revision) {
		return Commit{}, fail(ErrNoCommit, op, c.source.folder, revision)
	}
	if err := c.source.checkObjects(); err != nil {
		return Commit{}, err
	}
	id, err := c.source.run(ctx, "rev-parse", "--verify", "--quiet", revision+"^{commit}")
	if errors.Is(err, ErrGit) {
		return Commit{}, fail(ErrNoCommit, op, c.source.folder, revision)
	}
	if err != nil {
		return Commit{}, err
	}

	unlock, err := c.lock(ctx)
	if err != nil {
		return Commit{}, err
	}
	done := make(chan error, 1)
	c.home.tasks.Go(func() {
		defer unlock()
		work, cancel := context.WithTimeout(c.home.work, fetchTime)
		defer cancel()
		done <- contained("fetch", c.source.folder, func() error { return c.bring(work, id) })
	})
	select {
	case err = <-done:
	case <-ctx.Done():
		err = c.busy(ctx)
	}
	if err != nil {
		return Commit{}, err
	}
	return c.commit(ctx, id)
}

// fetchTime bounds the fetch of one commit. It goes on when its caller's time is over, so that the
// next call finds the objects: the first copy of a large repository takes longer than a call may.
const fetchTime = 10 * time.Minute

// isRevision refuses texts that git would not read as one revision.
func isRevision(text string) bool {
	return text != "" && !strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "^") && !strings.ContainsAny(text, "\x00\n")
}

// commit returns a commit of the copy by its id.
func (c *Copy) commit(ctx context.Context, id string) (Commit, error) {
	tree, err := c.run(ctx, "rev-parse", "--verify", "--quiet", id+"^{tree}")
	if err != nil {
		return Commit{}, fail(ErrNoCommit, "read", c.bare, id)
	}
	return Commit{ID: id, Tree: tree}, nil
}

// bring packs a commit of the user's repository, with all that the copy lacks of its
// history, into the copy. The caller has checked the objects there.
func (c *Copy) bring(ctx context.Context, id string) error {
	changed, err := c.takeBoundary(ctx)
	if err != nil {
		return err
	}
	known, err := c.run(ctx, "for-each-ref", "--format=^%(objectname)", fetchedRefs)
	if err != nil {
		return err
	}
	missing := id + "\n" + known + "\n"
	if !changed && c.complete(ctx, missing) {
		return nil
	}
	if err := c.take(ctx, missing); err != nil {
		return err
	}

	if err := c.source.checkObjects(); err != nil {
		return err // it began to borrow objects meanwhile
	}
	if !c.complete(ctx, missing) {
		return fail(ErrIncomplete, "fetch", c.source.folder, id)
	}
	if _, err = c.run(ctx, "update-ref", fetchedRefs+id[:2], id); err != nil {
		return err
	}
	return c.rollUp(ctx)
}

// maxPacks is the number of packs from which on small ones are joined.
const maxPacks = 20

// rollUp joins small packs, so that the copy does not become slower with each fetch. It costs
// time for new objects, not for the whole history, and removes no object.
func (c *Copy) rollUp(ctx context.Context) error {
	packs, err := filepath.Glob(filepath.Join(c.bare, "objects", "pack", "*.pack"))
	if err != nil || len(packs) < maxPacks {
		return err
	}
	_, err = c.run(ctx, "repack", "--quiet", "-d", "--geometric=2")
	return err
}

// unusedTime is the age from which on Compact removes objects that no name keeps, in the words
// of git.
const unusedTime = "2.weeks.ago"

// Compact packs every copy anew and removes old objects that no name keeps. It costs time for
// the whole history, so it is for quiet hours.
func (c *Copies) Compact(ctx context.Context) error {
	folders, err := filepath.Glob(filepath.Join(c.folder, "*"+copySuffix))
	if err != nil {
		return err
	}
	for _, bare := range folders {
		one := &Copy{home: c, bare: bare}
		unlock, err := one.lock(ctx)
		if err != nil {
			return err
		}
		_, err = one.run(ctx, "gc", "--quiet", "--prune="+unusedTime)
		unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// take packs the objects of revisions, as git pack-objects reads them, from the user's
// repository into the copy.
func (c *Copy) take(ctx context.Context, revisions string) error {
	pack := c.alone(ctx, "pack-objects", "--revs", "--thin", "--delta-base-offset", "--stdout", "-q")
	pack.Env = append(pack.Env, c.borrow())
	pack.Stdin = strings.NewReader(revisions)
	return c.pipe(pack, c.alone(ctx, "index-pack", "--stdin", "--fix-thin"))
}

// borrow returns the variable with which git reads the objects of the user's repository, too.
func (c *Copy) borrow() string {
	return "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + alternate(filepath.Join(c.source.common, "objects"))
}

// complete reports whether the copy has all objects of revisions, as git rev-list reads them.
func (c *Copy) complete(ctx context.Context, revisions string) bool {
	cmd := c.alone(ctx, "rev-list", "--quiet", "--objects", "--stdin")
	cmd.Stdin = strings.NewReader(revisions)
	return finish(cmd) == nil
}

// takeBoundary makes the copy end where a shallow repository of the user ends, and reports
// whether that has changed. Then the history that the copy has says nothing about the
// objects it lacks: it is fetched again.
func (c *Copy) takeBoundary(ctx context.Context) (changed bool, err error) {
	theirs, err := os.ReadFile(filepath.Join(c.source.common, "shallow"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fail(ErrUnsafe, "fetch", c.source.folder, err.Error())
	}
	if len(theirs) > maxInfo {
		return false, fail(ErrUnsafe, "fetch", c.source.folder, "the list of a shallow clone is too large")
	}
	file := filepath.Join(c.bare, "shallow")
	ours, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if string(ours) == string(theirs) {
		return false, nil
	}

	refs, err := c.run(ctx, "for-each-ref", "--format=delete %(refname)", fetchedRefs)
	if err != nil {
		return false, err
	}
	forget := c.alone(ctx, "update-ref", "--stdin")
	forget.Stdin = strings.NewReader(refs + "\n")
	if refs != "" {
		if _, err := output(forget, "update-ref", c.bare); err != nil {
			return false, err
		}
	}
	if len(theirs) == 0 {
		return true, os.Remove(file)
	}
	return true, durable.WriteFile(file, theirs, 0o600)
}

// maintenanceLock is the file beside the objects that git's maintenance holds while it runs.
const maintenanceLock = "maintenance.lock"

// checkObjects refuses a store of objects that leads to other folders: git would read their
// objects as those of this repository.
func (s source) checkObjects() error {
	const op = "read objects"
	store := filepath.Join(s.common, "objects")
	for _, name := range []string{"alternates", "http-alternates"} {
		if _, err := os.Lstat(filepath.Join(store, "info", name)); err == nil {
			return fail(ErrUnsafe, op, s.folder, "it borrows objects of another repository (objects/info/"+name+")")
		}
	}

	folders, err := os.ReadDir(store)
	if err != nil {
		return fail(ErrNoRepository, op, s.folder, err.Error())
	}
	for _, folder := range folders {
		isLock := folder.Name() == maintenanceLock && folder.Type().IsRegular()
		if isLock {
			continue
		}
		if !folder.IsDir() {
			return fail(ErrUnsafe, op, s.folder, "objects/"+folder.Name()+" is not a folder")
		}
		files, err := os.ReadDir(filepath.Join(store, folder.Name()))
		if err != nil {
			return fail(ErrNoRepository, op, s.folder, err.Error())
		}
		for _, file := range files {
			if file.Type()&fs.ModeSymlink != 0 {
				return fail(ErrUnsafe, op, s.folder, "objects/"+folder.Name()+"/"+file.Name()+" is a link")
			}
		}
	}
	return nil
}

// alternate returns a folder as one element of a list of folders of objects.
func alternate(folder string) string {
	if strings.ContainsAny(folder, string(filepath.ListSeparator)+"\"\n") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(folder) + `"`
	}
	return folder
}

// Keep protects a commit of the copy by a name, such as "landing/e7"; a name that is there
// moves to the commit.
func (c *Copy) Keep(ctx context.Context, name, id string) error {
	if err := c.checkName(ctx, "keep", name); err != nil {
		return err
	}
	_, err := c.run(ctx, "update-ref", keptRefs+name, id)
	return err
}

// Drop removes a name that Keep gave. A name that is not there is no error.
func (c *Copy) Drop(ctx context.Context, name string) error {
	if err := c.checkName(ctx, "drop", name); err != nil {
		return err
	}
	_, err := c.run(ctx, "update-ref", "-d", keptRefs+name)
	return err
}

// A KeptName is a name that Keep gave, with the folder of the copy.
type KeptName struct{ Folder, Name string }

// Names returns the names in all copies that begin with some folders, such as "rescue".
func (c *Copies) Names(ctx context.Context, under string) (out []KeptName, err error) {
	folders, err := filepath.Glob(filepath.Join(c.folder, "*"+copySuffix))
	if err != nil {
		return nil, err
	}
	for _, bare := range folders {
		one := &Copy{home: c, bare: bare}
		list, err := one.run(ctx, "for-each-ref", "--format=%(refname)", keptRefs+under+"/")
		if err != nil {
			return nil, err
		}
		for _, ref := range strings.Fields(list) {
			out = append(out, KeptName{bare, strings.TrimPrefix(ref, keptRefs)})
		}
	}
	return out, nil
}

// Kept returns the commit that has a name, and [ErrNoCommit] if there is none.
func (c *Copy) Kept(ctx context.Context, name string) (Commit, error) {
	if err := c.checkName(ctx, "read", name); err != nil {
		return Commit{}, err
	}
	id, err := c.run(ctx, "rev-parse", "--verify", "--quiet", keptRefs+name+"^{commit}")
	if errors.Is(err, ErrGit) {
		return Commit{}, fail(ErrNoCommit, "read", c.bare, name)
	}
	if err != nil {
		return Commit{}, err
	}
	return c.commit(ctx, id)
}

func (c *Copy) checkName(ctx context.Context, op, name string) error {
	_, err := c.run(ctx, "check-ref-format", keptRefs+name)
	if errors.Is(err, ErrGit) {
		return fail(ErrName, op, c.bare, name)
	}
	return err
}

// Default returns the default branch of the user's repository: the one that origin has, else main
// or master if there is one of them, else the branch that is checked out in the main working tree.
// It returns "" if there is none of these.
func (c *Copy) Default(ctx context.Context) (string, error) {
	s := c.source.shared()
	const remote = "refs/remotes/origin/"
	name, err := s.run(ctx, "symbolic-ref", "--quiet", remote+"HEAD")
	if err == nil {
		return strings.TrimPrefix(name, remote), nil
	}
	if !errors.Is(err, ErrGit) {
		return "", err
	}
	for _, name := range []string{"main", "master"} {
		if c.source.branch(ctx, name) != "" {
			return name, nil
		}
	}
	name, err = s.run(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if errors.Is(err, ErrGit) { // a detached head
		return "", nil
	}
	return name, err
}

// Head returns the commit at which a branch of the user's repository is now, fetched. The
// error is [ErrNoCommit] if there is no such branch, or no commit on it yet.
func (c *Copy) Head(ctx context.Context, branch string) (Commit, error) {
	return c.Fetch(ctx, "refs/heads/"+branch)
}
