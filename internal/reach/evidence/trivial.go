package evidence

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// A triviality is the reason for which the change of a file is no work by itself.
type triviality string

// The reasons, as they stand in the line of a change.
const (
	notTrivial       triviality = ""
	trivialBlanks    triviality = "whitespace"
	trivialLineEnds  triviality = "line ends"
	trivialMode      triviality = "mode"
	trivialEmpty     triviality = "empty file"
	trivialSubmodule triviality = "submodule"
	trivialIgnored   triviality = "ignored by git"
)

// classify finds the files whose change is trivial. A file that is too large or that cannot
// be read is none of them.
func (r *changeReader) classify(ctx context.Context) error {
	// Only contents that differ are read.
	var ids []string
	for _, f := range r.files {
		if f.nearest.mode != modeSubmodule && f.nearest != (blob{}) && f.nearest.id != f.is.id {
			ids = append(ids, f.nearest.id)
		}
	}
	before, err := r.git.contents(ctx, ids)
	if err != nil {
		return err
	}

	for _, f := range r.files {
		was, known := before[f.nearest.id]
		switch {
		case f.is.mode == modeSubmodule || f.nearest.mode == modeSubmodule:
			f.trivial = trivialSubmodule
		case f.is.mode == modeLink || f.nearest.mode == modeLink || f.from != "":
		case f.is.id == f.nearest.id:
			f.trivial = trivialMode
		case f.deleted():
			if known && len(squeeze(was)) == 0 {
				f.trivial = trivialEmpty
			}
		default:
			is, err := readSmall(r.w.repo.tree, f.name, maxContent)
			if err != nil || (f.nearest != (blob{}) && !known) {
				continue
			}
			f.trivial, f.emptied = compareText(was, is, f.nearest == blob{})
		}
	}
	return nil
}

// compareText returns why the change from one content to another is trivial, and whether it
// removes all that can be seen.
func compareText(was, is []byte, created bool) (t triviality, emptied bool) {
	binary := bytes.IndexByte(was, 0) >= 0 || bytes.IndexByte(is, 0) >= 0
	seen, sees := squeeze(was), squeeze(is)
	lf := func(b []byte) []byte {
		return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	}
	switch {
	case created && len(sees) == 0:
		return trivialEmpty, false
	case created || binary:
		return notTrivial, len(is) == 0
	case bytes.Equal(lf(was), lf(is)):
		return trivialLineEnds, false
	case bytes.Equal(seen, sees):
		return trivialBlanks, false
	}
	return notTrivial, len(sees) == 0
}

// squeeze returns a text without blanks, line ends and characters that cannot be seen.
func squeeze(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		broken := r == utf8.RuneError && n == 1
		if broken || (!unicode.IsSpace(r) && !unicode.In(r, unicode.Cc, unicode.Cf)) {
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return out
}

// contents returns the contents of objects by their names. Those that are missing or larger
// than maxContent are left out, and so are the last ones beyond keepRoom in all.
func (s *scratch) contents(ctx context.Context, ids []string) (map[string][]byte, error) {
	out := map[string][]byte{}
	if len(ids) == 0 {
		return out, nil
	}

	sizes, err := s.run(ctx, maxOutput, strings.Join(ids, "\n")+"\n", "cat-file", "--batch-check")
	if err != nil {
		return nil, err
	}

	var wanted []string
	room := int64(keepRoom)
	for line := range strings.Lines(sizes) {
		var id, kind string
		var size int64
		if n, _ := fmt.Sscan(line, &id, &kind, &size); n == 3 && kind == "blob" && size <= min(maxContent, room) {
			wanted = append(wanted, id)
			room -= size
		}
	}
	if len(wanted) == 0 {
		return out, nil
	}

	// Each object begins with a line of its name, kind and size.
	text, err := s.run(ctx, maxOutput, strings.Join(wanted, "\n")+"\n", "cat-file", "--batch")
	for err == nil && text != "" {
		head, rest, _ := strings.Cut(text, "\n")
		var id, kind string
		var size int
		if n, _ := fmt.Sscan(head, &id, &kind, &size); n != 3 || len(rest) < size+1 {
			return nil, fmt.Errorf("evidence: git shows an object as %s", show(head))
		}
		out[id], text = []byte(rest[:size]), rest[size+1:]
	}
	return out, err
}

// brief returns the name of a file in a form that fits in a line. A name that could pass for
// other words of the line is quoted.
func brief(name string) string {
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-+@/()[]~", r)
	}
	if name = shorten.Text(name, 80); strings.ContainsFunc(strings.TrimSuffix(name, "…"), odd) {
		return strconv.Quote(name)
	}
	return name
}
