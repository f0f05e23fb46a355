package evidence

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

// Limits of the data about branches.
const (
	maxRef        = 4096     // bytes of a file that holds one
	maxPackedRefs = 64 << 20 // bytes of the file that holds many
	maxRefs       = 100_000  // number of refs that are read
	maxSymbolic   = 5        // refs in a row that name another
	maxLog        = 64 << 10 // bytes at the end of the log of a ref, some hundred entries
	maxLogs       = 100      // logs of working trees
)

const (
	branchPrefix   = "refs/heads/"
	symbolicPrefix = "ref: "
)

// validRef reports whether a name can be that of a branch or other ref. It is stricter
// than git: a valid name is never an option, a range, a refspec or a path that leads
// elsewhere, and holds no character that cannot be seen.
func validRef(name string) bool {
	hidden := func(r rune) bool { return !plaintext.Visible(r) }
	if name == "" || len(name) > 255 {
		return false
	}

	isReserved := name == "@" || name[0] == '-'
	hasHidden := !utf8.ValidString(name) || strings.ContainsFunc(name, hidden)
	isExpression := strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.ContainsAny(name, "~^:?*[\\ ")
	if isReserved || hasHidden || isExpression {
		return false
	}

	for part := range strings.SplitSeq(name, "/") {
		if !validRefPart(part) {
			return false
		}
	}
	return true
}

// validRefPart reports whether a text can be one part of a ref, between its slashes.
func validRefPart(part string) bool {
	return part != "" && part[0] != '.' && !strings.HasSuffix(part, ".") && !strings.HasSuffix(part, ".lock")
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
			return ref{}, hub.Errorf(hub.CodeDegraded, op, "cannot read %s: it is neither a commit nor the name of a branch", show(name))
		}
		name = next
	}
	return ref{}, hub.Errorf(hub.CodeDegraded, op, "cannot read %s: it refers to too many other names", show(name))
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
	return "", hub.Errorf(hub.CodeNotFound, "evidence.Repository", "no ref named %s", show(name))
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
			isRef := ok && objectID(id) && strings.HasPrefix(name, "refs/") && validRef(name)
			if isRef && !yield(name, id) {
				return
			}
		}
	}
}

// tips returns the objects that HEAD, the repository's refs and its other working trees name.
// Folders and files that cannot be read name none.
func (r *repository) tips(ctx context.Context) ([]string, error) {
	ids, err := r.idsUnder(ctx, "refs")
	if err != nil {
		return nil, err
	}
	if head, err := r.resolve("HEAD"); err == nil {
		ids[head.id] = true
	}
	for _, id := range r.otherHeads() {
		ids[id] = true
	}
	return slices.Collect(maps.Keys(ids)), nil
}

// logged returns the commits that the HEADs of all working trees and the stash named before,
// by the newest entries of their logs. No ref may name them any more.
func (r *repository) logged() (ids []string) {
	names := []string{"logs/HEAD", "logs/refs/stash"}
	folders, _ := fs.ReadDir(r.common.FS(), "worktrees") // there may be none
	for _, folder := range folders[:min(len(folders), maxLogs)] {
		names = append(names, "worktrees/"+folder.Name()+"/logs/HEAD")
	}
	for _, name := range names {
		end, err := readEnd(r.common, name, maxLog)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(end) { // the commit of before, the commit, and who moved it when
			words := strings.Fields(string(line))
			if len(words) > 2 && objectID(words[1]) && strings.Trim(words[1], "0") != "" {
				ids = append(ids, words[1])
			}
		}
	}
	return ids
}

// readEnd returns the last bytes of a file, without a first line that is cut.
func readEnd(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	begin := max(0, info.Size()-most)
	b, err := io.ReadAll(io.NewSectionReader(f, begin, most))
	if begin > 0 {
		_, b, _ = bytes.Cut(b, []byte("\n"))
	}
	return b, err
}

