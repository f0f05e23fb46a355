package evidence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// A repository is an open repository: the folders git would use, found and read
// without git.
type repository struct {
	dir    *os.Root // HEAD and the other files of one working tree
	common *os.Root // objects and refs, shared by all working trees
	tree   *os.Root // the files; nil in a bare repository

	dirAt, treeAt string // absolute paths
	linked        bool   // the working tree was added with git worktree
}

func (r *repository) close() {
	for _, folder := range []*os.Root{r.dir, r.common, r.tree} {
		if folder != nil {
			folder.Close()
		}
	}
}

// openRepository opens the repository whose working tree, or bare folder, is at
// path.
func (in *Inspector) openRepository(path string) (*repository, error) {
	r := &repository{}
	if err := in.fill(r, path); err != nil {
		r.close()
		return nil, explain(path, err)
	}
	return r, nil
}

func (in *Inspector) fill(r *repository, path string) (err error) {
	const op = "evidence.Repository"
	var also int
	if r.tree, r.treeAt, also, err = find(in, path, openFolder); err != nil {
		return err
	}
	if also > 0 {
		return hub.Errorf(hub.CodeConflict, op, "%s exists under several roots", show(path)).WithHint("give an absolute path")
	}
	if err := in.openDir(r, path); err != nil {
		return err
	}
	if err := in.openCommon(r); err != nil {
		return err
	}
	head, headErr := r.dir.Stat("HEAD")
	objects, err := r.common.Stat("objects")
	isRepository := headErr == nil && err == nil && head.Mode().IsRegular() && objects.IsDir()
	if !isRepository {
		return hub.Errorf(hub.CodeNotFound, op, "%s is not a git repository, or not its top folder", show(path))
	}
	if _, err := r.common.Lstat("reftable"); err == nil {
		return hub.Errorf(hub.CodeNotEnabled, op, "%s keeps its branches in a reftable, which is not supported", show(path))
	}
	return in.mayTrust(r, path)
}

// openDir finds the repository's own folder: .git, where a file .git points, or
// the folder itself if it is bare.
func (in *Inspector) openDir(r *repository, path string) error {
	const pointer = "gitdir: "
	info, err := r.tree.Stat(".git")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.dir, r.dirAt = r.tree, r.treeAt
		r.tree, r.treeAt = nil, ""
		return nil
	case err != nil:
		return err
	case info.IsDir():
		r.dirAt = filepath.Join(r.treeAt, ".git")
		r.dir, err = r.tree.OpenRoot(".git")
		return err
	}
	b, err := readSmall(r.tree, ".git", maxPath)
	if err != nil {
		return err
	}
	to, ok := strings.CutPrefix(string(b), pointer)
	if !ok {
		return hub.Errorf(hub.CodeNotFound, "evidence.Repository", "%s is not a git repository: its .git file does not name a folder", show(path))
	}
	r.dir, r.dirAt, err = in.follow(r.treeAt, to)
	return err
}

// openCommon finds the folder that all working trees share.
func (in *Inspector) openCommon(r *repository) error {
	b, err := readSmall(r.dir, "commondir", maxPath)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.common, err = r.dir.OpenRoot(".")
		return err
	case err != nil:
		return err
	}
	r.linked = true
	r.common, _, err = in.follow(r.dirAt, string(b))
	return err
}

// follow opens the folder that a file of git's names, seen from the folder from.
func (in *Inspector) follow(from, to string) (*os.Root, string, error) {
	to = strings.TrimRight(to, "\r\n")
	if !filepath.IsAbs(to) {
		to = filepath.Join(from, to)
	}
	folder, at, _, err := find(in, to, openFolder)
	return folder, at, err
}

// sha256Format matches the configuration of a repository whose objects have SHA-256
// names.
var sha256Format = pattern.New(`(?im)^\s*objectformat\s*=\s*"?sha256`)

// format returns the number of digits of an object's name.
func (r *repository) format() int {
	if b, err := readSmall(r.common, "config", maxInfo); err == nil && sha256Format().Match(b) {
		return sha256Digits
	}
	return sha1Digits
}

// mayTrust refuses the repository of another user, as git does.
func (in *Inspector) mayTrust(r *repository, path string) error {
	for _, folder := range []*os.Root{r.dir, r.common} {
		info, err := folder.Stat(".")
		if err != nil {
			return err
		}
		if foreign(info) && !in.otherOwners {
			return hub.Errorf(hub.CodeNotEnabled, "evidence.Repository", "%s belongs to another user of this machine", show(path))
		}
	}
	return nil
}

// mustBeRegistered refuses a folder that is not a working tree of its repository: a
// folder can say that it belongs to a repository, but only the repository can agree.
func (in *Inspector) mustBeRegistered(r *repository, path string) error {
	ok, err := in.registered(r)
	if err == nil && !ok {
		err = hub.Errorf(hub.CodeConflict, "evidence.Repository", "%s is not a working tree of the repository", show(path))
	}
	return explain(path, err)
}

func (in *Inspector) registered(r *repository) (bool, error) {
	if !r.linked {
		// A folder .git belongs to the working tree around it, even if another
		// folder points at it.
		elsewhere := filepath.Base(r.dirAt) == ".git" && filepath.Dir(r.dirAt) != r.treeAt
		return r.tree != nil && !elsewhere, nil
	}
	entry := filepath.Join("worktrees", filepath.Base(r.dirAt))
	switch ok, err := same(r.common, entry, r.dir, "."); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case !ok || err != nil:
		return false, err
	}
	b, err := readSmall(r.dir, "gitdir", maxPath)
	if err != nil {
		return false, err
	}
	tree, _, err := in.follow(r.dirAt, filepath.Dir(strings.TrimRight(string(b), "\r\n")))
	if err != nil {
		return false, err
	}
	defer tree.Close()
	return same(tree, ".", r.tree, ".")
}

// same reports whether two names are of one file.
func same(a *os.Root, aName string, b *os.Root, bName string) (bool, error) {
	ai, err := a.Stat(aName)
	if err != nil {
		return false, err
	}
	bi, err := b.Stat(bName)
	if err != nil {
		return false, err
	}
	return os.SameFile(ai, bi), nil
}
