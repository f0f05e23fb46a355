package evidence

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// Bounds of a working tree.
const (
	maxEntries = 1_000_000 // files of a commit, and files and folders that are looked at
	maxDepth   = 256       // folders in folders
	maxRules   = 16 << 20  // bytes of rule files together
	maxNames   = 5         // names that a statement lists
)

// The modes of what a commit holds.
const (
	modeFolder     = "40000"
	modeRegular    = "100644"
	modeExecutable = "100755"
	modeLink       = "120000"
	modeSubmodule  = "160000"
)

// A blob is a file as a commit has it.
type blob struct{ mode, id string }

// A difference is how a working tree differs from its commit.
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

// judge compares the difference with what was claimed about it; nil claims
// nothing.
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

// A comparison is a working tree being compared with a commit. Git says what
// the commit holds and which rules apply to a name; the files are read here,
// through a root, and never by git.
type comparison struct {
	ruled
	in      *Inspector
	files   map[string]blob // of the commit; those that were met are removed
	folders map[string]bool // that hold files of the commit
	unsure  []string        // files that differ, unless a rule says why
	diff    difference
}

// compare says how the working tree differs from the commit.
func (in *Inspector) compare(ctx context.Context, s *scratch, work *repository, commit string) (*difference, error) {
	c := &comparison{ruled: ruled{scratch: s, tree: work.tree}, in: in, diff: difference{commit: commit}}
	if _, err := work.dir.Lstat("info/sparse-checkout"); err == nil {
		c.diff.sparse = true
	}
	var err error
	if c.files, c.folders, err = s.files(ctx, commit); err != nil {
		return nil, err
	}
	if err := descend(ctx, c.level); err != nil {
		return nil, err
	}
	if err := c.settle(ctx); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		if c.files[name].mode != modeSubmodule {
			c.diff.note(&c.diff.missing, name)
		}
	}
	return &c.diff, nil
}

// descend calls level with the folders of each depth, from the top down. level
// returns those below.
func descend(ctx context.Context, level func(ctx context.Context, folders []string) (below []string, err error)) error {
	folders := []string{"."}
	for depth := 0; len(folders) > 0; depth++ {
		if depth == maxDepth {
			return hub.Errorf(hub.CodeTooLarge, "evidence.Repository", "the working tree has more than %d folders in each other", maxDepth)
		}
		var err error
		if folders, err = level(ctx, folders); err != nil {
			return err
		}
	}
	return nil
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

// hold adds the folders that name is in.
func hold(folders map[string]bool, name string) {
	for dir := path.Dir(name); !folders[dir] && dir != "/"; dir = path.Dir(dir) {
		folders[dir] = true
	}
}

// treeRecords reads what git ls-tree -z prints.
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

// zeroTerminated goes through texts that each end with a zero byte.
func zeroTerminated(r io.Reader) func(yield func(string, error) bool) {
	return func(yield func(string, error) bool) {
		texts := bufio.NewScanner(r)
		texts.Buffer(nil, 4*maxPath)
		texts.Split(func(b []byte, atEOF bool) (int, []byte, error) {
			if i := bytes.IndexByte(b, 0); i >= 0 {
				return i + 1, b[:i], nil
			}
			if atEOF && len(b) > 0 {
				return 0, nil, io.ErrUnexpectedEOF
			}
			return 0, nil, nil
		})
		for texts.Scan() {
			if !yield(texts.Text(), nil) {
				return
			}
		}
		switch err := texts.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield("", hub.Errorf(hub.CodeTooLarge, "evidence.Repository", "a name has more than %d bytes", maxPath))
		case err != nil:
			yield("", err)
		}
	}
}

