package evidence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// State returns a digest of what lies in a working tree: the commit that is
// checked out, and the content of every file that differs from it and is not
// ignored. Two digests are the same if nothing of that has changed. ok is false
// if the working tree cannot be looked at.
func (in *Inspector) State(ctx context.Context, worktree string) (digest string, ok bool) {
	ctx, end, err := in.begin(ctx)
	if err != nil {
		return "", false
	}
	defer end()
	repo, err := in.openRepository(worktree)
	if err != nil {
		return "", false
	}
	defer repo.close()
	l := &look{in: in, claim: RepositoryClaim{Worktree: worktree}, repo: repo}
	defer l.close()
	if _, err := l.worktree(ctx); err != nil {
		return "", false
	}
	d, work, err := l.difference(ctx)
	if err != nil {
		return "", false
	}
	h := sha256.New()
	fmt.Fprintf(h, "commit %s\n", d.commit)
	slices.Sort(d.all)
	for _, name := range d.all {
		what, err := in.content(ctx, work.tree, name)
		if err != nil {
			return "", false
		}
		fmt.Fprintf(h, "%q %s\n", name, what)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), true
}

// content says in a line what is at a place in a working tree.
func (in *Inspector) content(ctx context.Context, tree *os.Root, name string) (string, error) {
	info, err := tree.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "gone", nil
	case err != nil:
		return "", err
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := tree.Readlink(name)
		return fmt.Sprintf("link %q", to), err
	case !info.Mode().IsRegular():
		return kind(info.Mode()), nil
	}
	f, err := openRegular(tree, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := in.fits("evidence.State", name, f.info.Size()); err != nil {
		return "", err
	}
	h := sha256.New()
	if _, err := io.Copy(h, untilDone{ctx, f}); err != nil {
		return "", err
	}
	return fmt.Sprintf("file %o %x", info.Mode().Perm()&0o100, h.Sum(nil)), nil
}
