package clone

import (
	"context"
	"crypto/sha256"
	"hash"
	"io"
	"strings"
)

// A Status says how a path differs between two commits.
type Status string

// The statuses of a path.
const (
	Added    Status = "added"
	Modified Status = "modified"
	Removed  Status = "removed"
	Retyped  Status = "retyped" // such as a file that became a link
)

// A Triviality is the reason why a change of a file is no work on it.
type Triviality string

// The reasons. A change is trivial for the first one that holds.
const (
	NotTrivial     Triviality = ""
	ModeOnly       Triviality = "mode"       // the content is the same
	EmptyFile      Triviality = "empty"      // an empty file comes or goes
	LineEnds       Triviality = "line ends"  // line ends differ, or newlines at the end
	WhitespaceOnly Triviality = "whitespace" // the texts without whitespace are the same
)

// Modes of entries of a tree, and the trees without files of both formats.
const (
	modeNone        = "000000"
	modeLink        = "120000"
	modeSubmodule   = "160000"
	emptyTreeSHA1   = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	emptyTreeSHA256 = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
)

// A Change is a path that differs between two commits. A file that moved is two changes.
type Change struct {
	Path      string     `json:"path"` // with slashes
	Status    Status     `json:"status"`
	Trivial   Triviality `json:"trivial,omitempty"`
	Submodule bool       `json:"submodule,omitempty"` // the path is a commit of another repository, before or after

	oldMode, newMode string
	oldID, newID     string
}

// Difference returns the paths that differ between two commits or trees of the copy, in
// order, with the reason for each change that is trivial. An empty old stands for a
// repository without files. Contents are compared as streams: their size costs time only.
func (c *Copy) Difference(ctx context.Context, old, new string) ([]Change, error) {
	changes, err := c.changes(ctx, old, new)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	contents, err := c.contents(ctx)
	if err != nil {
		return nil, err
	}
	defer contents.close()
	for i := range changes {
		if changes[i].Trivial, err = changes[i].triviality(contents); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// changes returns the paths that differ between two trees of the copy.
func (c *Copy) changes(ctx context.Context, old, new string) ([]Change, error) {
	if old == "" {
		old = c.source.emptyTree()
	}
	list, err := c.run(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new, "--")
	if err != nil {
		return nil, err
	}
	return parseRaw(list), nil
}

// parseRaw reads the list of differences that git writes with zero bytes.
func parseRaw(list string) (out []Change) {
	fields := strings.Split(list, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		f := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(f) != 5 {
			break
		}
		change := Change{Path: fields[i+1], Status: Modified, oldMode: f[0], newMode: f[1], oldID: f[2], newID: f[3]}
		switch f[4] {
		case "A":
			change.Status = Added
		case "D":
			change.Status = Removed
		case "T":
			change.Status = Retyped
		}
		change.Submodule = f[0] == modeSubmodule || f[1] == modeSubmodule
		out = append(out, change)
	}
	return out
}

// Contents returns the names of the contents before and after a change, "" where there is no file.
func (ch Change) Contents() (was, is string) {
	if ch.Status != Added {
		was = ch.oldID
	}
	if ch.Status != Removed {
		is = ch.newID
	}
	return was, is
}

// emptyTree returns the id of the tree without files, which every repository has.
func (s source) emptyTree() string {
	if s.format == formatSHA256 {
		return emptyTreeSHA256
	}
	return emptyTreeSHA1
}

// triviality returns why a change is no work on the file.
func (ch Change) triviality(contents *contents) (Triviality, error) {
	link := ch.oldMode == modeLink || ch.newMode == modeLink
	if ch.Submodule || ch.Status == Retyped || link {
		return NotTrivial, nil
	}
	if ch.oldID == ch.newID {
		return ModeOnly, nil
	}

	// An absent file has the essence of an empty one.
	var old, new essence
	err := old.of(contents, ch.oldMode, ch.oldID)
	if err == nil {
		err = new.of(contents, ch.newMode, ch.newID)
	}
	comesOrGoes := ch.Status == Added || ch.Status == Removed
	switch {
	case err != nil:
		return NotTrivial, err
	case comesOrGoes && old.size == 0 && new.size == 0:
		return EmptyFile, nil
	case old.binary || new.binary:
		return NotTrivial, nil
	case !comesOrGoes && old.lines == new.lines:
		return LineEnds, nil
	case old.words == new.words:
		return WhitespaceOnly, nil
	}
	return NotTrivial, nil
}

// An essence is a content in the forms that are compared, as hashes.
type essence struct {
	size   int64
	binary bool              // has a zero byte
	lines  [sha256.Size]byte // without carriage returns and without newlines at the end
	words  [sha256.Size]byte // without whitespace
}

// of sets the essence of a blob, or of nothing if the mode says so.
func (e *essence) of(contents *contents, mode, id string) error {
	d := &distiller{lines: sha256.New(), words: sha256.New()}
	if mode != modeNone {
		if _, err := contents.copy(d, id); err != nil {
			return err
		}
	}
	e.size = d.size
	e.binary = d.binary
	e.lines = [sha256.Size]byte(d.lines.Sum(nil))
	e.words = [sha256.Size]byte(d.words.Sum(nil))
	return nil
}

// A distiller computes an essence from the bytes that are written to it.
type distiller struct {
	size         int64
	binary       bool
	newlines     int // not yet in lines: they may be the last ones
	lines, words hash.Hash
	lineBuf      []byte
	wordBuf      []byte
}

func (d *distiller) Write(p []byte) (int, error) {
	d.size += int64(len(p))
	d.lineBuf = d.lineBuf[:0]
	d.wordBuf = d.wordBuf[:0]
	for _, b := range p {
		switch b {
		case 0:
			d.binary = true
		case '\n':
			d.newlines++
			continue
		case '\r':
			continue
		}

		for ; d.newlines > 0; d.newlines-- {
			d.lineBuf = append(d.lineBuf, '\n')
		}
		d.lineBuf = append(d.lineBuf, b)
		if !strings.ContainsRune(" \t\v\f", rune(b)) {
			d.wordBuf = append(d.wordBuf, b)
		}
	}
	d.lines.Write(d.lineBuf)
	d.words.Write(d.wordBuf)
	return len(p), nil
}

var _ io.Writer = (*distiller)(nil)
