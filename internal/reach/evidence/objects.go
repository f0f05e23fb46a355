package evidence

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// Limits of the contents that are kept to count lines.
const (
	maxKept  = 8 << 20  // bytes of a file
	keepRoom = 64 << 20 // bytes of all new contents of one walk
)

// A putter takes an object and returns its name.
type putter func(kind string, content []byte) (id string, err error)

// treeOf puts the git tree that holds the files, and returns its name.
func treeOf(files map[string]blob, put putter) (string, error) {
	return subtree(slices.Sorted(maps.Keys(files)), 0, files, put)
}

// subtree puts the tree of the names, which are sorted and agree in their first skip
// bytes.
func subtree(names []string, skip int, files map[string]blob, put putter) (string, error) {
	var tree bytes.Buffer
	for len(names) > 0 {
		first := names[0]
		base, _, isFolder := strings.Cut(first[skip:], "/")
		count, entry := 1, files[first]
		if isFolder {
			prefix := first[:skip+len(base)+1]
			for count < len(names) && strings.HasPrefix(names[count], prefix) {
				count++
			}
			id, err := subtree(names[:count], len(prefix), files, put)
			if err != nil {
				return "", err
			}
			entry = blob{modeFolder, id}
		}
		id, err := hex.DecodeString(entry.id)
		if err != nil {
			return "", err
		}
		tree.WriteString(entry.mode + " " + base + "\x00")
		tree.Write(id)
		names = names[count:]
	}
	return put("tree", tree.Bytes())
}

// hashing returns a putter that stores nothing.
func hashing(format int) putter {
	return func(kind string, content []byte) (string, error) { return hashOf(format, kind, content), nil }
}

// hashOf returns the name of the object with that content.
func hashOf(format int, kind string, content []byte) string {
	h := objectHash(format, kind, int64(len(content)))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// An objectWriter writes the contents of files to the scratch, as git objects.
type objectWriter struct {
	scratch *scratch
	format  int
	room    int64 // bytes that still fit
}

// add writes the content of a file if there is room, and reports whether it did.
func (o *objectWriter) add(id string, content []byte) bool {
	if int64(len(content)) > o.room {
		return false
	}
	o.room -= int64(len(content))
	return o.write(id, "blob", content) == nil
}

// put writes an object.
func (o *objectWriter) put(kind string, content []byte) (string, error) {
	id := hashOf(o.format, kind, content)
	return id, o.write(id, kind, content)
}

func (o *objectWriter) write(id, kind string, content []byte) error {
	var object bytes.Buffer
	z, err := zlib.NewWriterLevel(&object, zlib.BestSpeed)
	if err != nil {
		return err
	}
	fmt.Fprintf(z, "%s %d\x00", kind, len(content))
	z.Write(content)
	if err := z.Close(); err != nil {
		return err
	}

	folder := filepath.Join(o.scratch.gitDir(), "objects", id[:2])
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	name := filepath.Join(folder, id[2:])
	if _, err := os.Lstat(name); err == nil {
		return nil
	}

	// Another check may read the same object, so that it appears whole.
	f, err := os.CreateTemp(folder, "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(object.Bytes())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// lend lets git read the objects of r, too.
func (s *scratch) lend(r *repository) error {
	f, err := os.OpenFile(filepath.Join(s.gitDir(), "objects/info/alternates"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(filepath.Join(r.common.Name(), "objects") + "\n")
	return errors.Join(err, f.Close())
}

// trees writes the trees of two sets of files that git can read, and returns their names.
func (o *objectWriter) trees(before, after map[string]blob) (old, now string, err error) {
	if old, err = treeOf(before, o.put); err != nil {
		return "", "", err
	}
	now, err = treeOf(after, o.put)
	return old, now, err
}

// lines counts the lines that were inserted and deleted between two trees. Files that are
// not text are not counted.
func (o *objectWriter) lines(ctx context.Context, old, now string) (insertions, deletions, counted int, err error) {
	out, err := o.scratch.list(ctx, "", diffTree("-z", "--numstat", old, now)...)
	for _, record := range out {
		var more, less int
		if n, _ := fmt.Sscanf(record, "%d\t%d\t", &more, &less); n == 2 { // else it is not text
			insertions += more
			deletions += less
			counted++
		}
	}
	return insertions, deletions, counted, err
}

// maxPatch is the largest patch, in bytes.
const maxPatch = 512 << 10

// patch returns the difference of two trees as a unified diff. It reports CodeTooLarge
// beyond maxPatch.
func (o *objectWriter) patch(ctx context.Context, old, now string) (string, error) {
	out, err := o.scratch.run(ctx, maxPatch, "", diffTree("-p", "--no-color", old, now)...)
	if err != nil {
		return "", err
	}
	return strings.ToValidUTF8(out, "\uFFFD"), nil
}

// beginning returns the difference of two trees as a unified diff of at most maxPatch
// bytes, and the number of files in it. A file that does not fit as a whole, and those after
// it, are left out.
func (o *objectWriter) beginning(ctx context.Context, old, now string) (text string, files int, err error) {
	const header = "diff --git "
	text, err = o.scratch.run(ctx, maxPatch, "", diffTree("-p", "--no-color", old, now)...)
	if hub.CodeOf(err) == hub.CodeTooLarge {
		text, err = text[:strings.LastIndex("\n"+text, "\n"+header)], nil
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, header) {
			files++
		}
	}
	return strings.ToValidUTF8(text, "\uFFFD"), files, err
}

// diffTree returns the arguments of git that compare two trees and run no other program.
func diffTree(more ...string) []string {
	return append([]string{"diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv"}, more...)
}
