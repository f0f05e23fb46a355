package web

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// A diffLine is a line of a text compared with an earlier one.
type diffLine struct {
	Kind string // add, del, same, or hunk for the place in a file
	Text string
}

// maxDiff is the number of lines of a text that are compared; a longer one is shown as
// it is.
const maxDiff = 1500

// diffLines compares two texts line by line. It returns all lines, also those that are
// equal. A text without an earlier one is not compared.
func diffLines(was, is string) []diffLine {
	if was == "" || strings.Count(was, "\n") >= maxDiff || strings.Count(is, "\n") >= maxDiff {
		return sameLines(is)
	}
	before := was + "\n"
	edits := udiff.Lines(before, is+"\n")
	diff, err := udiff.ToUnifiedDiff("", "", before, edits, maxDiff) // with so many lines around a change, there is one hunk with all
	if err != nil || len(diff.Hunks) != 1 {
		return sameLines(is) // the texts are equal
	}

	kinds := map[udiff.OpKind]string{udiff.Insert: "add", udiff.Delete: "del", udiff.Equal: "same"}
	var out []diffLine
	for _, line := range diff.Hunks[0].Lines {
		out = append(out, diffLine{kinds[line.Kind], strings.TrimSuffix(line.Content, "\n")})
	}
	return out
}

// sameLines returns the lines of a text that is not compared.
func sameLines(text string) []diffLine {
	var out []diffLine
	for line := range strings.SplitSeq(text, "\n") {
		out = append(out, diffLine{"same", line})
	}
	return out
}

// around is the number of unchanged lines beside a change that hunks keeps.
const around = 3

// hunks returns the changes of a comparison with the lines around them. A line of its own
// stands for unchanged lines that are left out.
func hunks(all []diffLine) (out []diffLine) {
	keep := make([]bool, len(all))
	for i, line := range all {
		if line.Kind != "same" {
			for j := max(0, i-around); j < min(len(all), i+around+1); j++ {
				keep[j] = true
			}
		}
	}
	for i := 0; i < len(all); i++ {
		if keep[i] {
			out = append(out, all[i])
			continue
		}
		n := 0
		for ; i < len(all) && !keep[i]; i++ {
			n++
		}
		i--
		out = append(out, diffLine{"hunk", fmt.Sprintf("… %d equal lines", n)})
	}
	return out
}

// A filePatch is the part of a unified diff about one file.
type filePatch struct {
	Name           string
	Kind           string // created, modified or deleted
	Added, Removed int
	Lines          []diffLine
	Cut            bool // lines were left out
}

const (
	maxPatchLines = 600 // of one file
	maxPatchFiles = 200
)

// parsePatch reads a unified diff as git writes it. Files beyond maxPatchFiles are left
// out; more is their number.
func parsePatch(text string) (files []filePatch, more int) {
	var f *filePatch
	inHunk := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")

		// A line of this form begins the next file.
		if rest, ok := strings.CutPrefix(line, "diff --git "); ok {
			inHunk = false
			if len(files) == maxPatchFiles {
				f = nil
				more++
				continue
			}
			name := rest
			if _, after, ok := strings.Cut(rest, " b/"); ok {
				name = after
			}
			files = append(files, filePatch{Name: name, Kind: "modified"})
			f = &files[len(files)-1]
			continue
		}

		// Before the first hunk the lines describe the file; after it they are its content.
		switch {
		case f == nil:
		case strings.HasPrefix(line, "@@"):
			inHunk = true
			f.add("hunk", line)
		case !inHunk && strings.HasPrefix(line, "new file"):
			f.Kind = "created"
		case !inHunk && strings.HasPrefix(line, "deleted file"):
			f.Kind = "deleted"
		case !inHunk && strings.HasPrefix(line, "Binary files"):
			f.add("hunk", "not text")
		case !inHunk || line == "":

		case line[0] == '+':
			f.Added++
			f.add("add", line)
		case line[0] == '-':
			f.Removed++
			f.add("del", line)
		default:
			f.add("same", line)
		}
	}
	return files, more
}

func (f *filePatch) add(kind, text string) {
	if len(f.Lines) == maxPatchLines {
		f.Cut = true
		return
	}
	f.Lines = append(f.Lines, diffLine{kind, text})
}