// fetched returns the objects that came from other repositories: those of remote branches and
// of the last fetch.
func (r *repository) fetched(ctx context.Context) ([]string, error) {
	ids, err := r.idsUnder(ctx, "refs/remotes")
	if err != nil {
		return nil, err
	}
	last, _ := readSmall(r.dir, "FETCH_HEAD", maxPackedRefs) // there may be none
	for line := range bytes.Lines(last) {
		if id, _, _ := strings.Cut(string(line), "\t"); objectID(id) {
			ids[id] = true
		}
	}
	return slices.Collect(maps.Keys(ids)), nil
}

// branches returns the names of the repository's branches, such as refs/heads/main, in order.
func (r *repository) branches(ctx context.Context) ([]string, error) {
	names, err := r.loose(ctx, strings.TrimSuffix(branchPrefix, "/"))
	if err != nil {
		return nil, err
	}
	packed, err := r.packedRefs()
	for name := range refLines(packed) {
		if strings.HasPrefix(name, branchPrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// errTooMany refuses a repository with more refs than are read.
var errTooMany = hub.Errorf(hub.CodeTooLarge, "evidence.Repository", "the repository has more than %d branches and tags", maxRefs)

// loose returns the names of the refs in a folder that have a file of their own.
func (r *repository) loose(ctx context.Context, folder string) (names []string, err error) {
	seen := 0
	err = fs.WalkDir(r.common.FS(), folder, func(name string, e fs.DirEntry, err error) error {
		seen++
		switch {
		case err != nil || ctx.Err() != nil:
			return ctx.Err()
		case seen > maxRefs:
			return errTooMany
		case !validRef(name) && e.IsDir():
			return fs.SkipDir
		case validRef(name) && e.Type().IsRegular():
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// idsUnder returns the objects that the refs in a folder name.
func (r *repository) idsUnder(ctx context.Context, folder string) (map[string]bool, error) {
	names, err := r.loose(ctx, folder)
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

	// A packed ref has no file of its own.
	packed, err := r.packedRefs()
	for name, id := range refLines(packed) {
		if strings.HasPrefix(name, folder+"/") {
			ids[id] = true
		}
	}

	if len(ids) > maxRefs {
		return nil, errTooMany
	}
	return ids, err
}

// headOf returns the commit that is checked out in a working tree of the repository; empty if
// it has no such working tree.
func (r *repository) headOf(path string) string {
	head := "" // the name of the file
	if realPath(filepath.Dir(r.common.Name())) == path {
		head = "HEAD"
	}
	folders, _ := fs.ReadDir(r.common.FS(), "worktrees") // there may be none
	for _, folder := range folders[:min(len(folders), maxRefs)] {
		b, err := readSmall(r.common, "worktrees/"+folder.Name()+"/gitdir", maxRef)
		if err == nil && realPath(filepath.Dir(strings.TrimSpace(string(b)))) == path {
			head = "worktrees/" + folder.Name() + "/HEAD"
		}
	}
	if head == "" {
		return ""
	}

	b, err := readSmall(r.common, head, maxRef)
	value := strings.TrimSpace(string(b))
	if err != nil || objectID(value) {
		return value
	}
	branch, err := r.resolve(strings.TrimPrefix(value, symbolicPrefix))
	if err != nil {
		return ""
	}
	return branch.id
}

// otherHeads returns the commits that are checked out in the working trees that were added
// with git worktree, and not by the name of a branch.
func (r *repository) otherHeads() (ids []string) {
	folders, err := fs.ReadDir(r.common.FS(), "worktrees")
	if err != nil {
		return nil // there is none
	}
	for _, folder := range folders[:min(len(folders), maxRefs)] {
		b, err := readSmall(r.common, "worktrees/"+folder.Name()+"/HEAD", maxRef)
		if id := strings.TrimSpace(string(b)); err == nil && objectID(id) {
			ids = append(ids, id)
		}
	}
	return ids
}
