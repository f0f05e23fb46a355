package evidence

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
)

// Limits of the data about branches.
const (
	maxRef        = 4096     // bytes of a file that holds one
	maxPackedRefs = 64 << 20 // bytes of the file that holds many
	maxRefs       = 100_000  // number of refs that are read
	maxSymbolic   = 5        // refs in a row that name another
)

const (
	branchPrefix   = "refs/heads/"
	symbolicPrefix = "ref: "
)

// validRef reports whether a name can be that of a branch or other ref. It is stricter
// than git: a valid name is never an option, a range, a refspec or a path that leads
// elsewhere, and holds no character that cannot be seen.
func validRef(name string) bool {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	if name == "" || len(name) > 255 || name == "@" || name[0] == '-' || !utf8.ValidString(name) || strings.ContainsFunc(name, hidden) ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.ContainsAny(name, "~^:?*[\\ ") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// objectID reports whether s is the full name of an object, SHA-1 or SHA-256.
func objectID(s string) bool {
	return (len(s) == sha1Digits || len(s) == sha256Digits) && lowerHex(s)
}

// A ref is a resolved name: a commit, perhaps by way of a branch.
type ref struct {
	name string // the last name on the way, such as refs/heads/main
	id   string
}

// resolve follows a ref to an object. It reports CodeNotFound if there is no
// such ref.
func (r *repository) resolve(name string) (ref, error) {
	const op = "evidence.Repository"
	for range maxSymbolic {
		value, err := r.readRef(name)
		if err != nil {
			return ref{name: name}, err
		}
		if objectID(value) {
			return ref{name, value}, nil
		}
		next, ok := strings.CutPrefix(value, symbolicPrefix)
		if !ok || !strings.HasPrefix(next, "refs/") || !validRef(next) {
			return ref{}, hub.Errorf(hub.CodeDegraded, op, "%s cannot be read: it is neither a commit nor the name of a branch", show(name))
		}
		name = next
	}
	return ref{}, hub.Errorf(hub.CodeDegraded, op, "%s cannot be read: it leads from name to name", show(name))
}

// readRef returns the value of a ref. A file of its own takes precedence over
// packed-refs.
func (r *repository) readRef(name string) (string, error) {
	folder := r.common
	if name == "HEAD" {
		folder = r.dir
	}
	b, err := readSmall(folder, name, maxRef)
	switch {
	case err == nil:
		return strings.TrimRight(string(b), " \t\r\n"), nil
	case !absent(err):
		return "", explain(name, err)
	}
	packed, err := r.packedRefs()
	if err != nil {
		return "", err
	}
	for n, id := range refLines(packed) {
		if n == name {
			return id, nil
		}
	}
	return "", hub.Errorf(hub.CodeNotFound, "evidence.Repository", "there is no ref %s", show(name))
}

// absent reports whether there is no file of that name; a folder of that name
// holds other refs.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || hub.CodeOf(err) == hub.CodeConflict
}

// packedRefs returns the content of packed-refs, empty if there is none.
func (r *repository) packedRefs() ([]byte, error) {
	b, err := readSmall(r.common, "packed-refs", maxPackedRefs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, explain("packed-refs", err)
}

// refLines iterates over the names and objects of a packed-refs file. Other lines are
// skipped.
func refLines(b []byte) iter.Seq2[string, string] {
	return func(yield func(name, id string) bool) {
		for line := range bytes.Lines(b) {
			id, name, ok := strings.Cut(strings.TrimRight(string(line), "\r\n"), " ")
			if ok && objectID(id) && strings.HasPrefix(name, "refs/") && validRef(name) && !yield(name, id) {
				return
			}
		}
	}
}

// tips returns the objects that HEAD and the repository's refs name. Folders and files
// that cannot be read name none.
func (r *repository) tips(ctx context.Context) ([]string, error) {
	const op = "evidence.Repository"
	names, seen := []string{"HEAD"}, 0
	tooMany := hub.Errorf(hub.CodeTooLarge, op, "the repository has more than %d branches and tags", maxRefs)
	err := fs.WalkDir(r.common.FS(), "refs", func(name string, e fs.DirEntry, err error) error {
		seen++
		switch {
		case err != nil || ctx.Err() != nil:
			return ctx.Err()
		case seen > maxRefs:
			return tooMany
		case !validRef(name) && e.IsDir():
			return fs.SkipDir
		case validRef(name) && e.Type().IsRegular():
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if found, err := r.resolve(name); err == nil {
			ids[found.id] = true
		}
	}
	packed, err := r.packedRefs()
	for _, id := range refLines(packed) {
		ids[id] = true
	}
	if len(ids) > maxRefs {
		return nil, tooMany
	}
	return slices.Collect(maps.Keys(ids)), err
}
