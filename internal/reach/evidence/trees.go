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
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/ground/text/shell"
)

// maxDigests bounds the files whose digests are remembered.
const maxDigests = 10_000

// Trees reads the files of working trees under roots, to decide which agent may change them. It
// is safe for concurrent use and holds nothing open between calls.
//
// Unlike a check of a claim, it runs git in the repository itself: an answer must take
// milliseconds. It only uses commands of git that convert and compare no content, so that no
// program runs that the repository names; see package git. Files are read and hashed here.
type Trees struct {
	in      *Inspector
	machine string
	folds   func(*os.Root) bool // whether names of a folder differ by more than their case

	mu      sync.Mutex // guards digests
	digests map[digestKey]hashed
}

// NewTrees returns the Trees under the roots of an inspector, on a machine; "" for a hub that
// knows one machine.
func NewTrees(in *Inspector, machine string) *Trees {
	return &Trees{in: in, machine: machine, folds: ignoresCase, digests: map[digestKey]hashed{}}
}

// Tree returns the working tree of an absolute path: the nearest folder around it with a
// repository, or without one the root under which it lies. It reports CodeOutsideRoots for a
// path under no root, CodeNotFound for one that does not exist, and CodeInvalid for one that is
// no folder.
func (t *Trees) Tree(ctx context.Context, path string) (hub.WorkingTree, error) {
	const op = "evidence.Tree"
	if !filepath.IsAbs(path) {
		return hub.WorkingTree{}, hub.Errorf(hub.CodeInvalid, op, "the working tree must be an absolute path, got %s", show(path))
	}
	in, err := t.in.current(ctx)
	if err != nil {
		return hub.WorkingTree{}, err
	}
	root, at, err := in.rootOf(path)
	if err != nil {
		return hub.WorkingTree{}, err
	}

	// The search for a repository ends at the root: nothing above it is read.
	for dir := at; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return hub.WorkingTree{Machine: t.machine, Path: dir, Repository: in.repositoryOf(dir)}, nil
		}
		if dir == root || dir == filepath.Dir(dir) {
			return hub.WorkingTree{Machine: t.machine, Path: root}, nil
		}
	}
}

// rootOf returns the outermost root of a folder, and the folder, both without links. A path may
// lead through links, from a root and into one. One that ends under no root gets the same answer
// whether or not it exists.
func (in *Inspector) rootOf(path string) (root, at string, err error) {
	const op = "evidence.Tree"
	_, err = in.places(path)
	isNamed := err == nil
	if err != nil && hub.CodeOf(err) != hub.CodeDenied {
		return "", "", err
	}
	at, err = filepath.EvalSymlinks(path)
	for _, r := range in.roots {
		_, isInside := under(r.dir, at)
		isOutermost := root == "" || len(r.dir) < len(root)
		if err == nil && isInside && isOutermost {
			root = r.dir
		}
	}

	switch {
	case root == "" && !isNamed:
		return "", "", hub.Errorf(hub.CodeOutsideRoots, op, "%s is under no root, so the hub cannot read it", show(path)).
			WithHint("{root.add} %s", shell.Word(plaintext.Line(path)))
	case err != nil:
		return "", "", explain(path, err)
	case root == "":
		return "", "", hub.Errorf(hub.CodeInvalid, op, "%s leads out of the root above it", show(path))
	}
	info, err := os.Stat(at)
	if err == nil && !info.IsDir() {
		return "", "", hub.Errorf(hub.CodeInvalid, op, "%s is not a folder", show(path))
	}
	return root, at, explain(path, err)
}

// repositoryOf returns the folder of the repository whose working tree is at path; "" if the
// repository does not know that tree or cannot be read, as one under no root.
func (in *Inspector) repositoryOf(path string) string {
	r, err := in.openRepository(path)
	if err != nil {
		return ""
	}
	defer r.close()
	if r.tree == nil || in.mustBeRegistered(r, path) != nil {
		return ""
	}
	return realPath(r.common.Name())
}

