package evidence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/git"
)

// Limits of the data from a repository and from git.
const (
	maxObjects = 2_000_000 // files in the object store
	maxInfo    = 1 << 20   // bytes of one file with rules or boundaries
	maxOutput  = 256 << 20 // bytes that git writes in one run
	killDelay  = 5 * time.Second
)

// Digits of an object's name.
const (
	sha1Digits   = 40
	sha256Digits = 64
)

// A scratch is an empty repository in a folder of our own, in which git is run.
// Its object store has links to the folders with objects of the repository that is
// checked. Nothing else of that repository is there, so nothing else can influence
// git.
type scratch struct {
	git     string
	dir     string   // git's home, with the repository and a working tree in it
	tree    *os.Root // the working tree; holds rule files only
	objects *os.File // the object store that is checked; git gets it as an open folder; nil if there is none
	partial bool     // some objects were left on a server
	lenders []string // folders of objects of other repositories of our own that git reads, too
}

// newScratch returns a scratch for the objects of r, whose store it checks first. The
// caller closes it.
func (in *Inspector) newScratch(ctx context.Context, r *repository) (*scratch, error) {
	if in.git == "" {
		return nil, hub.Errorf(hub.CodeNotEnabled, "evidence.Repository", "git is not installed where the hub runs")
	}
	files, err := r.rules()
	if err != nil {
		return nil, err
	}
	s, err := in.emptyScratch(r.format(), files)
	if err != nil {
		return nil, err
	}
	if err := s.borrow(ctx, r); err != nil {
		s.close()
		return nil, in.late(ctx, err)
	}
	return s, nil
}

// scratchName begins the names of the folders. One that is older than staleScratch
// is not in use.
const (
	scratchName  = "parley-evidence-"
	staleScratch = 24 * time.Hour
)

// sweep removes the scratch folders of killed processes. One that cannot be removed,
// such as another user's, stays.
func sweep() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchName+"*")) // the pattern is valid
	for _, dir := range left {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && time.Since(info.ModTime()) > staleScratch {
			os.RemoveAll(dir)
		}
	}
}

// emptyScratch returns a scratch without objects, with the given files in its
// repository. format is the number of digits of an object's name.
func (in *Inspector) emptyScratch(format int, files map[string][]byte) (*scratch, error) {
	dir, err := os.MkdirTemp("", scratchName+"*")
	if err != nil {
		return nil, fmt.Errorf("evidence: make a scratch folder: %w", err)
	}
	s := &scratch{git: in.git, dir: dir}
	if err := s.lay(format, files); err != nil {
		s.close()
		return nil, fmt.Errorf("evidence: make a scratch repository: %w", err)
	}
	return s, nil
}

func (s *scratch) close() {
	if s.tree != nil {
		s.tree.Close()
	}
	if s.objects != nil {
		s.objects.Close()
	}
	os.RemoveAll(s.dir)
}

func (s *scratch) gitDir() string { return filepath.Join(s.dir, "repository") }

// rules returns the files of a repository that limit its history and say which names
// are ignored or converted.
func (r *repository) rules() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range []string{"shallow", "info/exclude", "info/attributes"} {
		b, err := readSmall(r.common, name, maxInfo)
		switch {
		case err == nil:
			files[name] = b
		case !absent(err):
			return nil, explain(name, err)
		}
	}
	return files, nil
}

// lay makes the repository and an empty working tree.
func (s *scratch) lay(format int, files map[string][]byte) error {
	for _, folder := range []string{"repository/objects/info", "repository/refs", "repository/info"} {
		if err := os.MkdirAll(filepath.Join(s.dir, folder), 0o700); err != nil {
			return err
		}
	}
	config := "[core]\nrepositoryformatversion = 1\nbare = false\n"
	if format == sha256Digits {
		config += "[extensions]\nobjectFormat = sha256\n"
	}
	files["HEAD"], files["config"] = []byte("ref: refs/heads/none\n"), []byte(config)
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(s.gitDir(), name), b, 0o600); err != nil {
			return err
		}
	}
	return s.newTree()
}

// newTree replaces the working tree of the scratch by an empty one.
func (s *scratch) newTree() (err error) {
	if s.tree != nil {
		s.tree.Close()
		s.tree = nil
	}
	at := filepath.Join(s.dir, "tree")
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	s.tree, err = os.OpenRoot(at)
	return err
}

