package clone

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Bounds of the comparison of lines. Git holds both versions of a file in memory with about 70
// bytes for each line, and a file of nothing but line ends is packed a thousandfold.
const (
	maxComparedLines = 100_000   // of one version of a file
	maxShownLines    = 1_000_000 // of a file that comes or goes, which costs memory alone
	maxComparedBytes = 16 << 20  // of one version of a file
	maxUncompared    = 200       // files of a change beyond these bounds; with more, no file is compared
	maxMoves         = "200"     // files on each side between which moves are searched
	maxDiffs         = 2         // comparisons of lines at a time, of all copies
)

// errFull ends the output of a command that wrote more than its reader takes.
var errFull = errors.New("the output is longer than its bound")

// A firstBytes takes the first bytes that are written to it, and then no more.
type firstBytes struct {
	text   []byte
	left   int
	isFull bool // more was written
}

func (f *firstBytes) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	f.text = append(f.text, p[:n]...)
	f.left -= n
	if n < len(p) {
		f.isFull = true
		return n, errFull
	}
	return n, nil
}

// Output runs a command in the copy that compares no lines, and returns its output without the last
// newline. An output of more than most bytes is an error.
func (c *Copy) Output(ctx context.Context, most int, args ...string) (string, error) {
	out := firstBytes{left: most}
	cmd := c.alone(ctx, args...)
	cmd.Stdout = &out
	if err := finish(cmd); err != nil {
		if out.isFull {
			return "", fail(ErrTooLarge, args[0], c.bare, fmt.Sprintf("git writes more than %d bytes about it", most))
		}
		return "", failed(err, args[0], c.bare)
	}
	return strings.TrimSuffix(string(out.text), "\n"), nil
}

// Patch returns the difference between two commits of the copy as a patch. cut says that it is not
// the whole one: it is cut after a number of bytes, or a text is too large to be compared. Files
// that are not compared are named at the end of the patch.
func (c *Copy) Patch(ctx context.Context, old, new string, most int) (patch string, cut bool, err error) {
	text := firstBytes{left: most}
	large, err := c.compare(ctx, old, new, &text, "-p", "--no-color", "--no-ext-diff", "--no-textconv", "-M", "-l"+maxMoves)
	if errors.Is(err, errFull) {
		cut = true
	} else if err != nil {
		return "", false, err
	}
	patch = strings.ToValidUTF8(string(text.text), "\uFFFD") + large.String()
	return patch, cut || large.hasText(), nil
}

// Lines returns how many lines differ between two commits of the copy. An empty old stands for a
// repository without files. Files that are no text, or too large to be compared, count none.
func (c *Copy) Lines(ctx context.Context, old, new string) (insertions, deletions int, err error) {
	var list bytes.Buffer
	if _, err := c.compare(ctx, old, new, &list, "--numstat", "--no-renames"); err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(list.String()) {
		f := strings.SplitN(line, "\t", 3)
		if len(f) != 3 {
			continue
		}
		added, errAdded := strconv.Atoi(f[0])
		removed, errRemoved := strconv.Atoi(f[1])
		if errAdded == nil && errRemoved == nil { // "-" for files that are no text
			insertions += added
			deletions += removed
		}
	}
	return insertions, deletions, nil
}

// Binaries returns the changed files between two commits of the copy that are no text, before or after
// the change. It reads their beginning, and compares nothing.
func (c *Copy) Binaries(ctx context.Context, old, new string) (map[string]bool, error) {
	changes, err := c.changes(ctx, cmp.Or(old, c.source.emptyTree()), new)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	sizes, err := c.sizes(ctx, changes)
	if err != nil {
		return nil, err
	}
	r := &reader{copy: c}
	defer r.close()
	out := map[string]bool{}
	for _, ch := range changes {
		for _, id := range []string{ch.oldID, ch.newID} {
			size, isBlob := sizes[id]
			if !isBlob || out[ch.Path] {
				continue
			}
			_, isText, err := r.linesOf(ctx, id, size)
			if err != nil {
				return nil, err
			}
			out[ch.Path] = !isText
		}
	}
	return out, nil
}

