package evidence

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
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

// refProblem says what is wrong with the name of a branch or other ref, or "".
// It is stricter than git: an accepted name is never an option, a range, a refspec or
// a path that leads elsewhere.
func refProblem(name string) string {
	switch {
	case name == "" || len(name) > 255:
		return "has no bytes, or more than 255"
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case strings.HasPrefix(name, "-"):
		return "begins with a dash"
	case name == "@" || strings.Contains(name, "@{"):
		return "holds a sign for an earlier state"
	case strings.Contains(name, ".."):
		return "holds two dots in a row"
	case strings.ContainsAny(name, "~^:?*[\\ "):
		return "holds a character that branch names cannot have"
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "holds a character that cannot be seen"
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return "has an empty part between slashes"
		case strings.HasPrefix(part, "."), strings.HasSuffix(part, "."), strings.HasSuffix(part, ".lock"):
			return "has a part that begins or ends with a dot, or ends with .lock"
		}
	}
	return ""
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
		if !ok || !strings.HasPrefix(next, "refs/") || refProblem(next) != "" {
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
			if ok && objectID(id) && strings.HasPrefix(name, "refs/") && refProblem(name) == "" && !yield(name, id) {
				return
			}
		}
	}
}

var errManyRefs = hub.Errorf(hub.CodeTooLarge, "evidence.Repository", "the repository has more than %d branches and tags", maxRefs)

// looseRefs returns the names of the refs that have a file of their own. Folders and
// files that cannot be read hold none.
func (r *repository) looseRefs(ctx context.Context) (names []string, err error) {
	seen := 0
	err = fs.WalkDir(r.common.FS(), "refs", func(name string, e fs.DirEntry, err error) error {
		if seen++; seen > maxRefs {
			return errManyRefs
		}
		switch {
		case err != nil || ctx.Err() != nil:
			return ctx.Err()
		case refProblem(name) != "" && e.IsDir():
			return fs.SkipDir
		case refProblem(name) == "" && e.Type().IsRegular():
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// tips returns the objects that the repository's refs and HEAD name.
func (r *repository) tips(ctx context.Context) ([]string, error) {
	seen := map[string]bool{}
	var ids []string
	add := func(id string) error {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
		if len(ids) > maxRefs {
			return errManyRefs
		}
		return ctx.Err()
	}
	if head, err := r.resolve("HEAD"); err == nil {
		if err := add(head.id); err != nil {
			return nil, err
		}
	}
	loose, err := r.looseRefs(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range loose {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if found, err := r.resolve(name); err == nil { // an unreadable ref names nothing
			if err := add(found.id); err != nil {
				return nil, err
			}
		}
	}
	packed, err := r.packedRefs()
	if err != nil {
		return nil, err
	}
	for _, id := range refLines(packed) {
		if err := add(id); err != nil {
			return nil, err
		}
	}
	return ids, nil
}
