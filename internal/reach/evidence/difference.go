package evidence

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// maxNames is the number of names that a statement lists.
const maxNames = 5

// A difference is the difference of a working tree from its commit.
type difference struct {
	commit    string
	changed   int
	missing   int
	untracked int
	endings   int      // files that differ in line endings only
	converted int      // files that git would convert, so that they cannot be judged
	sparse    bool     // some files of the commit are meant to be missing
	names     []string // some of those that differ
	all       []string // everything that is not byte for byte as in the commit
}

func (d *difference) note(count *int, name string) {
	*count++
	d.all = append(d.all, name)
	if len(d.names) < maxNames {
		d.names = append(d.names, show(name))
	}
}

// judge compares the difference with the claim about it; nil claims nothing.
func (d *difference) judge(clean *bool) error {
	const op = "evidence.Repository"
	missing := d.missing
	if d.sparse {
		missing = 0
	}
	same := d.changed+missing+d.untracked == 0
	switch {
	case same && d.converted > 0:
		return hub.Errorf(hub.CodeNotEnabled, op, "%d files go through a filter or another encoding, which is not run", d.converted)
	case same && d.missing > 0:
		return hub.Errorf(hub.CodeNotEnabled, op, "the working tree is sparse: %d files of the commit are not in it", d.missing)
	case clean != nil && *clean != same:
		return hub.Errorf(hub.CodeConflict, op, "%s", d)
	}
	return nil
}

// String states the difference.
func (d *difference) String() string {
	var parts []string
	for _, p := range []struct {
		count int
		text  string
	}{
		{d.changed, "changed"}, {d.missing, "missing"}, {d.untracked, "untracked"},
		{d.converted, "not judged because git would convert them"}, {d.endings, "with other line endings"},
	} {
		if p.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.count, p.text))
		}
	}
	switch {
	case len(parts) == 0:
		return "clean: the files are those of " + d.commit
	case len(d.names) == 0:
		return fmt.Sprintf("clean: the files are those of %s (%s)", d.commit, strings.Join(parts, ", "))
	}
	return fmt.Sprintf("not clean, compared with %s: %s, such as %s", d.commit, strings.Join(parts, ", "), strings.Join(d.names, ", "))
}

