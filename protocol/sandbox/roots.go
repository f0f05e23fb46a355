package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxPath is the largest length of a path in bytes.
const maxPath = 4096

// Roots are the folders that an agent may work in. They are safe for concurrent use.
type Roots struct {
	roots []root
}

// A root is one folder, held open: it stays the same folder if another one takes its
// name.
type root struct {
	name string // as given
	real string // without links, as a process in it sees it
	dir  *os.Root
}

// Open opens the folders, whose paths must be absolute. Commands start in the first.
// The caller must close the Roots.
func Open(dirs ...string) (*Roots, error) {
	if len(dirs) == 0 {
		return nil, errorf(CodeInvalid, "open: no folder given; name at least one")
	}
	r := &Roots{}
	for _, dir := range dirs {
		opened, err := openRoot(dir)
		if err != nil {
			r.Close()
			return nil, err
		}
		r.roots = append(r.roots, opened)
	}
	return r, nil
}

func openRoot(dir string) (root, error) {
	if !filepath.IsAbs(dir) {
		return root{}, errorf(CodeInvalid, "open %q: the path of a root must be absolute", dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return root{}, systemError("open", dir, err)
	}
	if info, err := os.Stat(real); err == nil && !info.IsDir() {
		return root{}, errorf(CodeInvalid, "open %s: not a folder", dir)
	}
	opened, err := os.OpenRoot(real)
	if err != nil {
		return root{}, systemError("open", dir, err)
	}
	return root{name: filepath.Clean(dir), real: real, dir: opened}, nil
}

// Close closes the folders. Later uses report CodeClosed.
func (r *Roots) Close() error {
	var errs []error
	for _, root := range r.roots {
		errs = append(errs, root.dir.Close())
	}
	return errors.Join(errs...)
}

// A place is a path below a root.
type place struct {
	path string // as the agent gave it, for messages
	dir  *os.Root
	rel  string // below dir
	real string // absolute, without links as far as it exists
}

// place returns the place of path under its root.
//
// It follows links, so that absolute links and links from one root to another work
// as long as they end under a root. The result may be out of date at once; dir keeps
// every use of rel inside the root.
func (r *Roots) place(verb, path string) (place, error) {
	switch {
	case len(path) > maxPath:
		return place{}, errorf(CodeInvalid, "%s: the path has %d bytes; the limit is %d", verb, len(path), maxPath)
	case !filepath.IsAbs(path):
		return place{}, errorf(CodeInvalid, "%s %q: the path must be absolute", verb, path)
	case strings.ContainsRune(path, 0):
		return place{}, errorf(CodeInvalid, "%s %q: the path contains a zero byte", verb, path)
	}
	clean := filepath.Clean(path)
	if _, _, ok := r.find(clean); !ok {
		return place{}, r.outside(verb, path)
	}
	real := follow(clean)
	in, rel, ok := r.find(real)
	if !ok {
		return place{}, r.outside(verb, path)
	}
	return place{path: path, dir: in.dir, rel: rel, real: filepath.Join(in.real, rel)}, nil
}

// find returns the first root above path, which must be clean, and the rest of the
// path.
func (r *Roots) find(path string) (in root, rel string, ok bool) {
	for _, root := range r.roots {
		for _, name := range []string{root.name, root.real} {
			rel, err := filepath.Rel(name, path)
			if err == nil && filepath.IsLocal(rel) {
				return root, rel, true
			}
		}
	}
	return root{}, "", false
}

// follow returns path without links, as far as it exists.
func follow(path string) string {
	missing := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, missing)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
		missing = filepath.Join(filepath.Base(dir), missing)
	}
}

// outside returns the error for a path that is not under a root. It does not reveal
// whether the file exists.
func (r *Roots) outside(verb, path string) *Error {
	var names []string
	for _, root := range r.roots {
		names = append(names, root.name)
	}
	return errorf(CodeOutside, "%s %s: the path leads outside the sandbox; stay under %s",
		verb, path, strings.Join(names, " or "))
}

// placeError returns the Error for an error of an os.Root, which reports a path that
// leads out of it with an error that is not the operating system's.
func (r *Roots) placeError(verb string, p place, err error) *Error {
	e := systemError(verb, p.path, err)
	var errno syscall.Errno
	if e.Code == CodeFailed && !errors.As(err, &errno) {
		return r.outside(verb, p.path)
	}
	return e
}
