package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// maxNames is the number of names that a statement lists.
const maxNames = 5

// The kinds of files in a difference, in the order and the words of a statement.
const (
	kindChanged   = "changed"
	kindMissing   = "missing"
	kindUntracked = "untracked"
	kindConverted = "not judged because git would convert them"
	kindEndings   = "with other line endings"
)

// A difference is the difference of a working tree from its commit.
type difference struct {
	commit string
	was    map[string]blob // the files of the commit
	tree   *tree
	kinds  map[string]string // of every file that is not byte for byte as in the commit, by name
	sparse bool              // some files of the commit are meant to be missing
}

// names returns the names of a few kinds, sorted.
func (d *difference) names(kinds ...string) []string {
	var names []string
	for name, kind := range d.kinds {
		if slices.Contains(kinds, kind) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// judge reports a difference of which nothing can be said: the files that were
// compared are those of the commit, but some could not be.
func (d *difference) judge() error {
	const op = "evidence.Repository"
	missing, converted := len(d.names(kindMissing)), len(d.names(kindConverted))
	switch {
	case len(d.names(kindChanged, kindUntracked)) > 0 || (missing > 0 && !d.sparse):
		return nil
	case converted > 0:
		return hub.Errorf(hub.CodeNotEnabled, op, "%d files need a filter or another encoding, which the hub does not run", converted)
	case missing > 0:
		return hub.Errorf(hub.CodeNotEnabled, op, "the working tree is sparse: %d files of the commit are not in it", missing)
	}
	return nil
}

// clean reports whether the files are those of the commit, but for line endings and for
// files that git would convert.
func (d *difference) clean() bool { return len(d.names(kindChanged, kindMissing, kindUntracked)) == 0 }

// String states the difference.
func (d *difference) String() string {
	var parts, some []string
	for _, kind := range []string{kindChanged, kindMissing, kindUntracked, kindConverted, kindEndings} {
		if n := len(d.names(kind)); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, kind))
		}
	}
	names := d.names(kindChanged, kindMissing, kindUntracked)
	for _, name := range names[:min(len(names), maxNames)] {
		some = append(some, show(name))
	}
	switch {
	case len(parts) == 0:
		return "clean: the files are those of " + d.commit
	case len(some) == 0:
		return fmt.Sprintf("clean: the files are those of %s (%s)", d.commit, strings.Join(parts, ", "))
	}
	return fmt.Sprintf("not clean, compared with %s: %s, such as %s", d.commit, strings.Join(parts, ", "), strings.Join(some, ", "))
}

// A reading says which files a difference reads.
type reading int

const (
	readAll     reading = iota // that differ or may, for a verdict
	readTracked                // that git tracks, to show them: the names of the others suffice
)

// difference compares a working tree with a commit. Git says what the commit holds
// and which files it would convert; the files are read here, through a root.
func (in *Inspector) difference(ctx context.Context, s *scratch, work *repository, commit string, how reading) (*difference, error) {
	files, folders, err := s.files(ctx, commit)
	if err != nil {
		return nil, err
	}

	w := &walker{in: in, scratch: s, root: work.tree, at: work.treeAt, format: len(commit), tracked: files, folders: folders, tree: newTree()}
	if how == readTracked {
		w.onlyTracked, w.limit = true, maxDiffWalk
	}
	if err := w.walk(ctx); err != nil {
		return nil, err
	}

	was := newTree()
	for name, b := range files {
		if b.mode != modeSubmodule {
			was.files[name] = file{blob: b}
		}
	}
	for _, f := range w.tree.files {
		if f.problem != nil {
			return nil, f.problem
		}
	}

	d := &difference{commit: commit, was: files, tree: w.tree, kinds: map[string]string{}}
	if _, err := work.dir.Lstat("info/sparse-checkout"); err == nil {
		d.sparse = true
	}

	// A file whose name is a folder or a special file now is changed and not missing.
	changes := w.tree.since(was)
	for _, name := range slices.Concat(changes.Created, w.tree.special) {
		d.kinds[name] = kindUntracked
	}
	for _, name := range changes.Deleted {
		_, special := d.kinds[name]
		d.kinds[name] = kindMissing
		if special || w.tree.folders[name] {
			d.kinds[name] = kindChanged
		}
	}

	return d, d.classify(ctx, w, changes.Modified)
}

