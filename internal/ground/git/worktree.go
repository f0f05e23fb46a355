package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ErrExists is the error about a branch or a folder that is there already.
var ErrExists = errors.New("already exists")

// removeTime bounds the removal of a worktree that could not be made.
const removeTime = 30 * time.Second

// A Worktree is a working tree of a repository beside the user's own.
type Worktree struct {
	Repository string // a folder of the repository that it was made of
	Folder     string
	Branch     string
	Commit     string // at which the branch begins
}

// Prefix returns the name of a folder relative to the top of the repository around it, with
// slashes.
func Prefix(ctx context.Context, dir string) (string, error) {
	return output(In(ctx, "git", dir, "rev-parse", "--show-prefix"))
}

// AddWorktree makes a worktree of the repository around dir in a new folder, on a new
// branch that begins at the commit that is checked out. If it fails, neither branch nor
// folder is left.
//
// The repository's configuration is not read when the files are written: that is done
// through a repository of our own, which borrows the objects. Its configuration has the
// settings that portable lists, and git reads the system's and the user's beside it. So the
// filters that the user has defined convert files, those of the repository do not, and a
// filter that the user has not defined leaves the content as it is stored.
func AddWorktree(ctx context.Context, dir, folder, branch string) (w Worktree, err error) {
	w = Worktree{Repository: dir, Folder: folder, Branch: branch}
	if w.Commit, err = output(In(ctx, "git", dir, "rev-parse", "--verify", "HEAD^{commit}")); err != nil {
		return w, err
	}
	if _, err := output(In(ctx, "git", dir, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch)); err == nil {
		return w, fmt.Errorf("branch %s %w", branch, ErrExists)
	}
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		return w, fmt.Errorf("folder %s %w", folder, ErrExists)
	}
	defer func() {
		if err != nil {
			w.Remove(ctx)
		}
	}()
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return w, err
	}
	if _, err := output(In(ctx, "git", dir, "worktree", "add", "--quiet", "--no-checkout", "--no-track", "-b", branch, folder, w.Commit)); err != nil {
		return w, err
	}
	if err := w.fill(ctx); err != nil {
		return w, err
	}
	return w, ctx.Err() // a caller that is gone would not remove it
}

// Remove removes a worktree, and its branch if no commit was added to it. It works after
// the end of ctx, too.
func (w Worktree) Remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	output(In(ctx, "git", w.Repository, "worktree", "remove", "--force", "--force", w.Folder)) // fails for one that git did not register
	os.RemoveAll(w.Folder)
	output(In(ctx, "git", w.Repository, "update-ref", "-d", "refs/heads/"+w.Branch, w.Commit)) // fails for one that was not made, or has moved on
}

// fill writes the files of the commit into the folder, and the index of the worktree.
func (w Worktree) fill(ctx context.Context) error {
	own, err := output(In(ctx, "git", w.Folder, "rev-parse", "--absolute-git-dir"))
	if err != nil {
		return err
	}
	common, err := Common(ctx, w.Folder)
	if err != nil {
		return err
	}
	s, err := NewScratch(ctx, "", w.Folder, own, common)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := os.WriteFile(filepath.Join(s.folder, "HEAD"), []byte(w.Commit+"\n"), 0o600); err != nil {
		return err
	}
	cmd := s.Command(ctx, "git", w.Folder, filepath.Join(own, "index"), "read-tree", "--reset", "-u", "--no-recurse-submodules", w.Commit)
	_, err = output(cmd)
	return err
}