// Names returns absolute paths relative to the top of a tree, with slashes. A path through a
// link in the tree is the file to which it leads. It reports CodeInvalid for a path outside of
// the tree, also by a link, and for one in a repository inside of it, such as a submodule.
func (t *Trees) Names(ctx context.Context, tree hub.WorkingTree, paths []string) ([]string, error) {
	top, err := os.OpenRoot(tree.Path)
	if err != nil {
		return nil, explain(tree.Path, err)
	}
	defer top.Close()

	n := &namer{tree: tree, folders: map[string]string{}, nested: map[string]bool{}}
	if t.folds(top) {
		n.listed = map[string][]string{}
	}
	out := make([]string, 0, len(paths))
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		name, err := n.name(p)
		if err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, nil
}

// A namer finds the names of files of one working tree. It looks at each folder once.
type namer struct {
	tree    hub.WorkingTree
	folders map[string]string   // real paths of folders
	nested  map[string]bool     // folders with a repository of their own
	listed  map[string][]string // names in folders; nil if case matters in the tree
}

// name returns the name of one file.
func (n *namer) name(p string) (string, error) {
	const op = "evidence.Names"
	isPath := filepath.IsAbs(p) && len(p) <= maxPath && !strings.ContainsRune(p, 0)
	if !isPath {
		return "", hub.Errorf(hub.CodeInvalid, op, "%s is not an absolute path", show(p))
	}
	real, err := n.resolve(filepath.Clean(p), 0)
	if err != nil {
		return "", hub.Errorf(hub.CodeInvalid, op, "cannot follow the links of %s", show(p))
	}
	rel, isInside := under(n.tree.Path, real)
	if !isInside || rel == "." {
		return "", hub.Errorf(hub.CodeInvalid, op, "%s is not a file of the working tree %s", show(p), show(n.tree.Path)).
			WithHint("give paths inside of the working tree; links may not lead out of it")
	}

	name := n.spelled(filepath.ToSlash(rel))
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if n.isNested(dir) {
			return "", hub.Errorf(hub.CodeInvalid, op, "%s lies in another repository inside of the working tree: %s", show(p), show(dir)).
				WithHint("ask about the working tree of that repository")
		}
	}
	return name, nil
}

// maxLinks is the number of links that a path may lead through.
const maxLinks = 40

// resolve returns a path without links. Its last parts need not exist.
func (n *namer) resolve(p string, links int) (string, error) {
	if links > maxLinks {
		return "", errors.New("too many links")
	}
	dir, base := filepath.Dir(p), filepath.Base(p)
	if dir == p {
		return p, nil
	}
	folder, isKnown := n.folders[dir]
	if !isKnown {
		var err error
		if folder, err = n.resolve(dir, links); err != nil {
			return "", err
		}
		n.folders[dir] = folder
	}

	at := filepath.Join(folder, base)
	info, err := os.Lstat(at)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return at, nil // a file that cannot be read is named as it is
	}
	to, err := os.Readlink(at)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(folder, to)
	}
	return n.resolve(filepath.Clean(to), links+1)
}

// isNested reports whether a folder of the tree has a repository of its own.
func (n *namer) isNested(dir string) bool {
	found, isKnown := n.nested[dir]
	if !isKnown {
		_, err := os.Lstat(filepath.Join(n.tree.Path, filepath.FromSlash(dir), ".git"))
		found = err == nil
		n.nested[dir] = found
	}
	return found
}

// spelled returns a name as the folders list it where case does not matter, so that every
// spelling of one file is one name.
func (n *namer) spelled(name string) string {
	if n.listed == nil {
		return name
	}
	out := ""
	for part := range strings.SplitSeq(name, "/") {
		out = path.Join(out, n.listedAs(out, part))
	}
	return out
}

// listedAs returns the entry of a folder that differs from a name in case alone, else the name.
func (n *namer) listedAs(dir, name string) string {
	names, isKnown := n.listed[dir]
	if !isKnown {
		entries, _ := os.ReadDir(filepath.Join(n.tree.Path, filepath.FromSlash(dir))) // there may be no such folder yet
		for _, e := range entries {
			names = append(names, e.Name())
		}
		n.listed[dir] = names
	}
	found := name
	for _, other := range names {
		if other == name {
			return name
		}
		if strings.EqualFold(other, name) {
			found = other
		}
	}
	return found
}