// borrow links to the folders of objects of r, after it checked that they hold only
// regular files: a link there could lead out of the roots.
func (s *scratch) borrow(ctx context.Context, r *repository) error {
	const op = "evidence.Repository"
	store, err := r.common.OpenRoot("objects")
	if err != nil {
		return explain("objects", err)
	}
	defer store.Close()
	if _, err := store.Lstat("info/alternates"); err == nil {
		return hub.Errorf(hub.CodeNotEnabled, op, "the repository borrows objects from another one (objects/info/alternates), which is not checked")
	}

	if s.objects, err = store.Open("."); err != nil {
		return explain("objects", err)
	}
	from := s.objects.Name()
	if runtime.GOOS == "linux" {
		from = "/proc/self/fd/3" // inherited by git; replacing the folder meanwhile has no effect
	}

	// Only packs and folders of loose objects are linked.
	count := 0
	for e, err := range entries(ctx, store, ".") {
		if err != nil {
			return explain("objects", err)
		}
		name := e.Name()
		if name != "pack" && (len(name) != 2 || !lowerHex(name)) {
			continue
		}
		if !e.IsDir() {
			return strayObject(name)
		}
		for inner, err := range entries(ctx, store, name) {
			if err != nil {
				return explain("objects", err)
			}
			if count++; count > maxObjects {
				return hub.Errorf(hub.CodeTooLarge, op, "the repository has more than %d object files", maxObjects)
			}
			if !inner.Type().IsRegular() {
				return strayObject(name)
			}
			s.partial = s.partial || strings.HasSuffix(inner.Name(), ".promisor")
		}

		if err := os.Symlink(filepath.Join(from, name), filepath.Join(s.gitDir(), "objects", name)); err != nil {
			return err
		}
	}
	return nil
}

func strayObject(name string) error {
	return hub.Errorf(hub.CodeNotEnabled, "evidence.Repository",
		"the repository's object store has something other than a file in %s, and is not checked", show("objects/"+name))
}

// entries lists a folder in batches.
func entries(ctx context.Context, r *os.Root, name string) func(yield func(fs.DirEntry, error) bool) {
	return func(yield func(fs.DirEntry, error) bool) {
		f, err := r.OpenFile(name, os.O_RDONLY|openFlags, 0)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		for {
			batch, err := f.ReadDir(1024)
			if err == nil {
				err = ctx.Err()
			}
			for _, e := range batch {
				if !yield(e, nil) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// An exitError is git's own refusal.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("git exited with code %d", e.code) }

// run runs git with fixed arguments and the given input, and returns its output. Beyond
// limit bytes it ends git and returns those with CodeTooLarge. Messages of git about
// failures are dropped: they name paths.
func (s *scratch) run(ctx context.Context, limit int64, input string, args ...string) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	cmd := git.Alone(ctx, s.git, filepath.Join(s.dir, "tree"), args...)
	cmd.Env = append(cmd.Env, "HOME="+s.dir, "GIT_DIR="+s.gitDir(), "GIT_WORK_TREE="+cmd.Dir, "GIT_ALLOC_LIMIT=512m")
	if len(s.lenders) > 0 {
		cmd.Env = append(cmd.Env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+strings.Join(s.lenders, string(filepath.ListSeparator)))
	}
	cmd.Stdin = strings.NewReader(input)
	if s.objects != nil && runtime.GOOS == "linux" {
		cmd.ExtraFiles = []*os.File{s.objects} // number 3, see borrow
	}

	leash(cmd)
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", fmt.Errorf("evidence: run git: %w", err)
	}

	var out strings.Builder
	n, _ := io.Copy(&out, io.LimitReader(pipe, limit+1)) // the end of git shows whether it is complete
	if n > limit {
		cancel() // git must not wait for a reader
	}

	// Beyond the limit git was killed here, so its exit code says nothing.
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case n > limit:
		return out.String()[:limit], hub.Errorf(hub.CodeTooLarge, "evidence.Repository", "the output of git %s is larger than %d bytes", args[0], limit)
	case errors.As(err, &exit):
		return out.String(), &exitError{exit.ExitCode()}
	case err != nil:
		return "", fmt.Errorf("evidence: run git: %w", err)
	}
	return out.String(), nil
}

// list runs git as run does, and returns the texts of its output that end with a zero
// byte.
func (s *scratch) list(ctx context.Context, input string, args ...string) ([]string, error) {
	out, err := s.run(ctx, maxOutput, input, args...)
	if out == "" || err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), nil
}