// difference compares a working tree with a commit. Git says what the commit holds
// and which files it would convert; the files are read here, through a root.
func (in *Inspector) difference(ctx context.Context, s *scratch, work *repository, commit string) (*difference, error) {
	files, folders, err := s.files(ctx, commit)
	if err != nil {
		return nil, err
	}
	w := &walker{in: in, scratch: s, root: work.tree, at: work.treeAt, format: len(commit), tracked: files, folders: folders, tree: newTree()}
	if err := w.walk(ctx); err != nil {
		return nil, err
	}
	d := &difference{commit: commit}
	if _, err := work.dir.Lstat("info/sparse-checkout"); err == nil {
		d.sparse = true
	}
	var unsure []string // regular files with another content
	for _, name := range slices.Sorted(maps.Keys(w.tree.files)) {
		f := w.tree.files[name]
		was, tracked := files[name]
		switch {
		case f.problem != nil:
			return nil, f.problem
		case !tracked:
			d.note(&d.untracked, name)
		case otherKind(was.mode, f.mode) || f.id != was.id && f.mode == modeLink:
			d.note(&d.changed, name)
		case f.id != was.id:
			unsure = append(unsure, name)
		}
	}
	for _, name := range w.tree.special {
		if _, tracked := files[name]; !tracked {
			d.note(&d.untracked, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch _, there := w.tree.files[name]; {
		case there || files[name].mode == modeSubmodule:
		case w.tree.folders[name] || slices.Contains(w.tree.special, name):
			d.note(&d.changed, name)
		default:
			d.note(&d.missing, name)
		}
	}
	return d, d.classify(ctx, w, unsure)
}

// otherKind reports whether two modes differ in whether a file is a link or may be
// executed.
func otherKind(a, b string) bool {
	return (a == modeLink) != (b == modeLink) || runtime.GOOS != "windows" && (a == modeExecutable) != (b == modeExecutable)
}

// classify decides about files whose content differs: those that differ in line
// endings only, those that git would convert and that cannot be judged without
// running a filter, and those that changed.
func (d *difference) classify(ctx context.Context, w *walker, unsure []string) error {
	var rest []string
	for _, name := range unsure {
		switch same, err := sameLines(ctx, w.root, name, w.tracked[name].id); {
		case err != nil:
			return explain(name, err)
		case same:
			d.endings++
			d.all = append(d.all, name)
		default:
			rest = append(rest, name)
		}
	}
	converted, err := w.scratch.converted(ctx, rest)
	for _, name := range rest {
		if converted[name] {
			d.converted++
			d.all = append(d.all, name)
		} else {
			d.note(&d.changed, name)
		}
	}
	return err
}

// converted asks git which files it would pass through a filter or another
// encoding.
func (s *scratch) converted(ctx context.Context, names []string) (map[string]bool, error) {
	converted := map[string]bool{}
	if len(names) == 0 {
		return converted, nil
	}
	input := []byte(strings.Join(names, "\x00") + "\x00")
	return converted, s.run(ctx, input, func(r io.Reader) error {
		var triple []string // name, attribute, value
		for text, err := range zeroTerminated(r) {
			if err != nil {
				return err
			}
			if triple = append(triple, text); len(triple) < 3 {
				continue
			}
			if triple[2] != "unspecified" && triple[2] != "unset" {
				converted[triple[0]] = true
			}
			triple = triple[:0]
		}
		return nil
	}, "check-attr", "-z", "--stdin", "filter", "ident", "working-tree-encoding")
}

// files returns the files of a commit, and the folders that hold them.
func (s *scratch) files(ctx context.Context, commit string) (files map[string]blob, folders map[string]bool, err error) {
	files, folders = map[string]blob{}, map[string]bool{".": true}
	err = s.run(ctx, nil, func(r io.Reader) error {
		return treeRecords(r, func(name string, b blob) error {
			if len(files) == maxEntries || len(name) > maxPath {
				return hub.Errorf(hub.CodeTooLarge, "evidence.Repository", "the commit has more than %d files, or a name of more than %d bytes", maxEntries, maxPath)
			}
			files[name] = b
			hold(folders, name)
			return nil
		})
	}, "ls-tree", "-r", "-z", "--full-tree", commit)
	var exit *exitError
	if errors.As(err, &exit) {
		err = hub.Errorf(hub.CodeDegraded, "evidence.Repository", "the files of commit %s cannot be read", commit)
	}
	return files, folders, err
}

// hold adds the folders that hold name.
func hold(folders map[string]bool, name string) {
	for dir := path.Dir(name); !folders[dir] && dir != "/"; dir = path.Dir(dir) {
		folders[dir] = true
	}
}

// treeRecords reads the output of git ls-tree -z.
func treeRecords(r io.Reader, each func(name string, b blob) error) error {
	for record, err := range zeroTerminated(r) {
		if err != nil {
			return err
		}
		head, name, ok := strings.Cut(record, "\t")
		words := strings.Fields(head)
		if !ok || len(words) != 3 || !objectID(words[2]) || name == "" {
			return fmt.Errorf("evidence: git lists a file as %s", show(record))
		}
		if err := each(name, blob{mode: words[0], id: words[2]}); err != nil {
			return err
		}
	}
	return nil
}

// zeroTerminated iterates over texts that each end with a zero byte.
func zeroTerminated(r io.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for texts := bufio.NewReaderSize(r, 4*maxPath); ; {
			text, err := texts.ReadSlice(0)
			switch {
			case errors.Is(err, io.EOF) && len(text) == 0:
				return
			case errors.Is(err, io.EOF):
				err = io.ErrUnexpectedEOF
			case errors.Is(err, bufio.ErrBufferFull):
				err = hub.Errorf(hub.CodeTooLarge, "evidence.Repository", "a name has more than %d bytes", maxPath)
			}
			if !yield(strings.TrimSuffix(string(text), "\x00"), err) || err != nil {
				return
			}
		}
	}
}

// sameLines reports whether a file is that blob when its lines end with LF instead
// of CRLF, as git's own conversion makes them.
func sameLines(ctx context.Context, root *os.Root, name, id string) (bool, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	size := f.info.Size()
	n, err := io.Copy(io.Discard, io.LimitReader(newlines(contextReader{ctx, f}), size))
	if n == size || err != nil {
		return false, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	h := objectHash(len(id), "blob", n)
	_, err = io.Copy(h, io.LimitReader(newlines(contextReader{ctx, f}), size))
	return hex.EncodeToString(h.Sum(nil)) == id, err
}

// newlines returns the content of r with LF for every CRLF.
func newlines(r io.Reader) io.Reader { return &newlineReader{r: bufio.NewReader(r)} }

type newlineReader struct{ r *bufio.Reader }

func (n *newlineReader) Read(b []byte) (int, error) {
	for i := range b {
		c, err := n.r.ReadByte()
		if err != nil {
			if i > 0 {
				return i, nil // the error comes again
			}
			return 0, err
		}
		if c == '\r' {
			if next, err := n.r.Peek(1); err == nil && next[0] == '\n' {
				c = '\n'
				n.r.Discard(1)
			}
		}
		b[i] = c
	}
	return len(b), nil
}