// ignoresCase reports whether case does not matter in the names of a folder: then the folder of
// git is found under another spelling, too.
func ignoresCase(top *os.Root) bool {
	here, err := top.Lstat(".git")
	if err != nil {
		return false
	}
	there, err := top.Lstat(".GIT")
	return err == nil && os.SameFile(here, there)
}

// Files returns files of a tree. One that does not exist or cannot be read has no digest. In a
// repository git is run once, however many files there are.
func (t *Trees) Files(ctx context.Context, tree hub.WorkingTree, names []string) (map[string]hub.TreeFile, error) {
	out := map[string]hub.TreeFile{}
	if len(names) == 0 {
		return out, nil
	}
	top, err := os.OpenRoot(tree.Path)
	if err != nil {
		return nil, explain(tree.Path, err)
	}
	defer top.Close()

	known := map[string]gitFile{}
	if tree.Repository != "" {
		if known, err = t.gitFiles(ctx, tree, names); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		g := known[name]
		h := t.read(ctx, tree, top, name, g)
		f := hub.TreeFile{Digest: h.digest, Tracked: g.isKnown(), Head: g.head}
		if tree.Repository != "" {
			f.Clean = isClean(top, name, g, h)
			f.Object = h.id
		}
		out[name] = f
	}
	return out, nil
}

// isClean reports whether a file is as the checked-out commit has it. Line endings may differ. A
// file that a filter of git converts never is.
func isClean(top *os.Root, name string, g gitFile, h hashed) bool {
	if h.digest == "" || g.head == "" {
		return h.digest == "" && !g.isKnown()
	}
	if h.id == g.head {
		return true
	}
	same, err := sameLines(top, name, g.head)
	return err == nil && same
}

// A digestKey names a file by its tree and name, and the digits of its object.
type digestKey struct {
	tree, name string
	format     int
}

// A hashed is the content of a file: its SHA-256 and its name as an object of git.
type hashed struct {
	digest string // empty if there is no file
	id     string
	stamp  stamp
	quiet  bool // the stamp proves later that the file did not change
}

// read hashes a file. One whose times and size show that it has not changed is not read again.
func (t *Trees) read(ctx context.Context, tree hub.WorkingTree, top *os.Root, name string, g gitFile) hashed {
	f, err := openRegular(top, filepath.FromSlash(name))
	if err != nil {
		return hashed{}
	}
	defer f.Close()
	key := digestKey{tree.Path, name, max(len(g.head), sha1Digits)}
	now := newStamp(f.info)
	t.mu.Lock()
	was, isKnown := t.digests[key]
	t.mu.Unlock()
	if isKnown && was.quiet && was.stamp == now {
		return was
	}

	h := hashed{stamp: now, quiet: isQuiet(now)}
	if h.digest, h.id, err = digest(ctx, t.in, f, key.format); err != nil {
		return hashed{digest: stampDigest(now)}
	}
	t.mu.Lock()
	if len(t.digests) >= maxDigests {
		clear(t.digests)
	}
	t.digests[key] = h
	t.mu.Unlock()
	return h
}

// digest returns the SHA-256 of a file and its name as an object of git, read once.
func digest(ctx context.Context, in *Inspector, f *regular, format int) (sum, id string, err error) {
	content := sha256.New()
	object := objectHash(format, "blob", f.info.Size())
	if err := in.fits("evidence.Files", f.Name(), f.info.Size()); err != nil {
		return "", "", err
	}
	n, err := io.Copy(io.MultiWriter(content, object), contextReader{ctx, f})
	if err != nil {
		return "", "", err
	}
	sum = hex.EncodeToString(content.Sum(nil))
	if n == f.info.Size() {
		id = hex.EncodeToString(object.Sum(nil))
	}
	return sum, id, nil
}

// stampDigest stands for the content of a file that is too large to be read: it changes with the
// file.
func stampDigest(s stamp) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", s.size, s.modified, s.changed))
	return hex.EncodeToString(sum[:])
}
