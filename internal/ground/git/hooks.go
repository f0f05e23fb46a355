package git

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Top returns the absolute path of the working tree around dir, without links.
func Top(ctx context.Context, dir string) (string, error) {
	top, err := output(In(ctx, "git", dir, "rev-parse", "--show-toplevel"))
	return filepath.FromSlash(top), err
}

// Common returns the absolute path of the folder of the repository around dir, which its linked
// working trees share.
func Common(ctx context.Context, dir string) (string, error) {
	folder, err := output(In(ctx, "git", dir, "rev-parse", "--git-common-dir"))
	if err != nil {
		return "", err
	}
	folder = filepath.FromSlash(folder)
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(dir, folder)
	}
	return folder, nil
}

// HooksFolder returns the absolute path of the folder from which git runs hooks in a working
// tree, given by its top. It need not exist. Linked working trees share the folder of their
// repository, and core.hooksPath names another one.
func HooksFolder(ctx context.Context, top string) (string, error) {
	cmd := In(ctx, "git", top, "rev-parse", "--git-path", "hooks")

	// The command runs no hook, and must not hide where they are.
	if i := slices.Index(cmd.Args, "core.hooksPath="+os.DevNull); i > 0 {
		cmd.Args = slices.Delete(cmd.Args, i-1, i+1)
	}
	folder, err := output(cmd)
	if err != nil {
		return "", err
	}
	folder = filepath.FromSlash(folder)
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(top, folder)
	}
	return folder, nil
}

// IsTracked reports whether git knows a file of the working tree around dir.
func IsTracked(ctx context.Context, dir, file string) bool {
	_, err := output(In(ctx, "git", dir, "ls-files", "--error-unmatch", "--", file))
	return err == nil
}

// ofHooks are the variables in which git tells its hooks the repository and the index.
var ofHooks = []string{"GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"}

// inHook returns a command for a hook of git, which works on the repository and the index of
// the git command that runs the hook.
func inHook(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := In(ctx, "git", dir, args...)
	for _, name := range ofHooks {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd
}

// Staged returns the files that the commit under way changes, relative to the top of the
// working tree, with slashes. It is for a hook of git, which runs in dir. A file of a merge is
// changed if it differs from all parents: the others are merely carried.
func Staged(ctx context.Context, dir string) ([]string, error) {
	parents, err := parents(ctx, dir)
	if err != nil {
		return nil, err
	}
	if len(parents) == 0 {
		all, err := output(inHook(ctx, dir, "ls-files", "-z", "--full-name"))
		return names(all), err
	}

	var changed []string
	for i, parent := range parents {
		list, err := output(inHook(ctx, dir, "diff-index", "--cached", "--name-only", "--no-renames", "-z", parent, "--"))
		if err != nil {
			return nil, err
		}
		differ := names(list)
		if i == 0 {
			changed = differ
			continue
		}
		changed = slices.DeleteFunc(changed, func(name string) bool { return !slices.Contains(differ, name) })
	}
	return changed, nil
}

// parents returns the parents of the commit under way: the checked-out commit, unless there is
// none yet, and those that are merged into it.
func parents(ctx context.Context, dir string) ([]string, error) {
	head, err := output(inHook(ctx, dir, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"))
	if err != nil {
		return nil, nil // there is no commit yet
	}
	out := []string{head}

	file, err := output(inHook(ctx, dir, "rev-parse", "--git-path", "MERGE_HEAD"))
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return out, nil // no merge is under way
	}
	return append(out, strings.Fields(string(raw))...), nil
}

// names splits a list of names that end in zero bytes.
func names(list string) []string {
	return slices.DeleteFunc(strings.Split(list, "\x00"), func(name string) bool { return name == "" })
}
