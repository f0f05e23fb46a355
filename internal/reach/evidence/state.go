package evidence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// State returns a digest of a working tree: of the commit that is checked out, and
// of the content of every file that differs from it and is not ignored. Two digests
// are the same if none of that changed. ok is false if the working tree cannot be
// read.
func (in *Inspector) State(ctx context.Context, worktree string) (digest string, ok bool) {
	ctx, end, err := in.begin(ctx)
	if err != nil {
		return "", false
	}
	defer end()
	r, err := RepositoryClaim{Worktree: worktree}.open(in)
	if err != nil {
		return "", false
	}
	defer r.close()
	if _, err := r.worktree(ctx); err != nil {
		return "", false
	}
	d, work, err := r.difference(ctx)
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

// content describes an entry of a working tree in a line.
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
	h := sha256.New()
	if err := in.hash(ctx, "evidence.State", name, f, h); err != nil {
		return "", err
	}
	return fmt.Sprintf("file %o %x", info.Mode().Perm()&0o100, h.Sum(nil)), nil
}