// level looks at folders of one depth and returns those below.
func (c *comparison) level(ctx context.Context, folders []string) (below []string, err error) {
	var strangers []stranger
	for _, folder := range folders {
		var found []stranger
		nested := false
		for e, err := range entries(ctx, c.tree, folder) {
			if err != nil {
				return nil, explain(folder, err)
			}
			if err := c.pass(); err != nil {
				return nil, err
			}
			name := path.Join(folder, e.Name())
			b, tracked := c.files[name]
			switch {
			case e.Name() == ".git":
				nested = folder != "."
			case tracked:
				delete(c.files, name)
				if err := c.meet(ctx, name, b); err != nil {
					return nil, err
				}
			case e.IsDir() && c.folders[name]:
				below = append(below, name)
			default:
				found = append(found, stranger{name, e.IsDir()})
			}
			if err := c.copyRules(name, e); err != nil {
				return nil, err
			}
		}
		if nested && !c.folders[folder] { // another repository, which counts as one thing
			c.diff.note(&c.diff.untracked, folder)
			continue
		}
		strangers = append(strangers, found...)
	}
	ignored, err := c.ignored(ctx, strangers)
	if err != nil {
		return nil, err
	}
	for _, s := range strangers {
		switch {
		case ignored[s.name]:
		case s.folder:
			below = append(below, s.name)
		default:
			c.diff.note(&c.diff.untracked, s.name)
		}
	}
	return below, nil
}

// meet compares a file with what the commit has.
func (c *comparison) meet(ctx context.Context, name string, b blob) error {
	if b.mode == modeSubmodule {
		return nil
	}
	info, err := c.tree.Lstat(name)
	if err != nil {
		return explain(name, err)
	}
	switch {
	case b.mode == modeLink && info.Mode()&fs.ModeSymlink != 0:
		to, err := c.tree.Readlink(name)
		if err != nil {
			return explain(name, err)
		}
		if !isObject(b.id, "blob", []byte(to)) {
			c.diff.note(&c.diff.changed, name)
		}
		return nil
	case b.mode == modeLink || !info.Mode().IsRegular(), modeDiffers(b, info):
		c.diff.note(&c.diff.changed, name)
		return nil
	}
	f, err := openRegular(c.tree, name)
	if err != nil {
		return explain(name, err)
	}
	defer f.Close()
	if err := c.in.fits("evidence.Repository", name, f.info.Size()); err != nil {
		return err
	}
	switch same, err := holds(ctx, f, f.info.Size(), b.id); {
	case err != nil:
		return explain(name, err)
	case same:
		return nil
	}
	switch same, err := holdsLines(ctx, f, f.info.Size(), b.id); {
	case err != nil:
		return explain(name, err)
	case same:
		c.diff.endings++
		c.diff.all = append(c.diff.all, name)
	default:
		c.unsure = append(c.unsure, name)
	}
	return nil
}

func modeDiffers(b blob, info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && (b.mode == modeExecutable) != (info.Mode()&0o100 != 0)
}

// holds reports whether what r reads, size bytes, is the blob of that name.
func holds(ctx context.Context, r io.Reader, size int64, id string) (bool, error) {
	h := objectHash(len(id), "blob", size)
	n, err := io.Copy(h, io.LimitReader(untilDone{ctx, r}, size+1))
	return n == size && hex.EncodeToString(h.Sum(nil)) == id, err
}

// holdsLines reports whether the file is that blob when its lines end with LF
// instead of CRLF, as git's own conversion makes them.
func holdsLines(ctx context.Context, f io.ReadSeeker, size int64, id string) (bool, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	n, err := io.Copy(io.Discard, io.LimitReader(newlines(untilDone{ctx, f}), size))
	if n == size || err != nil {
		return false, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	return holds(ctx, newlines(f), n, id)
}

// newlines returns what r reads with LF for every CRLF.
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

// settle decides about the files that differ: those that git would convert
// cannot be judged without running what converts them.
func (c *comparison) settle(ctx context.Context) error {
	if len(c.unsure) == 0 {
		return nil
	}
	converted := map[string]bool{}
	input := []byte(strings.Join(c.unsure, "\x00") + "\x00")
	err := c.scratch.run(ctx, input, func(r io.Reader) error {
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
	if err != nil {
		return err
	}
	for _, name := range c.unsure {
		if converted[name] {
			c.diff.converted++
			c.diff.all = append(c.diff.all, name)
		} else {
			c.diff.note(&c.diff.changed, name)
		}
	}
	return nil
}