// PatchID returns an id of the difference between two commits that does not depend on the place of its
// lines, "" for an empty difference.
func (c *Copy) PatchID(ctx context.Context, old, new string) (string, error) {
	var out strings.Builder
	id := c.alone(ctx, "patch-id", "--stable")
	id.Stdout = &out
	in, err := id.StdinPipe()
	if err == nil {
		err = id.Start()
	}
	if err != nil {
		return "", failed(err, "compare", c.bare)
	}
	large, err := c.compare(ctx, old, new, in, "-p", "--no-color", "--no-ext-diff", "--no-textconv", "--binary")
	in.Close()
	if err := errors.Join(err, id.Wait()); err != nil {
		return "", failed(err, "compare", c.bare)
	}
	first, _, _ := strings.Cut(out.String(), " ")
	if len(large) > 0 { // they are compared as they are
		d := sha256.New()
		for _, one := range large {
			fmt.Fprintf(d, "%q %s %s\n", one.Path, one.oldID, one.newID)
		}
		first += hex.EncodeToString(d.Sum(nil))
	}
	return first, nil
}

// compare lets git diff-tree write the difference between two commits to w, without files that are
// too large to be compared, which it returns. The error is errFull if w takes no more.
func (c *Copy) compare(ctx context.Context, old, new string, w io.Writer, args ...string) (uncompared, error) {
	if old == "" {
		old = c.source.emptyTree()
	}
	select {
	case c.home.diffs <- struct{}{}:
		defer func() { <-c.home.diffs }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	large, err := c.uncompared(ctx, old, new)
	if err != nil || len(large) > maxUncompared {
		return large, err
	}

	args = append([]string{"diff-tree", "-r"}, args...)
	args = append(args, old, new, "--")
	for _, one := range large {
		args = append(args, ":(top,exclude,literal)"+one.Path)
	}
	full := &fullWriter{w: w}
	cmd := c.alone(ctx, args...)
	cmd.Stdout = full
	err = finish(cmd)
	switch {
	case full.isFull:
		return large, errFull
	case err != nil:
		return large, failed(err, "compare", c.bare)
	}
	return large, nil
}

// A fullWriter remembers whether its writer took no more.
type fullWriter struct {
	w      io.Writer
	isFull bool
}

func (f *fullWriter) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	f.isFull = f.isFull || errors.Is(err, errFull)
	return n, err
}

// uncompared are files whose lines are not compared.
type uncompared []largeFile

// A largeFile is a changed file that is too large for a comparison of its lines.
type largeFile struct {
	Change
	size, lines int64 // of the larger version; lines is 0 for a file that is no text or larger than maxComparedBytes
	isText      bool
}

// hasText reports whether a text is among the files.
func (u uncompared) hasText() bool {
	return slices.ContainsFunc(u, func(f largeFile) bool { return f.isText })
}

// String returns a line for each file, with the reason.
func (u uncompared) String() string {
	var b strings.Builder
	for i, f := range u {
		if i == maxUncompared {
			fmt.Fprintf(&b, "%d more files are too large to be compared\n", len(u)-i)
			break
		}
		kind := "no text"
		if f.isText {
			kind = "a text"
			if f.lines > 0 {
				kind = fmt.Sprintf("a text of %d lines", f.lines)
			}
		}
		fmt.Fprintf(&b, "File %q was %s, and is not compared: %s with %d bytes; at most %d lines and %d bytes are, and %d lines of a file that comes or goes\n", f.Path, f.Status, kind, f.size, maxComparedLines, maxComparedBytes, maxShownLines)
	}
	return b.String()
}