// classify decides about files that differ: those that differ in line endings only,
// those that git would convert and that cannot be judged without running a filter, and
// those that changed.
func (d *difference) classify(ctx context.Context, w *walker, modified []string) error {
	var content []string // files with another content
	for _, name := range modified {
		was, is := w.tracked[name], w.tree.files[name]
		d.kinds[name] = kindChanged
		if was.mode != is.mode || is.mode == modeLink {
			continue
		}
		same, err := sameLines(w.root, name, was.id)
		if err != nil {
			return explain(name, err)
		}
		if same {
			d.kinds[name] = kindEndings
		} else {
			content = append(content, name)
		}
	}
	converted, err := w.scratch.converted(ctx, content)
	for name := range converted {
		d.kinds[name] = kindConverted
	}
	return err
}

// maxLines is the number of bytes of a file whose line endings are compared.
const maxLines = 64 << 20

// sameLines reports whether a file is that blob when its lines end with LF instead
// of CRLF, as git's own conversion makes them.
func sameLines(root *os.Root, name, id string) (bool, error) {
	b, err := readSmall(root, name, maxLines)
	if hub.CodeOf(err) == hub.CodeTooLarge {
		return false, nil
	}
	return isObject(id, "blob", bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))), err
}

// converted asks git which files it would pass through a filter or another
// encoding.
func (s *scratch) converted(ctx context.Context, names []string) (map[string]bool, error) {
	return s.attributes(ctx, names, "filter", "ident", "working-tree-encoding")
}

// attributes asks git which files have one of a few attributes.
func (s *scratch) attributes(ctx context.Context, names []string, attributes ...string) (map[string]bool, error) {
	found := map[string]bool{}
	if len(names) == 0 {
		return found, nil
	}
	out, err := s.list(ctx, strings.Join(names, "\x00")+"\x00", append([]string{"check-attr", "-z", "--stdin"}, attributes...)...)
	for triple := range slices.Chunk(out, 3) { // name, attribute, value
		if value := triple[len(triple)-1]; value != "unspecified" && value != "unset" {
			found[triple[0]] = true
		}
	}
	return found, err
}

// files returns the files of a commit, and the folders that hold them.
func (s *scratch) files(ctx context.Context, commit string) (files map[string]blob, folders map[string]bool, err error) {
	out, err := s.list(ctx, "", "ls-tree", "-r", "-z", "--full-tree", commit)
	var exit *exitError
	if errors.As(err, &exit) {
		err = hub.Errorf(hub.CodeDegraded, "evidence.Repository", "cannot read the files of commit %s", commit)
	}
	if err != nil {
		return nil, nil, err
	}
	return treeFiles(out)
}

// treeFiles reads the output of git ls-tree.
func treeFiles(records []string) (files map[string]blob, folders map[string]bool, err error) {
	files, folders = map[string]blob{}, map[string]bool{".": true}
	for _, record := range records {
		head, name, ok := strings.Cut(record, "\t")
		words := strings.Fields(head)
		switch {
		case !ok || len(words) != 3 || !objectID(words[2]) || name == "":
			return nil, nil, fmt.Errorf("evidence: git lists a file as %s", show(record))
		case len(files) == maxEntries || len(name) > maxPath:
			return nil, nil, hub.Errorf(hub.CodeTooLarge, "evidence.Repository", "the commit has more than %d files, or a name of more than %d bytes", maxEntries, maxPath)
		}
		files[name] = blob{mode: words[0], id: words[2]}
		hold(folders, name)
	}
	return files, folders, nil
}

// hold adds the folders that hold name.
func hold(folders map[string]bool, name string) {
	for dir := path.Dir(name); !folders[dir] && dir != "/"; dir = path.Dir(dir) {
		folders[dir] = true
	}
}
