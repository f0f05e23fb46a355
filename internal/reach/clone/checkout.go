package clone

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// removeTime bounds the removal of a working tree after the caller's context has ended.
const removeTime = 30 * time.Second

// Checkout writes the files of a commit of the copy into a folder, which must be empty or
// not exist. The folder is a working tree of the copy: git works in it. No filter converts
// the files.
func (c *Copy) Checkout(ctx context.Context, id, folder string) (err error) {
	defer typed(&err, "check out", folder)
	folder, err = filepath.Abs(folder)
	if err != nil {
		return err
	}
	if _, err := c.commit(ctx, id); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			c.Remove(ctx, folder) // the first error matters
		}
	}()
	if err := c.trees(ctx, "add", "--quiet", "--detach", "--no-checkout", folder, id); err != nil {
		return err
	}
	cmd := c.alone(ctx, "-C", folder, "read-tree", "--reset", "-u", "--no-recurse-submodules", id)
	cmd.Env = withoutGitDir(cmd.Env)
	_, err = output(cmd, "check out", folder)
	return err
}

// withoutGitDir returns an environment in which git finds the repository by the folder.
func withoutGitDir(env []string) (out []string) {
	for _, v := range env {
		if len(v) < 8 || v[:8] != "GIT_DIR=" {
			out = append(out, v)
		}
	}
	return out
}

// Remove removes a folder that Checkout filled, also after the end of ctx.
func (c *Copy) Remove(ctx context.Context, folder string) (err error) {
	defer typed(&err, "remove", folder)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	if err := removeAll(folder); err != nil {
		return err
	}
	return c.trees(ctx, "prune", "--expire=now")
}

// trees changes the list of working trees of the copy. Git would take an entry that another
// process has just begun for one that is broken.
func (c *Copy) trees(ctx context.Context, args ...string) error {
	unlock, err := c.lockOf(ctx, "trees")
	if err != nil {
		return err
	}
	defer unlock()
	_, err = c.run(ctx, append([]string{"worktree"}, args...)...)
	return err
}

// pipe runs two commands, the output of the first as the input of the second.
func (c *Copy) pipe(from, to *exec.Cmd) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	from.Stdout = w
	to.Stdin = r
	read := make(chan error, 1)
	go func() {
		err := contained("store objects", c.bare, func() error { return finish(to) })
		r.Close() // so that the writer does not wait for a reader
		read <- err
	}()

	writeErr := finish(from)
	w.Close()
	readErr := <-read
	if exitCode(writeErr) >= 0 {
		return fail(ErrIncomplete, "pack objects", c.source.folder, writeErr.Error())
	}
	if err := errors.Join(writeErr, readErr); err != nil {
		return failed(err, "store objects", c.bare)
	}
	return nil
}
