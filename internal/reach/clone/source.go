package clone

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The names of the formats of objects, as git spells them.
const (
	formatSHA1   = "sha1"
	formatSHA256 = "sha256"
)

// A source is a repository of a user. All paths are absolute and without links.
type source struct {
	folder string // in which git is run
	top    string // of the working tree around the folder; "" in a bare repository
	gitDir string // the tree's own folder of git
	common string // the folder that all trees share
	format string // of objects
}

// locate finds the repository around a folder as git does, and refuses one in which .git
// leads to a folder that does not lead back: a link, or a file that names the repository of
// somebody else.
func locate(ctx context.Context, folder string) (source, error) {
	const op = "find the repository"
	real, err := filepath.Abs(folder)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return source{}, fail(ErrNoRepository, op, folder, err.Error())
	}
	s := source{folder: real}
	if err := s.search(ctx); err != nil {
		return source{}, err
	}

	// Git must have found the same one: it refuses folders of other users, among others.
	said, err := s.run(ctx, "rev-parse", "--absolute-git-dir", "--show-object-format")
	if err != nil {
		var e *Error
		if errors.As(err, &e) && e.Kind == ErrGit {
			return source{}, fail(ErrNoRepository, op, folder, e.Detail)
		}
		return source{}, err
	}
	dir, format, _ := strings.Cut(said, "\n")
	if dir, err = filepath.EvalSymlinks(filepath.FromSlash(dir)); err != nil || dir != s.gitDir {
		return source{}, fail(ErrUnsafe, op, folder, "git uses "+dir)
	}
	s.format = format
	return s, nil
}

// search sets the folders of the nearest repository upwards.
func (s *source) search(ctx context.Context) error {
	const op = "find the repository"
	for dir := s.folder; ; dir = filepath.Dir(dir) {
		at := filepath.Join(dir, ".git")
		info, err := os.Lstat(at)
		switch {
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			return fail(ErrUnsafe, op, s.folder, at+" is a link")
		case err == nil && info.IsDir():
			s.top = dir
			s.gitDir, s.common = at, at
			if _, err := os.Lstat(filepath.Join(at, "commondir")); err == nil {
				return fail(ErrUnsafe, op, s.folder, at+" uses the objects and refs of another folder")
			}
			return s.plain()
		case err == nil && info.Mode().IsRegular():
			s.top = dir
			return s.follow(ctx, at)
		case isBare(dir):
			s.gitDir, s.common = dir, dir
			if filepath.Base(dir) == ".git" {
				s.top = filepath.Dir(dir)
			}
			return s.plain()
		}

		if dir == filepath.Dir(dir) {
			return fail(ErrNoRepository, op, s.folder, "")
		}
	}
}

// isBare reports whether a folder itself is a repository.
func isBare(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// follow sets the folders for a .git that is a file. The folder that it names must know this
// tree: a linked one is registered in the repository, and the repository of a submodule, or
// one that was made apart from its files, names the tree in its configuration.
func (s *source) follow(ctx context.Context, file string) error {
	const op = "find the repository"
	to, ok := strings.CutPrefix(strings.TrimSpace(readText(file)), "gitdir: ")
	if !ok {
		return fail(ErrNoRepository, op, s.folder, file+" names no folder")
	}
	dir, err := realFrom(s.top, to)
	if err != nil {
		return fail(ErrNoRepository, op, s.folder, err.Error())
	}
	s.gitDir, s.common = dir, dir

	shared := strings.TrimSpace(readText(filepath.Join(dir, "commondir")))
	if shared == "" {
		settings, err := s.settings(ctx)
		tree := ""
		if err == nil {
			tree, err = realFrom(dir, settings["core.worktree"])
		}
		if err != nil || tree != s.top {
			return fail(ErrUnsafe, op, s.folder, dir+" is the repository of another folder")
		}
		return s.plain()
	}

	common, err := realFrom(dir, shared)
	if err != nil {
		return fail(ErrNoRepository, op, s.folder, err.Error())
	}
	back, err := realFrom(dir, strings.TrimSpace(readText(filepath.Join(dir, "gitdir"))))
	if err != nil || filepath.Dir(dir) != filepath.Join(common, "worktrees") || back != file {
		return fail(ErrUnsafe, op, s.folder, dir+" is not the folder of this working tree")
	}
	s.common = common
	return s.plain()
}

// plain refuses a repository whose main parts are links.
func (s *source) plain() error {
	for _, name := range []string{"HEAD", "config", "objects", "refs", "packed-refs"} {
		info, err := os.Lstat(filepath.Join(s.common, name))
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fail(ErrUnsafe, "find the repository", s.folder, filepath.Join(s.common, name)+" is a link")
		}
	}
	return nil
}

// realFrom returns the path without links of a name that may be relative to a folder.
func realFrom(dir, name string) (string, error) {
	name = filepath.FromSlash(name)
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return filepath.EvalSymlinks(name)
}
