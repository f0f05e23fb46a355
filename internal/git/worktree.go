package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	common, err := output(In(ctx, "git", w.Folder, "rev-parse", "--git-common-dir"))
	if err != nil {
		return err
	}
	if !filepath.IsAbs(common) {
		common = filepath.Join(w.Folder, common)
	}
	scratch, err := os.MkdirTemp("", "parley-worktree-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := w.lay(ctx, scratch, own, common); err != nil {
		return err
	}
	cmd := In(ctx, "git", w.Folder,
		"-c", "core.splitIndex=false", "-c", "core.untrackedCache=false", // the index must not refer to files of the scratch
		"read-tree", "--reset", "-u", "--no-recurse-submodules", w.Commit)
	cmd.Env = append(cmd.Env, "GIT_DIR="+scratch, "GIT_WORK_TREE="+w.Folder, "GIT_INDEX_FILE="+filepath.Join(own, "index"), "GIT_OBJECT_DIRECTORY="+filepath.Join(common, "objects"))
	_, err = output(cmd)
	return err
}

// lay makes a repository that has the commit checked out, with the settings and rules of
// the other one that say how its files look.
func (w Worktree) lay(ctx context.Context, scratch, own, common string) error {
	for _, folder := range []string{"objects", "refs", "info"} {
		if err := os.Mkdir(filepath.Join(scratch, folder), 0o700); err != nil {
			return err
		}
	}

	settings, err := output(In(ctx, "git", w.Folder, "config", "--null", "--list"))
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"HEAD":   []byte(w.Commit + "\n"),
		"config": scratchConfig(settings, common),
	}

	// Not every repository has these files.
	for name, from := range map[string]string{"shallow": common, "info/attributes": common, "info/sparse-checkout": own} {
		b, err := os.ReadFile(filepath.Join(from, filepath.FromSlash(name)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil {
			files[name] = b
		}
	}

	for name, b := range files {
		if err := os.WriteFile(filepath.Join(scratch, filepath.FromSlash(name)), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// portable are the settings that the scratch takes from the repository: how its objects are
// named, how lines, links and modes become files, which files are wanted, and where git LFS
// finds content. None names a program. A star stands for the name in the middle.
var portable = []string{
	"core.autocrlf", "core.bigfilethreshold", "core.checkroundtripencoding", "core.eol", "core.filemode", "core.ignorecase", "core.longpaths", "core.precomposeunicode", "core.protecthfs",
	"core.protectntfs", "core.safecrlf", "core.sparsecheckout", "core.sparsecheckoutcone", "core.symlinks",
	"extensions.objectformat",
	"branch.*.remote", "lfs.url", "remote.*.lfsurl", "remote.*.url",
}

// scratchConfig returns the text of a configuration with the portable settings of a list,
// as git writes it with zero bytes. common is the folder of the repository, whose content
// of LFS is used.
func scratchConfig(list, common string) []byte {
	var b strings.Builder
	b.WriteString("[core]\n\trepositoryformatversion = 1\n\tbare = false\n[lfs]\n\tstorage = " + quote(filepath.Join(common, "lfs")) + "\n")
	for _, setting := range strings.Split(list, "\x00") {
		key, value, assigned := strings.Cut(setting, "\n")
		section, name, last := parts(key)
		head, wanted := section, section+"."+last
		if name != "" {
			head, wanted = section+" "+quote(name), section+".*."+last
		}
		if !slices.Contains(portable, wanted) {
			continue
		}
		b.WriteString("[" + head + "]\n\t" + last)
		if assigned {
			b.WriteString(" = " + quote(value))
		}
		b.WriteString("\n")
	}
	return []byte(b.String())
}

// parts cuts the key of a setting: section, the name in the middle, which may be empty and
// may have dots, and the last word.
func parts(key string) (section, name, last string) {
	section, rest, _ := strings.Cut(key, ".")
	if i := strings.LastIndexByte(rest, '.'); i >= 0 {
		return section, rest[:i], rest[i+1:]
	}
	return section, "", rest
}

// quote returns a text as a configuration writes a value or a name.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
