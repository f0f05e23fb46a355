package evidence

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/parley-agents/parley/hub"
)

// maxPath is how many bytes a path may have.
const maxPath = 4096

// A place is a possible place of a path: a root, and the path relative to it.
type place struct {
	root root
	rel  string
}

// places returns the possible places of a path. A relative path may be under every
// root. Paths are not cleaned: the meaning of ".." depends on links, and is left to
// os.Root, which never leaves the root.
func (in *Inspector) places(path string) ([]place, error) {
	const op = "evidence.Inspector"
	switch {
	case path == "":
		return nil, hub.Errorf(hub.CodeInvalid, op, "the path is empty")
	case len(path) > maxPath || strings.ContainsRune(path, 0):
		return nil, hub.Errorf(hub.CodeInvalid, op, "%s is not a path", show(path))
	case strings.Contains(path, "://"):
		return nil, hub.Errorf(hub.CodeNotEnabled, op, "%s is an address, not a path: nothing is fetched", show(path))
	}
	var found []place
	for _, r := range in.roots {
		if !filepath.IsAbs(path) {
			found = append(found, place{r, path})
			continue
		}
		for _, name := range r.names {
			if rel, ok := under(name, path); ok {
				found = append(found, place{r, rel})
				break
			}
		}
	}
	if len(found) == 0 {
		return nil, outside(path)
	}
	return found, nil
}

// under returns path relative to dir.
func under(dir, path string) (rel string, ok bool) {
	rest, ok := strings.CutPrefix(path, dir)
	if !ok {
		return "", false
	}
	switch trimmed := strings.TrimLeft(rest, string(filepath.Separator)); {
	case trimmed == "":
		return ".", true
	case len(trimmed) < len(rest) || os.IsPathSeparator(dir[len(dir)-1]):
		return trimmed, true
	}
	return "", false
}

// outside is the one answer for every path that is not under a root.
func outside(path string) error {
	return hub.Errorf(hub.CodeDenied, "evidence.Inspector", "%s is not under a root", show(path)).
		WithHint("the operator adds one with: parley hub folder add DIR")
}

// find opens path under the first root that has it. also counts the further
// roots under which a relative path names something, too.
func find[T io.Closer](in *Inspector, path string, open func(r *os.Root, rel string) (T, error)) (found T, at string, also int, err error) {
	places, err := in.places(path)
	if err != nil {
		return found, "", 0, err
	}
	var refusal error
	for _, p := range places {
		opened, err := openIn(p, open)
		switch err = explain(path, err); {
		case err == nil && at == "":
			found, at = opened, filepath.Join(p.root.dir, p.rel)
		case err == nil:
			opened.Close()
			also++
		case refusal == nil || hub.CodeOf(refusal) == hub.CodeNotFound:
			refusal = err
		}
	}
	if at == "" {
		return found, "", 0, refusal
	}
	if filepath.IsAbs(path) {
		also = 0 // one root inside another: the same thing
	}
	return found, at, also, nil
}

func openIn[T io.Closer](p place, open func(r *os.Root, rel string) (T, error)) (opened T, err error) {
	r, err := os.OpenRoot(p.root.dir)
	if err != nil {
		return opened, err
	}
	defer r.Close()
	return open(r, p.rel)
}

// explain turns a failure to open path into one with a code.
func explain(path string, err error) error {
	const op = "evidence.Inspector"
	var known *hub.Error
	var errno syscall.Errno
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return hub.Errorf(hub.CodeNotFound, op, "there is no %s", show(path))
	case errors.Is(err, fs.ErrPermission):
		return hub.Errorf(hub.CodeDegraded, op, "the hub has no permission to read %s", show(path))
	case errors.As(err, &errno):
		return hub.Errorf(hub.CodeDegraded, op, "cannot read %s: %s", show(path), errno.Error())
	}
	// os.Root has no error of its own to compare with.
	return hub.Errorf(hub.CodePolicy, op, "%s leads out of the root above it", show(path))
}

// openRegular opens a regular file for reading. It does not wait for the other
// end of a pipe, and does not open devices at all: some act on that alone.
func openRegular(r *os.Root, name string) (*regular, error) {
	info, err := r.Stat(name)
	if err == nil {
		err = mustBeRegular(name, info)
	}
	if err != nil {
		return nil, err
	}
	f, err := r.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	// The file may have been replaced between Stat and OpenFile.
	if info, err = f.Stat(); err == nil {
		err = mustBeRegular(name, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &regular{File: f, info: info}, nil
}

// A regular is an open regular file with its state when it was opened.
type regular struct {
	*os.File
	info fs.FileInfo
}

func mustBeRegular(name string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return hub.Errorf(hub.CodeConflict, "evidence.Inspector", "%s is %s, not a regular file", show(name), kind(info.Mode()))
}

// kind names the type of a file.
func kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a regular file"
	case m.IsDir():
		return "a folder"
	case m&fs.ModeSymlink != 0:
		return "a link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// openFolder opens a folder as a root of its own.
func openFolder(r *os.Root, name string) (*os.Root, error) {
	info, err := r.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, hub.Errorf(hub.CodeConflict, "evidence.Inspector", "%s is %s, not a folder", show(name), kind(info.Mode()))
	}
	return r.OpenRoot(name)
}

// readSmall returns the content of a file that has at most limit bytes.
func readSmall(r *os.Root, name string, limit int64) ([]byte, error) {
	f, err := openRegular(r, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, hub.Errorf(hub.CodeTooLarge, "evidence.Inspector", "%s is larger than %d bytes", show(name), limit)
	}
	return b, err
}