// uncompared returns the changed files between two trees that are too large to be compared. If there
// are more than maxUncompared, it is all changed files.
func (c *Copy) uncompared(ctx context.Context, old, new string) (uncompared, error) {
	changes, err := c.changes(ctx, old, new)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	sizes, err := c.sizes(ctx, changes)
	if err != nil {
		return nil, err
	}
	r := &reader{copy: c}
	defer r.close()
	var out uncompared
	for _, ch := range changes {
		f := largeFile{Change: ch}
		for _, id := range []string{ch.oldID, ch.newID} {
			size := sizes[id]
			if size <= maxComparedLines || len(out) > maxUncompared { // a line has a byte at least
				continue
			}
			lines, isText, err := r.linesOf(ctx, id, size)
			if err != nil {
				return nil, err
			}
			most := int64(maxComparedLines)
			if ch.Status == Added || ch.Status == Removed {
				most = maxShownLines
			}
			if size > maxComparedBytes || (isText && lines > most) {
				f.size = max(f.size, size)
				f.lines = max(f.lines, lines)
				f.isText = f.isText || isText
			}
		}
		if f.size > 0 {
			out = append(out, f)
		}
	}
	if len(out) <= maxUncompared {
		return out, nil
	}
	out = nil
	for _, ch := range changes {
		out = append(out, largeFile{Change: ch, size: max(sizes[ch.oldID], sizes[ch.newID]), isText: true})
	}
	return out, nil
}

// sizes returns the sizes of the contents before and after changes, by their ids.
func (c *Copy) sizes(ctx context.Context, changes []Change) (map[string]int64, error) {
	var ask strings.Builder
	for _, ch := range changes {
		ask.WriteString(ch.oldID + "\n" + ch.newID + "\n")
	}
	cmd := c.alone(ctx, "cat-file", "--batch-check=%(objecttype) %(objectname) %(objectsize)")
	cmd.Stdin = strings.NewReader(ask.String())
	list, err := output(cmd, "cat-file", c.bare)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == "blob" {
			out[f[1]], _ = strconv.ParseInt(f[2], 10, 64) // git writes a number
		}
	}
	return out, nil
}

// textBytes are the first bytes of a file, by which git says whether it is a text.
const textBytes = 8000

// A reader reads contents of a copy through one process of git, which it starts again after a content
// that it does not read to its end.
type reader struct {
	copy     *Copy
	contents *contents // nil before the first content, and after a large one
}

// close ends the process.
func (r *reader) close() {
	if r.contents != nil {
		r.contents.close()
		r.contents = nil
	}
}

// linesOf reports whether a blob is a text as git says, and counts its lines unless it is no text or
// larger than maxComparedBytes.
func (r *reader) linesOf(ctx context.Context, id string, size int64) (lines int64, isText bool, err error) {
	if r.contents == nil {
		if r.contents, err = r.copy.contents(ctx); err != nil {
			return 0, false, err
		}
	}
	if size > maxComparedBytes {
		defer r.close()
		if _, err := r.contents.begin(id); err != nil {
			return 0, false, err
		}
		head := make([]byte, textBytes)
		if _, err := io.ReadFull(r.contents.out, head); err != nil {
			return 0, false, failed(err, "read objects", r.copy.bare)
		}
		return 0, bytes.IndexByte(head, 0) < 0, nil
	}
	count := &lineCounter{}
	if _, err := r.contents.copy(count, id); err != nil {
		return 0, false, err
	}
	return count.lines, !count.isBinary, nil
}

// A lineCounter counts the line ends that are written to it, and finds a zero byte among the first bytes.
type lineCounter struct {
	lines, size int64
	isBinary    bool
}

func (l *lineCounter) Write(p []byte) (int, error) {
	head := p[:max(0, min(int64(len(p)), textBytes-l.size))]
	l.isBinary = l.isBinary || bytes.IndexByte(head, 0) >= 0
	l.size += int64(len(p))
	l.lines += int64(bytes.Count(p, []byte{'\n'}))
	return len(p), nil
}
